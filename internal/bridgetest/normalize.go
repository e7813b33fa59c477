package bridgetest

import (
	"context"
	"encoding/json"

	"google.golang.org/protobuf/proto"

	"github.com/mcpbridge/mcpbridge/bridge"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// normalized returns h without the choices of a program: lists are in one page without caching hints, schemas have
// one form, and only exact errors have a message.
func normalized(h bridge.Handler) bridge.Handler {
	return bridge.HandlerFunc(func(ctx context.Context, call *bridge.Call, emit bridge.Emit) (*bridge.Result, error) {
		res, err := allPages(ctx, h, call, emit)
		if err != nil {
			e := *bridge.AsError(err)
			if e.RPC == nil {
				e.Message = ""
			}
			return nil, &e
		}
		if res.Complete != nil {
			res = &bridge.Result{Complete: withoutChoices(res.Complete)}
		}
		return res, nil
	})
}

// allPages executes a call, and joins the pages of a list of tools.
func allPages(ctx context.Context, h bridge.Handler, call *bridge.Call, emit bridge.Emit) (*bridge.Result, error) {
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

// withoutChoices removes from a result what a program may choose.
func withoutChoices(m proto.Message) proto.Message {
	m = proto.Clone(m)
	switch m := m.(type) {
	case *pb.DiscoverResponse:
		m.TtlMs, m.CacheScope, m.Limits, m.ContractVersion = nil, "", nil, 0
		if p := m.GetCapabilities().GetPrompts(); p != nil {
			p.ListChanged = nil // depends on the program
		}
	case *pb.ListToolsResponse:
		m.TtlMs, m.CacheScope = nil, ""
		for _, t := range m.GetTools() {
			t.InputSchema = string(canonicalSchema([]byte(t.GetInputSchema())))
		}
	case *pb.ListResourcesResponse:
		m.TtlMs, m.CacheScope = nil, ""
	case *pb.ListResourceTemplatesResponse:
		m.TtlMs, m.CacheScope = nil, ""
	case *pb.ListPromptsResponse:
		m.TtlMs, m.CacheScope = nil, ""
	case *pb.CompleteResponse:
		// The total is optional when all values are present.
		c := m.GetCompletion()
		if c.GetTotal() == int64(len(c.GetValues())) && !c.GetHasMore() {
			c.Total, c.HasMore = nil, nil
		}
	}
	return m
}

// canonicalSchema returns a schema with sorted members.
func canonicalSchema(schema []byte) []byte {
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
