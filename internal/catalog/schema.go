package catalog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/mcpbridge/mcpbridge/internal/limits"
	"github.com/mcpbridge/mcpbridge/internal/rawjson"
)

// The limits of schemas that cannot be set.
const (
	maxSchemaDepth = 128
	// maxExponent and maxDigits are the largest number that is compared: a number of a few bytes can be one of millions of
	// digits, and the library takes it at its word.
	maxExponent = 400
	maxDigits   = 1_000
	// maxArguments and maxOutput are how many bytes the values in a value may take that is decoded for the library, besides their text.
	// Text of many small values would take forty times as much. Anybody sends arguments, which people and models write; results are of
	// the backend, and may be large tables.
	maxArguments = 4 << 20
	maxOutput    = 64 << 20
)

// anyObject is the schema of tools that have none.
var anyObject = []byte(`{"type":"object"}`)

// A schema is a JSON Schema that is compiled when it is first needed. It may be used concurrently, and is the same for all
// tools and callers that have the same text.
type schema struct {
	text []byte
	// most is how many schemas may be in it so that it is compiled, which cannot be interrupted: 50 ms for 2,000 plain
	// ones.
	most int

	once sync.Once
	// anyObject says that every object conforms.
	anyObject bool
	quick     *quick
	full      *jsonschema.Schema
	// names are those of the properties of schemas that have several, in the order of their author, which is that of most values too.
	names map[*jsonschema.Schema][]string
	// meter bounds what the library does.
	meter *meter
	// err is why it cannot be used. skipped is what is left out of it.
	err, skipped error

	told sync.Once // that it cannot be used

	repeated repeated
}

// accepts reports whether value surely conforms, or there is no way to know.
func (s *schema) accepts(value []byte) bool {
	s.once.Do(s.compile)
	switch {
	case s.err != nil:
		return true
	case len(value) == 0:
		return false
	case s.anyObject && value[0] == '{':
		return true
	}
	return s.quick.accepts(value)
}

// check returns why value, which is on a side of a call, does not conform or could not be compared, or nil if it does.
func (s *schema) check(ctx context.Context, value []byte, of side) *violation {
	if s.accepts(value) {
		return nil
	}
	if len(value) == 0 {
		return refusal("expected one, got nothing")
	}
	if !of.checked {
		if err := rawjson.Check(value); err != nil {
			return refusal("it is not JSON: " + rawjson.Shorten(err.Error()))
		}
	}
	if footprint(value) > of.most {
		return undecided("", "it is too large to be compared with the schema: it would take more than %d MiB of memory", of.most>>20)
	}
	decoded, err := jsonschema.UnmarshalJSON(bytes.NewReader(value))
	if err != nil {
		return refusal("it is not JSON: " + rawjson.Shorten(err.Error()))
	}
	if where, ok := sane(decoded); !ok {
		return undecided(where, "expected a number of at most %d digits", maxDigits)
	}
	return s.decide(ctx, decoded)
}

// Misfit returns why a JSON value does not conform to a schema, or "" if it does or nobody knows.
func Misfit(text, value []byte) string {
	s := &schema{text: text, most: limits.Limits{}.OrDefaults().Subschemas}
	wrong := s.check(context.Background(), value, input)
	if wrong == nil || wrong.undecided {
		return ""
	}
	return wrong.problems[0].text
}

// decide returns what the library says.
func (s *schema) decide(ctx context.Context, decoded any) *violation {
	err := s.meter.validate(ctx, s.full, decoded)
	var invalid *jsonschema.ValidationError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &invalid):
		return s.explain(decoded, invalid)
	case errors.Is(err, errTooMuchWork):
		return undecided("", "it takes too long to be compared with the schema: more than about 100 ms")
	}
	return undecided("", "%s", rawjson.Shorten(err.Error()))
}

// location is where the library thinks a schema is. References are relative to it.
const location = "mcpbridge://tool/schema.json"

var errExternal = errors.New("it refers to a schema outside of it, which is never fetched")

