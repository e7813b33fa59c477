package mcpbridge

import (
	"fmt"
	"reflect"
	"slices"
	"sync"

	"github.com/google/jsonschema-go/jsonschema"
)

// A form asks the user for a T.
type form[T any] struct {
	schema string
	read   func([]byte) (T, error)
}

// wrapped is the form of a single value: forms are objects.
type wrapped[T any] struct {
	Value T `json:"value"`
}

var forms sync.Map // of form[T], by T's reflect.Type

func formOf[T any](a ask) (form[T], error) {
	t := reflect.TypeFor[T]()
	plain := a.oneOf == nil && a.schema == ""
	if f, ok := forms.Load(t); ok && plain {
		return f.(form[T]), nil
	}
	if a.schema != "" {
		return form[T]{a.schema, func(content []byte) (v T, err error) {
			err = unmarshal(orEmpty(content), &v)
			return v, err
		}}, nil
	}
	var f form[T]
	var err error
	if t.Kind() == reflect.Struct {
		f, err = typedForm[T](t, ask{})
	} else {
		var w form[wrapped[T]]
		w, err = typedForm[wrapped[T]](t, a)
		f = form[T]{w.schema, func(content []byte) (T, error) {
			v, err := w.read(content)
			return v.Value, err
		}}
	}
	if err == nil && plain {
		forms.Store(t, f)
	}
	return f, err
}

func orEmpty(content []byte) []byte {
	if len(content) == 0 {
		return []byte("{}")
	}
	return content
}

func typedForm[T any](of reflect.Type, a ask) (form[T], error) {
	var f form[T]
	in := &input[T]{} // Not typed: unknown members are allowed.
	v := reflect.ValueOf(&in.proto).Elem()
	s, err := schemaOf(v.Type(), &v)
	if err != nil {
		return f, fmt.Errorf("a form of %s: %w", of, err)
	}
	if of := s.Properties["value"]; a.oneOf != nil {
		inList := of.Items != nil
		if inList {
			of = of.Items
		}
		for _, choice := range a.oneOf {
			of.Enum = append(of.Enum, choice)
		}
		if err := setTitles(of, inList, a.titles); err != nil {
			return f, err
		}
	}
	if err := flatten(s, of); err != nil {
		return f, err
	}
	if in.node, err = compile(s); err != nil {
		return f, err
	}
	if f.schema, err = schemaText(s); err != nil {
		return f, err
	}
	f.read = func(content []byte) (T, error) { return in.read(content) }
	return f, nil
}

// flatten converts a schema to one of MCP's forms: no nulls, no nesting.
func flatten(s *jsonschema.Schema, of reflect.Type) error {
	s.AdditionalProperties = nil
	if s.Properties == nil {
		s.Properties = map[string]*jsonschema.Schema{}
	}
	for name, p := range s.Properties {
		if len(p.Types) == 2 && p.Types[0] == "null" {
			p.Type, p.Types = p.Types[1], nil
			s.Required = slices.DeleteFunc(s.Required, func(n string) bool { return n == name })
		}
		choices := p.Type == "array" && p.Items != nil && choicesOf(p.Items) != nil
		if choices && p.Items.AnyOf != nil {
			p.Items.Type = "" // MCP's form has only the titles.
		}
		if !choices && !slices.Contains([]string{"string", "number", "integer", "boolean"}, p.Type) {
			return fmt.Errorf("a form cannot ask for %q of %s: its fields are text, numbers, bool, or a list of "+
				"text with an enum", name, of)
		}
	}
	return nil
}
