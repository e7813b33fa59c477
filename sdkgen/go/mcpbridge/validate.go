package mcpbridge

import (
	"bytes"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// A check is the validation of one text.
type check struct {
	buf   bytes.Buffer
	dec   jsontext.Decoder
	text  []byte
	wrong []string
	whole []splice // integers that are written as 3.0
}

type splice struct {
	start, end int64
	with       string
}

var checks = sync.Pool{New: func() any { return &check{} }}

// check returns the text, with integers as Go decodes them, or the violations, in lines.
func (n *node) check(text []byte) ([]byte, []string) {
	c := checks.Get().(*check)
	c.buf = *bytes.NewBuffer(text)
	c.text, c.wrong, c.whole = text, nil, c.whole[:0]
	c.dec.Reset(&c.buf)
	defer func() {
		c.buf, c.text = bytes.Buffer{}, nil
		checks.Put(c)
	}()
	if err := c.value(n, nil); err != nil {
		return nil, []string{fmt.Sprintf("- (all): this is not JSON: %v", err)}
	}
	if _, err := c.dec.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, []string{"- (all): this is more than one JSON value"}
	}
	if c.wrong != nil || len(c.whole) == 0 {
		return text, c.wrong
	}
	var out []byte
	at := int64(0)
	for _, s := range c.whole {
		out = append(append(out, text[at:s.start]...), s.with...)
		at = s.end
	}
	return append(out, text[at:]...), nil
}

// A place is the path of a value.
type place struct {
	up    *place
	name  string
	index int // in a list; else -1
}

func (p *place) String() string {
	if p == nil {
		return "(all)"
	}
	s := p.name
	if p.index >= 0 {
		s = strconv.Itoa(p.index)
	}
	if p.up == nil {
		return s
	}
	return p.up.String() + "." + s
}

func (c *check) add(at *place, format string, args ...any) {
	if len(c.wrong) < 20 { // Enough for the model to correct.
		c.wrong = append(c.wrong, fmt.Sprintf("- %s: %s", at, fmt.Sprintf(format, args...)))
	}
}

// value validates the next value. It returns an error if the text is not JSON.
func (c *check) value(n *node, at *place) error {
	kind := c.dec.PeekKind()
	if n.whole != nil {
		return c.wholly(n, at)
	}
	if n.types != nil && !n.allows(kind) {
		v, err := c.dec.ReadValue()
		if err == nil {
			c.add(at, "must be %s, got %s", strings.Join(n.types, " or "), shorten(v))
		}
		return err
	}
	switch {
	case kind == '{' && (n.properties != nil || n.rest != nil && n.rest != anything):
		return c.object(n, at)
	case kind == '[' && (n.items != nil || n.minItems != nil || n.maxItems != nil):
		return c.list(n, at)
	case n.enum == nil && kind == '"' && !n.limitsText, kind == '{', kind == '[', kind == 't', kind == 'f', kind == 'n':
		return c.dec.SkipValue()
	}
	v, err := c.dec.ReadValue()
	if err != nil {
		return err
	}
	switch {
	case n.enum != nil && !n.chooses(v):
		c.add(at, "must be one of %s, got %s", strings.Join(n.enum, ", "), shorten(v))
	case kind == '"' && n.limitsText:
		c.string(n, v, at)
	case kind == '0':
		c.number(n, v, at)
	}
	return nil
}

func (n *node) allows(kind jsontext.Kind) bool {
	for _, t := range n.types {
		switch t {
		case "string":
			if kind == '"' {
				return true
			}
		case "integer", "number":
			if kind == '0' {
				return true
			}
		case "boolean":
			if kind == 't' || kind == 'f' {
				return true
			}
		case "object":
			if kind == '{' {
				return true
			}
		case "array":
			if kind == '[' {
				return true
			}
		case "null":
			if kind == 'n' {
				return true
			}
		}
	}
	return kind == 0 // Not JSON: the decoder reports it.
}

func (n *node) chooses(v jsontext.Value) bool {
	if slices.Contains(n.enum, string(v)) {
		return true
	}
	if v.Kind() != '"' || bytes.IndexByte(v, '\\') < 0 {
		return false
	}
	plain, err := marshal(stdjson.RawMessage(v))
	if err != nil {
		return false
	}
	canonical := jsontext.Value(plain)
	return canonical.Canonicalize() == nil && slices.Contains(n.enum, string(canonical))
}

