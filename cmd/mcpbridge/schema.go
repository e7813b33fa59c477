package main

import (
	"bytes"
	"iter"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/mcpbridge/mcpbridge/internal/rawjson"
)

// A schema is a part of a JSON Schema that a server has published, for showing it and for making arguments of what is typed.
// It is not for validation: the catalog does that, with all of the schema. Nothing of it is trusted: what is nested too deep
// or refers to itself is cut.
type schema struct {
	raw, root []byte
	beside    [][]byte // the schemas with the references that have been followed to raw, if they say something of members, too
	depth     int
}

// maxSchemaDepth is how deep a schema is followed. A signature gets shallower: see maxShown.
const maxSchemaDepth = 32

// schemaOf returns the schema in a text of a server. What is no JSON accepts everything, as `{}` does.
func schemaOf(raw []byte) schema {
	if rawjson.Check(raw) != nil {
		raw = []byte("{}")
	}
	return schema{raw: raw, root: raw}.resolve()
}

// get returns the schema in a member, and at the one for raw within the same document.
func (s schema) get(name string) schema { return s.at(rawjson.Get(s.raw, name)) }

func (s schema) at(raw []byte) schema {
	return schema{raw: raw, root: s.root, depth: s.depth + 1}.resolve()
}

func (s schema) exists() bool { return len(s.raw) > 0 && s.depth <= maxSchemaDepth }

// resolve follows a reference within the document. Of what is beside it in the schema, only what members there may be is kept.
func (s schema) resolve() schema {
	for s.depth <= maxSchemaDepth {
		ref, ok := rawjson.String(rawjson.Get(s.raw, "$ref"))
		if !ok {
			if all := slices.Collect(rawjson.Elements(rawjson.Get(s.raw, "allOf"))); len(all) == 1 && len(rawjson.Get(s.raw, "type")) == 0 {
				s.raw, s.beside, s.depth = all[0], s.leaving("allOf"), s.depth+1
				continue
			}
			return s
		}
		s.beside = s.leaving("$ref")
		s.depth++
		pointer, ok := strings.CutPrefix(ref, "#")
		if !ok {
			s.raw = []byte("{}") // of another document, which is not fetched
			return s
		}
		at := s.root
		for step := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
			if step != "" {
				at = rawjson.Get(at, strings.NewReplacer("~1", "/", "~0", "~").Replace(step))
			}
		}
		if at == nil {
			at = []byte("{}")
		}
		s.raw = at
	}
	return s
}

// composing are the keywords by which other schemas say what members there may be, and naming those by which a schema itself does.
var (
	composing = []string{"allOf", "anyOf", "oneOf", "if", "dependentSchemas", "dependentRequired", "dependencies"}
	naming    = []string{"properties", "required", "patternProperties", "additionalProperties", "unevaluatedProperties"}
)

// has reports whether a schema has any of some keywords.
func has(raw []byte, keywords ...string) bool {
	return slices.ContainsFunc(keywords, func(key string) bool { return rawjson.Get(raw, key) != nil })
}

// leaving returns what is beside the reference that is followed from here by a keyword, if it says something of members.
func (s schema) leaving(by string) [][]byte {
	if has(s.raw, slices.DeleteFunc(slices.Concat(naming, composing), func(key string) bool { return key == by })...) {
		return append(s.beside, s.raw)
	}
	return s.beside
}

// parts returns the schemas that say something of the same value, too, always or on a condition.
func (s schema) parts() iter.Seq[schema] {
	return func(yield func(schema) bool) {
		for _, raw := range s.beside {
			if !yield(schema{raw: raw, root: s.root, depth: s.depth + 1}) {
				return
			}
		}
		for _, key := range []string{"allOf", "anyOf", "oneOf"} {
			for raw := range rawjson.Elements(rawjson.Get(s.raw, key)) {
				if !yield(s.at(raw)) {
					return
				}
			}
		}
		for _, key := range []string{"if", "then", "else"} {
			if raw := rawjson.Get(s.raw, key); raw != nil && !yield(s.at(raw)) {
				return
			}
		}
		for _, key := range []string{"dependentSchemas", "dependencies"} {
			for _, raw := range rawjson.Members(rawjson.Get(s.raw, key)) {
				if !yield(s.at(raw)) {
					return
				}
			}
		}
	}
}

func (s schema) text(name string) string {
	text, _ := rawjson.String(rawjson.Get(s.raw, name))
	return text
}