// outside is where the library would get other schemas from.
type outside struct{}

// Load implements jsonschema.URLLoader.
func (outside) Load(string) (any, error) { return nil, errExternal }

// compile makes the schema ready for use.
func (s *schema) compile() {
	defer func() {
		if r := recover(); r != nil {
			s.err = fmt.Errorf("the library gives up on it: %v", r)
		}
	}()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(s.text))
	if err != nil {
		s.err = err
		return
	}
	if weigh(doc, s.most) > s.most {
		s.err = fmt.Errorf("it would take as long to compile as more than %d plain schemas, and at most %d are compiled", s.most, s.most)
		return
	}
	if where, ok := sane(doc); !ok {
		s.err = fmt.Errorf("it has a number of more than %d digits at %q", maxDigits, where)
		return
	}
	if s.err = knownDialect(doc); s.err != nil {
		return
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.UseLoader(outside{})
	s.meter = newMeter()
	c.UseRegexpEngine(onceEachPattern(s.meter.compilePattern))
	if s.err = c.AddResource(location, doc); s.err != nil {
		return
	}
	full, err := c.Compile(location)
	if err != nil {
		s.err = err
		if l := (*jsonschema.LoadURLError)(nil); errors.As(err, &l) {
			s.err = fmt.Errorf("%w: %q", errExternal, rawjson.Shorten(strings.TrimPrefix(l.URL, "mcpbridge://tool/")))
		}
		return
	}
	roots := []*jsonschema.Schema{full}
	var anchors []string
	if bytes.Contains(s.text, []byte("$dynamicAnchor")) {
		anchors = dynamic(doc)
	}
	for _, at := range anchors {
		if anchored, err := c.Compile(location + "#" + at); err == nil {
			roots = append(roots, anchored)
		}
	}
	all, err := s.adapt(roots)
	if err != nil {
		s.err = err
		return
	}
	s.full = full
	s.quick = quickMaker{s, map[*jsonschema.Schema]*quick{}}.of(full)
	s.meter.attach(all)
	q := s.quick
	s.anyObject = q.allows(tObject) && !q.unsure && q.enum == nil && q.all == nil && q.some == nil && q.props == nil && q.additional == nil
}

// dialects are the values of $schema that are known, without http: or https: and an empty fragment.
var dialects = map[string]bool{
	"json-schema.org/schema": true, "json-schema.org/draft/2020-12/schema": true, "json-schema.org/draft/2019-09/schema": true,
	"json-schema.org/draft-07/schema": true, "json-schema.org/draft-06/schema": true, "json-schema.org/draft-04/schema": true,
}

func knownDialect(doc any) error {
	object, _ := doc.(map[string]any)
	name, ok := object["$schema"].(string)
	if !ok {
		return nil
	}
	bare := strings.TrimSuffix(strings.TrimPrefix(strings.TrimPrefix(name, "http://"), "https://"), "#")
	if !dialects[bare] {
		return fmt.Errorf("it is of a dialect that is not known: %q", rawjson.Shorten(name))
	}
	return nil
}

// onceEachPattern returns what compiles each text once: the library does so to see whether it can, and again for every use.
func onceEachPattern(compile jsonschema.RegexpEngine) jsonschema.RegexpEngine {
	made := map[string]jsonschema.Regexp{}
	return func(text string) (jsonschema.Regexp, error) {
		if re := made[text]; re != nil {
			return re, nil
		}
		re, err := compile(text)
		if err == nil {
			made[text] = re
		}
		return re, err
	}
}

// order returns the names of a schema's properties in the order of its author, if that is known.
func (s *schema) order(of *jsonschema.Schema) []string {
	if names := s.names[of]; len(names) == len(of.Properties) {
		return names
	}
	return slices.Sorted(maps.Keys(of.Properties))
}

