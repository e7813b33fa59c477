package catalog

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// One below each limit, at it, and one above.
func TestToolsAtTheirLimits(t *testing.T) {
	var many []*pb.Tool
	for i := range maxTools + 1 {
		many = append(many, newTool(fmt.Sprintf("t%d", i), wantsInt))
	}
	for _, over := range []int{-1, 0, 1} {
		for name, c := range map[string]struct {
			tools []*pb.Tool
			kept  int // of those over the limit
		}{
			"tools":           {many[:maxTools+over], maxTools},
			"bytes of a name": {[]*pb.Tool{newTool(strings.Repeat("n", maxName+over), wantsInt)}, 0},
			"bytes of a schema": {[]*pb.Tool{newTool("a", fmt.Sprintf(`{"type":"object","description":"%s"}`,
				strings.Repeat("x", maxSchemaBytes+over-len(`{"type":"object","description":""}`))))}, 0},
			"values of a schema": {[]*pb.Tool{newTool("a", `{"type":"object","enum":[`+strings.Repeat("0,", maxSchemaNodes+over-4)+`0]}`)}, 0},
			"depth of a schema":  {[]*pb.Tool{newTool("a", `{"type":"object","not":`+strings.Repeat(`{"not":`, maxSchemaDepth+over-2)+`{}`+strings.Repeat("}", maxSchemaDepth+over-2)+"}")}, 0},
		} {
			b := &backend{}
			b.set(c.tools...)
			want := len(c.tools)
			if over > 0 {
				want = c.kept
			}
			if got := len(listTools(t, New(b, Options{Log: zerolog.Nop()}), as("x")).GetTools()); got != want {
				t.Errorf("%s, %+d: %d are left, want %d", name, over, got, want)
			}
		}
	}
}

// A schema with more schemas in it than may be compiled is not used to check anything.
func TestSchemasAtTheirLimit(t *testing.T) {
	for n, compiled := range map[int]bool{maxSubschemas - 1: true, maxSubschemas: true, maxSubschemas + 1: false} {
		s := &schema{text: []byte(`{"type":"object","required":["a"],"allOf":[` + strings.Repeat("true,", n-2) + `true]}`)}
		if got := subschemas(s.text); got != n {
			t.Fatalf("%d schemas, want %d", got, n)
		}
		if refused := !s.accepts([]byte(`{}`)); refused != compiled || (s.err == nil) != compiled {
			t.Errorf("%d: what it does not allow is refused: %t, %v", n, refused, s.err)
		}
	}
}
