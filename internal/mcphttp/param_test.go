package mcphttp_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpbridge/mcpbridge/internal/bridgetest/fuzzing"
	"github.com/mcpbridge/mcpbridge/internal/mcphttp"
	"github.com/mcpbridge/mcpbridge/internal/rawjson"
)

func TestParamsOfSchemas(t *testing.T) {
	for _, c := range []struct {
		name, schema string
		want         []mcphttp.Param
		errs         []string
		clean        string // if it is not the schema itself
	}{
		{name: "no annotation", schema: `{"type":"object","properties":{"a":{"type":"string"}}}`},
		{
			name:   "in the order of the schema, also of nested objects",
			schema: `{"properties":{"z":{"type":"string","x-mcp-header":"Z"},"o":{"type":"object","properties":{"n":{"type":"integer","x-mcp-header":"N"}}},"b":{"x-mcp-header":"B","type":"boolean"}}}`,
			want: []mcphttp.Param{
				{"Mcp-Param-Z", []string{"z"}, "string"},
				{"Mcp-Param-N", []string{"o", "n"}, "integer"},
				{"Mcp-Param-B", []string{"b"}, "boolean"},
			},
		},
		{
			name:   "a property may have the name of the annotation",
			schema: `{"properties":{"x-mcp-header":{"type":"string","x-mcp-header":"H"}}}`,
			want:   []mcphttp.Param{{"Mcp-Param-H", []string{"x-mcp-header"}, "string"}},
		},
		{
			name:   "values that are not schemas are skipped",
			schema: `{"default":{"x-mcp-header":""},"enum":[{"x-mcp-header":1}],"properties":{"a":{"const":{"x-mcp-header":2}}}}`,
		},
		{
			name:   "the name of the annotation may have escapes",
			schema: `{"properties":{"a":{"type":"number","\u0078-mcp-h\u0065ader":"A"}}}`,
			errs:   []string{"only a string, an integer or a boolean"}, clean: `{"properties":{"a":{"type":"number"}}}`,
		},
		{
			name:   "empty name",
			schema: `{"properties":{"a":{"type":"string","x-mcp-header":""},"b":{"type":"string","x-mcp-header":"B"}}}`,
			want:   []mcphttp.Param{{"Mcp-Param-B", []string{"b"}, "string"}},
			errs:   []string{`"/properties/a": "" is not the name of a header`},
			clean:  `{"properties":{"a":{"type":"string"},"b":{"type":"string","x-mcp-header":"B"}}}`,
		},
		{
			name:   "not a token",
			schema: `{"properties":{"a":{"type":"string","x-mcp-header":"a b"},"b":{"type":"string","x-mcp-header":"a\r\nb"},"c":{"type":"string","x-mcp-header":"é"},"d":{"type":"string","x-mcp-header":1}}}`,
			errs:   []string{"a b", `a\r\nb`, "é", "1 is not"},
			clean:  `{"properties":{"a":{"type":"string"},"b":{"type":"string"},"c":{"type":"string"},"d":{"type":"string"}}}`,
		},
		{
			name:   "types that a header cannot represent",
			schema: `{"properties":{"a":{"type":"number","x-mcp-header":"A"},"b":{"type":["string","null"],"x-mcp-header":"B"},"c":{"x-mcp-header":"C"},"d":{"type":"array","x-mcp-header":"D"}}}`,
			errs:   []string{"/properties/a", "/properties/b", "/properties/c", "/properties/d"},
			clean:  `{"properties":{"a":{"type":"number"},"b":{"type":["string","null"]},"c":{},"d":{"type":"array"}}}`,
		},
		{
			name:   "names that differ only in case",
			schema: `{"properties":{"a":{"type":"string","x-mcp-header":"Region"},"b":{"type":"string","x-mcp-header":"REGION"}}}`,
			want:   []mcphttp.Param{{"Mcp-Param-Region", []string{"a"}, "string"}},
			errs:   []string{`another property has the header "REGION" already`},
			clean:  `{"properties":{"a":{"type":"string","x-mcp-header":"Region"},"b":{"type":"string"}}}`,
		},
		{
			name: "only properties may have it",
			schema: `{"x-mcp-header":"R","properties":{"l":{"type":"array","items":{"type":"string","x-mcp-header":"I"}}},"anyOf":[{"properties":{"a":{"type":"string","x-mcp-header":"A"}}}],` +
				`"$defs":{"d":{"type":"string","x-mcp-header":"D"}},"if":{"properties":{"a":{"type":"string","x-mcp-header":"F"}}}}`,
			errs: []string{`""`, "/properties/l/items", "/anyOf/0/properties/a", "/$defs/d", "/if/properties/a"},
			clean: `{"properties":{"l":{"type":"array","items":{"type":"string"}}},"anyOf":[{"properties":{"a":{"type":"string"}}}],` +
				`"$defs":{"d":{"type":"string"}},"if":{"properties":{"a":{"type":"string"}}}}`,
		},
		{
			name:   "everything else stays as it is",
			schema: `{"n":9007199254740993.0,"properties":{"é~/":{"type":"number","x-mcp-header":"A","default":[1e400, {"x-mcp-header":"kept"}]}}}`,
			errs:   []string{"only a string"},
			clean:  `{"n":9007199254740993.0,"properties":{"é~/":{"type":"number","default":[1e400,{"x-mcp-header":"kept"}]}}}`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, errs := mcphttp.Params([]byte(c.schema))
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("params (-want +got):\n%s", diff)
			}
			if len(errs) != len(c.errs) {
				t.Fatalf("got errors %q, want %q", errs, c.errs)
			}
			for i, want := range c.errs {
				if !strings.Contains(errs[i].Error(), want) {
					t.Errorf("got error %q, want %q in it", errs[i], want)
				}
			}
			want := c.clean
			if want == "" {
				want = c.schema
			}
			clean, _ := mcphttp.CleanSchema([]byte(c.schema))
			if string(clean) != want {
				t.Errorf("clean schema:\n got %s\nwant %s", clean, want)
			}
			if again, errs := mcphttp.Params(clean); len(errs) > 0 || !cmp.Equal(again, c.want) {
				t.Errorf("clean schema: got params %v, errors %q, want %v and no errors", again, errs, c.want)
			}
		})
	}
}

