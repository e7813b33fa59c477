package signature

import (
	"fmt"
	"strings"
	"testing"

	"github.com/mcpbridge/mcpbridge/internal/bridgetest"
	"github.com/mcpbridge/mcpbridge/internal/rawjson"
)

func TestSignatures(t *testing.T) {
	for input, want := range map[string]string{
		`{}`:      "f()",
		`no JSON`: "f()",
		`{"properties":{"a":{},"b":{}},"required":["b"]}`:                                                      "f(b: any, a?: any)",
		`{"properties":{"a":{"$ref":"#/$defs/x%20y/anyOf/1"}},"$defs":{"x y":{"anyOf":[{},{"type":"null"}]}}}`: "f(a?: null)",
		`{"properties":{"a":{"const":"` + strings.Repeat("x", 100) +
			`"}}}`: `f(a?: "` + strings.Repeat("x", 76) + "…)",
		`{"properties":{"a":{}}}`:                                                                                        "f(a?: any)",
		`{"required":["a"]}`:                                                                                             "f(a: any)",
		`{"properties":{"a":{"type":"array"}}}`:                                                                          "f(a?: any[])",
		`{"properties":{"a":{"type":["string","null"],"default":null}}}`:                                                 "f(a?: string | null = null)",
		`{"properties":{"a":{"items":{"enum":[1,"b"]}}}}`:                                                                `f(a?: (1 | "b")[])`,
		`{"properties":{"a":{"additionalProperties":{"type":"number"},"type":"object"}}}`:                                "f(a?: {[name]: number})",
		`{"properties":{"a":{"allOf":[{"$ref":"#/$defs/x~1y"}]}},"$defs":{"x/y":{"const":1}}}`:                           "f(a?: 1)",
		`{"properties":{"a":{"$ref":"#x"}},"$defs":{"b":{"$anchor":"x","const":1}}}`:                                     "f(a?: 1)",
		`{"properties":{"a":{"$ref":"/x"}},"$defs":{"b":{"$id":"/x","const":1}}}`:                                        "f(a?: 1)",
		`{"properties":{"a":{"$ref":"/x#/$defs/c"}},"$defs":{"b":{"$id":"/x","$defs":{"c":{"const":1}}}}}`:               "f(a?: 1)",
		`{"properties":{"a":{"$ref":"/x#y"}},"$defs":{"b":{"$id":"/x","items":[{"$anchor":"y","const":1}]}}}`:            "f(a?: 1)",
		`{"properties":{"a":{"$ref":"#y"}}}`:                                                                             "f(a?: any)",
		`{"properties":{"a":{"$ref":"https://example.com/schema"}}}`:                                                     "f(a?: any)",
		`{"properties":{"a":{"items":{"properties":{"b":{"items":{"properties":{"c":{"items":{"type":"string"}}}}}}}}}}`: "f(a?: {b?: {c?: string[]}[]}[])",
		`{"properties":{"a":{"type":"integer","minimum":1,"maximum":9,"default":3}}}`:                                    "f(a?: integer 1..9 = 3)",
		`{"properties":{"a":{"type":"number","exclusiveMinimum":0}}}`:                                                    "f(a?: number >0..)",
		`{"properties":{"a":{"type":"string","minLength":1,"maxLength":64}}}`:                                            "f(a?: string 1..64 characters)",
		`{"properties":{"a":{"type":"string","minLength":0,"pattern":"^[a-z]+$"}}}`:                                      "f(a?: string /^[a-z]+$/)",
		`{"properties":{"a":{"type":"string","format":"date","pattern":"^\\d{4}"}}}`:                                     "f(a?: date)",
		`{"properties":{"a":{"type":"array","maxItems":3,"items":{"type":"integer","minimum":0}}}}`:                      "f(a?: (integer 0..)[] ..3 items)",
		`{"properties":{"a":{"type":"string","format":"\u001b[2J"}}}`:                                                    "f(a?: string)",
		`{"properties":{"a":{"type":"string","pattern":"` + strings.Repeat("x", maxPattern+1) +
			`"}}}`: "f(a?: string)",
	} {
		if got := Tool("f", input, ""); got != want {
			t.Errorf("%s is shown as %s, not as %s", input, got, want)
		}
	}
}

// A schema can be small and mean something that has no end.
func TestHostileSchemas(t *testing.T) {
	bridgetest.SkipIfShort(t)
	many := func(s string) string { return strings.TrimSuffix(strings.Repeat(s+",", 50), ",") }
	var members []string
	for i := range 50 {
		members = append(members, fmt.Sprintf(`"a%d":{"$ref":"#"}`, i))
	}
	for _, input := range []string{
		`{"$ref":"#"}`,
		`{"$ref":"#/a","a":{"$ref":"#/b"},"b":{"$ref":"#/a"}}`,
		`{"$anchor":"a","$ref":"#a"}`,
		strings.Repeat(`{"$anchor":"a","items":`, 200) + `{"$ref":"#a"}` + strings.Repeat("}", 200),
		`{"anyOf":[` + many(`{"$ref":"#"}`) + `]}`,
		`{"properties":{"x":{"anyOf":[` + many(`{"$ref":"#"}`) + `]}}}`,
		`{"$ref":"#","allOf":[` + many(`{"$ref":"#"}`) + `],"dependentSchemas":{"a":{"$ref":"#"}},"if":{"$ref":"#"}}`,
		`{"properties":{"y":{}},"allOf":[` + many(`{"properties":{"x":{"$ref":"#"}},"oneOf":[{"$ref":"#"}]}`) + `]}`,
		`{"items":{"anyOf":[` + many(`{"items":{"$ref":"#"}}`) + `]}}`,
		`{"properties":{` + strings.Join(members, ",") + `}}`,
		strings.Repeat(`{"items":`, 200) + "{}" + strings.Repeat("}", 200),
	} {
		if err := rawjson.Check([]byte(input)); err != nil {
			t.Errorf("%.100s: %v", input, err)
		}
		shown := ""
		if allocs := testing.AllocsPerRun(1, func() { shown = Tool("f", input, input) }); allocs > 200_000 {
			t.Errorf("%.100s takes %.0f allocations", input, allocs)
		}
		if len(shown) > 20_000 {
			t.Errorf("%.100s is shown in %d bytes", input, len(shown))
		}
		x, _ := Of(input).Property("x")
		if n := len(x.Object().Alternatives()); n > maxAlternatives {
			t.Errorf("%.100s has %d alternatives", input, n)
		}
	}
}
