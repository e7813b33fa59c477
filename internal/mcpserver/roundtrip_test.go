package mcpserver_test

import (
	"context"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/mcpserver"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// A legacy client makes one call, however many rounds the bridge sends. If the backend is lost during the client's
// input, the call has started: the outcome is not not_executed. Before the first round it is.
func TestStartedCallMayBeExecuted(t *testing.T) {
	rounds := 0
	f := newFrontOf(t, mcpserver.Options{}, func(next bridge.Handler) bridge.Handler {
		return bridge.HandlerFunc(
			func(ctx context.Context, call *bridge.Call, emit bridge.Emit) (*bridge.Result, error) {
				r, ok := call.Request.(*pb.CallToolRequest)
				if !ok {
					return next.Handle(ctx, call, emit)
				}
				if rounds++; r.GetName() == "lost" || rounds > 1 {
					return nil, bridge.Failed(codes.Unavailable, bridge.OutcomeNotExecuted, r.GetName(),
						"it was not executed")
				}
				form := &pb.ElicitRequest{Mode: &pb.ElicitRequest_Form{Form: &pb.ElicitForm{
					Message:         "sure?",
					RequestedSchema: `{"type":"object","properties":{}}`,
				}}}
				return &bridge.Result{InputRequired: &pb.InputRequired{
					InputRequests: []*pb.InputRequest{{Key: "a", Request: &pb.InputRequest_Elicit{Elicit: form}}},
				}}, nil
			})
	})
	for caps, supported := range map[string]bool{clientCaps: true, "{}": false} {
		c := f.initialize("2025-11-25", caps)
		for _, reason := range []string{"BACKEND_UNAVAILABLE", bridge.ReasonOverloaded} {
			rounds = 0
			res := c.send(call("1", reason, "{}", ""))
			s := read(t, res)
			msg := s.next()
			if supported {
				c.send(`{"jsonrpc":"2.0","id":` + get(t, msg, "id") + `,"result":{"action":"accept","content":{}}}`)
				msg = s.next()
			}
			want(t, msg, "error.data", `{"outcome":"unknown","reason":"`+reason+`"}`)
			if rounds != 2 || res.StatusCode != 200 {
				t.Errorf("%s after %d rounds", res.Status, rounds)
			}
		}
		want(t, read(t, c.send(call("1", "lost", "{}", ""))).next(), "error.data",
			`{"outcome":"not_executed","reason":"lost"}`)
	}
}
