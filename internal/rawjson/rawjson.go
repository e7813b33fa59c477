// Package rawjson handles JSON text that stays text: arguments, schemas, `_meta` and the like pass through the bridge as the
// bytes they came in, with every digit and in the order of their author. Check is the one strict pass over a text that
// comes from outside; everything else walks over text that passed it, and only promises not to crash on other text.
package rawjson

import (
	"bytes"
	"iter"
	"slices"
	"unicode/utf8"
	"unsafe"
)

// Members returns the members of an object: their names, unquoted, and their values. It returns none for anything else.
// Values, and names without escapes, are slices of object.
func Members(object []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(name, value []byte) bool) {
		i, ok := open(object, '{')
		for ok {
			var name, value []byte
			if name, value, i, ok = member(object, i); !ok || !yield(name, value) {
				return
			}
		}
	}
}

// Elements returns the elements of an array, which are slices of it. It returns none for anything else.
func Elements(array []byte) iter.Seq[[]byte] {
	return func(yield func(value []byte) bool) {
		i, ok := open(array, '[')
		for ok {
			var value []byte
			if value, i, ok = element(array, i); !ok || !yield(value) {
				return
			}
		}
	}
}

// Get returns the value of an object's member, or nil if there is none of that name.
func Get(object []byte, name string) []byte {
	for n, value := range Members(object) {
		if string(n) == name {
			return value
		}
	}
	return nil
}

// Without returns an object without the named members, or nil if there are no others.
func Without(object []byte, names ...string) []byte {
	out := []byte{'{'}
	for n, value := range Members(object) {
		if slices.Contains(names, string(n)) {
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(AppendString(out, string(n)), ':')
		out = append(out, value...)
	}
	if len(out) == 1 {
		return nil
	}
	return append(out, '}')
}

// String returns the value of a JSON string. It reports false for anything else.
func String(raw []byte) (string, bool) {
	quoted := trim(raw)
	s, ok := unquote(quoted)
	if n := len(s); n > 0 && n < len(quoted)-2 && cap(s) <= 2*n {
		return unsafe.String(unsafe.SliceData(s), n), ok //nolint:gosec // it had escapes, and was made for us
	}
	return string(s), ok
}

// Bytes returns the value of a JSON string, as String does: as a slice of raw where it has no escapes.
func Bytes(raw []byte) ([]byte, bool) { return unquote(trim(raw)) }

// IsObject reports whether raw is an object.
func IsObject(raw []byte) bool {
	_, ok := open(raw, '{')
	return ok
}

// IsArray reports whether raw is an array.
func IsArray(raw []byte) bool {
	_, ok := open(raw, '[')
	return ok
}

// IsNull reports whether raw is `null`.
func IsNull(raw []byte) bool { return string(trim(raw)) == "null" }

// AppendString appends s as a JSON string. What is not UTF-8 in s is replaced.
func AppendString(dst []byte, s string) []byte {
	b := unsafe.Slice(unsafe.StringData(s), len(s)) //nolint:gosec // it is only read
	dst = append(dst, '"')
	from := 0 // what stands for itself from here on is yet to be appended
	for i := special(b, 0); i < len(b); i = special(b, i) {
		c := b[i]
		if c >= utf8.RuneSelf {
			if n := runeLen(b[i:]); n > 0 {
				i += n
				continue
			}
		}
		dst = append(dst, b[from:i]...)
		i++
		from = i
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\b':
			dst = append(dst, `\b`...)
		case '\f':
			dst = append(dst, `\f`...)
		case '\n':
			dst = append(dst, `\n`...)
		case '\r':
			dst = append(dst, `\r`...)
		case '\t':
			dst = append(dst, `\t`...)
		default:
			if c >= utf8.RuneSelf {
				dst = append(dst, "\uFFFD"...)
				continue
			}
			dst = append(dst, `\u00`...)
			dst = append(dst, hex[c>>4], hex[c&15])
		}
	}
	dst = append(dst, b[from:]...)
	return append(dst, '"')
}

const hex = "0123456789abcdef"

// AppendChecked appends JSON text of a backend, if Check passes it, as text of a single line: a newline between its tokens
// would end a line of stdio or of an SSE event. Otherwise not a byte is changed.
func AppendChecked(dst, raw []byte) ([]byte, error) {
	if err := Check(raw); err != nil {
		return dst, err
	}
	return AppendLine(dst, raw), nil
}

// AppendLine appends JSON text that was checked as text of a single line.
func AppendLine(dst, raw []byte) []byte {
	raw = trim(raw)
	if bytes.IndexByte(raw, '\n') < 0 && bytes.IndexByte(raw, '\r') < 0 {
		return append(dst, raw...)
	}
	// No string has a bare newline in it, and of two tokens with only space between them one is punctuation.
	from := 0
	for i, c := range raw {
		if c == '\n' || c == '\r' {
			dst = append(dst, raw[from:i]...)
			from = i + 1
		}
	}
	return append(dst, raw[from:]...)
}
