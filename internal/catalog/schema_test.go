package catalog

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/mcpbridge/mcpbridge/internal/bridgetest"
	"github.com/mcpbridge/mcpbridge/internal/bridgetest/fuzzing"
	"github.com/mcpbridge/mcpbridge/internal/rawjson"
)

var update = flag.Bool("update", false, "write what the tests find to their golden files")

// A verdict is a block of testdata/verdicts.txt: a schema, arguments and the result of their validation.
type verdict struct{ schema, arguments, want string }

const verdictsFile = "testdata/verdicts.txt"

func verdicts(tb testing.TB) (intro string, all []verdict) {
	tb.Helper()
	text, err := os.ReadFile(filepath.FromSlash(verdictsFile))
	if err != nil {
		tb.Fatal(err)
	}
	var schema string
	for block := range strings.SplitSeq(strings.TrimSpace(string(text)), "\n\n") {
		if strings.HasPrefix(block, "#") {
			intro = block + "\n\n"
			continue
		}
		lines := strings.SplitN(block, "\n", 3)
		if s, ok := strings.CutPrefix(lines[0], "schema    "); ok {
			schema = s
			lines = lines[1:]
		}
		v := verdict{schema: schema}
		var ok bool
		if v.arguments, ok = strings.CutPrefix(lines[0], "arguments "); !ok {
			tb.Fatalf("%s: a block begins with %q", verdictsFile, lines[0])
		}
		if len(lines) > 1 {
			v.want = strings.Join(lines[1:], "\n")
		}
		all = append(all, v)
	}
	return intro, all
}

// got returns how the arguments were accepted, or their errors.
func (v verdict) got(ctx context.Context) string {
	s := &schema{maxSubschemas: defaults.Subschemas, text: []byte(v.schema)}
	switch {
	case s.accepts([]byte(v.arguments)) && s.err != nil:
		return "not checked: " + errText(s.err)
	case s.accepts([]byte(v.arguments)):
		return "accepted at once"
	}
	wrong := s.check(ctx, []byte(v.arguments), output)
	if wrong == nil {
		return "accepted"
	}
	return "refused:" + wrong.lines("the arguments") + "\n" + s.signature("f")
}

