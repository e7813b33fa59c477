package catalog

import (
	"fmt"
	"strings"
	"testing"

	"github.com/mcpbridge/mcpbridge/internal/limits"

	"github.com/rs/zerolog"

	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// defaults are the default limits.
var defaults = limits.Limits{}.OrDefaults()

// One below, at, and one above each limit: the default ones and others.
func TestToolLimits(t *testing.T) {
	for _, o := range []Options{{}, {Limits: limits.Limits{Tools: 3, ToolName: 20, Schema: 1000, SchemaValues: 300}}} {
		o.Log = zerolog.Nop()
		most := Options{Limits: o.Limits.OrDefaults()}
		var many []*pb.Tool
		for i := range most.Limits.Tools + 1 {
			many = append(many, newTool(fmt.Sprintf("t%d", i), intSchema))
		}
		for _, over := range []int{-1, 0, 1} {
			for name, c := range map[string]struct {
				tools []*pb.Tool
				kept  int // of the entries above the limit
			}{
				"tools":           {many[:most.Limits.Tools+over], most.Limits.Tools},
				"bytes of a name": {[]*pb.Tool{newTool(strings.Repeat("n", most.Limits.ToolName+over), intSchema)}, 0},
				"bytes of a schema": {[]*pb.Tool{newTool("a", fmt.Sprintf(`{"type":"object","description":"%s"}`,
					strings.Repeat("x", most.Limits.Schema+over-len(`{"type":"object","description":""}`))))}, 0},
				"values of a schema": {[]*pb.Tool{newTool("a",
					`{"type":"object","enum":[`+strings.Repeat("0,", most.Limits.SchemaValues+over-4)+`0]}`)}, 0},
				"depth of a schema": {[]*pb.Tool{newTool("a",
					`{"type":"object","not":`+strings.Repeat(`{"not":`, maxSchemaDepth+over-2)+`{}`+
						strings.Repeat("}", maxSchemaDepth+over-2)+"}")}, 0},
			} {
				if name == "depth of a schema" && o.Limits.Schema > 0 {
					continue // independent of the limit, and such a schema has more than 1,000 bytes
				}
				b := &backend{}
				b.set(c.tools...)
				want := len(c.tools)
				if over > 0 {
					want = c.kept
				}
				if got := len(listTools(t, New(b, o), as("x")).GetTools()); got != want {
					t.Errorf("%+v: %s, %+d: got %d, want %d", o, name, over, got, want)
				}
			}
		}
	}
}

// A schema above the limit is not used for validation.
func TestSchemaSizeLimit(t *testing.T) {
	for _, o := range []Options{{}, {Limits: limits.Limits{Subschemas: 10}}} {
		c := New(nil, o)
		for n := c.o.Limits.Subschemas - 1; n <= c.o.Limits.Subschemas+1; n++ {
			s := c.schema([]byte(`{"type":"object","required":["a"],"allOf":[` + strings.Repeat("true,", n-2) +
				`true]}`))
			compiled := n <= c.o.Limits.Subschemas
			if refused := !s.accepts([]byte(`{}`)); refused != compiled || (s.err == nil) != compiled {
				t.Errorf("%d: invalid arguments rejected: %t, %v", n, refused, s.err)
			}
		}
	}
}
