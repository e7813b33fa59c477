package catalog

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// commas joins n results of f by commas.
func commas(n int, f func(i int) string) string {
	all := make([]string, n)
	for i := range all {
		all[i] = f(i)
	}
	return strings.Join(all, ",")
}

// always returns a function that returns text for every number.
func always(text string) func(int) string { return func(int) string { return text } }

// The cost of a schema is the lowest limit that accepts it.
func TestSchemaCosts(t *testing.T) {
	repeat := strings.Repeat
	for _, c := range []struct {
		text string
		want int
	}{
		{`true`, 1},
		{`{"type":"string","description":"x"}`, 1},
		{`{"a":{"b":false}}`, 3},
		{`{"` + repeat("x", shortPath-bytesOfStep+pathOfSchema-1) + `":{}}`, 2},
		{`{"` + repeat("x", shortPath-bytesOfStep+pathOfSchema) + `":{}}`, 3},
		{`{"enum":[` + commas(5, always(`""`)) + `]}`, 1},
		{`{"enum":[` + commas(6, always(`""`)) + `]}`, 2},
		{`{"enum":[` + commas(10, always(`""`)) + `]}`, 2},
		{`{"enum":[` + commas(11, always(`""`)) + `]}`, 3},
		{`{"minimum":1,"maximum":2}`, 1},
		{`{"minimum":1,"maximum":2,"multipleOf":3}`, 2},
		{`{"minimum":` + repeat("1", shortNumber) + `}`, 1},
		{`{"minimum":` + repeat("1", shortNumber+1) + `}`, 2},
		{`{"minimum":1e5}`, 2},
		{`{"id":"x"}`, 1},
		{`{"$id":"` + repeat("x", shortID) + `"}`, 5},
		{`{"$id":"` + repeat("x", shortID+1) + `"}`, 6},
		{`{"$schema":"http://json-schema.org/draft-04/schema#","id":"x"}`, 5},
		{`{"$dynamicAnchor":"x"}`, 5},
		{`{"$ref":"#"}`, 1},
		{`{"$ref":"#a"}`, 1},
		{`{"$ref":"#/$defs/a"}`, 1},
		{`{"$ref":"#/definitions/a"}`, 1},
		{`{"$schema":"http://json-schema.org/draft-07/schema#","$ref":"#/$defs/a"}`, 5},
		{`{"$schema":"http://json-schema.org/draft-07/schema#","$ref":"#/definitions/a"}`, 1},
		{`{"allOf":[{"$ref":"#/x/a"},{"$ref":"#/x/a"}],"x":{"a":true}}`, 5 + 4 + 1},
		{`{"allOf":[{"$ref":"#/x/a"},{"$ref":"#/x/b"}],"x":{"a":true,"b":true}}`, 6 + 2*(4+1)},
		{`{"not":{"$ref":"#/x/a"},"x":{"a":{"not":{}}}}`, 5 + 4 + 2}, // and its subschemas
		{`{"not":{"$ref":"other#/x/a"},"x":{"a":{"not":{}}}}`, 5 + 4 + 5},
		{`{"not":{"$ref":"#/$defs/a"},"$defs":{"a":{"$id":"a"}}}`, 4 + 4 + 4 + 4},     // wherever the reference leads
		{`{"not":{"$ref":"#/$defs/a"},"$defs":{"a":{}},"examples":[{"$id":"a"}]}`, 5}, // IDs in data do not count
		{`{"not":{"$ref":"#/$defs/a"},"$defs":{"a":{}},"const":{"a":[{"$id":"a","$ref":"#/x/a"}]}}`, 6},
		{`{"$schema":"http://json-schema.org/draft-04/schema#","$ref":"#/definitions/a","definitions":{"a":{"default":{"id":"a"}}}}`, 4},
		// a definition named like a keyword for data is not data
		{`{"not":{"$ref":"#/$defs/default"},"$defs":{"default":{"$id":"a"}}}`, 4 + 4 + 4 + 4},
		{`{"not":{"$ref":"#/$defs/a"},"$defs":{"a":{}},"dependencies":{"enum":{"$id":"a"}}}`, 6 + 4 + 4 + 6},
		{`{"not":{"$ref":"#/$defs/a"},"$defs":{"a":{}},"x":{"enum":{"$id":"a"}}}`, 6},
		{`{"not":{"$ref":"#/$defs/a"},"$defs":{"a":{}},"default":{"properties":{"$id":"a"}}}`, 6},
		// nor is it where a reference leads to it
		{`{"not":{"$ref":"#/default"},"default":{"$id":"a"}}`, 3 + 4 + 4 + 3},
		{`{"not":{"$ref":"#/default/~0"},"default":{"~":{"$ref":"#/x"}},"x":true}`, 5 + 4 + 1 + 4 + 1},
		{`{"not":{"$ref":"#/x/enum/0"},"x":{"enum":[{"not":{"$id":"a"}}]}}`, 5 + 4 + 4 + 5},
		{
			`{"not":{"$ref":"#/$defs/a"},"$defs":{"a":{}},"examples":[{"$id":"a","$dynamicAnchor":"x"}]}`,
			5 + 4 + 4 + 4 + 5,
		},
		{`{"$ref":"#/x/0","x":[{}]}`, 2 + 4 + 1},
		{`{"$ref":"#/x/00","x":[{}]}`, maxWeight},
		{`{"$ref":"#/x/%2B0","x":[{}]}`, maxWeight},
		{`{"$ref":"#/$defs/00","$defs":[{}]}`, maxWeight},
		{`{"$ref":"#/$defs/a/not/01","$defs":{"a":{"not":[{},{}]}}}`, maxWeight},
		{`{"$ref":"#/$defs/007","$defs":{"007":{}}}`, 3}, // a member's name is not an index
		{`{"$ref":"#/x/007/not","x":{"007":{"not":{}}}}`, 4 + 4 + 1},
		// relative to an ID it may be an index
		{`{"$ref":"#/$defs/007","$defs":{"007":{},"a":{"$id":"a"}}}`, maxWeight},
		{`{"pattern":"` + repeat("x", bytesOfPattern-1) + `"}`, 2},
		{`{"pattern":"` + repeat("x", bytesOfPattern) + `"}`, 3},
		{`{"patternProperties":{"` + repeat("x", bytesOfPattern) + `":true}}`, 5},
		{`{"allOf":[{"pattern":"x"},{"pattern":"x"}]}`, 4}, // each is compiled once
		{`{"pattern":"(ab){7}"}`, 2},                       // four parts each time
		{`{"pattern":"(ab){8}"}`, 3},
		{`{"pattern":"((ab?){10}){30}"}`, 2 + ((5+1)*10+2)*30/partsOfPattern},
		{`{"pattern":"(?=x{1000})"}`, 2}, // invalid in Go, so not compiled
		{`{"pattern":"\\pL"}`, 2 + (3+bytesOfClass)/bytesOfPattern},
		{`{"pattern":"(?i)[a-z]"}`, 2},
		{`{"pattern":"[a-é]"}`, 2},
		{`{"pattern":"(?i)[a-é]"}`, 2 + (10+bytesOfFolded)/bytesOfPattern},
		{`{"pattern":"(?si:[a-\\xff])"}`, 2 + (14+bytesOfFolded)/bytesOfPattern},
	} {
		doc, err := jsonschema.UnmarshalJSON(strings.NewReader(c.text))
		if err != nil {
			t.Fatal(c.text, err)
		}
		got := compileCost(doc, defaults.Subschemas)
		if c.want < maxWeight && got != c.want || got < c.want {
			t.Errorf("%.200s costs %d, want %d", c.text, got, c.want)
		}
		for most := c.want - 1; most <= c.want+1 && c.want < maxWeight; most++ { // one below, at, one above
			if most == 0 {
				continue // 0 stands for the default
			}
			s := &schema{text: []byte(c.text), maxSubschemas: most}
			s.compile()
			if heavy := s.err != nil && strings.Contains(s.err.Error(), "plain schemas"); heavy != (most < c.want) {
				t.Errorf("%.200s of at most %d: %v", c.text, most, s.err)
			}
		}
	}
}

