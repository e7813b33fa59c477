package signature

import (
	"regexp"
	"slices"
	"strings"

	"github.com/mcpbridge/mcpbridge/internal/rawjson"
)

// The limits of a type that is shown: levels of objects, parts in all, members of an object, and choices.
const (
	maxLevels  = 3
	maxParts   = 300
	maxMembers = 12
	maxChoices = 10
)

// MaxDefault is the maximum size of a default that is shown, in bytes.
const MaxDefault = 40

// Tool returns a tool as a function: greet(name: string, times?: integer = 1) -> string. output may be empty.
func Tool(name, input, output string) string {
	left := maxParts
	text := name + "(" + strings.Join(Of(input).members(0, &left), ", ") + ")"
	if output != "" {
		text += " -> " + Of(output).Type()
	}
	return text
}

// Type returns the type of the values that conform to a schema: string, integer[], "a" | "b", {x: number, y?: number}.
func (s Schema) Type() string {
	left := maxParts
	return s.typeAt(0, &left)
}

// typeAt is Type for a part of a type at a depth, with at most *left parts.
func (s Schema) typeAt(depth int, left *int) string {
	if *left--; *left < 0 {
		return "…"
	}
	if !s.exists() {
		return "any"
	}
	var parts []string
	for _, a := range s.Alternatives() {
		if values := a.Choices(); values != nil {
			for i, v := range values {
				if i == maxChoices {
					parts = append(parts, "…")
					break
				}
				parts = append(parts, rawjson.Shorten(rawjson.AppendLine(nil, v)))
			}
			continue
		}
		types := a.Types()
		if len(types) == 0 {
			parts = append(parts, "any")
		}
		for _, t := range types {
			parts = append(parts, a.typeOf(t, depth, left))
		}
	}
	parts = slices.Compact(parts) // two objects may look the same
	if len(parts) == 0 {
		return "any"
	}
	return strings.Join(parts, " | ")
}

// typeOf is typeAt for one of the types of a schema.
func (s Schema) typeOf(t string, depth int, left *int) string {
	switch t {
	case "array":
		items := s.Get("items")
		if !items.exists() {
			return "any[]" + s.bounds("minItems", "maxItems", " items")
		}
		text := items.typeAt(depth, left)
		if strings.Contains(text, " | ") || strings.Contains(text, " ") && !strings.HasPrefix(text, "{") {
			text = "(" + text + ")"
		}
		return text + "[]" + s.bounds("minItems", "maxItems", " items")
	case "integer", "number":
		return t + s.bounds("minimum", "maximum", "")
	case "string":
		return s.stringType()
	case "object":
		if depth == maxLevels {
			return "{…}"
		}
		if members := s.members(depth, left); len(members) > 0 {
			return "{" + strings.Join(members, ", ") + "}"
		}
		if additional := rawjson.Get(s.Raw, "additionalProperties"); rawjson.IsObject(additional) {
			return "{[name]: " + s.part(additional).typeAt(depth+1, left) + "}"
		}
		return "object"
	}
	return rawjson.Shorten(t)
}

// stringType returns the type of a string: its format, or its other constraints.
func (s Schema) stringType() string {
	if format := s.Text("format"); formatName.MatchString(format) {
		return format // other constraints repeat it, such as the regular expression of a date
	}
	text := "string" + s.bounds("minLength", "maxLength", " characters")
	if pattern := s.Text("pattern"); pattern != "" && len(pattern) <= maxPattern {
		text += " /" + pattern + "/"
	}
	return text
}

// maxPattern is the maximum size of a regular expression that is shown, in bytes.
const maxPattern = 40

// formatName matches possible names of formats.
var formatName = regexp.MustCompile(`^[a-z][a-z0-9-]{0,30}$`)

// maxBound is the maximum size of a bound that is shown, in bytes, and plainNumber matches such a bound.
const maxBound = 64

var plainNumber = regexp.MustCompile(`^-?\d+(\.\d+)?$`)

// bounds returns the bounds that two members set, as " 1..9". An exclusive bound is marked: " >0..9".
func (s Schema) bounds(least, most, of string) string {
	number := func(name, exclusive, mark string) string {
		for _, m := range []struct{ name, mark string }{{name, ""}, {exclusive, mark}} {
			text := strings.TrimSpace(string(rawjson.Get(s.Raw, m.name)))
			if len(text) <= maxBound && plainNumber.MatchString(text) {
				return m.mark + text
			}
		}
		return ""
	}
	low := number(least, "exclusiveMinimum", ">")
	high := number(most, "exclusiveMaximum", "<")
	if low == "0" && of != "" { // no length is below it
		low = ""
	}
	if low == "" && high == "" {
		return ""
	}
	return " " + low + ".." + high + of
}

// members returns the members of an object with their types: those that are required first.
func (s Schema) members(depth int, left *int) []string {
	var texts []string
	for _, required := range []bool{true, false} {
		for p := range s.declared() {
			switch {
			case p.Required != required:
				continue
			case len(texts) == maxMembers:
				return append(texts, "…")
			}
			of := s.part(p.Schema.Raw)
			text := rawjson.Shorten(p.Name)
			if !required {
				text += "?"
			}
			text += ": " + of.typeAt(depth+1, left)
			if def := rawjson.Get(of.Raw, "default"); def != nil && len(def) <= MaxDefault {
				text += " = " + string(rawjson.AppendLine(nil, def))
			}
			texts = append(texts, text)
		}
	}
	return texts
}
