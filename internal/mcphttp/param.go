package mcphttp

import (
	"bytes"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/mcpbridge/mcpbridge/internal/rawjson"
)

// A Param is an argument of a tool that HTTP clients repeat in a header of its own (2026-07-28: streamable-http, custom
// headers; XH-1 to XH-7 of the digest). A property of the tool's input schema says so by `x-mcp-header`.
type Param struct {
	// Header is the whole name of the header, such as "Mcp-Param-Region".
	Header string
	// Path is where the argument is: the names of properties, from the arguments inwards.
	Path []string
	// Type is what the schema says of it: "string", "integer" or "boolean".
	Type string
}

// annotation is the keyword by which a property asks for a header.
const annotation = "x-mcp-header"

// maxExact is the largest integer that is the same number to everybody (XH-1).
const maxExact = 1<<53 - 1

// Params returns the parameters of a tool's input schema, in the order of the schema, and why other annotations are none. The
// schema is one that rawjson.Check has passed.
func Params(inputSchema []byte) ([]Param, []error) {
	params, bad := findParams(inputSchema)
	return params, bad.errs
}

// CleanSchema returns the schema without the annotations that are invalid, and why they are: clients must not offer a tool
// that has one (XH-3), though everything else about it may be right. A schema without such annotations is returned as it is.
func CleanSchema(inputSchema []byte) ([]byte, []error) {
	_, bad := findParams(inputSchema)
	if len(bad.errs) == 0 {
		return inputSchema, nil
	}
	return bad.cut(make([]byte, 0, len(inputSchema)), inputSchema, ""), bad.errs
}

// invalid remembers which annotations are invalid, by the JSON pointer of what they are in.
type invalid struct {
	at   map[string]bool
	errs []error
}

func (v *invalid) add(at, format string, args ...any) {
	if v.at == nil {
		v.at = map[string]bool{}
	}
	v.at[at] = true
	v.errs = append(v.errs, fmt.Errorf("%s at %q: %s", annotation, rawjson.Shorten(at), fmt.Sprintf(format, args...)))
}

// cut appends value without the annotations that are invalid.
func (v *invalid) cut(dst, value []byte, at string) []byte {
	switch {
	case rawjson.IsObject(value):
		dst = append(dst, '{')
		first := true
		for name, member := range rawjson.Members(value) {
			if v.at[at] && string(name) == annotation {
				continue
			}
			if !first {
				dst = append(dst, ',')
			}
			first = false
			dst = append(rawjson.AppendString(dst, string(name)), ':')
			dst = v.cut(dst, member, step(at, string(name)))
		}
		return append(dst, '}')
	case rawjson.IsArray(value):
		dst = append(dst, '[')
		i := 0
		for element := range rawjson.Elements(value) {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = v.cut(dst, element, step(at, strconv.Itoa(i)))
			i++
		}
		return append(dst, ']')
	}
	return append(dst, value...)
}

var pointerEscapes = strings.NewReplacer("~", "~0", "/", "~1")

func step(pointer, name string) string { return pointer + "/" + pointerEscapes.Replace(name) }

type paramFinder struct {
	invalid
	params []Param
	taken  map[string]bool
}

func findParams(schema []byte) ([]Param, invalid) {
	if !bytes.Contains(schema, []byte(annotation)) && bytes.IndexByte(schema, '\\') < 0 {
		return nil, invalid{} // most schemas; one may also spell the keyword with escapes
	}
	f := &paramFinder{taken: map[string]bool{}}
	f.schema(schema, "", nil, true)
	return f.params, f.invalid
}

// schema looks at a schema. It is reachable if only `properties` lead to it, by path (XH-2).
func (f *paramFinder) schema(schema []byte, at string, path []string, reachable bool) {
	if header := rawjson.Get(schema, annotation); header != nil {
		f.annotated(schema, header, at, path, reachable)
	}
	for name, value := range rawjson.Members(schema) {
		at := step(at, string(name))
		switch string(name) {
		case "properties":
			for name, property := range rawjson.Members(value) {
				f.schema(property, step(at, string(name)), slices.Concat(path, []string{string(name)}), reachable)
			}
		case "patternProperties", "dependentSchemas", "dependencies", "$defs", "definitions":
			for name, inner := range rawjson.Members(value) {
				f.schema(inner, step(at, string(name)), nil, false)
			}
		case "items", "prefixItems", "additionalItems", "unevaluatedItems", "contains", "additionalProperties",
			"unevaluatedProperties", "propertyNames", "allOf", "anyOf", "oneOf", "not", "if", "then", "else", "contentSchema":
			f.schema(value, at, nil, false)
			i := 0
			for inner := range rawjson.Elements(value) {
				f.schema(inner, step(at, strconv.Itoa(i)), nil, false)
				i++
			}
		}
	}
}