func TestParamMustMatchItsHeader(t *testing.T) {
	text, integer, boolean := []string{"string", "s"}, []string{"integer", "o", "n"}, []string{"boolean", "b"}
	for _, c := range []struct {
		param     []string
		arguments string
		values    []string
		want      string // part of the error
	}{
		{text, `{"s":"eu"}`, []string{"eu"}, ""},
		{text, `{"s":"eu"}`, []string{" eu\t"}, ""},
		{text, `{"s":"eu"}`, []string{"EU"}, "does not match"},
		{text, `{"s":"eu"}`, nil, "is missing"},
		{text, `{"s":"eu"}`, []string{"eu", "eu"}, "(2 values)"},
		{text, `{}`, nil, ""},
		{text, ``, nil, ""},
		{text, `{"s":null}`, nil, ""},
		{text, `{"s":null}`, []string{"null"}, "the argument s is not"},
		{text, `{}`, []string{""}, "the argument s is not"},
		{text, `{"s":""}`, []string{""}, ""},
		{text, `{"s":""}`, nil, "is missing"},
		{text, `{"s":"\u00e9"}`, []string{"=?base64?w6k=?="}, ""},
		{text, `{"s":"é"}`, []string{"é"}, "an invalid character"},
		{text, `{"s":"a"}`, []string{"a\x00"}, "an invalid character"},
		{text, `{"s":"a"}`, []string{"=?base64?YQ?="}, "invalid base64"},
		{text, `{"s":"a"}`, []string{"=?base64?Y*==?="}, "invalid base64"},
		{text, `{"s":"a"}`, []string{"=?base64?YQ==?="}, ""},
		{text, `{"s":"=?BASE64?YQ==?="}`, []string{"=?BASE64?YQ==?="}, ""},
		{text, `{"s":"YQ==?="}`, []string{"YQ==?="}, ""},
		{text, `{"s":"=?base64?YQ=="}`, []string{"=?base64?YQ=="}, ""},
		{text, `{"s":"=?base64?YQ==?="}`, []string{"=?base64?PT9iYXNlNjQ/WVE9PT89?="}, ""},
		{text, `{"s":7}`, []string{"7"}, ""}, // the tool's schema rejects it
		{text, `{"s":{"a":1}}`, nil, ""},
		{text, `{"s":[1]}`, []string{"1"}, "not a single value"},
		{integer, `{"o":{"n":42}}`, []string{"42"}, ""},
		{integer, `{"o":{"n":42}}`, []string{"42.0"}, ""},
		{integer, `{"o":{"n":42.0}}`, []string{"42"}, ""},
		{integer, `{"o":{"n":-4.2e1}}`, []string{"-42"}, ""},
		{integer, `{"o":{"n":42}}`, []string{"43"}, "does not match"},
		{integer, `{"o":{"n":42}}`, []string{"+42"}, "does not match"},
		{integer, `{"o":{"n":42}}`, []string{"84/2"}, "does not match"},
		{integer, `{"o":{"n":42}}`, []string{"0x2a"}, "does not match"},
		{integer, `{"o":{"n":42}}`, []string{""}, "does not match"},
		{integer, `{"o":{"n":9007199254740991}}`, []string{"9007199254740991"}, ""},
		{integer, `{"o":{"n":9007199254740990}}`, []string{"9007199254740991"}, "does not match"},
		{integer, `{"o":{"n":9007199254740992}}`, []string{"9007199254740992"}, "a header cannot represent"},
		{integer, `{"o":{"n":1e999999999}}`, []string{"1"}, "a header cannot represent"},
		{integer, `{"o":{"n":1}}`, []string{"1e999999999"}, "does not match"},
		{integer, `{"o":null}`, nil, ""},
		{integer, `{"o":[]}`, nil, ""},
		{integer, `{"o":{}}`, []string{"1"}, "the argument o.n is not"},
		{integer, `{"n":1}`, nil, ""},
		{boolean, `{"b":true}`, []string{"true"}, ""},
		{boolean, `{"b": false }`, []string{"false"}, ""},
		{boolean, `{"b":true}`, []string{"True"}, "does not match"},
		{boolean, `{"b":true}`, []string{"1"}, "does not match"},
	} {
		p := mcphttp.Param{Header: "Mcp-Param-X", Type: c.param[0], Path: c.param[1:]}
		err := p.Check([]byte(c.arguments), c.values)
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s with %q: got %v, want no error", c.arguments, c.values, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s with %q: got %v, want %q", c.arguments, c.values, err, c.want)
		}
	}
}