// The library ignores IDs in data, and reads those in maps of schemas, whatever the keys are.
func TestNamesInDataAreNotKeywords(t *testing.T) {
	for _, draft := range []struct {
		schema, id string
		old        bool
	}{
		{"https://json-schema.org/draft/2020-12/schema", "$id", false},
		{"https://json-schema.org/draft/2019-09/schema", "$id", false},
		{"http://json-schema.org/draft-07/schema#", "$id", true},
		{"http://json-schema.org/draft-06/schema#", "$id", true},
		{"http://json-schema.org/draft-04/schema#", "id", true},
	} {
		finds := func(member string) bool {
			s := &schema{
				maxSubschemas: defaults.Subschemas,
				text:          []byte(fmt.Sprintf(`{"$schema":"%s","not":{"$ref":"a"},%s}`, draft.schema, member)),
			}
			if s.compile(); s.err != nil && !errors.Is(s.err, errExternal) {
				t.Errorf("%s: %v", s.text, s.err)
			}
			return s.err == nil
		}
		for name := range isData {
			if finds(fmt.Sprintf(`"%s":[{"%s":"a"}]`, name, draft.id)) {
				t.Errorf("%s: an ID in %s was found", draft.schema, name)
			}
			for in := range isOfNames {
				known := !draft.old || in != "$defs" && in != "dependentSchemas"
				if finds(fmt.Sprintf(`"%s":{"%s":{"%s":"a"}}`, in, name, draft.id)) != known {
					t.Errorf("%s: an ID of %s in %s was found: %v", draft.schema, name, in, !known)
				}
			}
		}
	}
}

