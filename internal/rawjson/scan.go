package rawjson

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/bits"
	"slices"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/mcpbridge/mcpbridge/internal/limits"
)

// A scanner validates a text in one pass. Its methods read the value at data[i] and return its end, or bad.
//
// jsontext takes up to twice as long and has no limits, and validation dominates the bridge's own cost of a large
// call. The tests compare the scanner with jsontext.
type scanner struct {
	data       []byte
	limits     *limits.Limits
	limitError *Error // set if data exceeds a limit
	// names are the first n names of the enclosing objects, which are compared one by one. The array is on the stack,
	// so that reading a small text does not allocate.
	names [4 * fewNames]span
	n     int
	// many are the further names, which are sorted at the end of their object.
	many []span
	// unescaped contains the names with escapes.
	unescaped []byte
}

// A span is a range of the text, or of unescaped as if that followed the text.
type span struct{ from, to int }

// bad is returned for text that is not JSON or exceeds a limit.
const bad = -1

// fewNames is the number of names of an object that are compared one by one, which is faster than sorting.
const fewNames = 16

func (s *scanner) exceeds(at int, format string, limit int) int {
	s.limitError = &Error{at, fmt.Sprintf(format, limit), true}
	return bad
}

// value reads any value. levels is the remaining nesting depth.
func (s *scanner) value(i, levels int) int {
	if i == len(s.data) {
		return bad
	}
	switch c := s.data[i]; c {
	case '"':
		end, _ := s.str(i)
		return end
	case '{', '[':
		if levels == 0 {
			return s.exceeds(i, "nested deeper than %d", s.limits.JSONDepth)
		}
		if c == '{' {
			return s.object(i, levels-1)
		}
		return s.array(i, levels-1)
	case 't':
		return s.literal(i, "true")
	case 'f':
		return s.literal(i, "false")
	case 'n':
		return s.literal(i, "null")
	}
	return s.number(i)
}

func (s *scanner) array(i, levels int) int {
	i = skipSpace(s.data, i+1)
	if i < len(s.data) && s.data[i] == ']' {
		return i + 1
	}
	for n := 1; ; n++ {
		if i = s.value(i, levels); i == bad {
			return bad
		}
		i = skipSpace(s.data, i)
		switch {
		case i == len(s.data):
			return bad
		case s.data[i] == ']':
			return i + 1
		case s.data[i] != ',':
			return bad
		case n == s.limits.JSONElements:
			return s.exceeds(i, "an array of more than %d elements", s.limits.JSONElements)
		}
		i = skipSpace(s.data, i+1)
	}
}

func (s *scanner) object(i, levels int) int {
	i = skipSpace(s.data, i+1)
	if i < len(s.data) && s.data[i] == '}' {
		return i + 1
	}
	outer, more, plain := s.n, len(s.many), len(s.unescaped)
	for n := 1; ; n++ {
		if i == len(s.data) || s.data[i] != '"' {
			return bad
		}
		end, escaped := s.str(i)
		if end == bad {
			return bad
		}
		name := span{i + 1, end - 1}
		if escaped {
			name = s.unescape(i, end)
		}
		if n > fewNames || s.n == len(s.names) {
			s.many = append(s.many, name)
		} else if !s.addUnique(name, outer) {
			return bad
		}
		i = skipSpace(s.data, end)
		if i == len(s.data) || s.data[i] != ':' {
			return bad
		}
		if i = s.value(skipSpace(s.data, i+1), levels); i == bad {
			return bad
		}
		i = skipSpace(s.data, i)
		switch {
		case i == len(s.data):
			return bad
		case s.data[i] == '}':
			if len(s.many) > more && !s.allUnique(outer, more) {
				return bad
			}
			s.n, s.unescaped = outer, s.unescaped[:plain]
			return i + 1
		case s.data[i] != ',':
			return bad
		case n == s.limits.JSONMembers:
			return s.exceeds(i, "an object of more than %d members", s.limits.JSONMembers)
		}
		i = skipSpace(s.data, i+1)
	}
}

// addUnique adds a name to those from outer on, and returns false if it is a duplicate.
func (s *scanner) addUnique(name span, outer int) bool {
	text := s.text(name)
	for _, other := range s.names[outer:s.n] {
		if bytes.Equal(s.text(other), text) {
			return false
		}
	}
	s.names[s.n] = name
	s.n++
	return true
}

// allUnique removes an object's names from many, and returns false if there is a duplicate among them and those from
// outer on.
func (s *scanner) allUnique(outer, more int) bool {
	s.many = append(s.many, s.names[outer:s.n]...)
	all := s.many[more:]
	slices.SortFunc(all, func(a, b span) int { return bytes.Compare(s.text(a), s.text(b)) })
	for i := range all[1:] {
		if bytes.Equal(s.text(all[i]), s.text(all[i+1])) {
			return false
		}
	}
	s.many = s.many[:more]
	return true
}

