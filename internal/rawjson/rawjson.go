// Package rawjson handles JSON that the bridge forwards unparsed, such as arguments, schemas and `_meta`: digits and
// the order of members stay. Check validates text from outside. The other functions expect validated text; with other
// text they return undefined results, and do not panic.
package rawjson

import (
	"bytes"
	"iter"
	"slices"
	"unicode/utf8"
	"unsafe"
)

// Members iterates over the unquoted names and the values of an object. For anything else, there are none. Values and
// names without escapes are slices of object.
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

// Elements iterates over the elements of an array, which are slices of it. For anything else, there are none.
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

// Get returns the value of the member, or nil.
func Get(object []byte, name string) []byte {
	for n, value := range Members(object) {
		if string(n) == name {
			return value
		}
	}
	return nil
}

// Without returns the object without the named members, or nil if no others are left.
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

// AsBytes returns the text of a field without copying it. The result must not be modified.
func AsBytes(text string) []byte {
	return unsafe.Slice(unsafe.StringData(text), len(text)) //nolint:gosec // see above
}

// AsString returns text for a field without copying it. The text must not be modified afterwards.
func AsString(text []byte) string {
	return unsafe.String(unsafe.SliceData(text), len(text)) //nolint:gosec // see above
}

// String returns the value of a JSON string, and false for anything else.
func String(raw []byte) (string, bool) {
	quoted := trim(raw)
	s, ok := unquote(quoted)
	if n := len(s); n > 0 && n < len(quoted)-2 && cap(s) <= 2*n {
		return AsString(s), ok // unquote allocated it, because it has escapes
	}
	return string(s), ok
}

// Bytes is String that returns a slice of raw if the string has no escapes.
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

// AppendString appends s as a JSON string. Invalid UTF-8 is replaced.
func AppendString(dst []byte, s string) []byte {
	b := AsBytes(s)
	dst = append(dst, '"')
	from := 0 // start of the unescaped bytes that are not appended yet
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

// AppendChecked appends JSON of a backend as a single line, if it passes Check: line breaks delimit messages on stdio
// and in SSE. Other bytes do not change.
func AppendChecked(dst, raw []byte) ([]byte, error) {
	if err := Check(raw); err != nil {
		return dst, err
	}
	return AppendLine(dst, raw), nil
}

// AppendLine appends valid JSON as a single line.
func AppendLine(dst, raw []byte) []byte {
	raw = trim(raw)
	if bytes.IndexByte(raw, '\n') < 0 && bytes.IndexByte(raw, '\r') < 0 {
		return append(dst, raw...)
	}
	// A string contains no raw line break, and of two adjacent tokens one is punctuation.
	from := 0
	for i, c := range raw {
		if c == '\n' || c == '\r' {
			dst = append(dst, raw[from:i]...)
			from = i + 1
		}
	}
	return append(dst, raw[from:]...)
}
