// Package signature describes JSON Schemas as types and tools as functions, in text for people and models.
package signature

import (
	"bytes"
	"iter"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/mcpbridge/mcpbridge/internal/rawjson"
)

// A Schema is a part of a JSON Schema that a server has published, for display and for reading typed arguments. It does
// not validate: package catalog does. The text is not trusted: parts that are nested too deeply or refer to themselves
// are cut off.
type Schema struct {
	// Raw is the text of the part. References are resolved.
	Raw []byte

	doc      *document
	siblings [][]byte // schemas beside the references that led to Raw, if they constrain members
	depth    int
}

// A document is the text that a Schema is part of.
type document struct {
	raw   []byte
	at    map[string][]byte // the parts by reference
	named map[string][]byte // the parts that have an $id or an $anchor; nil until a reference needs one
}

// maxDepth is the maximum depth of a Schema. Types show fewer levels: see maxLevels.
const maxDepth = 32

var anySchema = []byte("{}")

// Of returns the schema in a text. Invalid JSON accepts every value, as `{}` does.
func Of(text string) Schema {
	raw := rawjson.AsBytes(text)
	if rawjson.Check(raw) != nil {
		raw = anySchema
	}
	return Schema{Raw: raw, doc: &document{raw: raw, at: map[string][]byte{}}}.resolve()
}

// Get returns the schema in a member.
func (s Schema) Get(name string) Schema { return s.part(rawjson.Get(s.Raw, name)) }

// At returns the schema at a reference within the document, such as #/$defs/item.
func (s Schema) At(ref string) Schema { return s.part(s.doc.follow(ref)) }

func (s Schema) part(raw []byte) Schema {
	return Schema{Raw: raw, doc: s.doc, depth: s.depth + 1}.resolve()
}

func (s Schema) exists() bool { return len(s.Raw) > 0 && s.depth <= maxDepth }

// follow returns the part that a reference refers to. Other documents are never fetched, and accept every value.
func (d *document) follow(ref string) []byte {
	if at, ok := d.at[ref]; ok {
		return at
	}
	id, fragment, _ := strings.Cut(ref, "#")
	if unescaped, err := url.PathUnescape(fragment); err == nil {
		fragment = unescaped
	}
	var at []byte
	switch {
	case fragment != "" && !strings.HasPrefix(fragment, "/"):
		at = d.names()[id+"#"+fragment]
	case id != "":
		at = d.names()[id]
	default:
		at = d.raw
	}
	for step := range strings.SplitSeq(strings.TrimPrefix(fragment, "/"), "/") {
		if step != "" && strings.HasPrefix(fragment, "/") {
			at = child(at, strings.NewReplacer("~1", "/", "~0", "~").Replace(step))
		}
	}
	if at == nil {
		at = anySchema
	}
	d.at[ref] = at
	return at
}

// names returns the parts of the document by the references that $id and $anchor allow: id, id#anchor and #anchor.
// A relative $id is not resolved: a reference must repeat it.
func (d *document) names() map[string][]byte {
	if d.named == nil {
		d.named = map[string][]byte{}
		d.name(d.raw, "", 0)
	}
	return d.named
}

func (d *document) name(part []byte, id string, depth int) {
	if depth > maxDepth {
		return
	}
	for item := range rawjson.Elements(part) {
		d.name(item, id, depth+1)
	}
	if own, ok := rawjson.String(rawjson.Get(part, "$id")); ok {
		id = strings.TrimSuffix(own, "#")
		d.named[id] = part
	}
	if anchor, ok := rawjson.String(rawjson.Get(part, "$anchor")); ok {
		d.named[id+"#"+anchor], d.named["#"+anchor] = part, part
	}
	for _, member := range rawjson.Members(part) {
		d.name(member, id, depth+1)
	}
}

// child returns the member or element of a JSON text that a step of a JSON pointer leads to.
func child(raw []byte, step string) []byte {
	if !rawjson.IsArray(raw) {
		return rawjson.Get(raw, step)
	}
	n, err := strconv.Atoi(step)
	for item := range rawjson.Elements(raw) {
		if err == nil && n == 0 {
			return item
		}
		n--
	}
	return nil
}

