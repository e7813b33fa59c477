package mcpbridge

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/google/jsonschema-go/jsonschema"
)

// An input parses a T from JSON.
type input[T any] struct {
	proto  T // a T with its defaults
	schema string
	node   *node
	usage  string // for the model: add(a: integer, b: integer = 3)
	typed  bool   // the schema is T's
}

// inputOf returns the input of T, a struct or a map. custom replaces its schema, if not empty.
func inputOf[T any](name string, custom string) (*input[T], error) {
	in := &input[T]{typed: custom == ""}
	s := &jsonschema.Schema{}
	if custom == "" {
		v := reflect.ValueOf(&in.proto).Elem()
		var err error
		if s, err = schemaOf(v.Type(), &v); err != nil {
			return nil, err
		}
		if typeSchemas[v.Type()] != nil && v.Kind() == reflect.Slice {
			s.Type = "object" // json.RawMessage: any arguments
		}
		if s.Type != "object" {
			return nil, fmt.Errorf("arguments have names, so they are a struct or a map, and not %s", v.Type())
		}
	} else if err := unmarshal([]byte(custom), s); err != nil {
		return nil, fmt.Errorf("its schema: %w", err)
	} else if s.Type != "object" {
		return nil, errors.New(`its schema must have "type": "object"`)
	}
	var err error
	if in.node, err = compile(s); err != nil {
		return nil, err
	}
	if in.schema = custom; custom == "" {
		if in.schema, err = schemaText(s); err != nil {
			return nil, err
		}
	}
	in.usage = usage(name, s)
	return in, nil
}

// read parses and validates JSON.
func (in *input[T]) read(text []byte) (T, error) {
	v := in.proto
	if len(text) == 0 {
		text = []byte("{}")
	}
	text, wrong := in.node.check(text)
	if wrong != nil {
		return v, errors.New(strings.Join(wrong, "\n"))
	}
	opts := reading
	if !in.typed {
		opts = lenient
	}
	if err := json.Unmarshal(text, &v, opts); err != nil {
		return v, errors.New(unreadable(err))
	}
	return v, nil
}

// readArguments is read with an error for the model.
func (in *input[T]) readArguments(name string, text []byte) (T, error) {
	v, err := in.read(text)
	if err != nil {
		return v, ToolError("%s: the arguments are not valid.\n%w\nUsage: %s", name, err, in.usage)
	}
	return v, nil
}

// unreadable returns why a valid value cannot be decoded.
func unreadable(err error) string {
	e, ok := errors.AsType[*json.SemanticError](err)
	if !ok {
		return fmt.Sprintf("- (all): %v", err)
	}
	field := strings.ReplaceAll(strings.TrimPrefix(string(e.JSONPointer), "/"), "/", ".")
	if field == "" {
		field = "(all)"
	}
	got := ""
	if e.JSONValue != nil {
		got = ", got " + shorten(e.JSONValue)
	}
	if e.Err != nil {
		return fmt.Sprintf("- %s: %v%s", field, e.Err, got)
	}
	return fmt.Sprintf("- %s: cannot be %v%s", field, e.GoType, got)
}

// usage returns the signature of a function: add(a: integer, b: integer = 3).
func usage(name string, s *jsonschema.Schema) string {
	names := s.PropertyOrder
	if len(names) == 0 {
		for n := range s.Properties {
			names = append(names, n)
		}
		slices.Sort(names)
	}
	var b strings.Builder
	b.WriteString(name + "(")
	for i, n := range names {
		if i > 0 {
			b.WriteString(", ")
		}
		p := s.Properties[n]
		b.WriteString(n + ": " + typeName(p))
		switch {
		case p.Default != nil:
			b.WriteString(" = " + string(p.Default))
		case !slices.Contains(s.Required, n):
			b.WriteString(" = ...")
		}
	}
	return b.String() + ")"
}

// typeName returns a short description of a schema.
func typeName(s *jsonschema.Schema) string {
	switch {
	case choicesOf(s) != nil:
		var choices []string
		for _, c := range choicesOf(s) {
			text, _ := marshal(c)
			choices = append(choices, string(text))
		}
		return strings.Join(choices, " | ")
	case s.Items != nil:
		return typeName(s.Items) + "[]"
	case s.Format != "":
		return s.Format
	case s.Type != "":
		return s.Type + bounds(s)
	case len(s.Types) > 0:
		return strings.Join(s.Types, " | ")
	}
	return "any"
}

// bounds returns the bounds of a number, after its type: " 1..14", " > 0".
func bounds(s *jsonschema.Schema) string {
	if s.Minimum != nil && s.Maximum != nil {
		return fmt.Sprintf(" %v..%v", *s.Minimum, *s.Maximum)
	}
	var b strings.Builder
	for _, bound := range []struct {
		sign string
		at   *float64
	}{{">=", s.Minimum}, {">", s.ExclusiveMinimum}, {"<=", s.Maximum}, {"<", s.ExclusiveMaximum}} {
		if bound.at != nil {
			fmt.Fprintf(&b, " %s %v", bound.sign, *bound.at)
		}
	}
	return b.String()
}
