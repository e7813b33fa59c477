package catalog

import (
	"regexp"
	"strings"
	"testing"

	"github.com/mcpbridge/mcpbridge/internal/bridgetest/fuzzing"
)

// Expressions and texts with the special cases of Go's regular expressions.
var (
	expressions = []string{
		``, `a`, `^a`, `a$`, `^a$`, `^$`, `a|b`, `^(a|b)*$`, `(ab)+c`, `a{2,3}b`, `a*?b`, `(?i)ÄB`, `(?i)k`, `.`,
		`(?s)^.$`, `^.$`, `[^a]`, `\bab\b`, `\Bb`,
		`(?m)^b$`, `\Aab\z`, `[\p{L}é]+$`, `\d{3}-\d{4}`, `a(?:b|c)??d`, `(a?b?){20}c`, `x|^ab|b$`, `^a|b$`, `\x{fffd}`,
		`[^\x{fffd}]$`, `(|a)+b`, `(?:)`,
		uuid, `^[A-Za-z0-9._%+-]+@([A-Za-z0-9-]+\.)+[A-Za-z]{2,}$`,
	}
	texts = []string{
		"", "a", "b", "ab", "ba", "aab", "aaab", "abc", "ababc", "äb", "ÄB", "K", "K", "é", "\n", "a\nb\nc", "ab ab",
		"xab", "abx", "acd", "123-4567", "12-4567",
		"\xff", "a\xffb", "aaabbbaabbc", "someone@example.com", "01234567-89ab-4cde-8123-0123456789ab",
		strings.Repeat("ab", 50) + "c",
	}
)

func matches(tb testing.TB, expression, text string) bool {
	tb.Helper()
	m := newMeter()
	m.ctx, m.left = tb.Context(), maxWork
	p, err := m.compilePattern(expression)
	if err != nil {
		tb.Fatal(expression, err)
	}
	return p.MatchString(text)
}

// A pattern matches the same texts as in package regexp.
func TestPatternsUseGoSyntax(t *testing.T) {
	for _, expression := range expressions {
		for _, text := range texts {
			if got, want := matches(t, expression, text),
				regexp.MustCompile(expression).MatchString(text); got != want {
				t.Errorf("%q matches %q: %v, want %v", expression, text, got, want)
			}
		}
	}
}

func FuzzPatterns(f *testing.F) {
	for _, expression := range expressions {
		for _, text := range texts {
			f.Add(expression, text)
		}
	}
	fuzzing.Run(f, func(t *testing.T, expression, text string) {
		re, err := regexp.Compile(expression)
		if err != nil || len(expression)+len(text) > 200 {
			return
		}
		if got, want := matches(t, expression, text), re.MatchString(text); got != want {
			t.Errorf("%q matches %q: %v, want %v", expression, text, got, want)
		}
	})
}

// The cost of a match is the number of executed instructions: all alternatives may be tried for each character, or one.
func TestPatternsHaveACost(t *testing.T) {
	for _, c := range []struct {
		expression  string
		fits        bool
		least, most int
	}{
		{`(a?b?){500}c`, false, 1_000_000, 2_000_000},
		{`^(a?b?){500}c`, false, 300_000, 1_000_000},
		{`(a?b?){500}`, true, 700, 2_000},
		{`^[ab]{500}[ab]{500}c`, false, 1_000, 3_000},
		{`^[^@\s]{1,500}@[^@\s]{1,500}$`, false, 500, 3_000},
		{`^[\pL\pN]{1000}$`, true, 2_000, 4_000},
	} {
		m := newMeter()
		m.ctx, m.left = t.Context(), maxWork
		p, err := m.compilePattern(c.expression)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.MatchString(strings.Repeat("a", 1_000)); got != c.fits || maxWork-m.left > c.most ||
			maxWork-m.left < c.least {
			t.Errorf("%s: %v, %d steps, want %v, %d to %d", c.expression, got, maxWork-m.left, c.fits, c.least, c.most)
		}
	}
}
