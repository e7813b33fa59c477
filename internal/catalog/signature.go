package catalog

import (
	"math/big"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/mcpbridge/mcpbridge/internal/rawjson"
)

// signature returns how a tool is called, as far as a line can say it.
func (s *schema) signature(tool string) string {
	root := resolve(s.full)
	if root == nil {
		return tool
	}
	return rawjson.ShortenTo(tool+"("+s.fields(root, maxShape)+")", maxSignature)
}

// fields returns the properties of an object: those that are required first.
func (s *schema) fields(of *jsonschema.Schema, levels int) string {
	required := map[string]bool{}
	for _, name := range of.Required {
		required[name] = true
	}
	var all []string
	size := 0
	for _, mark := range []string{": ", "?: "} {
		for _, name := range s.order(of) {
			if size > maxSignature { // nobody is told more
				break
			}
			if required[name] != (mark == ": ") {
				continue
			}
			all = append(all, rawjson.Shorten(name)+mark+s.shape(of.Properties[name], levels-1))
			size += len(all[len(all)-1])
		}
	}
	return strings.Join(all, ", ")
}

// shape says in a few words what a part of the schema allows.
func (s *schema) shape(of *jsonschema.Schema, levels int) string {
	of = resolve(of)
	switch {
	case of == nil || of.Bool != nil:
		return "any"
	case of.Const != nil:
		return show(*of.Const)
	case of.Enum != nil:
		return strings.ReplaceAll(list(of.Enum.Values, show), ", ", "|")
	case len(of.AnyOf) > 0 || len(of.OneOf) > 0:
		var all []string
		for i, branch := range append(slices.Clone(of.AnyOf), of.OneOf...) {
			if i == maxListed || levels <= 0 {
				all = append(all, "…")
				break
			}
			all = append(all, s.shape(branch, levels-1))
		}
		return strings.Join(slices.Compact(all), "|")
	case of.Types == nil || of.Types.IsEmpty():
		return "any"
	}
	var all []string
	for _, name := range nullLast(of.Types.ToStrings()) {
		switch name {
		case "array":
			all = append(all, s.items(of, levels))
		case "object":
			if len(of.Properties) > 0 && levels > 0 {
				name = "{" + s.fields(of, levels) + "}"
			}
			all = append(all, name)
		case "integer", "number":
			all = append(all, name+bounds(of))
		default:
			all = append(all, name)
		}
	}
	return strings.Join(all, "|")
}

// items says what an array is of.
func (s *schema) items(of *jsonschema.Schema, levels int) string {
	item := of.Items2020
	if old, ok := of.Items.(*jsonschema.Schema); ok {
		item = old
	}
	if item == nil || levels <= 0 {
		return "array"
	}
	text := s.shape(item, levels-1)
	if strings.Contains(text, "|") {
		text = "(" + text + ")"
	}
	return text + "[]"
}

// bounds returns the bounds of a number, as " 1..10".
func bounds(s *jsonschema.Schema) string {
	low, high := either(s.Minimum, s.ExclusiveMinimum), either(s.Maximum, s.ExclusiveMaximum)
	if low == "" && high == "" {
		return ""
	}
	return " " + low + ".." + high
}

func either(a, b *big.Rat) string {
	switch {
	case a != nil:
		return decimal(a)
	case b != nil:
		return decimal(b)
	}
	return ""
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

// declared returns what a schema says of a property or an item.
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
