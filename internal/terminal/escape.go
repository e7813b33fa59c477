package terminal

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Escape returns text for a terminal. Characters that move the cursor, change the color or the direction of text, or
// are invisible are escaped, as \u001b. Line breaks and tabs stay.
func Escape(text string) string {
	if strings.IndexFunc(text, IsUnsafe) < 0 && utf8.ValidString(text) {
		return text
	}
	var b strings.Builder
	for i, r := range text {
		switch _, size := utf8.DecodeRuneInString(text[i:]); {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\u%04x`, text[i])
		case IsUnsafe(r) && r > 0xFFFF: // as in JSON
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		case IsUnsafe(r):
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// IsUnsafe reports whether r must be escaped for a terminal: control characters, characters that format text
// (bidirectional overrides, tags, zero width), and the two separators that some terminals display as line breaks.
func IsUnsafe(r rune) bool {
	switch {
	case ' ' <= r && r <= '~', r == '\n', r == '\t':
		return false
	case r == '\u2028', r == '\u2029':
		return true
	case r == '\u200c', r == '\u200d': // joiners, which some languages and emoji need
		return false
	}
	return unicode.In(r, unicode.Cc, unicode.Cf)
}

// OneLine returns text in one line of at most n characters, for a terminal.
func OneLine(text string, n int) string {
	text = strings.Join(strings.Fields(Escape(text)), " ")
	if runes := []rune(text); len(runes) > n {
		return string(runes[:max(n-1, 0)]) + "…"
	}
	return text
}

// Indent returns JSON with line breaks and indentation.
func Indent(raw []byte) (string, error) {
	var out bytes.Buffer
	if err := json.Indent(&out, raw, "", "  "); err != nil {
		return "", err
	}
	return out.String(), nil
}