// adapt makes a compiled schema say what schemas say here: a format asserts nothing, as 2020-12 has it, whatever the dialect;
// a pattern that cannot be compiled is left out where that only makes the schema accept more, and otherwise an error. It returns all
// schemas that can be reached.
func (s *schema) adapt(roots []*jsonschema.Schema) (all []*jsonschema.Schema, err error) {
	s.names = map[*jsonschema.Schema][]string{}
	whole := layoutOf(s.text)
	var unknown *pattern
	delicate := false
	seen := map[*jsonschema.Schema]bool{}
	add := func(more ...*jsonschema.Schema) {
		for _, m := range more {
			if m != nil && !seen[m] {
				seen[m] = true
				all = append(all, m)
			}
		}
	}
	add(roots...)
	for i := 0; i < len(all); i++ { //nolint:intrange // all grows
		at := all[i]
		at.Format = nil
		if where, ok := strings.CutPrefix(at.Location, location+"#"); ok && len(at.Properties) > 1 {
			if l := whole.at(strings.TrimPrefix(where+"/properties", "/")); l != nil {
				s.names[at] = l.names
			}
		}
		if p, ok := at.Pattern.(*pattern); ok && p.re == nil {
			unknown, at.Pattern = p, nil
		}
		for re := range at.PatternProperties {
			if p, ok := re.(*pattern); ok && p.re == nil {
				unknown, delicate = p, true
			}
		}
		// What is left out of these makes the schema refuse more.
		delicate = delicate || at.Not != nil || len(at.OneOf) > 0 || at.If != nil || at.MaxContains != nil ||
			at.UnevaluatedItems != nil || at.UnevaluatedProperties != nil
		eachChild(at, add)
	}
	switch {
	case unknown == nil:
		return all, nil
	case delicate:
		return nil, fmt.Errorf("it has a regular expression that Go has not: %q", rawjson.Shorten(unknown.text))
	}
	s.skipped = fmt.Errorf("it has a regular expression that Go has not: %q", rawjson.Shorten(unknown.text))
	return all, nil
}

// dynamic returns where a document has dynamic anchors: what they are at may be referred to by nothing that can be followed
// beforehand.
func dynamic(doc any) []string {
	var found []string
	in := func(step string, value any) {
		for _, at := range dynamic(value) {
			found = append(found, "/"+url.PathEscape(pointerEscapes.Replace(step))+at)
		}
	}
	switch doc := doc.(type) {
	case map[string]any:
		if _, ok := doc["$dynamicAnchor"]; ok {
			found = append(found, "")
		}
		for name, value := range doc {
			in(name, value)
		}
	case []any:
		for i, value := range doc {
			in(strconv.Itoa(i), value)
		}
	}
	return found
}

var (
	pointerEscapes = strings.NewReplacer("~", "~0", "/", "~1")
	pointerNames   = strings.NewReplacer("~0", "~", "~1", "/")
)

// eachChild passes on every schema that s refers to.
func eachChild(s *jsonschema.Schema, f func(...*jsonschema.Schema)) {
	inPlace(s, f)
	for _, child := range s.Properties {
		f(child)
	}
	for _, child := range s.PatternProperties {
		f(child)
	}
	for _, a := range []any{s.AdditionalProperties, s.Items, s.AdditionalItems} {
		switch a := a.(type) {
		case *jsonschema.Schema:
			f(a)
		case []*jsonschema.Schema:
			f(a...)
		}
	}
	f(s.PropertyNames, s.UnevaluatedProperties, s.Contains, s.Items2020, s.UnevaluatedItems, s.ContentSchema)
	f(s.PrefixItems...)
}

// inPlace passes on every schema that s asks about the same value.
func inPlace(s *jsonschema.Schema, f func(...*jsonschema.Schema)) {
	f(s.Ref, s.RecursiveRef, s.Not, s.If, s.Then, s.Else)
	if s.DynamicRef != nil {
		f(s.DynamicRef.Ref)
	}
	f(s.AllOf...)
	f(s.AnyOf...)
	f(s.OneOf...)
	for _, child := range s.DependentSchemas {
		f(child)
	}
	for _, d := range s.Dependencies {
		if child, ok := d.(*jsonschema.Schema); ok {
			f(child)
		}
	}
}
