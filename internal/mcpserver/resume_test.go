package mcpserver_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/mcpserver"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// A response above the limit of the log reaches a client that has resumed the stream and waits. A later resumption gets
// an error with outcome unknown.
func TestLongResponsesSurviveAResume(t *testing.T) {
	const length = 5 << 20
	goOn := make(chan struct{})
	f := newFrontOf(t, mcpserver.Options{}, func(h bridge.Handler) bridge.Handler {
		return bridge.HandlerFunc(
			func(ctx context.Context, call *bridge.Call, emit bridge.Emit) (*bridge.Result, error) {
				if call.Method != bridge.CallTool {
					return h.Handle(ctx, call, emit)
				}
				for i := range 3 {
					if err := emit(ctx, bridge.Event{Progress: &pb.Progress{Progress: float64(i)}}); err != nil {
						return nil, err
					}
					if i < 2 {
						<-goOn
					}
				}
				block := &pb.ContentBlock{
					Block: &pb.ContentBlock_Text{Text: &pb.TextContent{Text: strings.Repeat("x", length)}},
				}
				return &bridge.Result{Complete: &pb.CallToolResult{
					Content: []*pb.ContentBlock{block},
					IsError: proto.Bool(false),
				}}, nil
			})
	})
	for _, rev := range []string{"2025-03-26", "2025-11-25"} {
		c := f.initialize(rev, clientCaps)
		ctx, cancel := context.WithCancel(t.Context())
		s := read(t, c.do(ctx, http.MethodPost, c.url, call("1", "any", "{}", `"progressToken":"t"`), c.headers()))
		want(t, s.next(), "params.progress", "0")
		cancel()
		back := read(t, c.get(t.Context(), s.last))
		goOn <- struct{}{}
		want(t, back.next(), "params.progress", "1") // the client is reading
		goOn <- struct{}{}
		want(t, back.next(), "params.progress", "2")
		if answer := back.next(); len(answer) < length || get(t, answer, "id") != "1" {
			t.Errorf("%s: got a response of %d bytes", rev, len(answer))
		}
		again := c.get(t.Context(), s.last)
		if again.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: once more: %s", rev, again.Status)
		}
		want(t, read(t, again).next(), "error.data.reason", `"EVENTS_FORGOTTEN"`, "error.data.outcome", `"unknown"`)
	}
}