func (s *scanner) text(name span) []byte {
	if n := len(s.data); name.from >= n {
		return s.unescaped[name.from-n : name.to-n]
	}
	return s.data[name.from:name.to]
}

// unescape adds a name with escapes to unescaped.
func (s *scanner) unescape(i, end int) span {
	from := len(s.unescaped)
	s.unescaped = append(s.unescaped, s.data[i+1:end-1]...)
	n, _ := unescape(s.unescaped[from:]) // str has validated it
	s.unescaped = s.unescaped[:from+n]
	return span{len(s.data) + from, len(s.data) + len(s.unescaped)}
}

// str reads a string, and reports whether it has escapes.
func (s *scanner) str(i int) (end int, escaped bool) {
	b := s.data
	for i = special(b, i+1); i < len(b); i = special(b, i) {
		switch c := b[i]; {
		case c == '"':
			return i + 1, escaped
		case c >= utf8.RuneSelf:

			for i < len(b) && b[i] >= utf8.RuneSelf {
				n := runeLen(b[i:])
				if n == 0 {
					return bad, escaped
				}
				i += n
			}
		case c != '\\': // a control character
			return bad, escaped
		default:
			escaped = true
			if i = s.escape(i); i == bad {
				return bad, escaped
			}
		}
	}
	return bad, escaped
}

// runeLen returns the length of the non-ASCII character that b begins with, or 0 if it is not UTF-8.
func runeLen(b []byte) int {
	if len(b) > 1 && 0xc2 <= b[0] && b[0] < 0xe0 && b[1]&0xc0 == 0x80 {
		return 2 // the most frequent case, without utf8
	}
	if r, n := utf8.DecodeRune(b); r != utf8.RuneError || n > 1 {
		return n
	}
	return 0
}

// special returns the index of the first quote, backslash, control character or non-ASCII byte from i on, or len(b).
func special(b []byte, i int) int {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	// Eight bytes at a time: the high bit of each byte of the sum is set if that byte matches. A borrow can also set it
	// for a byte above a match, but the lowest one is right.
	for ; i+8 <= len(b); i += 8 {
		w := binary.LittleEndian.Uint64(b[i:])
		quote, backslash := w^ones*'"', w^ones*'\\'
		if found := (w | (w - ones*0x20) | (quote-ones)&^quote | (backslash-ones)&^backslash) & highs; found != 0 {
			return i + bits.TrailingZeros64(found)/8
		}
	}
	for ; i < len(b); i++ {
		if c := b[i]; c < 0x20 || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			break
		}
	}
	return i
}

// escape reads an escape, or the two of a surrogate pair.
func (s *scanner) escape(i int) int {
	if i+1 < len(s.data) && escapes[s.data[i+1]] != 0 {
		return i + 2
	}
	_, n := escapedRune(s.data[i:])
	if n == 0 {
		return bad
	}
	return i + n
}

// escapedRune returns the character of the \u escape, or pair of them, that b begins with, and its length: 0 if it is
// invalid.
func escapedRune(b []byte) (r rune, n int) {
	switch r := escapedUnit(b); {
	case r == bad, 0xdc00 <= r && r < 0xe000:
		return 0, 0
	case r < 0xd800, r >= 0xe000:
		return r, 6
	default:
		low := escapedUnit(b[6:])
		if low < 0xdc00 || low >= 0xe000 {
			return 0, 0
		}
		return utf16.DecodeRune(r, low), 12
	}
}

// escapedUnit returns the number in the \u escape that b begins with, or bad.
func escapedUnit(b []byte) rune {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return bad
	}
	r := rune(0)
	for _, c := range b[2:6] {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c|0x20 && c|0x20 <= 'f':
			c = (c | 0x20) - 'a' + 10
		default:
			return bad
		}
		r = r<<4 | rune(c)
	}
	return r
}

func (s *scanner) literal(i int, word string) int {
	if end := i + len(word); end <= len(s.data) && string(s.data[i:end]) == word {
		return end
	}
	return bad
}

func (s *scanner) number(i int) int {
	if s.data[i] == '-' {
		i++
	}
	whole := i
	if i = s.digits(i); i == bad || s.data[whole] == '0' && i > whole+1 {
		return bad
	}
	if i < len(s.data) && s.data[i] == '.' {
		if i = s.digits(i + 1); i == bad {
			return bad
		}
	}
	if i < len(s.data) && s.data[i]|0x20 == 'e' {
		i++
		if i < len(s.data) && (s.data[i] == '+' || s.data[i] == '-') {
			i++
		}
		return s.digits(i)
	}
	return i
}

// digits reads digits, at least one.
func (s *scanner) digits(i int) int {
	from := i
	for i < len(s.data) && '0' <= s.data[i] && s.data[i] <= '9' {
		i++
	}
	if i == from {
		return bad
	}
	return i
}