func (f *paramFinder) annotated(schema, header []byte, at string, path []string, reachable bool) {
	name, isString := rawjson.String(header)
	typ, _ := rawjson.String(rawjson.Get(schema, "type"))
	switch {
	case !isString || !isToken(name):
		f.add(at, "%s is not the name of a header", rawjson.Shorten(header))
	case !reachable || len(path) == 0:
		f.add(at, "only a property that nothing but properties leads to can have one")
	case typ != "string" && typ != "integer" && typ != "boolean":
		f.add(at, "only a string, an integer or a boolean can be in a header") // U-21: a list of types and none are neither
	case f.taken[strings.ToLower(name)]:
		f.add(at, "another property has the header %q already", rawjson.Shorten(name))
	default:
		f.taken[strings.ToLower(name)] = true
		f.params = append(f.params, Param{Header: HeaderParamPrefix + name, Path: path, Type: typ})
	}
}

// isToken reports whether s can be part of a header's name (RFC 9110, 5.6.2).
func isToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		letter := c|0x20 >= 'a' && c|0x20 <= 'z' || c >= '0' && c <= '9'
		if !letter && strings.IndexByte("!#$%&'*+-.^_`|~", c) < 0 {
			return false
		}
	}
	return s != ""
}

// Check reports whether the header says the same as the arguments. The values are all that the request has of it: an argument
// that is there and not null needs exactly one, any other needs none (XH-4, XH-6, U-7, U-20).
func (p Param) Check(arguments []byte, values []string) error {
	value := arguments
	for _, name := range p.Path {
		value = rawjson.Get(value, name)
	}
	switch {
	case len(values) > 1:
		return fmt.Errorf("the header %s is there %d times", p.Header, len(values))
	case value == nil || rawjson.IsNull(value):
		if len(values) > 0 {
			return fmt.Errorf("the header %s is there, and the argument %s is not", p.Header, p.name())
		}
		return nil
	case rawjson.IsObject(value) || rawjson.IsArray(value):
		if len(values) > 0 {
			return fmt.Errorf("the header %s cannot say the same as the argument %s, which is no single value", p.Header, p.name())
		}
		return nil // nothing that a header could say; the tool's schema refuses it
	case len(values) == 0:
		return fmt.Errorf("the header %s is missing, and the argument %s is there", p.Header, p.name())
	}
	return p.compare(value, strings.Trim(values[0], " \t"))
}

// compare compares a string, number or boolean with a header's value.
func (p Param) compare(value []byte, header string) error {
	if !IsText(header) {
		return fmt.Errorf("the header %s has a character in it that a header cannot have", p.Header)
	}
	said, ok := DecodeValue(header)
	if !ok {
		return fmt.Errorf("the header %s is not base64 between its marks", p.Header)
	}
	var same bool
	if s, isString := rawjson.String(value); isString {
		same = s == said
	} else if text := strings.TrimSpace(string(value)); text == "true" || text == "false" {
		same = text == said
	} else {
		n, ok := number(text)
		if !ok || n.IsInt() && n.Num().CmpAbs(big.NewInt(maxExact)) > 0 {
			return fmt.Errorf("the argument %s is a number that no header can say: %s", p.name(), rawjson.Shorten(text))
		}
		m, ok := number(said)
		same = ok && n.Cmp(m) == 0
	}
	if !same {
		return fmt.Errorf("the header %s does not say the same as the argument %s", p.Header, p.name())
	}
	return nil
}

// number returns the number that a JSON text is, unless it is longer than any that is exact needs to be.
func number(text string) (*big.Rat, bool) {
	const maxDigits, maxExponent = 64, 64
	if len(text) > maxDigits || text == "" || text[0] != '-' && (text[0] < '0' || text[0] > '9') || rawjson.Check([]byte(text)) != nil {
		return nil, false
	}
	if _, exponent, ok := strings.Cut(strings.ToLower(text), "e"); ok {
		if e, err := strconv.Atoi(exponent); err != nil || e > maxExponent || e < -maxExponent {
			return nil, false
		}
	}
	return new(big.Rat).SetString(text)
}

// name returns the argument's name for people.
func (p Param) name() string { return rawjson.Shorten(strings.Join(p.Path, ".")) }

// Value returns the value of the header for a call with the arguments. It reports false if the argument is not there, or
// nothing that a header can say: the call then has no such header (XH-4).
func (p Param) Value(arguments []byte) (string, bool) {
	value := arguments
	for _, name := range p.Path {
		value = rawjson.Get(value, name)
	}
	if value == nil || rawjson.IsNull(value) || rawjson.IsObject(value) || rawjson.IsArray(value) {
		return "", false
	}
	if s, ok := rawjson.String(value); ok {
		return EncodeValue(s), true
	}
	text := strings.TrimSpace(string(value))
	if n, ok := number(text); ok && n.IsInt() && n.Num().CmpAbs(big.NewInt(maxExact)) <= 0 {
		return n.Num().String(), true
	}
	return text, true
}