// Each of these took between a tenth of a second and hours to compile.
func TestExpensiveSchemasAreNotCompiled(t *testing.T) {
	repeat := strings.Repeat
	types := `{"allOf":[` + commas(1800, always(`{"type":"string"}`)) + `]}`
	for name, inner := range map[string]string{
		"references to elements by other names": `"allOf":[` + commas(600,
			func(i int) string { return `{"$ref":"#/x/` + repeat("0", i+2) + `"}` }) + `],"x":[` + types + `]`,
		"references to odd places": `"allOf":[` +
			commas(900, func(i int) string { return fmt.Sprintf(`{"$ref":"#/x/d%d"}`, i) }) + `],"x":{` +
			commas(900, func(i int) string { return fmt.Sprintf(`"d%d":{"type":"string"}`, i) }) + `}`,
		"references to odd places in one another": `"allOf":[` +
			commas(60, func(i int) string { return `{"$ref":"#/x` + repeat("/not", 60-i) + `"}` }) +
			`],"x":` + repeat(`{"not":`, 61) + types + repeat("}", 61),
		"a chain": `"$ref":"#/x/0","x":[` +
			commas(1900, func(i int) string { return fmt.Sprintf(`{"$ref":"#/x/%d"}`, min(i+1, 1899)) }) + `]`,
		"names of schemas": `"allOf":[` +
			commas(1900, func(i int) string { return fmt.Sprintf(`{"$id":"d%d","$ref":"d%d"}`, i, 1899-i) }) + `]`,
		"names of schemas in data": `"not":{"$ref":"#/default/0"},"default":[{"allOf":[` +
			commas(1900, func(i int) string { return fmt.Sprintf(`{"$id":"d%d","$ref":"d%d"}`, i, 1899-i) }) + `]}]`,
		"names of schemas in data with an anchor": `"default":{"$dynamicAnchor":"x","allOf":[` +
			commas(1900, func(i int) string { return fmt.Sprintf(`{"$id":"d%d","$ref":"d%d"}`, i, 1899-i) }) + `]}`,
		"below a long name": `"properties":{"` + repeat("~", 200_000) + `":` + types + `}`,
		"deep":              `"not":` + repeat(`{"allOf":[`, 58) + types + repeat("]}", 58),
		"large numbers": `"allOf":[` + commas(450,
			always(`{"enum":[`+commas(20, func(i int) string { return fmt.Sprintf("%de-400", 10_000+i) })+`]}`)) + `]`,
		"a pattern that is repeated":      `"pattern":"(` + repeat("a?", 1600) + `){1000}"`,
		"a pattern of classes":            `"pattern":"(?i)` + repeat(`\\pL`, 60_000) + `"`,
		"a pattern of ranges, of no case": `"pattern":"(?i)` + repeat(`[ -퟿]`, 16_000) + `"`,
		"patterns": `"patternProperties":{` +
			commas(1900, func(i int) string { return fmt.Sprintf(`"^x%d-[a-z]{1,%d}$":{}`, i, i%1000+1) }) + `}`,
	} {
		text := []byte(`{"$schema":"http://json-schema.org/draft-04/schema#","type":"object","required":["a"],` +
			inner + `}`)
		if err := New(nil, Options{}).checkSchema(text); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		s := &schema{maxSubschemas: defaults.Subschemas, text: text}
		if !s.accepts([]byte(`{}`)) || s.err == nil ||
			!strings.Contains(s.err.Error(), "it takes longer to compile than 2000 plain schemas") {
			t.Errorf("%s: %.300v", name, s.err)
		}
	}
}

