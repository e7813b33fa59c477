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

// A scanner reads a text once, and strictly. Its methods read what begins at data[i] and return where it ends, or bad.
//
// jsontext would do: it says what is wrong with a text that is bad, and the tests compare with it. But it takes up to twice
// as long, without the limits, and reading a large call is most of what the bridge itself does with it.
type scanner struct {
	data   []byte
	limits *limits.Limits
	over   *Error // the limit that data is over
	// names are those of the objects around, as far as they are compared one by one; there are n. Being an array of places
	// they are on the stack, and reading a small text makes no garbage.
	names [4 * fewNames]place
	n     int
	// more are the names of the objects around that are sorted at the end of their object, as there are many or no places are left.
	more []place
	// plain are the names of the objects around that have escapes, without them.
	plain []byte
}

// A place is where a name is in a text, or in plain as if that followed the text.
type place struct{ from, to int }

// bad is where something ends that is not JSON, or is over a limit.
const bad = -1

// fewNames is how many names of an object are compared one by one, which is faster than sorting them and needs no memory.
const fewNames = 16

func (s *scanner) exceeds(at int, format string, limit int) int {
	s.over = &Error{at, fmt.Sprintf(format, limit), true}
	return bad
}

// value reads what may have so many more levels.
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
	outer, more, plain := s.n, len(s.more), len(s.plain)
	for n := 1; ; n++ {
		if i == len(s.data) || s.data[i] != '"' {
			return bad
		}
		end, escaped := s.str(i)
		if end == bad {
			return bad
		}
		name := place{i + 1, end - 1}
		if escaped {
			name = s.unescape(i, end)
		}
		if n > fewNames || s.n == len(s.names) {
			s.more = append(s.more, name)
		} else if !s.isNew(name, outer) {
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
			if len(s.more) > more && !s.areNew(outer, more) {
				return bad
			}
			s.n, s.plain = outer, s.plain[:plain]
			return i + 1
		case s.data[i] != ',':
			return bad
		case n == s.limits.JSONMembers:
			return s.exceeds(i, "an object of more than %d members", s.limits.JSONMembers)
		}
		i = skipSpace(s.data, i+1)
	}
}

// isNew adds a name to those from outer on, and reports false if it is one of them.
func (s *scanner) isNew(name place, outer int) bool {
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

// areNew takes the names of an object from more, and reports false if one of them is there twice, or among those from outer on.
func (s *scanner) areNew(outer, more int) bool {
	s.more = append(s.more, s.names[outer:s.n]...)
	all := s.more[more:]
	slices.SortFunc(all, func(a, b place) int { return bytes.Compare(s.text(a), s.text(b)) })
	for i := range all[1:] {
		if bytes.Equal(s.text(all[i]), s.text(all[i+1])) {
			return false
		}
	}
	s.more = s.more[:more]
	return true
}

// text returns a name.
func (s *scanner) text(name place) []byte {
	if n := len(s.data); name.from >= n {
		return s.plain[name.from-n : name.to-n]
	}
	return s.data[name.from:name.to]
}

// unescape adds a name that has escapes to plain.
func (s *scanner) unescape(i, end int) place {
	from := len(s.plain)
	s.plain = append(s.plain, s.data[i+1:end-1]...)
	n, _ := unescape(s.plain[from:]) // it was read, and is one
	s.plain = s.plain[:from+n]
	return place{len(s.data) + from, len(s.data) + len(s.plain)}
}

// str reads a string, which begins with a quote, and reports whether it has escapes.
func (s *scanner) str(i int) (end int, escaped bool) {
	b := s.data
	for i = special(b, i+1); i < len(b); i = special(b, i) {
		switch c := b[i]; {
		case c == '"':
			return i + 1, escaped
		case c >= utf8.RuneSelf:
			// What is not ASCII is often not alone.
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

// runeLen returns how long the character beyond ASCII is that b begins with, or 0 if it is not UTF-8.
func runeLen(b []byte) int {
	if len(b) > 1 && 0xc2 <= b[0] && b[0] < 0xe0 && b[1]&0xc0 == 0x80 {
		return 2 // which is what most are, and decided faster than utf8 does
	}
	if r, n := utf8.DecodeRune(b); r != utf8.RuneError || n > 1 {
		return n
	}
	return 0
}

// special returns the first place from i on that has a quote, a backslash, a control character or a byte beyond ASCII, or
// len(b).
func special(b []byte, i int) int {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	// Eight bytes at a time. In each sum of differences, the high bit of a byte is set if the byte is what is looked for. A
	// borrow can set it for a byte above such a one too, but the lowest one is right.
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

// escape reads an escape, and two if they are the halves of a surrogate pair.
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

// escapedRune returns the character that the escapes `\u0000` say that b begins with, two if they are the halves of a surrogate pair, and
// how long they are: 0 if there is none.
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

// escapedUnit returns the number that an escape `\u0000` says that b begins with, or bad if it is no such escape.
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
