package catalog

import (
	"bytes"
	"encoding/json"
	"slices"
	"unsafe"

	"github.com/mcpbridge/mcpbridge/internal/rawjson"
)

// How much memory the values in a value may take that is decoded for the library, in bytes, besides their text. Text of many small
// values would take forty times as much. Anybody sends arguments, which people and models write; results are of the backend, and
// may be large tables.
const (
	maxArguments = 4 << 20
	maxOutput    = 64 << 20
)

// What a value takes that is decoded, in bytes: about what Go allocates for it.
const (
	scalarSize, arraySize, elementSize = 16, 24, 16
	objectSize, memberSize             = 336, 48
)

// A decoder decodes text that was checked for the library. encoding/json would do, and takes several times as long and as much
// memory: callers who send what is refused would have the bridge spend that.
type decoder struct {
	// text is what is decoded, and same is it as a string. Strings and numbers are parts of it: nobody changes it, or keeps what is
	// decoded, after it was compared with a schema.
	text []byte
	same string
	at   int
	// left is how much memory may still be taken. Nothing is decoded any more when it is negative.
	left int
	// unbearable says that there is a number that is too long to be compared.
	unbearable bool
	// elements are those of the arrays around, so that each array can be made as long as it is.
	elements []any
}

// decode returns what a text that was checked says, and reports whether its numbers are bearable. It reports false for fits if the
// value takes more bytes than most, and then it is not whole.
func decode(text []byte, most int) (value any, bearable, fits bool) {
	same := unsafe.String(unsafe.SliceData(text), len(text)) //nolint:gosec // G103: nobody writes text, and what is decoded is not kept
	d := decoder{text: text, same: same, left: most}
	value = d.value()
	return value, !d.unbearable, d.left >= 0
}

// Values that need no memory of their own, as nobody changes them.
var (
	digits = func() (boxed [10]any) {
		for i := range boxed {
			boxed[i] = json.Number(rune('0' + i))
		}
		return boxed
	}()
	noElements any = []any{}
	noMembers  any = map[string]any{}
)

func (d *decoder) value() any {
	d.skip()
	switch c := d.text[d.at]; c {
	case '{':
		return d.object()
	case '[':
		return d.array()
	case '"':
		return d.str()
	case 't', 'f', 'n':
		d.at = rawjson.SkipLiteral(d.text, d.at)
		if c == 'n' {
			return nil
		}
		return c == 't'
	}
	return d.number()
}

// skip skips white space, and what is between two values: nothing else is between them in text that was checked.
func (d *decoder) skip() {
	for {
		switch d.text[d.at] {
		case ' ', '\t', '\r', '\n', ',', ':':
			d.at++
		default:
			return
		}
	}
}

// take notes that memory is needed, and reports whether there is some left.
func (d *decoder) take(size int) bool {
	d.left -= size
	return d.left >= 0
}

func (d *decoder) number() any {
	from := d.at
	d.at = rawjson.SkipLiteral(d.text, from)
	if c := d.text[from]; d.at == from+1 && '0' <= c && c <= '9' {
		return digits[c-'0']
	}
	d.take(scalarSize)
	n := d.same[from:d.at]
	d.unbearable = d.unbearable || !bearable(n)
	return json.Number(n)
}

func (d *decoder) str() string {
	from := d.at
	d.at = rawjson.SkipString(d.text, from)
	d.take(scalarSize)
	if bytes.IndexByte(d.text[from:d.at], '\\') < 0 {
		return d.same[from+1 : d.at-1]
	}
	s, _ := rawjson.String(d.text[from:d.at])
	return s
}

func (d *decoder) array() any {
	d.at++
	outer := len(d.elements)
	for d.skip(); d.text[d.at] != ']'; d.skip() {
		if !d.take(elementSize) {
			return nil
		}
		d.elements = append(d.elements, d.value())
		if d.left < 0 {
			return nil
		}
	}
	d.at++
	mine := d.elements[outer:]
	if len(mine) == 0 {
		return noElements
	}
	d.take(arraySize)
	made := slices.Clone(mine)
	clear(mine)
	d.elements = d.elements[:outer]
	return made
}

func (d *decoder) object() any {
	d.at++
	var made map[string]any
	for d.skip(); d.text[d.at] != '}'; d.skip() {
		if made == nil {
			if !d.take(objectSize) {
				return nil
			}
			made = map[string]any{}
		}
		if !d.take(memberSize) {
			return nil
		}
		name := d.str()
		made[name] = d.value()
		if d.left < 0 {
			return nil
		}
	}
	d.at++
	if made == nil {
		return noMembers
	}
	return made
}
