package mcpbridge

import (
	stdjson "encoding/json"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"

	"github.com/google/jsonschema-go/jsonschema"
)

// A node validates JSON text against a schema, and names every invalid field. Unlike a library, it reads the text once,
// without decoding it, and its messages help a model to correct itself. jsonschema-go handles schemas with other
// keywords than those that Go types need.
type node struct {
	types      []string // if empty, any
	properties map[string]*property
	order      []string // of properties
	required   []*property
	rest       *node // of other members; if nil, there must be none
	items      *node
	enum       []string // as JSON
	whole      *jsonschema.Resolved

	min, max, above, below, multipleOf *float64
	minLen, maxLen, minItems, maxItems *int
	pattern                            *regexp.Regexp
	format                             *format
	unique, limitsText, limitsNumber   bool
}

type property struct {
	*node
	name, title, description string
	index                    int
}

var anything = &node{}

// compile returns the node of s.
func compile(s *jsonschema.Schema) (*node, error) {
	if !simple(s) { // All of it: nested schemas may refer to outer ones.
		whole, err := s.Resolve(nil)
		if err != nil {
			return nil, fmt.Errorf("its schema: %w", err)
		}
		return &node{whole: whole}, nil
	}
	return compileSimple(s)
}

func compileSimple(s *jsonschema.Schema) (*node, error) {
	if s == nil {
		return anything, nil
	}
	n := &node{
		types: typesOf(s), min: s.Minimum, max: s.Maximum, above: s.ExclusiveMinimum, below: s.ExclusiveMaximum,
		multipleOf: s.MultipleOf,
		minLen:     s.MinLength, maxLen: s.MaxLength, minItems: s.MinItems, maxItems: s.MaxItems, unique: s.UniqueItems,
	}
	for _, c := range choicesOf(s) {
		text, err := marshal(c)
		if err != nil {
			return nil, err
		}
		n.enum = append(n.enum, string(text))
	}
	var err error
	if s.Pattern != "" {
		if n.pattern, err = regexp.Compile(s.Pattern); err != nil {
			return nil, err
		}
	}
	if f, ok := formats[s.Format]; ok {
		n.format = &f
	}
	n.limitsText = n.minLen != nil || n.maxLen != nil || n.pattern != nil || n.format != nil
	n.limitsNumber = n.min != nil || n.max != nil || n.above != nil || n.below != nil || n.multipleOf != nil
	if s.Items != nil {
		if n.items, err = compileSimple(s.Items); err != nil {
			return nil, err
		}
	}
	if s.AdditionalProperties == nil || s.AdditionalProperties.Not == nil {
		if n.rest, err = compileSimple(s.AdditionalProperties); err != nil {
			return nil, err
		}
	}
	if n.order = s.PropertyOrder; len(n.order) == 0 {
		n.order = slices.Sorted(maps.Keys(s.Properties))
	}
	n.properties = make(map[string]*property, len(n.order))
	for i, name := range n.order {
		of, err := compileSimple(s.Properties[name])
		if err != nil {
			return nil, err
		}
		s := s.Properties[name]
		n.properties[name] = &property{of, name, s.Title, s.Description, i}
	}
	for _, name := range s.Required {
		p := n.properties[name]
		if p == nil {
			return nil, fmt.Errorf("its schema requires %q, which is not among the properties", name)
		}
		n.required = append(n.required, p)
	}
	return n, nil
}

// limits reports whether there are constraints besides the Go type.
func (n *node) limits() bool {
	if n.whole != nil || n.limitsText || n.limitsNumber || n.enum != nil || n.unique || n.minItems != nil ||
		n.maxItems != nil {
		return true
	}
	for _, p := range n.properties {
		if p.limits() {
			return true
		}
	}
	return n.items != nil && n.items.limits() || n.rest != nil && n.rest.limits()
}

func typesOf(s *jsonschema.Schema) []string {
	if s.Type != "" {
		return []string{s.Type}
	}
	return s.Types
}

// simple reports whether a node supports all keywords of s.
func simple(s *jsonschema.Schema) bool {
	known := *s
	if choicesOf(s) != nil {
		known.OneOf, known.AnyOf = nil, nil
	}
	// Keywords that are validated here, or need no validation.
	for _, field := range []any{
		&known.Type, &known.Types, &known.Properties, &known.PropertyOrder, &known.Required,
		&known.AdditionalProperties, &known.Items,
		&known.Enum, &known.Minimum, &known.Maximum, &known.ExclusiveMinimum, &known.ExclusiveMaximum,
		&known.MultipleOf,
		&known.MinLength, &known.MaxLength, &known.MinItems, &known.MaxItems, &known.UniqueItems, &known.Pattern,
		&known.Title, &known.Description, &known.Default, &known.Format, &known.ContentEncoding, &known.Schema,
		&known.Examples,
	} {
		reflect.ValueOf(field).Elem().SetZero()
	}
	rest, err := stdjson.Marshal(&known)
	if err != nil || string(rest) != "true" {
		return false
	}
	for _, p := range s.Properties {
		if !simple(p) {
			return false
		}
	}
	more := s.AdditionalProperties
	return (s.Items == nil || simple(s.Items)) && (more == nil || isFalse(more) || simple(more))
}

func isFalse(s *jsonschema.Schema) bool {
	text, err := stdjson.Marshal(s)
	return err == nil && string(text) == "false"
}
