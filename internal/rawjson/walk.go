package rawjson

import (
	"bytes"
	"unicode/utf8"
)

// The functions in this file expect validated text. On other text they terminate, and do not read beyond its end.

// open returns the index after the opening bracket of raw, and whether there is one.
func open(raw []byte, bracket byte) (int, bool) {
	i := skipSpace(raw, 0)
	if i == len(raw) || raw[i] != bracket {
		return 0, false
	}
	return i + 1, true
}

// member returns the first member at or after i, and its end.
func member(object []byte, i int) (name, value []byte, next int, ok bool) {
	i = skipComma(object, i)
	if i == len(object) || object[i] != '"' {
		return nil, nil, i, false
	}
	end := SkipString(object, i)
	name, ok = unquote(object[i:end])
	i = skipSpace(object, end)
	if !ok || i == len(object) || object[i] != ':' {
		return nil, nil, i, false
	}
	i = skipSpace(object, i+1)
	end = SkipValue(object, i)
	return name, object[i:end:end], end, end > i
}

// element returns the first element at or after i, and its end.
func element(array []byte, i int) (value []byte, next int, ok bool) {
	i = skipComma(array, i)
	end := SkipValue(array, i)
	return array[i:end:end], end, end > i
}

// unquote returns the value of a string, which is a slice of it if there are no escapes, and false for anything else.
func unquote(quoted []byte) ([]byte, bool) {
	if !isString(quoted) {
		return nil, false
	}
	if bytes.IndexByte(quoted, '\\') < 0 {
		return quoted[1 : len(quoted)-1 : len(quoted)-1], true
	}
	s := bytes.Clone(quoted[1 : len(quoted)-1])
	n, ok := unescape(s)
	return s[:n], ok
}

// unescape replaces the escapes in the content of a string in place, and returns its new length. It returns false if
// the content is invalid.
func unescape(s []byte) (n int, ok bool) {
	for i := 0; ; {
		plain := bytes.IndexByte(s[i:], '\\')
		if plain < 0 {
			return n + copy(s[n:], s[i:]), true
		}
		n += copy(s[n:], s[i:i+plain])
		if i += plain + 1; i == len(s) {
			return n, false
		}
		if c := escapes[s[i]]; c != 0 {
			s[n] = c
			n, i = n+1, i+1
			continue
		}
		r, length := escapedRune(s[i-1:])
		if length == 0 {
			return n, false
		}
		n += utf8.EncodeRune(s[n:], r)
		i += length - 1
	}
}

// escapes maps the character after a backslash to its value.
var escapes = [256]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

// isString reports whether raw looks like a string.
func isString(raw []byte) bool {
	return len(raw) >= 2 && raw[0] == '"' && raw[len(raw)-1] == '"'
}

func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\t' || c == '\r' }

func skipSpace(b []byte, i int) int {
	for i < len(b) && isSpace(b[i]) {
		i++
	}
	return i
}

// skipComma skips white space, and one comma in it.
func skipComma(b []byte, i int) int {
	i = skipSpace(b, i)
	if i < len(b) && b[i] == ',' {
		i = skipSpace(b, i+1)
	}
	return i
}

// trim returns raw without the white space around it.
func trim(raw []byte) []byte {
	i, end := 0, len(raw)
	for i < end && isSpace(raw[i]) {
		i++
	}
	for i < end && isSpace(raw[end-1]) {
		end--
	}
	return raw[i:end:end]
}

// SkipValue returns the end of the value at i, or i if there is none.
func SkipValue(b []byte, i int) int {
	if i >= len(b) {
		return i
	}
	switch b[i] {
	case '"':
		return SkipString(b, i)
	case '{', '[':
		return skipBrackets(b, i)
	}
	return SkipLiteral(b, i)
}

// SkipLiteral returns the end of the number or literal at i, or i if there is none.
func SkipLiteral(b []byte, i int) int {
	for i < len(b) && class[b[i]] == 0 {
		i++
	}
	return i
}

// skipBrackets returns the end of the object or array at i.
func skipBrackets(b []byte, i int) int {
	depth := 0
	for i < len(b) {
		switch class[b[i]] {
		case opens:
			depth++
		case closes:
			if depth--; depth <= 0 {
				return i + 1
			}
		case quotes:
			i = SkipString(b, i)
			continue
		}
		i++
	}
	return i
}

// SkipString returns the end of the string at i, or i if there is none.
func SkipString(b []byte, i int) int {
	if i >= len(b) || b[i] != '"' {
		return i
	}
	i++
	// Most strings are short, and a loop over a few bytes is faster than IndexByte.
	for near := min(i+16, len(b)); i < near; i++ {
		switch b[i] {
		case '"':
			return i + 1
		case '\\':
			i++
		}
	}
	for i < len(b) {
		n := bytes.IndexByte(b[i:], '"')
		if n < 0 {
			return len(b)
		}
		// The quote ends the string unless it is escaped: by the last of an odd number of backslashes.
		slashes := 0
		for slashes < n && b[i+n-1-slashes] == '\\' {
			slashes++
		}
		i += n + 1
		if slashes%2 == 0 {
			return i
		}
	}
	return min(i, len(b))
}

// The classes of bytes outside strings. Zero is a part of a number or literal.
const (
	opens = iota + 1
	closes
	quotes
	between
)

var class = [256]uint8{
	'{': opens, '[': opens, '}': closes, ']': closes, '"': quotes,
	',': between, ':': between, ' ': between, '\t': between, '\n': between, '\r': between,
}
