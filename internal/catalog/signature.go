package catalog

import (
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/mcpbridge/mcpbridge/internal/rawjson"
	"github.com/mcpbridge/mcpbridge/internal/signature"
)

// signature returns a tool's signature, in one line.
func (s *schema) signature(tool string) string {
	return rawjson.ShortenTo(signature.Tool(tool, rawjson.AsString(s.text), ""), maxSignature)
}

// shape returns the type that a schema describes, in one line.
func (s *schema) shape() string {
	return rawjson.ShortenTo(signature.Of(rawjson.AsString(s.text)).Type(), maxSignature)
}

// shape returns the type that a part of the schema describes, or "any".
func (e *explainer) shape(of *jsonschema.Schema) string {
	ref, ok := strings.CutPrefix(of.Location, location)
	if !ok {
		return "any"
	}
	if e.root.Raw == nil {
		e.root = signature.Of(rawjson.AsString(e.schema.text))
	}
	return e.root.At(ref).Type()
}

// resolve follows references.
func resolve(s *jsonschema.Schema) *jsonschema.Schema {
	for range maxListed {
		if s == nil || s.Ref == nil || len(s.Properties) > 0 {
			return s
		}
		s = s.Ref
	}
	return nil
}

// declared returns the subschema of a property or an item.
func declared(s *jsonschema.Schema, name string) *jsonschema.Schema {
	s = resolve(s)
	if s == nil {
		return nil
	}
	if p := s.Properties[name]; p != nil {
		return p
	}
	for _, a := range []any{s.Items2020, s.Items, s.AdditionalProperties} {
		if child, ok := a.(*jsonschema.Schema); ok && child != nil {
			return child
		}
	}
	for _, branches := range [][]*jsonschema.Schema{s.AllOf, s.AnyOf} {
		for _, b := range branches {
			if b = resolve(b); b != nil && b.Properties[name] != nil {
				return b.Properties[name]
			}
		}
	}
	return nil
}
