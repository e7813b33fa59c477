package clientcmd

import (
	"strings"
	"testing"

	"github.com/mcpbridge/mcpbridge/internal/signature"
)

// A schema can be small and mean something that has no end.
func TestCoercionByRecursiveSchemasEnds(t *testing.T) {
	many := func(s string) string { return strings.TrimSuffix(strings.Repeat(s+",", 50), ",") }
	for _, input := range []string{
		`{"$ref":"#"}`,
		`{"anyOf":[` + many(`{"$ref":"#"}`) + `]}`,
		`{"properties":{"x":{"anyOf":[` + many(`{"$ref":"#"}`) + `]}}}`,
		`{"properties":{"y":{}},"allOf":[` + many(`{"properties":{"x":{"$ref":"#"}},"oneOf":[{"$ref":"#"}]}`) + `]}`,
		`{"items":{"anyOf":[` + many(`{"items":{"$ref":"#"}}`) + `]}}`,
		strings.Repeat(`{"items":`, 200) + "{}" + strings.Repeat("}", 200),
	} {
		s := signature.Of(input)
		x, _ := s.Property("x")
		if allocs := testing.AllocsPerRun(1, func() {
			coerce(x.Object(), []string{"x"})
			coerce(s, []string{"x"})
			coerce(s, []string{"x", "y"})
		}); allocs > 2_000_000 {
			t.Errorf("%.100s takes %.0f allocations", input, allocs)
		}
	}
	// A number with an exponent would need all memory.
	bound := signature.Of(`{"type":"number","minimum":1e999999999,"maximum":1e-999999999}`)
	if raw, wrong := fieldValue(bound, []string{"1e888888888"}); string(raw) != "1e888888888" || wrong != "" {
		t.Errorf("%s, %s", raw, wrong)
	}
}