// Schemas as people and programs write them are accepted, including large ones.
func TestOrdinarySchemasAreCompiled(t *testing.T) {
	patterns := []string{
		`^[0-9a-f]{8}-[0-9a-f]{4}-[1-8][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`,
		`^(?!\\.)(?!.*\\.\\.)([A-Za-z0-9_'+\\-\\.]*)[A-Za-z0-9_+-]@([A-Za-z0-9][A-Za-z0-9\\-]*\\.)+[A-Za-z]{2,}$`,
		`^\\d{4}-\\d{2}-\\d{2}T\\d{2}:\\d{2}:\\d{2}(\\.\\d+)?(Z|[+-]\\d{2}:\\d{2})$`, `^[\\p{L}\\p{N} .'-]{1,200}$`,
		`(?i)^[a-z0-9-]{1,63}$`,
	}
	def := func(i int) string {
		return fmt.Sprintf(`"D%d":{"type":"object","title":"Some object","description":"What it is for.","properties":{"id":{"type":"string","pattern":"%s"},
			"size":{"type":"integer","minimum":0,"maximum":9007199254740991,"default":0},"mode":{"enum":["a","b","c"]},
			"next":{"anyOf":[{"$ref":"#/PLACE/D%d"},{"type":"null"}]}},"required":["id"],"additionalProperties":false}`, i, patterns[i%len(patterns)], (i+1)%100)
	}
	uses := func(n int, ref string) string {
		return commas(n, func(i int) string {
			return fmt.Sprintf(`"p%d":{"$ref":"`+ref+`","description":"x"}`, i,
				i%100)
		})
	}
	for name, c := range map[string]string{
		"definitions": `"properties":{` + uses(500, "#/$defs/D%d") + `},"$defs":{` + commas(100, def) + `}`,
		"of draft 7": `"$schema":"http://json-schema.org/draft-07/schema#","properties":{` +
			uses(400, "#/definitions/D%d") + `},"definitions":{` + commas(100, def) + `}`,
		"properties": `"properties":{"first":{"type":"object","properties":{` +
			commas(100, func(i int) string { return fmt.Sprintf(`"D%d":{"type":"string"}`, i) }) +
			`}},` + uses(300, "#/properties/first/properties/D%d") + `}`,
		"values with names": `"properties":{` + uses(400, "#/$defs/D%d") + `},"examples":[{"$id":"x"}],"$defs":{` +
			commas(100, def) + `}`,
		"values of draft 4 with names": `"$schema":"http://json-schema.org/draft-04/schema#","properties":{` +
			uses(400, "#/definitions/D%d") +
			`},"definitions":{"last":{"default":{"id":"x"}},` + commas(100, def) + `}`,
		"values with ids": `"properties":{` + uses(400, "#/$defs/D%d") + `},"examples":[{"id":"x"}],"$defs":{` +
			commas(100, def) + `}`,
	} {
		place := "$defs"
		if strings.Contains(c, `"definitions"`) {
			place = "definitions"
		}
		s := &schema{
			maxSubschemas: defaults.Subschemas,
			text:          []byte(`{"type":"object",` + strings.ReplaceAll(c, "PLACE", place) + `}`),
		}
		if s.compile(); s.err != nil {
			t.Errorf("%s: %.300v", name, s.err)
		}
	}
}