// resolve follows references. It keeps the schemas beside them that constrain members.
func (s Schema) resolve() Schema {
	for s.depth <= maxDepth {
		ref, ok := rawjson.String(rawjson.Get(s.Raw, "$ref"))
		if !ok {
			all := slices.Collect(rawjson.Elements(rawjson.Get(s.Raw, "allOf")))
			if len(all) == 1 && len(rawjson.Get(s.Raw, "type")) == 0 {
				s.Raw, s.siblings, s.depth = all[0], s.siblingsWith("allOf"), s.depth+1
				continue
			}
			return s
		}
		s.Raw, s.siblings, s.depth = s.doc.follow(ref), s.siblingsWith("$ref"), s.depth+1
	}
	return s
}

// applicators are the keywords by which other schemas constrain members, and memberKeywords those by which a schema
// itself does.
var (
	applicators    = []string{"allOf", "anyOf", "oneOf", "if", "dependentSchemas", "dependentRequired", "dependencies"}
	memberKeywords = []string{
		"properties", "required", "patternProperties", "additionalProperties",
		"unevaluatedProperties",
	}
)

// has reports whether a schema has any of some keywords.
func has(raw []byte, keywords ...string) bool {
	return slices.ContainsFunc(keywords, func(key string) bool { return rawjson.Get(raw, key) != nil })
}

// siblingsWith returns the schemas beside the references so far, with s if it constrains members by a keyword other
// than by.
func (s Schema) siblingsWith(by string) [][]byte {
	if has(s.Raw, slices.DeleteFunc(slices.Concat(memberKeywords, applicators),
		func(key string) bool { return key == by })...) {
		return append(s.siblings, s.Raw)
	}
	return s.siblings
}

// parts returns the schemas that constrain the same value, always or on a condition.
func (s Schema) parts() iter.Seq[Schema] {
	return func(yield func(Schema) bool) {
		for _, raw := range s.siblings {
			if !yield(Schema{Raw: raw, doc: s.doc, depth: s.depth + 1}) {
				return
			}
		}
		for _, key := range []string{"allOf", "anyOf", "oneOf"} {
			for raw := range rawjson.Elements(rawjson.Get(s.Raw, key)) {
				if !yield(s.part(raw)) {
					return
				}
			}
		}
		for _, key := range []string{"if", "then", "else"} {
			if raw := rawjson.Get(s.Raw, key); raw != nil && !yield(s.part(raw)) {
				return
			}
		}
		for _, key := range []string{"dependentSchemas", "dependencies"} {
			for _, raw := range rawjson.Members(rawjson.Get(s.Raw, key)) {
				if !yield(s.part(raw)) {
					return
				}
			}
		}
	}
}

// Text returns the text in a member, or "".
func (s Schema) Text(name string) string {
	text, _ := rawjson.String(rawjson.Get(s.Raw, name))
	return text
}

// A Property is a member that a schema of an object declares.
type Property struct {
	Name     string
	Schema   Schema
	Required bool
}

// Properties returns the members of an object in the order of the text.
func (s Schema) Properties() []Property {
	list := slices.Collect(s.declared())
	for i := range list {
		list[i].Schema = s.part(list[i].Schema.Raw)
	}
	return list
}

// declared returns the members of an object in the order of the text, with references that are not resolved.
func (s Schema) declared() iter.Seq[Property] {
	return func(yield func(Property) bool) {
		required := map[string]bool{} // false if it was found in properties
		for name := range rawjson.Elements(rawjson.Get(s.Raw, "required")) {
			if text, ok := rawjson.String(name); ok {
				required[text] = true
			}
		}
		for member, raw := range rawjson.Members(rawjson.Get(s.Raw, "properties")) {
			name := string(member)
			_, ok := required[name]
			if !yield(Property{name, Schema{Raw: raw}, ok}) {
				return
			}
			if ok {
				required[name] = false
			}
		}
		for name := range rawjson.Elements(rawjson.Get(s.Raw, "required")) {
			if text, ok := rawjson.String(name); ok && required[text] {
				if !yield(Property{text, Schema{Raw: anySchema}, true}) {
					return
				}
				required[text] = false
			}
		}
	}
}

// Property returns the schema of a member, and whether the member is allowed.
func (s Schema) Property(name string) (Schema, bool) {
	declares := false
	for p := range s.declared() {
		if p.Name == name {
			return s.part(p.Schema.Raw), true
		}
		declares = true
	}
	open := s.part(anySchema)
	additional := rawjson.Get(s.Raw, "additionalProperties")
	switch {
	case rawjson.IsObject(additional):
		return s.part(additional), true
	case string(bytes.TrimSpace(additional)) == "true", rawjson.Get(s.Raw, "patternProperties") != nil:
		return open, true
	case len(additional) > 0:
		return open, false
	}
	left := maxAlternatives
	if parts := s.memberInParts(name, &left); len(parts) > 0 {
		// Parts that do not name the member may allow any value.
		return s.part(slices.Concat([]byte(`{"anyOf":[`), bytes.Join(parts, []byte{','}), []byte(`,{}]}`))), true
	}
	additional = rawjson.Get(s.Raw, "unevaluatedProperties")
	switch {
	case rawjson.IsObject(additional):
		return s.part(additional), true
	case string(bytes.TrimSpace(additional)) == "true", len(s.siblings) > 0, has(s.Raw, applicators...):
		return open, true
	}
	// A schema without properties allows any. One with properties is assumed to list all of them, although JSON Schema
	// allows further ones: another name is far more often a mistake.
	return open, !declares && len(additional) == 0
}