// A property is a member that a schema of an object has.
type property struct {
	name     string
	schema   schema
	required bool
}

// properties returns the members of an object, in the order of their author.
func (s schema) properties() []property {
	var required []string
	for name := range rawjson.Elements(rawjson.Get(s.raw, "required")) {
		if text, ok := rawjson.String(name); ok {
			required = append(required, text)
		}
	}
	var list []property
	for name, raw := range rawjson.Members(rawjson.Get(s.raw, "properties")) {
		list = append(list, property{string(name), s.at(raw), slices.Contains(required, string(name))})
	}
	for _, name := range required {
		if !slices.ContainsFunc(list, func(p property) bool { return p.name == name }) {
			list = append(list, property{name, s.at([]byte("{}")), true})
		}
	}
	return list
}

// property returns the schema of a member, and whether there may be such a member.
func (s schema) property(name string) (schema, bool) {
	list := s.properties()
	for _, p := range list {
		if p.name == name {
			return p.schema, true
		}
	}
	anything := s.at([]byte("{}"))
	further := rawjson.Get(s.raw, "additionalProperties")
	switch {
	case rawjson.IsObject(further):
		return s.at(further), true
	case string(bytes.TrimSpace(further)) == "true", rawjson.Get(s.raw, "patternProperties") != nil:
		return anything, true
	case len(further) > 0:
		return anything, false
	}
	left := maxAlternatives
	if parts := s.inParts(name, &left); len(parts) > 0 {
		// The parts that do not name it may leave it open.
		return s.at(slices.Concat([]byte(`{"anyOf":[`), bytes.Join(parts, []byte{','}), []byte(`,{}]}`))), true
	}
	further = rawjson.Get(s.raw, "unevaluatedProperties")
	switch {
	case rawjson.IsObject(further):
		return s.at(further), true
	case string(bytes.TrimSpace(further)) == "true", len(s.beside) > 0, has(s.raw, composing...):
		return anything, true
	}
	// A schema without properties says nothing of them; one with some says all of them, although JSON Schema allows further ones:
	// a name that is not among them is a mistake far more often.
	return anything, len(list) == 0 && len(further) == 0
}

// inParts returns what the parts of a schema say of a member, of which so many are left to look at.
func (s schema) inParts(name string, left *int) [][]byte {
	var all [][]byte
	for part := range s.parts() {
		if *left--; *left < 0 {
			break
		}
		if !part.exists() {
			continue
		}
		for _, raw := range append(part.inParts(name, left), rawjson.Get(rawjson.Get(part.raw, "properties"), name)) {
			if raw != nil && !slices.ContainsFunc(all, func(known []byte) bool { return bytes.Equal(known, raw) }) {
				all = append(all, raw)
			}
		}
	}
	return all
}

// maxAlternatives is how many alternatives are looked at. A schema that refers to itself has any number of them.
const maxAlternatives = 100

// alternatives returns what a value can be, one type each.
func (s schema) alternatives() []schema {
	left := maxAlternatives
	return s.expand(&left)
}

// expand is alternatives, of which so many are left to look at.
func (s schema) expand(left *int) []schema {
	if *left--; *left < 0 || !s.exists() {
		return nil
	}
	for _, key := range []string{"anyOf", "oneOf"} {
		list := rawjson.Get(s.raw, key)
		if list == nil || len(s.types()) == 1 {
			continue
		}
		var all []schema
		for raw := range rawjson.Elements(list) {
			all = append(all, s.at(raw).expand(left)...)
		}
		return all
	}
	return []schema{s}
}

// types returns the types that a schema names or means. None stands for any.
func (s schema) types() []string {
	named := rawjson.Get(s.raw, "type")
	if text, ok := rawjson.String(named); ok {
		return []string{text}
	}
	var types []string
	for raw := range rawjson.Elements(named) {
		if text, ok := rawjson.String(raw); ok {
			types = append(types, text)
		}
	}
	switch {
	case len(types) > 0:
	case rawjson.Get(s.raw, "properties") != nil:
		types = []string{"object"}
	case rawjson.Get(s.raw, "items") != nil:
		types = []string{"array"}
	}
	return types
}

// choices returns the values that a schema allows, as JSON, or nil if it does not name them.
func (s schema) choices() [][]byte {
	if c := rawjson.Get(s.raw, "const"); c != nil {
		return [][]byte{c}
	}
	return slices.Collect(rawjson.Elements(rawjson.Get(s.raw, "enum")))
}

