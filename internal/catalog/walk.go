package catalog

import (
	"bytes"
	"strconv"
	"unicode/utf8"

	"github.com/mcpbridge/mcpbridge/internal/rawjson"
)

const (
	// maxNesting is the maximum depth of values and schemas: checked text has a lower limit, but schemas may be
	// recursive.
	maxNesting = 1_000
	// Several schemas may read the same text. The limit is baseSteps and stepsPerByte for each byte of the text, but no
	// more than maxSteps, or one step per byte if the text is longer than that. A step is about 10 ns, in which
	// bytesSkippedByStep bytes are skipped or bytesReadByStep bytes are read.
	stepsPerByte, baseSteps, maxSteps   = 4, 1_000, 2_000_000
	bytesSkippedByStep, bytesReadByStep = 32, 8
	// maxMatching limits the work of regular expressions: the sum of the bytes of each text times the instructions of
	// its expression, each of which takes up to 5 ns.
	maxMatching = 5_000_000
)

// accepts reports whether text, which is one checked JSON value, certainly conforms.
func (q *fastValidator) accepts(text []byte) bool {
	if q.unconstrained {
		return true
	}
	w := walk{b: text, steps: min(stepsPerByte*len(text)+baseSteps, max(len(text), maxSteps)), matching: maxMatching}
	_, ok := w.value(q, w.skipSpace(0), 0)
	return ok
}

// A walk reads a text once, except where several schemas apply to the same value. It does not use the iterators of
// package rawjson: they find the end of a value before its elements are read, at every level of nesting.
type walk struct {
	b     []byte
	steps int
	// matching is the remainder of maxMatching.
	matching int
}

// value returns the end of the value that begins at i, if it certainly conforms to q.
func (w *walk) value(q *fastValidator, i, depth int) (int, bool) {
	if q.unconstrained {
		end := rawjson.SkipValue(w.b, i)
		w.steps -= (end - i) / bytesSkippedByStep
		return end, w.steps >= 0
	}
	w.steps--
	if q.undecidable || i >= len(w.b) || w.steps < 0 || depth > maxNesting {
		return i, false
	}
	if q.allOf != nil || q.anyOf != nil {
		for _, other := range q.allOf {
			if _, ok := w.value(other, i, depth+1); !ok {
				return i, false
			}
		}
		if len(q.anyOf) > 0 && !w.anyOf(q.anyOf, i, depth+1) {
			return i, false
		}
	}
	switch c := w.b[i]; c {
	case '{':
		if !q.allows(tObject) || q.enum != nil {
			return i, false
		}
		return w.object(q, i, depth)
	case '[':
		if !q.allows(tArray) || q.enum != nil {
			return i, false
		}
		return w.array(q, i, depth)
	case '"':
		end := rawjson.SkipString(w.b, i)
		w.steps -= (end - i) / bytesSkippedByStep
		return end, q.allows(tString) && w.string(q, w.b[i:end])
	case 't':
		return rawjson.SkipLiteral(w.b, i), q.allows(tBool) && (q.enum == nil || q.enum.yes)
	case 'f':
		return rawjson.SkipLiteral(w.b, i), q.allows(tBool) && (q.enum == nil || q.enum.no)
	case 'n':
		return rawjson.SkipLiteral(w.b, i), q.allows(tNull) && (q.enum == nil || q.enum.null)
	default:
		if q.low == nil && q.high == nil && q.enum == nil && q.allows(tInteger) {
			if end := w.digits(i); end > i {
				return end, true
			}
		}
		end := rawjson.SkipLiteral(w.b, i)
		return end, (c == '-' || c >= '0' && c <= '9') && q.number(w.b[i:end])
	}
}

// anyOf reports whether the value that begins at i certainly conforms to one of several schemas.
func (w *walk) anyOf(of []*fastValidator, i, depth int) bool {
	for _, q := range of {
		if _, ok := w.value(q, i, depth); ok {
			return true
		}
	}
	return false
}

func (q *fastValidator) allows(t types) bool { return q.types == 0 || q.types&t != 0 }

func (w *walk) object(q *fastValidator, i, depth int) (int, bool) {
	var seen [maxRequired / 64]uint64
	count := 0
	next := 0 // the likely next property: most objects are in the order of the schema
	for i = w.skipSpace(i + 1); i < len(w.b); i = w.skipSpace(i) {
		switch w.b[i] {
		case '}':
			return i + 1, count == q.required
		case ',':
			i = w.skipSpace(i + 1)
		}
		p, end, ok := w.property(q, i, next)
		if !ok {
			return i, false
		}
		i = w.skipSpace(end)
		if i >= len(w.b) || w.b[i] != ':' {
			return i, false
		}
		i = w.skipSpace(i + 1)
		schema := q.additional
		if p >= 0 {
			next = p + 1
			if declared := q.props[p].schema; declared != nil {
				schema = declared
			}
			if n := q.props[p].number; n >= 0 && seen[n/64]&(1<<(n%64)) == 0 {
				seen[n/64] |= 1 << (n % 64)
				count++
			}
		}
		if schema == nil {
			end, ok = rawjson.SkipValue(w.b, i), true
		} else {
			end, ok = w.value(schema, i, depth+1)
		}
		if !ok || end <= i {
			return i, false
		}
		i = end
	}
	return i, false
}