func (c *check) object(n *node, at *place) error {
	if _, err := c.dec.ReadToken(); err != nil {
		return err
	}
	var few [32]bool
	seen := few[:]
	if len(n.order) > len(few) {
		seen = make([]bool, len(n.order))
	}
	for c.dec.PeekKind() == '"' {
		name, err := c.dec.ReadValue()
		if err != nil {
			return err
		}
		p := n.properties[string(name[1:len(name)-1])]
		if p == nil && bytes.IndexByte(name, '\\') >= 0 {
			plain, _ := jsontext.AppendUnquote(nil, name)
			p = n.properties[string(plain)]
		}
		if p != nil {
			seen[p.index] = true
			if err := c.value(p.node, &place{at, p.name, -1}); err != nil {
				return err
			}
			continue
		}
		if n.rest == anything {
			if err := c.dec.SkipValue(); err != nil {
				return err
			}
			continue
		}
		plain, _ := jsontext.AppendUnquote(nil, name)
		here := &place{at, string(plain), -1}
		if n.rest == nil {
			c.add(here, "does not exist%s", didYouMean(here.name, n.order))
			err = c.dec.SkipValue()
		} else {
			err = c.value(n.rest, here)
		}
		if err != nil {
			return err
		}
	}
	if _, err := c.dec.ReadToken(); err != nil {
		return err
	}
	for _, p := range n.required {
		if !seen[p.index] {
			c.add(&place{at, p.name, -1}, "is required")
		}
	}
	return nil
}

func (c *check) list(n *node, at *place) error {
	if _, err := c.dec.ReadToken(); err != nil {
		return err
	}
	of := n.items
	if of == nil {
		of = anything
	}
	count := 0
	var values map[string]int
	for ; c.dec.PeekKind() != ']'; count++ {
		start := c.dec.InputOffset()
		if err := c.value(of, &place{at, "", count}); err != nil {
			return err
		}
		if n.unique {
			if values == nil {
				values = map[string]int{}
			}
			v := string(bytes.TrimLeft(c.text[start:c.dec.InputOffset()], " \t\r\n,"))
			if before, ok := values[v]; ok {
				c.add(at, "must not have the same twice: %d and %d are both %s", before, count, shorten([]byte(v)))
			}
			values[v] = count
		}
	}
	if _, err := c.dec.ReadToken(); err != nil {
		return err
	}
	c.count(at, count, n.minItems, n.maxItems, "item")
	return nil
}

func (c *check) count(at *place, got int, least, most *int, of string) {
	switch {
	case least != nil && got < *least:
		c.add(at, "must have at least %d %s%s, got %d", *least, of, plural(*least), got)
	case most != nil && got > *most:
		c.add(at, "must have at most %d %s%s, got %d", *most, of, plural(*most), got)
	}
}

func plural(n int) string {
	if n == 1 {
		return ""
	}
	return "s"
}

func (c *check) string(n *node, v jsontext.Value, at *place) {
	plain, err := jsontext.AppendUnquote(nil, v)
	if err != nil {
		return // Decoding reports it.
	}
	c.count(at, utf8.RuneCount(plain), n.minLen, n.maxLen, "character")
	if n.pattern != nil && !n.pattern.Match(plain) {
		c.add(at, "must match %s, got %s", n.pattern, shorten(v))
	}
	if n.format != nil && !n.format.fits(string(plain)) {
		c.add(at, "must be %s, got %s", n.format.is, shorten(v))
	}
}

func (c *check) number(n *node, v jsontext.Value, at *place) {
	integer := slices.Contains(n.types, "integer") && !slices.Contains(n.types, "number")
	fraction := integer && bytes.ContainsAny(v, ".eE")
	if !fraction && !n.limitsNumber {
		return
	}
	f, err := strconv.ParseFloat(string(v), 64)
	if err != nil {
		c.add(at, "is too large: %s", shorten(v))
		return
	}
	if fraction {
		if f != math.Trunc(f) || math.Abs(f) > 1<<53 {
			c.add(at, "must be integer, got %s", shorten(v))
			return
		}
		end := c.dec.InputOffset()
		c.whole = append(c.whole, splice{end - int64(len(v)), end, strconv.FormatInt(int64(f), 10)})
	}
	switch {
	case n.min != nil && f < *n.min:
		c.add(at, "must be at least %v, got %s", *n.min, shorten(v))
	case n.max != nil && f > *n.max:
		c.add(at, "must be at most %v, got %s", *n.max, shorten(v))
	case n.above != nil && f <= *n.above:
		c.add(at, "must be more than %v, got %s", *n.above, shorten(v))
	case n.below != nil && f >= *n.below:
		c.add(at, "must be less than %v, got %s", *n.below, shorten(v))
	case n.multipleOf != nil && math.Mod(f, *n.multipleOf) != 0:
		c.add(at, "must be a multiple of %v, got %s", *n.multipleOf, shorten(v))
	}
}

// wholly validates the next value with jsonschema-go.
func (c *check) wholly(n *node, at *place) error {
	v, err := c.dec.ReadValue()
	if err != nil {
		return err
	}
	var value any
	if err := unmarshal(v, &value); err != nil {
		return err
	}
	if err := n.whole.Validate(value); err != nil {
		c.add(at, "%v", err)
	}
	return nil
}

// shorten returns a short form of the received value.
func shorten(v []byte) string {
	const most = 80
	if len(v) <= most {
		return string(v)
	}
	for v = v[:most]; !utf8.Valid(v) && len(v) > most-utf8.UTFMax; {
		v = v[:len(v)-1]
	}
	return string(v) + " ..."
}
