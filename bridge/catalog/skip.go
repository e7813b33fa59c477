package catalog

import "bytes"

// skip returns the end of the value that begins at i, or i if none does.
func (w *walk) skip(i int) int {
	if i >= len(w.b) {
		return i
	}
	switch w.b[i] {
	case '"':
		return w.skipString(i)
	case '{', '[':
		depth := 0
		for i < len(w.b) {
			switch class[w.b[i]] {
			case opens:
				depth++
			case closes:
				if depth--; depth == 0 {
					return i + 1
				}
			case quotes:
				i = w.skipString(i)
				continue
			}
			i++
		}
		return i
	}
	return w.literal(i)
}

// literal returns the end of the number or literal that begins at i.
func (w *walk) literal(i int) int {
	for i < len(w.b) && class[w.b[i]] == 0 {
		i++
	}
	return i
}

// skipString returns the end of the string that begins at i, or i if none does.
func (w *walk) skipString(i int) int {
	if i >= len(w.b) || w.b[i] != '"' {
		return i
	}
	i++
	// Most strings are short, and looking at a few bytes is faster than calling for help.
	for near := min(i+16, len(w.b)); i < near; i++ {
		switch w.b[i] {
		case '"':
			return i + 1
		case '\\':
			i++
		}
	}
	for i < len(w.b) {
		n := bytes.IndexByte(w.b[i:], '"')
		if n < 0 {
			return len(w.b)
		}
		slashes := 0
		for slashes < n && w.b[i+n-1-slashes] == '\\' {
			slashes++
		}
		i += n + 1
		if slashes%2 == 0 {
			return i // the quote is not escaped
		}
	}
	return min(i, len(w.b))
}

// What a byte outside a string means. Zero is part of a number or a literal.
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
