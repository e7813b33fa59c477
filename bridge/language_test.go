package bridge_test

import (
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// retiredWords are private words of earlier versions that Go files must not use in comments and identifiers. A word
// that is also plain English is retired in identifiers only, and "f()" retires a function's name. To retire another
// word, add a line. docs/glossary.md has the words to use.
var retiredWords = []struct {
	word            string
	instead         string
	identifiersOnly bool
}{
	{word: "anyhow", instead: "the condition"},
	{word: "bill", instead: "cost"},
	{word: "buried", instead: "reaped"},
	{word: "cars", instead: "pending calls"},
	{word: "continues", instead: "IsRetry", identifiersOnly: true},
	{word: "cure", instead: "fix"},
	{word: "deaf", instead: "unsupported, unresponsive"},
	{word: "goodbye", instead: "timeout, GOAWAY"},
	{word: "lone", instead: "single", identifiersOnly: true},
	{word: "lot", instead: "semaphore, pending calls"},
	{word: "parked", instead: "pending"},
	{word: "parted", instead: "disconnected, partitioned"},
	{word: "parting", instead: "lame duck, GOAWAY"},
	{word: "rooms", instead: "buffers"},
	{word: "sayable", instead: "supported, expressible"},
	{word: "stray", instead: "invalid lines, orphans, unmatched messages"},
	{word: "strays", instead: "invalid lines, orphans, unmatched messages"},
	{word: "surveyed", instead: "state"},
	{word: "tally", instead: "count"},
	{word: "trash", instead: "invalid lines"},
	{word: "twin", instead: "legacy Client"},
	{word: "unheard", instead: "undelivered"},
	{word: "unplug", instead: "detach"},
	{word: "unsure", instead: "undecidable"},
	{word: "unwell", instead: "degraded"},
	{word: "vacant", instead: "free"},
}

func TestRetiredWordsAreGone(t *testing.T) {
	type key struct{ word, file string }
	reported := map[key]bool{}
	for _, f := range goFiles(t) {
		if strings.Contains(f.name, "/gen/") {
			continue
		}
		report := func(pos token.Pos, word, instead string) {
			if at := (key{word, f.name}); !reported[at] { // the first one of each file is enough
				reported[at] = true
				t.Errorf("%s: %q is a retired word.\n  fix: write %s", f.set.Position(pos), word, instead)
			}
		}
		identifier := func(id *ast.Ident, function bool) {
			words := identifierWords(id.Name)
			for _, r := range retiredWords {
				if words[r.word] || function && id.Name+"()" == r.word {
					report(id.Pos(), r.word, r.instead)
				}
			}
		}
		ast.Inspect(f.tree, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				identifier(n.Name, true)
			case *ast.Ident:
				identifier(n, false)
			}
			return true
		})
		for _, group := range f.tree.Comments {
			for _, c := range group.List {
				words := commentWords(c.Text)
				for _, r := range retiredWords {
					if !r.identifiersOnly && words[r.word] {
						report(c.Pos(), r.word, r.instead)
					}
				}
			}
		}
	}
}

// The list applies to other languages and to the documentation, too.
func TestRetiredWordsAreGoneElsewhere(t *testing.T) {
	endings := []string{
		".md", ".proto", ".py", ".java", ".kt", ".ts", ".mjs", ".rs", ".rb", ".cc", ".txt", ".yaml",
		".sh",
	}
	for _, name := range repositoryFiles(t, endings...) {
		if strings.Contains(name, "/gen/") {
			continue
		}
		eachLine(t, name, func(n int, line string) {
			words := commentWords(line)
			for _, r := range retiredWords {
				if words[r.word] && !r.identifiersOnly {
					t.Errorf("%s:%d: %q is a retired word.\n  fix: write %s", name, n, r.word, r.instead)
				}
			}
		})
	}
}

func TestRetiredWordsAreFound(t *testing.T) {
	for _, tt := range []struct {
		words map[string]bool
		word  string
		want  bool
	}{
		{identifierWords("ParkedLife"), "life", true},
		{identifierWords("parkedLife"), "parked", true},
		{identifierWords("lifetime"), "life", false},
		{identifierWords("HTTPLife2"), "life", true},
		{commentWords("// Its life ends."), "life", true},
		{commentWords("// Its lifetime ends."), "life", false},
		{commentWords("// The `stateLife` ends."), "life", true},
	} {
		if got := tt.words[tt.word]; got != tt.want {
			t.Errorf("%q in %v: %t", tt.word, tt.words, got)
		}
	}
}

