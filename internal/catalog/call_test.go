package catalog

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpbridge/mcpbridge/bridge"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// A call that times out while it waits for the list of tools was not executed, whether its tool is not cached or its
// arguments do not match the cached schema.
func TestCallsThatTimeOutBeforeValidationAreNotExecuted(t *testing.T) {
	for _, cached := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			b := &backend{}
			b.set(newTool("f", intSchema))
			c := New(b, Options{})
			if cached {
				listTools(t, c, as("x"))
			}
			b.hold = make(chan struct{})
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err := c.Handle(ctx, &bridge.Call{Method: bridge.CallTool, Request: &pb.CallToolRequest{
				Context: as("x"), Name: "f", Arguments: []byte(`{"n":"one"}`),
			}}, func(context.Context, bridge.Event) error { return nil })
			f := bridge.AsError(err)
			if f.Reason != "DEADLINE" || f.Outcome != bridge.OutcomeNotExecuted ||
				len(b.calls) > 0 {
				t.Errorf("cached %t: %v, %v, and %d calls", cached, err, f, len(b.calls))
			}
		})
	}
}
