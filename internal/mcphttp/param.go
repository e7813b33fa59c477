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

// A Param is an argument of a tool that HTTP clients repeat in a header (2026-07-28: streamable-http, custom headers).
// `x-mcp-header` in the tool's input schema declares it.
type Param struct {
	// Header is the header's name, such as "Mcp-Param-Region".
	Header string
	// Path is the path of property names from the arguments to the argument.
	Path []string
	// Type is the schema's type: "string", "integer" or "boolean".
	Type string
}

const paramKeyword = "x-mcp-header"

// maxExact is the largest integer that all implementations represent exactly.
const maxExact = 1<<53 - 1

// Params returns the parameters of a valid input schema, in the order of the schema, and the errors of invalid
// annotations.
func Params(inputSchema []byte) ([]Param, []error) {
	params, bad := findParams(inputSchema)
	return params, bad.errs
}

// CleanSchema returns the schema without invalid annotations, and their errors: clients must not use a tool with an
// invalid annotation. Without invalid annotations it returns the schema itself.
func CleanSchema(inputSchema []byte) ([]byte, []error) {
	_, bad := findParams(inputSchema)
	if len(bad.errs) == 0 {
		return inputSchema, nil
	}
	return bad.cut(make([]byte, 0, len(inputSchema)), inputSchema, ""), bad.errs
}

// invalid collects invalid annotations by the JSON pointer of their schema.
type invalid struct {
	at   map[string]bool
	errs []error
}

func (v *invalid) add(at, format string, args ...any) {
	if v.at == nil {
		v.at = map[string]bool{}
	}
	v.at[at] = true
	v.errs = append(v.errs, fmt.Errorf("%s at %q: %s", paramKeyword, rawjson.Shorten(at), fmt.Sprintf(format, args...)))
}

// cut appends value without the invalid annotations.
func (v *invalid) cut(dst, value []byte, at string) []byte {
	switch {
	case rawjson.IsObject(value):
		dst = append(dst, '{')
		first := true
		for name, member := range rawjson.Members(value) {
			if v.at[at] && string(name) == paramKeyword {
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
	seen   map[string]bool
}

func findParams(schema []byte) ([]Param, invalid) {
	if !bytes.Contains(schema, []byte(paramKeyword)) && bytes.IndexByte(schema, '\\') < 0 {
		return nil, invalid{} // most schemas; the keyword may also contain escapes
	}
	f := &paramFinder{seen: map[string]bool{}}
	f.schema(schema, "", nil, true)
	return f.params, f.invalid
}

// schema visits a schema. It is reachable if the path to it consists only of `properties`.
func (f *paramFinder) schema(schema []byte, at string, path []string, reachable bool) {
	if header := rawjson.Get(schema, paramKeyword); header != nil {
		f.annotation(schema, header, at, path, reachable)
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
			"unevaluatedProperties", "propertyNames", "allOf", "anyOf", "oneOf", "not", "if", "then", "else",
			"contentSchema":
			f.schema(value, at, nil, false)
			i := 0
			for inner := range rawjson.Elements(value) {
				f.schema(inner, step(at, strconv.Itoa(i)), nil, false)
				i++
			}
		}
	}
}

func (f *paramFinder) annotation(schema, header []byte, at string, path []string, reachable bool) {
	name, isString := rawjson.String(header)
	typ, _ := rawjson.String(rawjson.Get(schema, "type"))
	switch {
	case !isString || !isToken(name):
		f.add(at, "%s is not the name of a header", rawjson.Shorten(header))
	case !reachable || len(path) == 0:
		f.add(at, "only a property that nothing but properties leads to can have one")
	case typ != "string" && typ != "integer" && typ != "boolean":
		// neither a list of types nor a missing type is allowed
		f.add(at, "only a string, an integer or a boolean can be in a header")
	case f.seen[strings.ToLower(name)]:
		f.add(at, "another property has the header %q already", rawjson.Shorten(name))
	default:
		f.seen[strings.ToLower(name)] = true
		f.params = append(f.params, Param{Header: HeaderParamPrefix + name, Path: path, Type: typ})
	}
}

// isToken reports whether s is a token (RFC 9110, 5.6.2).
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

// Check returns an error unless the header's values match the arguments: an argument that is present and not null
// requires exactly one value, any other argument none.
func (p Param) Check(arguments []byte, values []string) error {
	value := arguments
	for _, name := range p.Path {
		value = rawjson.Get(value, name)
	}
	switch {
	case len(values) > 1:
		return fmt.Errorf("duplicate header %s (%d values)", p.Header, len(values))
	case value == nil || rawjson.IsNull(value):
		if len(values) > 0 {
			return fmt.Errorf("the header %s is present, but the argument %s is not", p.Header, p.name())
		}
		return nil
	case rawjson.IsObject(value) || rawjson.IsArray(value):
		if len(values) > 0 {
			return fmt.Errorf("the header %s cannot match the argument %s, which is not a single value", p.Header,
				p.name())
		}
		return nil // the tool's schema rejects it
	case len(values) == 0:
		return fmt.Errorf("the header %s is missing, but the argument %s is present", p.Header, p.name())
	}
	return p.compare(value, strings.Trim(values[0], " \t"))
}

// compare compares a string, number or boolean with a header value.
func (p Param) compare(value []byte, header string) error {
	if !IsText(header) {
		return fmt.Errorf("the header %s contains an invalid character", p.Header)
	}
	decoded, ok := DecodeValue(header)
	if !ok {
		return fmt.Errorf("the header %s contains invalid base64", p.Header)
	}
	var same bool
	if s, isString := rawjson.String(value); isString {
		same = s == decoded
	} else if text := strings.TrimSpace(string(value)); text == "true" || text == "false" {
		same = text == decoded
	} else {
		n, ok := number(text)
		if !ok || n.IsInt() && n.Num().CmpAbs(big.NewInt(maxExact)) > 0 {
			return fmt.Errorf("the argument %s is a number that a header cannot represent: %s", p.name(),
				rawjson.Shorten(text))
		}
		m, ok := number(decoded)
		same = ok && n.Cmp(m) == 0
	}
	if !same {
		return fmt.Errorf("the header %s does not match the argument %s", p.Header, p.name())
	}
	return nil
}

// number parses a JSON number of limited length.
func number(text string) (*big.Rat, bool) {
	const maxDigits, maxExponent = 64, 64
	if len(text) > maxDigits || text == "" || text[0] != '-' && (text[0] < '0' || text[0] > '9') ||
		rawjson.Check([]byte(text)) != nil {
		return nil, false
	}
	if _, exponent, ok := strings.Cut(strings.ToLower(text), "e"); ok {
		if e, err := strconv.Atoi(exponent); err != nil || e > maxExponent || e < -maxExponent {
			return nil, false
		}
	}
	return new(big.Rat).SetString(text)
}

// name returns the argument's name for errors.
func (p Param) name() string { return rawjson.Shorten(strings.Join(p.Path, ".")) }

// Value returns the header value for a call with the arguments, and false if there must be no such header.
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