// memberInParts returns the schemas of a member in the parts of s, of which at most *left are examined.
func (s Schema) memberInParts(name string, left *int) [][]byte {
	var all [][]byte
	for part := range s.parts() {
		if *left--; *left < 0 {
			break
		}
		if !part.exists() {
			continue
		}
		for _, raw := range append(part.memberInParts(name, left),
			rawjson.Get(rawjson.Get(part.Raw, "properties"), name)) {
			if raw != nil && !slices.ContainsFunc(all, func(known []byte) bool { return bytes.Equal(known, raw) }) {
				all = append(all, raw)
			}
		}
	}
	return all
}

// maxAlternatives is the maximum number of alternatives that are examined: a schema that refers to itself has any
// number.
const maxAlternatives = 100

// Alternatives returns the schemas of which a value conforms to one, each without alternatives of its own.
func (s Schema) Alternatives() []Schema {
	left := maxAlternatives
	return s.expand(&left)
}

// expand is Alternatives, of which at most *left are examined.
func (s Schema) expand(left *int) []Schema {
	if *left--; *left < 0 || !s.exists() {
		return nil
	}
	for _, key := range []string{"anyOf", "oneOf"} {
		list := rawjson.Get(s.Raw, key)
		if list == nil || len(s.Types()) == 1 {
			continue
		}
		var all []Schema
		for raw := range rawjson.Elements(list) {
			all = append(all, s.part(raw).expand(left)...)
			if *left < 0 {
				break
			}
		}
		return all
	}
	return []Schema{s}
}

// Object returns the alternative that is an object, if there is only one.
func (s Schema) Object() Schema {
	var objects []Schema
	for _, alternative := range s.Alternatives() {
		if types := alternative.Types(); len(types) == 0 || slices.Contains(types, "object") {
			objects = append(objects, alternative)
		}
	}
	if len(objects) == 1 {
		return objects[0]
	}
	return s
}

// Types returns the types that a schema names or implies. If there are none, every type is allowed.
func (s Schema) Types() []string {
	named := rawjson.Get(s.Raw, "type")
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
	case rawjson.Get(s.Raw, "properties") != nil:
		types = []string{"object"}
	case rawjson.Get(s.Raw, "items") != nil:
		types = []string{"array"}
	}
	return types
}

// Choices returns the values that a schema allows, as JSON, or nil if it does not list them.
func (s Schema) Choices() [][]byte {
	if c := rawjson.Get(s.Raw, "const"); c != nil {
		return [][]byte{c}
	}
	return slices.Collect(rawjson.Elements(rawjson.Get(s.Raw, "enum")))
}

// A Choice is a value with the title that people see.
type Choice struct{ Value, Title string }

// TitledChoices returns the choices of a field of a form, or of its items, that have titles: oneOf, anyOf, or enumNames
// of 2025-06-18.
func (s Schema) TitledChoices() []Choice {
	var list []Choice
	names := slices.Collect(rawjson.Elements(rawjson.Get(s.Raw, "enumNames")))
	for i, v := range s.Choices() {
		if i < len(names) {
			list = append(list, Choice{Value(v), Value(names[i])})
		}
	}
	for _, in := range []Schema{s, s.Get("items")} {
		for _, key := range []string{"oneOf", "anyOf"} {
			for raw := range rawjson.Elements(rawjson.Get(in.Raw, key)) {
				if title, ok := rawjson.String(rawjson.Get(raw, "title")); ok && rawjson.Get(raw, "const") != nil {
					list = append(list, Choice{Value(rawjson.Get(raw, "const")), title})
				}
			}
		}
	}
	return list
}

// Value returns a JSON value for people: a string as its text.
func Value(raw []byte) string {
	if text, ok := rawjson.String(raw); ok {
		return text
	}
	return string(rawjson.AppendLine(nil, raw))
}
