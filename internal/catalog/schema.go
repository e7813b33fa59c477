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

// The limits of schemas that are not configurable.
const (
	maxSchemaDepth = 128
	// maxExponent and maxDigits limit numbers: a number of a few bytes can have millions of digits, which the library
	// would compute.
	maxExponent = 400
	maxDigits   = 1_000
	// maxArguments and maxOutput are the maximum sizes in bytes of a decoded value, in addition to its text: many small
	// values take forty times the size of the text. Arguments come from any client, and are written by people and
	// models; results come from the backend, and may be large tables.
	maxArguments = 4 << 20
	maxOutput    = 64 << 20
)

// anyObject is the schema of tools without one.
var anyObject = []byte(`{"type":"object"}`)

// A schema is a JSON Schema that is compiled on first use. It may be used concurrently, and is shared by all tools and
// callers with the same text.
type schema struct {
	text []byte
	// maxSubschemas is the maximum number of subschemas, because compilation cannot be interrupted: it takes 50 ms with
	// 2,000 simple ones.
	maxSubschemas int

	once sync.Once
	// anyObject means that every object conforms.
	anyObject bool
	fast      *fastValidator
	full      *jsonschema.Schema
	// names has the property names of each subschema with several, in the order of the text. Most values have the same
	// order.
	names map[*jsonschema.Schema][]string
	// meter limits the work of the library.
	meter *meter
	// err is the reason why the schema cannot be used. skipped describes the part of it that is ignored.
	err, skipped error

	warned sync.Once // guards the warning that the schema cannot be used

	repeated repeated
}

// accepts reports whether value certainly conforms, or validation is impossible.
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
	return s.fast.accepts(value)
}

// check returns why value, of the given side, does not conform or is undecidable, or nil if it conforms.
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
	if footprint(value) > of.maxBytes {
		return undecided("", "it is too large to be compared with the schema: it would take more than %d MiB of memory",
			of.maxBytes>>20)
	}
	decoded, err := jsonschema.UnmarshalJSON(bytes.NewReader(value))
	if err != nil {
		return refusal("it is not JSON: " + rawjson.Shorten(err.Error()))
	}
	if where, ok := checkNumbers(decoded); !ok {
		return undecided(where, "expected a number of at most %d digits", maxDigits)
	}
	return s.decide(ctx, decoded)
}

// Misfit returns why a JSON value does not conform to a schema, or "" if it does or that is undecidable.
func Misfit(text, value []byte) string {
	s := &schema{text: text, maxSubschemas: limits.Limits{}.OrDefaults().Subschemas}
	wrong := s.check(context.Background(), value, input)
	if wrong == nil || wrong.undecided {
		return ""
	}
	return wrong.problems[0].text
}

// decide returns the library's result.
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

// location is the URL of the schema for the library. References are relative to it.
const location = "mcpbridge://tool/schema.json"

var errExternal = errors.New("it refers to a schema outside of it, which is never fetched")

// rejectingLoader is a schema loader that rejects every reference to another document.
type rejectingLoader struct{}

// Load implements jsonschema.URLLoader.
func (rejectingLoader) Load(string) (any, error) { return nil, errExternal }

// compile prepares the schema for use.
func (s *schema) compile() {
	defer func() {
		if r := recover(); r != nil {
			s.err = fmt.Errorf("the JSON Schema library failed on it: %v", r)
		}
	}()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(s.text))
	if err != nil {
		s.err = err
		return
	}
	if compileCost(doc, s.maxSubschemas) > s.maxSubschemas {
		s.err = fmt.Errorf("it takes longer to compile than %d plain schemas, which is the limit", s.maxSubschemas)
		return
	}
	if where, ok := checkNumbers(doc); !ok {
		s.err = fmt.Errorf("it has a number of more than %d digits at %q", maxDigits, where)
		return
	}
	if s.err = knownDialect(doc); s.err != nil {
		return
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.UseLoader(rejectingLoader{})
	s.meter = newMeter()
	c.UseRegexpEngine(cachePatterns(s.meter.compilePattern))
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
		anchors = dynamicAnchors(doc)
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
	s.fast = fastValidatorBuilder{s, map[*jsonschema.Schema]*fastValidator{}}.of(full)
	s.meter.attach(all)
	q := s.fast
	s.anyObject = q.allows(tObject) && !q.undecidable && q.enum == nil && q.allOf == nil && q.anyOf == nil &&
		q.props == nil && q.additional == nil
}

// dialects are the supported values of $schema, without http: or https: and an empty fragment.
var dialects = map[string]bool{
	"json-schema.org/schema": true, "json-schema.org/draft/2020-12/schema": true,
	"json-schema.org/draft/2019-09/schema": true,
	"json-schema.org/draft-07/schema":      true, "json-schema.org/draft-06/schema": true,
	"json-schema.org/draft-04/schema": true,
}

func knownDialect(doc any) error {
	object, _ := doc.(map[string]any)
	name, ok := object["$schema"].(string)
	if !ok {
		return nil
	}
	bare := strings.TrimSuffix(strings.TrimPrefix(strings.TrimPrefix(name, "http://"), "https://"), "#")
	if !dialects[bare] {
		return fmt.Errorf("its dialect is not supported: %q", rawjson.Shorten(name))
	}
	return nil
}

// cachePatterns returns a function that compiles each pattern once: the library compiles it for validation, and again
// for every use.
func cachePatterns(compile jsonschema.RegexpEngine) jsonschema.RegexpEngine {
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

// order returns the property names of a schema in their order, if known.
func (s *schema) order(of *jsonschema.Schema) []string {
	if names := s.names[of]; len(names) == len(of.Properties) {
		return names
	}
	return slices.Sorted(maps.Keys(of.Properties))
}

// adapt changes a compiled schema: format is not asserted in any dialect, as in 2020-12; a pattern that Go cannot
// compile is removed if the schema then only accepts more, and is an error otherwise. It returns all reachable schemas.
func (s *schema) adapt(roots []*jsonschema.Schema) (all []*jsonschema.Schema, err error) {
	s.names = map[*jsonschema.Schema][]string{}
	layout := layoutOf(s.text)
	var unsupported *pattern
	rejectsMore := false
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
			if l := layout.at(strings.TrimPrefix(where+"/properties", "/")); l != nil {
				s.names[at] = l.names
			}
		}
		if p, ok := at.Pattern.(*pattern); ok && p.re == nil {
			unsupported, at.Pattern = p, nil
		}
		for re := range at.PatternProperties {
			if p, ok := re.(*pattern); ok && p.re == nil {
				unsupported, rejectsMore = p, true
			}
		}
		// Without the pattern, these keywords could reject more values.
		rejectsMore = rejectsMore || at.Not != nil || len(at.OneOf) > 0 || at.If != nil || at.MaxContains != nil ||
			at.UnevaluatedItems != nil || at.UnevaluatedProperties != nil
		eachChild(at, add)
	}
	if unsupported == nil {
		return all, nil
	}
	err = fmt.Errorf("it has a regular expression that Go does not support: %q", rawjson.Shorten(unsupported.text))
	if rejectsMore {
		return nil, err
	}
	s.skipped = err
	return all, nil
}

// dynamicAnchors returns the locations of dynamic anchors, which may be reachable by dynamic references only.
func dynamicAnchors(doc any) []string {
	var found []string
	in := func(step string, value any) {
		for _, at := range dynamicAnchors(value) {
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

// eachChild calls f with every schema that s refers to.
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

// inPlace calls f with every schema that s applies to the same value.
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