// FuzzCleanSchema checks that CleanSchema removes all that is invalid, and nothing else.
func FuzzCleanSchema(f *testing.F) {
	f.Add([]byte(`{"properties":{"a":{"type":"string","x-mcp-header":"A"},"b":{"items":[{"x-mcp-header":"B"}]}}}`))
	f.Add([]byte(`{"$defs":{"a/b~":{"x-mcp-header":[]}},"x-mcp-header":{}}`))
	fuzzing.Run(f, func(t *testing.T, schema []byte) {
		if !valid(schema) {
			return
		}
		params, errs := mcphttp.Params(schema)
		clean, _ := mcphttp.CleanSchema(schema)
		again, left := mcphttp.Params(clean)
		if len(left) > 0 || !cmp.Equal(params, again) || !valid(clean) {
			t.Errorf("%s with errors %q: got %s with params %v, errors %q, want %v and no errors",
				schema, errs, clean, again, left, params)
		}
	})
}

func valid(text []byte) bool { return rawjson.Check(text) == nil }

// The header value of an argument passes Check.
func TestParamValuesMatchTheirArguments(t *testing.T) {
	const arguments = `{"s":" ü","e":"","q":"=?base64?x?=","n":-7,"f":4.2e1,"big":9007199254740991,"b":true,"null":null,"list":[1],"o":{"in":"x"}}`
	for path, want := range map[string]string{
		"s": "=?base64?IMO8?=", "e": "", "q": "=?base64?PT9iYXNlNjQ/eD89?=", "n": "-7", "f": "42",
		"big": "9007199254740991", "b": "true", "o.in": "x",
		"null": "none", "list": "none", "o": "none", "nosuch": "none", "s.in": "none",
	} {
		p := mcphttp.Param{Header: "Mcp-Param-X", Path: strings.Split(path, ".")}
		got, ok := p.Value([]byte(arguments))
		if ok != (want != "none") || ok && got != want {
			t.Errorf("%s: got %q, %t, want %q", path, got, ok, want)
		}
		var values []string
		if ok {
			values = []string{got}
		}
		if err := p.Check([]byte(arguments), values); err != nil {
			t.Errorf("%s: got %v, want no error", path, err)
		}
	}
}
