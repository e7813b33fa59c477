package clientcmd

import (
	"testing"

	"github.com/mcpbridge/mcpbridge/internal/signature"
)

// All common words for yes and no are accepted.
func TestBooleanAnswers(t *testing.T) {
	gift := signature.Of(`{"type":"boolean"}`)
	for typed, want := range map[string]string{
		"y": "true", "Y": "true", "yes": "true", " Yes ": "true", "true": "true", "n": "false", "no": "false",
		"NO": "false", "false": "false",
		"": "", "1": "", "ye": "", "yes and no": "",
	} {
		if raw, wrong := fieldValue(gift, []string{typed}); string(raw) != want || (wrong == "") != (want != "") {
			t.Errorf("%q is read as %q, %q", typed, raw, wrong)
		}
	}
	if raw, wrong := fieldValue(signature.Of(`{"type":"string"}`), []string{"y"}); string(raw) != `"y"` || wrong != "" {
		t.Errorf("a text is read as %q, %q", raw, wrong)
	}
}

// The value of a field is validated against all of its schema.
func TestValuesOfFormsFitTheirSchemas(t *testing.T) {
	for _, c := range []struct {
		schema string
		typed  []string
		want   string
	}{
		{`{"type":"integer","maximum":9}`, []string{"9"}, ""},
		{`{"type":"integer","maximum":9}`, []string{"10"}, "has to be at most 9, got the number 10"},
		{`{"type":"number","exclusiveMinimum":0}`, []string{"0"}, "has to be more than 0, got the number 0"},
		{`{"type":"number","multipleOf":0.5}`, []string{"1.2"}, "has to be a multiple of 0.5, got the number 1.2"},
		{`{"type":"string","minLength":2}`, []string{"a"}, `has to be at least 2 characters, got the string "a"`},
		{
			`{"type":"string","pattern":"^[a-z]+$"}`,
			[]string{"A"},
			`has to be text that matches ^[a-z]+$, got the string "A"`,
		},
		{`{"type":"string","format":"date"}`, []string{"2026-02-30"}, "has to be a date such as 2026-07-28"},
		{
			`{"type":"array","items":{"type":"string"},"maxItems":1}`,
			[]string{"a", "b"},
			"has to be at most 1 item, got an array of 2 items",
		},
		{`{"type":"string","$ref":"https://example.com/schema"}`, []string{"a"}, ""}, // the server knows it
	} {
		if _, wrong := fieldValue(signature.Of(c.schema), c.typed); wrong != c.want {
			t.Errorf("%q for %s: %q, want %q", c.typed, c.schema, wrong, c.want)
		}
	}
}
