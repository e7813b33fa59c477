package bridgetest

import (
	"context"
	"encoding/json"

	"google.golang.org/protobuf/proto"

	"github.com/mcpbridge/mcpbridge/bridge"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// agreed returns h without what every program may decide by itself: a list comes as a whole, without hints how long it stays
// true, schemas have one spelling, and an error that is not an exact one has no words.
func agreed(h bridge.Handler) bridge.Handler {
	return bridge.HandlerFunc(func(ctx context.Context, call *bridge.Call, emit bridge.Emit) (*bridge.Result, error) {
		res, err := whole(ctx, h, call, emit)
		if err != nil {
			e := *bridge.AsError(err)
			if e.RPC == nil {
				e.Message = ""
			}
			return nil, &e
		}
		if res.Complete != nil {
			res = &bridge.Result{Complete: plain(res.Complete)}
		}
		return res, nil
	})
}

// whole answers a call. A list of tools that is asked for from its beginning is joined from its pages.
func whole(ctx context.Context, h bridge.Handler, call *bridge.Call, emit bridge.Emit) (*bridge.Result, error) {
	res, err := h.Handle(ctx, call, emit)
	if err != nil || call.Method != bridge.ListTools || call.Request.(*pb.ListToolsRequest).Cursor != nil {
		return res, err
	}
	all := proto.CloneOf(res.Complete.(*pb.ListToolsResponse))
	for all.NextCursor != nil {
		next := &pb.ListToolsRequest{Context: call.Context(), Cursor: all.NextCursor}
		res, err := h.Handle(ctx, &bridge.Call{Method: call.Method, Request: next}, emit)
		if err != nil {
			return nil, err
		}
		page := res.Complete.(*pb.ListToolsResponse)
		all.Tools, all.NextCursor = append(all.Tools, page.GetTools()...), page.NextCursor
	}
	return &bridge.Result{Complete: all}, nil
}

// plain returns a result without what is the program's own affair.
func plain(m proto.Message) proto.Message {
	m = proto.Clone(m)
	switch m := m.(type) {
	case *pb.DiscoverResponse:
		m.TtlMs, m.CacheScope, m.Limits = nil, nil, nil
		if p := m.GetCapabilities().GetPrompts(); p != nil {
			p.ListChanged = nil // ours do not change; those of a program may
		}
	case *pb.ListToolsResponse:
		m.TtlMs, m.CacheScope = nil, nil
		for _, t := range m.GetTools() {
			t.InputSchema = respelled(t.GetInputSchema())
		}
	case *pb.ListResourcesResponse:
		m.TtlMs, m.CacheScope = nil, nil
	case *pb.ListResourceTemplatesResponse:
		m.TtlMs, m.CacheScope = nil, nil
	case *pb.ListPromptsResponse:
		m.TtlMs, m.CacheScope = nil, nil
	case *pb.CompleteResponse:
		// These are all there are, whether it is said or not.
		c := m.GetCompletion()
		if c.GetTotal() == int64(len(c.GetValues())) && !c.GetHasMore() {
			c.Total, c.HasMore = nil, nil
		}
	}
	return m
}

// respelled returns a schema with its members in one order.
func respelled(schema []byte) []byte {
	var v any
	if json.Unmarshal(schema, &v) != nil {
		return schema
	}
	out, err := json.Marshal(v)
	if err != nil {
		return schema
	}
	return out
}