// maxColumns is the maximum length of a line of source code, a line of prose in documentation, and a cell of a table.
const maxColumns = 120

func TestDocumentationHasShortLinesAndCells(t *testing.T) {
	for _, name := range repositoryFiles(t, ".md") {
		fenced := false
		eachLine(t, name, func(n int, line string) {
			if strings.HasPrefix(line, "```") {
				fenced = !fenced
			}
			if fenced {
				return
			}
			for _, long := range longParts(line) {
				t.Errorf("%s:%d: got %d columns, want at most %d: %s\n"+
					"  fix: wrap the line, or move the text of a cell below its table",
					name, n, utf8.RuneCountInString(long), maxColumns, long)
			}
		})
	}
}

// golangci-lint checks Go, ruff Python and eslint TypeScript. This test covers the languages without a linter here.
func TestSourceHasShortLines(t *testing.T) {
	for _, name := range repositoryFiles(t, ".java", ".kt", ".rs", ".rb", ".cc", ".mjs") {
		if strings.Contains(name, "/gen/") {
			continue
		}
		eachLine(t, name, func(n int, line string) {
			got := utf8.RuneCountInString(strings.TrimSuffix(line, "\n"))
			if got > maxColumns && !strings.Contains(line, "://") {
				t.Errorf("%s:%d: got %d columns, want at most %d\n  fix: wrap the line", name, n, got, maxColumns)
			}
		})
	}
}

func TestLongLinesAndCellsAreFound(t *testing.T) {
	word := strings.Repeat("x", 60)
	long := word + " " + word
	for _, tt := range []struct {
		line string
		want []string
	}{
		{word + " " + word[1:], nil},
		{long, []string{long}},
		{"[" + word + "](" + long + ")", nil},
		{"    " + long, nil},
		{"| " + word + " | " + word + " |", nil},
		{"| " + word + " | " + long + " |", []string{long}},
		{`| ` + word + `\| ` + word + ` |`, []string{word + `\| ` + word}},
	} {
		if got := longParts(tt.line); !slices.Equal(got, tt.want) {
			t.Errorf("longParts(%q): got %q, want %q", tt.line, got, tt.want)
		}
	}
}

var (
	linkTarget = regexp.MustCompile(`\]\([^)]*\)`)
	cell       = regexp.MustCompile(`(?:\\.|[^|\\])+`)
)

// longParts returns the parts of a line of Markdown that are too long: the line, or cells of a table. Targets of links
// do not count, and indented lines are code.
func longParts(line string) []string {
	line = linkTarget.ReplaceAllString(line, "]")
	parts := []string{line}
	if strings.HasPrefix(line, "|") {
		parts = cell.FindAllString(line, -1)
	} else if strings.HasPrefix(line, "    ") {
		return nil
	}
	var long []string
	for _, part := range parts {
		if part = strings.TrimSpace(part); utf8.RuneCountInString(part) > maxColumns {
			long = append(long, part)
		}
	}
	return long
}

var commentWord = regexp.MustCompile(`[A-Za-z]+`)

// commentWords returns the lower-case words of a comment, with those of the identifiers in it.
func commentWords(text string) map[string]bool {
	words := map[string]bool{}
	for _, name := range commentWord.FindAllString(text, -1) {
		for word := range identifierWords(name) {
			words[word] = true
		}
	}
	return words
}

// identifierWords returns the lower-case words of a name in camel case.
func identifierWords(name string) map[string]bool {
	words := map[string]bool{}
	runes := []rune(name)
	from := 0
	for i := 1; i <= len(runes); i++ {
		if i < len(runes) && unicode.IsLetter(runes[i]) && !startsWord(runes, i) {
			continue
		}
		words[strings.ToLower(strings.Trim(string(runes[from:i]), "_0123456789"))] = true
		from = i
	}
	return words
}

// startsWord reports whether a word of a name starts at i: at an upper-case letter after or before a lower-case one.
func startsWord(name []rune, i int) bool {
	return unicode.IsUpper(name[i]) &&
		(!unicode.IsUpper(name[i-1]) || i+1 < len(name) && unicode.IsLower(name[i+1]))
}