// The limits of what is shown of a type: of objects in objects, of members, choices, and parts in all. `describe` shows the
// whole schema.
const (
	maxShown   = 3
	maxParts   = 300
	maxMembers = 12
	maxChoices = 10
	maxDefault = 40
)

// typeText returns a type as people write it: string, integer[], "a" | "b", {x: number, y?: number}.
func (s schema) typeText() string {
	left := maxParts
	return s.typeAt(0, &left)
}

// typeAt is typeText for a part of a type that is so deep in it, and of which so many parts are left to show.
func (s schema) typeAt(depth int, left *int) string {
	if *left--; *left < 0 {
		return "…"
	}
	if !s.exists() {
		return "any"
	}
	var parts []string
	for _, a := range s.alternatives() {
		if values := a.choices(); values != nil {
			for i, v := range values {
				if i == maxChoices {
					parts = append(parts, "…")
					break
				}
				parts = append(parts, string(rawjson.AppendLine(nil, v)))
			}
			continue
		}
		types := a.types()
		if len(types) == 0 {
			parts = append(parts, "any")
		}
		for _, t := range types {
			parts = append(parts, a.typeOf(t, depth, left))
		}
	}
	parts = slices.Compact(parts) // what is the same for people, such as two objects
	if len(parts) == 0 {
		return "any"
	}
	return strings.Join(parts, " | ")
}

// typeOf is typeAt for one of the types of a schema.
func (s schema) typeOf(t string, depth int, left *int) string {
	switch t {
	case "array":
		items := s.get("items")
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
		if depth == maxShown {
			return "{…}"
		}
		list := s.properties()
		if len(list) == 0 {
			if further := rawjson.Get(s.raw, "additionalProperties"); rawjson.IsObject(further) {
				return "{[name]: " + s.at(further).typeAt(depth+1, left) + "}"
			}
			return "object"
		}
		return "{" + strings.Join(memberTexts(list, depth, left), ", ") + "}"
	}
	return t
}

// stringType returns the type of a string: its format, or what else bounds it.
func (s schema) stringType() string {
	if format := s.text("format"); formatName.MatchString(format) {
		return format // what bounds it besides says the same, such as the regular expression of a date
	}
	text := "string" + s.bounds("minLength", "maxLength", " characters")
	if pattern := s.text("pattern"); pattern != "" && len(pattern) <= maxPattern {
		text += " /" + pattern + "/"
	}
	return text
}

// maxPattern is how long a regular expression may be that is shown.
const maxPattern = 40

// formatName matches what can be the name of a format.
var formatName = regexp.MustCompile(`^[a-z][a-z0-9-]{0,30}$`)

// maxBound is how long a bound may be that is shown, and plainNumber how it looks.
const maxBound = 64

var plainNumber = regexp.MustCompile(`^-?\d+(\.\d+)?$`)

