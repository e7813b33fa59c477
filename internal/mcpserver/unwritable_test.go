package mcpserver_test

import (
	"context"
	"testing"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/mcpserver"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// A call whose result cannot be encoded was executed. If its input request cannot be encoded, the outcome is unknown.
func TestUnwritableResponses(t *testing.T) {
	for _, c := range []struct {
		res  *bridge.Result
		want string
	}{
		{&bridge.Result{Complete: &pb.CallToolResult{StructuredContent: []byte("{")}}, `"executed"`},
		{&bridge.Result{InputRequired: &pb.InputRequired{InputRequests: []*pb.InputRequest{{Key: "a"}}}}, `"unknown"`},
	} {
		f := newFrontOf(t, mcpserver.Options{}, func(h bridge.Handler) bridge.Handler {
			return bridge.HandlerFunc(
				func(ctx context.Context, call *bridge.Call, emit bridge.Emit) (*bridge.Result, error) {
					if call.Method == bridge.CallTool {
						return c.res, nil
					}
					return h.Handle(ctx, call, emit)
				})
		})
		_, msgs := f.callModern("echo", "", noCaps, "")
		want(t, msgs[0], "error.data.outcome", c.want)
		want(t, msgs[0], "error.data.reason", `"BACKEND_MISBEHAVED"`)
	}
}