func TestVerdicts(t *testing.T) {
	intro, all := verdicts(t)
	golden := bytes.NewBufferString(intro)
	schema := ""
	for _, v := range all {
		got := v.got(t.Context())
		if got != v.want && !*update {
			t.Errorf("schema %s\narguments %s: (-want +got)\n%s", v.schema, v.arguments, cmp.Diff(v.want, got))
		}
		if v.schema != schema {
			schema = v.schema
			fmt.Fprintf(golden, "schema    %s\n", schema)
		}
		fmt.Fprintf(golden, "arguments %s\n%s\n\n", v.arguments, got)
	}
	if *update {
		text := append(bytes.TrimSpace(golden.Bytes()), '\n')
		if err := os.WriteFile(filepath.FromSlash(verdictsFile), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// FuzzFastValidator checks that the library accepts all values that the fast validator accepts.
func FuzzFastValidator(f *testing.F) {
	_, all := verdicts(f)
	for _, v := range all {
		f.Add([]byte(v.schema), []byte(v.arguments))
	}
	fuzzing.Run(f, func(t *testing.T, text, value []byte) {
		if len(text) > 4096 || len(value) > 4096 || rawjson.Check(text) != nil || rawjson.Check(value) != nil {
			return
		}
		s := &schema{maxSubschemas: defaults.Subschemas, text: text}
		quickly := s.accepts(value)
		if s.err != nil {
			return
		}
		decoded, err := jsonschema.UnmarshalJSON(bytes.NewReader(value))
		if err != nil {
			t.Fatalf("%s passed the check, and the library rejects it: %v", value, err)
		}
		if _, ok := checkNumbers(decoded); !ok {
			return
		}
		if wrong := s.decide(t.Context(), decoded); quickly && wrong != nil && !wrong.undecided {
			t.Errorf("schema %s\nvalue %s\nis accepted by the fast validator; the library returned:%s", text, value,
				wrong.lines("value"))
		}
		s.signature("f")
	})
}

// A keyword that the library adds must be handled in needsLibrary, eachChild and costOf before it is used.
func TestEveryKeywordOfTheLibraryHasACost(t *testing.T) {
	known := strings.Fields(
		`DraftVersion Location Bool ID Ref Anchor RecursiveRef RecursiveAnchor DynamicRef DynamicAnchor Types Enum Const
		Not AllOf AnyOf OneOf If Then Else Format MaxProperties MinProperties Required PropertyNames Properties
		PatternProperties AdditionalProperties Dependencies DependentRequired DependentSchemas UnevaluatedProperties
		MinItems MaxItems UniqueItems Contains MinContains MaxContains Items AdditionalItems PrefixItems Items2020
		UnevaluatedItems MinLength MaxLength Pattern ContentEncoding ContentMediaType ContentSchema Maximum Minimum
		ExclusiveMaximum ExclusiveMinimum MultipleOf Extensions Title Description Default
		Comment ReadOnly WriteOnly Examples Deprecated`)
	typ := reflect.TypeFor[jsonschema.Schema]()
	for f := range typ.Fields() {
		if f.IsExported() && !slices.Contains(known, f.Name) {
			t.Errorf("the library supports a new keyword: %s", f.Name)
		}
	}
}

// Each value of a schema is passed on once, however deep it is, because the receiver visits all of it.
func TestSchemaValuesAreVisitedOnce(t *testing.T) {
	for _, text := range []string{
		`{"type":"object","$ref":"#","x":[` + commas(9_900, always(`[]`)) + `]}` + strings.Repeat(" ", 220_000),
		strings.Repeat(`{"a":`, 100) + `{}` + strings.Repeat(`}`, 100), ` { "a" : [ 1 , "b" , true ] } `,
	} {
		passed, values := 0, 0
		each([]byte(text), func(name, value []byte, _ int) {
			passed += len(name) + len(value)
			values++
		})
		if passed > len(text) || values < 5 {
			t.Errorf("%.40s: passed on %d bytes of %d values, want at most %d", text, passed, values, len(text))
		}
	}
}

func TestSchemasAreBounded(t *testing.T) {
	repeat := strings.Repeat
	for name, c := range map[string]struct{ text, want string }{
		"bytes": {`{"description":"` + repeat("x", defaults.Schema) + `"}`, "too large: 262162 bytes"},
		"nodes": {`{"enum":[` + repeat("0,", defaults.SchemaValues) + `0]}`, "too large: 10003 values"},
		"depth": {repeat(`{"not":`, maxSchemaDepth) + `{}` + repeat(`}`, maxSchemaDepth), "nested deeper than 128"},
		"array": {`[]`, "not a JSON object"},
		"text":  {`{"type":"object"`, "not JSON"},
		"twice": {`{"type":"object","type":"object"}`, "not JSON: byte 17: duplicate name"},
		"fine":  {`{"enum":[` + repeat("0,", defaults.SchemaValues-3) + `0]}`, ""},
	} {
		err := New(nil, Options{}).checkSchema([]byte(c.text))
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	many := &schema{
		maxSubschemas: defaults.Subschemas,
		text:          []byte(`{"type":"object","allOf":[` + repeat("true,", defaults.Subschemas) + `true]}`),
	}
	if !many.accepts([]byte(`{}`)) || many.err == nil ||
		!strings.Contains(many.err.Error(), "it takes longer to compile than 2000 plain schemas") {
		t.Errorf("many subschemas: %v", many.err)
	}
}

// Each of these is a small schema that would keep the library busy for a very long time, or crash the process.
func TestExpensiveSchemasAreNotUsed(t *testing.T) {
	var doubling strings.Builder
	for i := range 60 {
		fmt.Fprintf(&doubling, `"d%d":{"allOf":[{"$ref":"#/$defs/d%d"},{"$ref":"#/$defs/d%d"}],"minProperties":1},`, i,
			i+1, i+1)
	}
	deep := strings.Repeat(`{"a":`, 60) + `{}` + strings.Repeat(`}`, 60)
	for name, c := range map[string]struct{ schema, arguments, want string }{
		"twice at every reference": {
			`{"type":"object","$ref":"#/$defs/d0","$defs":{` + doubling.String() + `"d60":{"minProperties":9}}}`,
			`{"a":1}`,
			tooMuch,
		},
		"twice at every level of the value": {
			`{"type":"object","$ref":"#/$defs/t","$defs":{"t":{"allOf":[{"properties":{"a":{"$ref":"#/$defs/t"}}},{"properties":{"a":{"$ref":"#/$defs/t"}}}],"maxProperties":1}}}`,
			deep, tooMuch,
		},
		"itself": {`{"type":"object","$ref":"#","minProperties":1}`, `{"a":1}`, "refers to itself without end"},
		"itself, by a dynamic reference": {
			`{"type":"object","$dynamicAnchor":"n","$dynamicRef":"#n"}`, `{"a":1}`, "refers to itself without end",
		},
		"a number of a billion digits": {
			`{"type":"object","properties":{"n":{"minimum":1,"not":{}}}}`,
			`{"n":1e1000000000}`, "/n: expected a number of at most 1000 digits",
		},
		"a small number of many digits": {
			`{"type":"object","properties":{"n":{"multipleOf":0.5}}}`,
			`{"n":1e-999999}`, "/n: expected a number of at most 1000 digits",
		},
		"a number of more than all digits": {
			`{"type":"object","properties":{"n":{"uniqueItems":true}}}`,
			`{"n":[1e99999999999999999999,2]}`, "/n/0: expected a number of at most 1000 digits",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := &schema{maxSubschemas: defaults.Subschemas, text: []byte(c.schema)}
			wrong := s.check(t.Context(), []byte(c.arguments), output)
			if s.err != nil || wrong == nil || !strings.Contains(wrong.lines("it"), c.want) {
				t.Errorf("%v, %v; want %q", s.err, wrong, c.want)
			}
		})
	}
	for name, c := range map[string]struct{ schema, want string }{
		"number": {`{"type":"object","properties":{"n":{"minimum":1e999999999}}}`, "a number of more than 1000 digits"},
		"length": {
			`{"type":"object","properties":{"n":{"minLength":1e999999999}}}`,
			"a number of more than 1000 digits",
		},
	} {
		s := &schema{maxSubschemas: defaults.Subschemas, text: []byte(c.schema)}
		if !s.accepts([]byte(`{"n":1}`)) || s.err == nil || !strings.Contains(s.err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, s.err, c.want)
		}
	}
}

func TestMessagesAreBounded(t *testing.T) {
	var properties, arguments []string
	for i := range 500 {
		name := fmt.Sprintf("%s%d", strings.Repeat("é", 200), i)
		properties = append(properties, fmt.Sprintf(`%q:{"type":"integer","enum":[1,2,3]}`, name))
		arguments = append(arguments, fmt.Sprintf(`%q:%q`, name, strings.Repeat("x", 10_000)))
	}
	s := &schema{
		maxSubschemas: defaults.Subschemas,
		text:          []byte(`{"type":"object","properties":{` + strings.Join(properties, ",") + `}}`),
	}
	wrong := s.check(t.Context(), []byte(`{`+strings.Join(arguments, ",")+`}`), output)
	if wrong == nil {
		t.Fatalf("accepted: %v", s.err)
	}
	lines, signature := wrong.lines("it"), s.signature("f")
	if len(lines) > 8<<10 || !strings.Contains(lines, "and 488 more") || len(signature) > maxSignature+10 {
		t.Errorf("%d bytes of problems, %d of signature:\n%s", len(lines), len(signature), lines)
	}
	if strings.ToValidUTF8(lines+signature, "?") != lines+signature {
		t.Error("the text was truncated inside a character")
	}
}

func TestReferencesDoNotReadFiles(t *testing.T) {
	file := filepath.Join(t.TempDir(), "s.json")
	if err := os.WriteFile(file, []byte(`{"type":"string"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, ref := range []string{
		"file://" + file, file, "s.json", "../../etc/passwd", "https://example.com/s.json",
		"urn:x",
	} {
		s := &schema{
			maxSubschemas: defaults.Subschemas,
			text:          []byte(`{"type":"object","properties":{"a":{"$ref":"` + ref + `"}}}`),
		}
		if !s.accepts([]byte(`{"a":1}`)) || s.err == nil || !strings.Contains(s.err.Error(), errExternal.Error()) {
			t.Errorf("%s: %v", ref, s.err)
		}
		if New(nil, Options{}).external(s.text) == nil {
			t.Errorf("%s was not classified as external", ref)
		}
	}
	for _, text := range []string{
		`{"$ref":"#/$defs/a","$defs":{"a":{"type":"object"}}}`,
		`{"$id":"https://example.com/a","$ref":"b","$defs":{"b":{"$id":"b","type":"object"}}}`,
		`{"properties":{"$ref":{"type":"string"}},"default":{"$ref":"x"}}`,
		`{"$ref":"https://json-schema.org/draft/2020-12/schema"}`,
	} {
		if err := New(nil, Options{}).external([]byte(text)); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// FuzzFastValidatorOfManySchemas checks the same as FuzzFastValidator for schemas and nearly valid values generated
// from a seed.
func FuzzFastValidatorOfManySchemas(f *testing.F) {
	bridgetest.SkipIfShort(f)
	for seed := range uint64(1 + 500/(1+fuzzing.Variants)) {
		f.Add(seed)
	}
	fuzzing.Run(f, func(t *testing.T, seed uint64) {
		g := generator{rand.New(rand.NewPCG(seed, 1))}
		text := g.schema(3)
		s := &schema{maxSubschemas: defaults.Subschemas, text: text}
		s.once.Do(s.compile)
		if s.err != nil {
			t.Fatalf("%s: %v", text, s.err)
		}
		for range 20 {
			value := g.value(s.full, 4)
			decoded, err := jsonschema.UnmarshalJSON(bytes.NewReader(value))
			if err != nil {
				t.Fatalf("%s: %v", value, err)
			}
			quickly, wrong := s.accepts(value), s.decide(t.Context(), decoded)
			if quickly && wrong != nil {
				t.Errorf("schema %s\nvalue %s\nis accepted by the fast validator; the library returned:%s", text, value,
					wrong.lines("value"))
			}
		}
	})
}

// A generator makes random schemas and values.
type generator struct{ *rand.Rand }

func (g generator) one(of ...string) string { return of[g.IntN(len(of))] }

func (g generator) name() string { return g.one("a", "b", "c", "d", "é", "e\\u0066") }

func (g generator) scalar() string {
	return g.one("0", "1", "2", "3", "-1", "1.0", "2.5", "1e1", "-0.0", "9007199254740992", "9007199254740993", "1e400",
		"0.1", "null",
		"true", "false", `""`, `"a"`, `"ab"`, `"é"`, `"\u00e9"`, `"\ud83d\ude00x"`, `"a\"b\\"`,
		`"0123456789012345678901234567890"`)
}

func (g generator) list(n int, f func() string) string {
	var all []string
	for range n {
		all = append(all, f())
	}
	return strings.Join(all, ",")
}

func (g generator) bound() string {
	return g.one("0", "1", "2", "2.5", "-1", "9007199254740992", "1e300", "0.1", "1.0")
}

func (g generator) schema(levels int) []byte {
	return []byte(`{"$schema":"https://` +
		g.one("json-schema.org/draft/2020-12/schema", "json-schema.org/draft-07/schema") +
		`","$defs":{"d":` + g.sub(1) + `},"definitions":{"d":` + g.sub(1) + `},` + g.sub(levels)[1:])
}

// sub returns a schema with at least one member.
func (g generator) sub(levels int) string {
	members := map[string]string{}
	for range 1 + g.IntN(4) {
		switch g.IntN(22) {
		case 0, 1, 2:
			members["type"] = g.one(`"object"`, `"array"`, `"string"`, `"integer"`, `"number"`, `"boolean"`, `"null"`,
				`["string","null"]`, `["integer","object"]`)
		case 3, 4, 5:
			props := map[string]string{}
			for range 1 + g.IntN(4) {
				props[g.name()] = g.nested(levels)
			}
			members["properties"] = jsonObject(props)
		case 6, 7:
			names := map[string]string{}
			for range 1 + g.IntN(2) {
				names[`"`+g.name()+`"`] = ""
			}
			members["required"] = "[" + strings.Join(slices.Sorted(maps.Keys(names)), ",") + "]"
		case 8:
			members["additionalProperties"] = g.one("true", "false", g.nested(levels))
		case 9, 10:
			members["items"] = g.nested(levels)
		case 11:
			members[g.one("minItems", "maxItems")] = g.one("0", "1", "2", "1.0")
		case 12:
			members[g.one("minLength", "maxLength")] = g.one("0", "1", "2", "30")
		case 13, 14:
			members[g.one("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")] = g.bound()
		case 15:
			members["multipleOf"] = g.one("1", "2", "0.1", "1e300")
		case 16:
			members["enum"] = "[" + g.list(1+g.IntN(3), g.scalar) + "]"
			if strings.Count(members["enum"], ",") > 0 {
				members["enum"] = g.one(`[1,"a",null]`, `[1.0,true]`, `["é","ab",false,9007199254740993]`,
					`[{"a":1},2]`)
			}
		case 17:
			members["const"] = g.scalar()
		case 18:
			members[g.one("anyOf", "allOf", "oneOf")] = "[" +
				g.list(1+g.IntN(2), func() string { return g.nested(levels) }) + "]"
		case 19:
			members["$ref"] = g.one(`"#/$defs/d"`, `"#/definitions/d"`)
		case 20:
			members["pattern"] = g.one(`"^a"`, `"b$"`, `"é"`)
		case 21:
			members[g.one("format", "title", "x-unknown")] = `"date"`
		}
	}
	return jsonObject(members)
}

func (g generator) nested(levels int) string {
	if levels == 0 || g.IntN(8) == 0 {
		return g.one("true", "{}", `{"type":"string"}`, `{"type":"integer"}`, "false")
	}
	// In a definition, references could be circular.
	return strings.ReplaceAll(g.sub(levels-1), `"$ref"`, `"x-ref"`)
}

func jsonObject(members map[string]string) string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(members)) {
		all = append(all, `"`+name+`":`+members[name])
	}
	return "{" + strings.Join(all, ",") + "}"
}

// value returns a value that may be valid for a schema.
func (g generator) value(s *jsonschema.Schema, levels int) []byte {
	if levels == 0 || s == nil || g.IntN(6) == 0 {
		return []byte(g.scalar())
	}
	space := g.one("", "", " ", "\n\t")
	switch {
	case s.Enum != nil && g.IntN(2) == 0:
		return []byte(show(s.Enum.Values[g.IntN(len(s.Enum.Values))]))
	case s.Const != nil && g.IntN(2) == 0:
		return []byte(show(*s.Const))
	case s.Ref != nil && g.IntN(2) == 0:
		return g.value(s.Ref, levels-1)
	case len(s.AnyOf) > 0 && g.IntN(2) == 0:
		return g.value(s.AnyOf[0], levels-1)
	case s.Items2020 != nil || s.Items != nil || g.IntN(8) == 0:
		items, _ := s.Items.(*jsonschema.Schema)
		if s.Items2020 != nil {
			items = s.Items2020
		}
		return []byte("[" + space +
			g.list(g.IntN(4), func() string { return string(g.value(items, levels-1)) + space }) + "]")
	case len(s.Properties) > 0 || len(s.Required) > 0 || s.AdditionalProperties != nil || g.IntN(4) == 0:
		members := map[string]string{}
		for _, name := range append(slices.Sorted(maps.Keys(s.Properties)), s.Required...) {
			if g.IntN(5) > 0 {
				members[name] = string(g.value(s.Properties[name], levels-1)) + space
			}
		}
		if g.IntN(3) == 0 {
			members["more"] = string(g.value(nil, 0))
		}
		return []byte(space + jsonObject(members) + space)
	}
	return []byte(g.scalar())
}

// Unvalidated text may have a duplicate name; a required property that appears twice counts once.
func TestDuplicatePropertyCountsOnce(t *testing.T) {
	s := &schema{maxSubschemas: defaults.Subschemas, text: []byte(`{"type":"object","required":["a","b"]}`)}
	if s.accepts([]byte(`{"a":1,"a":2}`)) {
		t.Error("accepted")
	}
}