// bounds returns the bounds that two members set, as " 1..9". A bound that is not itself allowed is marked: " >0..9".
func (s schema) bounds(least, most, of string) string {
	number := func(name, exclusive, mark string) string {
		for _, m := range []struct{ name, mark string }{{name, ""}, {exclusive, mark}} {
			if text := strings.TrimSpace(string(rawjson.Get(s.raw, m.name))); plainNumber.MatchString(text) && len(text) <= maxBound {
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

// memberTexts returns members as people write them.
func memberTexts(list []property, depth int, left *int) []string {
	var texts []string
	for i, p := range list {
		if i == maxMembers {
			texts = append(texts, "…")
			break
		}
		name := p.name
		if !p.required {
			name += "?"
		}
		text := name + ": " + p.schema.typeAt(depth+1, left)
		if def := rawjson.Get(p.schema.raw, "default"); def != nil && len(def) <= maxDefault {
			text += " = " + string(rawjson.AppendLine(nil, def))
		}
		texts = append(texts, text)
	}
	return texts
}

// signature returns a tool as a function: greet(name: string, times?: integer = 1) -> string.
func signature(name string, input, output []byte) string {
	left := maxParts
	text := name + "(" + strings.Join(memberTexts(schemaOf(input).properties(), 0, &left), ", ") + ")"
	if len(output) > 0 {
		text += " -> " + schemaOf(output).typeText()
	}
	return text
}

var (
	integerText = regexp.MustCompile(`^[+-]?\d+$`)
	numberText  = regexp.MustCompile(`^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$`)
)

// booleans are the words for true and false.
var booleans = map[string]string{"true": "true", "false": "false", "yes": "true", "no": "false"}

// coerce returns the JSON of what somebody typed, as the schema wants it; or what is wrong with it, after the name of the
// argument. Numbers keep every digit. Several texts make a list.
func (s schema) coerce(texts []string) (raw []byte, wrong string) {
	alternatives := s.alternatives()
	if len(alternatives) == 0 {
		alternatives = []schema{{raw: []byte("{}")}}
	}
	if len(texts) > 1 {
		for _, a := range alternatives {
			if types := a.types(); len(types) == 0 || slices.Contains(types, "array") {
				return a.list(texts)
			}
		}
		return nil, "is given " + strconv.Itoa(len(texts)) + " times and is no list: it is " + s.typeText()
	}
	for _, t := range []string{"choice", "null", "boolean", "integer", "number", "array", "object", "string", "any"} {
		for _, a := range alternatives {
			raw, wrong, tried := a.coerceAs(t, texts[0])
			if tried && wrong == "" {
				return raw, ""
			}
			if tried && len(alternatives) == 1 && len(a.types()) < 2 {
				return nil, wrong
			}
		}
	}
	return nil, "cannot be " + strconv.Quote(texts[0]) + ": it is " + s.typeText()
}

// coerceAs is coerce for one way to read a text, which it does not try if the schema is not of that type.
func (s schema) coerceAs(t, text string) (raw []byte, wrong string, tried bool) {
	if choices := s.choices(); choices != nil || t == "choice" {
		if choices == nil || t != "choice" {
			return nil, "", false
		}
		var known []string
		for _, c := range choices {
			value, isString := rawjson.String(c)
			if !isString {
				value = string(bytes.TrimSpace(c))
			}
			if value == text {
				return c, "", true
			}
			known = append(known, value)
		}
		return nil, "cannot be " + strconv.Quote(text) + "; " + didYouMean(text, known), true
	}
	types := s.types()
	if t == "any" && len(types) > 0 || t != "any" && !slices.Contains(types, t) {
		return nil, "", false
	}
	no := "cannot be " + strconv.Quote(rawjson.Shorten(text)) + ": it is "
	trimmed := strings.TrimSpace(text)
	switch t {
	case "null":
		if trimmed == "null" {
			return []byte("null"), "", true
		}
		return nil, no + "null", true
	case "boolean":
		if b, ok := booleans[strings.ToLower(trimmed)]; ok {
			return []byte(b), "", true
		}
		return nil, no + "true or false", true
	case "integer":
		if n, ok := new(big.Int).SetString(trimmed, 10); ok && integerText.MatchString(trimmed) && len(trimmed) <= maxDigits {
			return []byte(n.String()), "", true
		}
		return nil, no + "a whole number", true
	case "number":
		if numberText.MatchString(trimmed) {
			return []byte(trimmed), "", true
		}
		return nil, no + "a number", true
	case "array":
		if strings.HasPrefix(trimmed, "[") {
			if err := rawjson.Check([]byte(trimmed)); err != nil {
				return nil, "is no JSON list: " + err.Error(), true
			}
			return []byte(trimmed), "", true
		}
		raw, wrong := s.list([]string{text})
		return raw, wrong, true
	case "object":
		if err := rawjson.Check([]byte(trimmed)); err != nil || !rawjson.IsObject([]byte(trimmed)) {
			return nil, no + `an object: write its members, as a.b=value, or JSON, as '{"b": "value"}'`, true
		}
		return []byte(trimmed), "", true
	case "any":
		if rawjson.Check([]byte(trimmed)) == nil {
			return []byte(trimmed), "", true
		}
	}
	return rawjson.AppendString(nil, text), "", true
}

// maxDigits is how long an integer may be. Making longer ones costs time that grows with the square.
const maxDigits = 10_000

// list returns a list of the texts, each of which is as the schema's items are.
func (s schema) list(texts []string) (raw []byte, wrong string) {
	items := s.get("items")
	raw = append(raw, '[')
	for i, text := range texts {
		item, wrong := items.coerce([]string{text})
		if wrong != "" {
			return nil, wrong
		}
		if i > 0 {
			raw = append(raw, ',')
		}
		raw = append(raw, item...)
	}
	return append(raw, ']'), ""
}