// name returns the name that begins at i, and its end.
func (w *walk) name(i int) (name []byte, end int, ok bool) {
	b := w.b
	if i >= len(b) || b[i] != '"' {
		return nil, i, false
	}
	for end = i + 1; end < len(b); end++ { // names are short
		switch b[end] {
		case '"':
			return b[i+1 : end], end + 1, true
		case '\\':
			end = rawjson.SkipString(w.b, i)
			name, ok = unquote(b[i:end])
			return name, end, ok
		}
	}
	return nil, i, false
}

// property returns the index of the property whose name begins at i, or -1, and the end of the name. It first tries the
// likely one.
func (w *walk) property(q *fastValidator, i, likely int) (index, end int, ok bool) {
	if likely < len(q.props) && q.props[likely].unescaped {
		if end, ok = w.hasName(q.props[likely].name, i); ok {
			return likely, end, true
		}
	}
	name, end, ok := w.name(i)
	if q.index != nil {
		if index, known := q.index[string(name)]; known {
			return index, end, ok
		}
		return -1, end, ok
	}
	for index := range q.props {
		if q.props[index].name == string(name) {
			return index, end, ok
		}
	}
	return -1, end, ok
}

// hasName reports whether an unescaped name begins at i, and where it ends.
func (w *walk) hasName(name string, i int) (int, bool) {
	b := w.b
	end := i + len(name) + 2
	if end > len(b) || b[i] != '"' || b[end-1] != '"' || string(b[i+1:end-1]) != name {
		return i, false
	}
	return end, true
}

func (w *walk) array(q *fastValidator, i, depth int) (int, bool) {
	n := 0
	for i = w.skipSpace(i + 1); i < len(w.b); i = w.skipSpace(i) {
		switch w.b[i] {
		case ']':
			return i + 1, n >= q.minItems && n <= q.maxItems
		case ',':
			i = w.skipSpace(i + 1)
		}
		n++
		var end int
		ok := true
		if q.items == nil {
			end = rawjson.SkipValue(w.b, i)
		} else {
			end, ok = w.value(q.items, i, depth+1)
		}
		if !ok || end <= i {
			return i, false
		}
		i = end
	}
	return i, false
}

// string reports whether a quoted string conforms.
func (w *walk) string(q *fastValidator, quoted []byte) bool {
	if q.enum == nil && q.minLength == 0 && q.maxLength >= len(quoted)-2 && q.pattern == nil {
		return true // every character has at least one byte
	}
	w.steps -= len(quoted) / bytesReadByStep
	s, ok := unquote(quoted)
	if !ok {
		return false
	}
	if q.minLength > 0 || q.maxLength < len(s) {
		if n := utf8.RuneCount(s); n < q.minLength || n > q.maxLength {
			return false
		}
	}
	if q.enum != nil && !q.enum.strings[string(s)] {
		return false
	}
	if q.pattern == nil {
		return true
	}
	w.matching -= len(q.pattern.prog.Inst) * len(s)
	return w.matching >= 0 && q.pattern.re.Match(s)
}

// unquote returns the value of a quoted string.
func unquote(quoted []byte) ([]byte, bool) {
	n := len(quoted)
	if n < 2 || quoted[0] != '"' || quoted[n-1] != '"' {
		return nil, false
	}
	if bytes.IndexByte(quoted, '\\') >= 0 {
		return rawjson.Bytes(quoted)
	}
	return quoted[1 : n-1], true
}

// number reports whether a number certainly conforms. Two numbers have the same order as the float64s that they round
// to, unless these are equal: then the order is certain only for an integer that float64 represents exactly.
func (q *fastValidator) number(text []byte) bool {
	n, isInt := integer(text)
	if q.types != 0 && q.types&tNumber == 0 && (q.types&tInteger == 0 || !isInt) {
		return false
	}
	if q.enum != nil && !q.enum.numbers[string(text)] {
		return false
	}
	if q.low == nil && q.high == nil {
		return true
	}
	f := float64(n)
	exact := isInt && n < 1<<53 && n > -1<<53
	if !isInt {
		parsed, err := strconv.ParseFloat(string(text), 64)
		if err != nil {
			return false
		}
		f = parsed
	}
	above := q.low == nil || q.low.f < f || q.low.f == f && exact && q.low.inclusive
	below := q.high == nil || q.high.f > f || q.high.f == f && exact && q.high.inclusive
	return above && below
}

// integer returns the value of a short integer.
func integer(text []byte) (int64, bool) {
	digits := text
	if len(digits) > 0 && digits[0] == '-' {
		digits = digits[1:]
	}
	if len(digits) == 0 || len(digits) > 18 {
		return 0, false
	}
	var n int64
	for _, c := range digits {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = 10*n + int64(c-'0')
	}
	if text[0] == '-' {
		n = -n
	}
	return n, true
}

// digits returns the end of the digits that begin at i, or i if the number is not an integer.
func (w *walk) digits(i int) int {
	b := w.b
	for end := i; end < len(b); end++ {
		if c := b[end]; c < '0' || c > '9' {
			switch c {
			case ',', ']', '}', ' ', '\n', '\t', '\r':
				return end
			}
			return i
		}
	}
	return i // an integer at the end of the text is rare
}

func (w *walk) skipSpace(i int) int {
	b := w.b
	for i < len(b) && b[i] <= ' ' && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r') {
		i++
	}
	return i
}
