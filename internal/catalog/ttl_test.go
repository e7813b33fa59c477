package catalog

import (
	"context"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/mcpbridge/mcpbridge/bridge"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// Clients never receive a negative TTL, whatever the backend returns (2026-07-28: server/utilities/caching).
func TestTTLsAreNotNegative(t *testing.T) {
	for _, ttl := range []int64{-1 << 63, -1, 0, 1 << 40} {
		for _, c := range []struct {
			method  *bridge.Method
			request bridge.Request
			answer  proto.Message
		}{
			{
				bridge.Discover, &pb.DiscoverRequest{},
				&pb.DiscoverResponse{TtlMs: &ttl, Instructions: proto.String("x")},
			},
			{bridge.ListTools, &pb.ListToolsRequest{}, &pb.ListToolsResponse{TtlMs: &ttl}},
			{bridge.ListTools, &pb.ListToolsRequest{Extra: `{"x":1}`}, &pb.ListToolsResponse{TtlMs: &ttl}},
			{bridge.ListPrompts, &pb.ListPromptsRequest{}, &pb.ListPromptsResponse{TtlMs: &ttl}},
			{bridge.ListResources, &pb.ListResourcesRequest{}, &pb.ListResourcesResponse{TtlMs: &ttl}},
			{
				bridge.ListResourceTemplates, &pb.ListResourceTemplatesRequest{},
				&pb.ListResourceTemplatesResponse{TtlMs: &ttl},
			},
			{bridge.ReadResource, &pb.ReadResourceRequest{}, &pb.ReadResourceResult{TtlMs: &ttl}},
		} {
			cat := New(bridge.HandlerFunc(func(context.Context, *bridge.Call, bridge.Emit) (*bridge.Result, error) {
				return &bridge.Result{Complete: c.answer}, nil
			}), Options{})
			res, err := cat.Handle(t.Context(), &bridge.Call{Method: c.method, Request: c.request}, nil)
			if err != nil {
				t.Fatal(err)
			}
			got := res.Complete.(interface{ GetTtlMs() int64 }).GetTtlMs()
			if got < 0 || got > max(ttl, 0) || ttl > 0 && got < ttl-60_000 {
				t.Errorf("%s: got a TTL of %d for %d", c.method.Name, got, ttl)
			}
			if d, ok := res.Complete.(*pb.DiscoverResponse); ok && d.GetInstructions() != "x" {
				t.Errorf("only %v is left", d)
			}
		}
	}
}
