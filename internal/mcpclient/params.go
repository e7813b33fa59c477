package mcpclient

import (
	"context"
	"slices"
	"sync"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/limits"
	"github.com/mcpbridge/mcpbridge/internal/mcphttp"
	"github.com/mcpbridge/mcpbridge/internal/rawjson"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// A paramTable has the arguments of tools that headers must repeat (2026-07-28: streamable-http, custom headers). They
// are from the forwarded tool lists.
type paramTable struct {
	mu     sync.Mutex
	byName map[string][]mcphttp.Param
	size   int // of all entries, in bytes
	// tasksOnly has the tools of a legacy server that run as tasks only.
	tasksOnly map[string]struct{}
}

const (
	// maxParamSize is the maximum size of the table. Dropped entries are read again when needed.
	maxParamSize = 4 << 20
)

// forTool returns the arguments of a tool that headers must repeat.
func (t *paramTable) forTool(tool string) []mcphttp.Param {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.byName[tool]
}

// update adds a page of tools to the table, and drops tools with invalid annotations from the page: clients must not
// offer them (2026-07-28: server/tools, x-mcp-header).
func (t *paramTable) update(c *Client, page *pb.ListToolsResponse) {
	t.mu.Lock()
	defer t.mu.Unlock()
	left := 0
	page.Tools = slices.DeleteFunc(page.Tools, func(tool *pb.Tool) bool {
		params, errs := mcphttp.Params(rawjson.AsBytes(tool.GetInputSchema()))
		if len(errs) > 0 {
			delete(t.byName, tool.GetName())
			if left++; left == 1 {
				c.log.Warn().Str("tool", rawjson.Shorten(tool.GetName())).AnErr("why", errs[0]).
					Msg("dropped tools with invalid x-mcp-header, which HTTP clients must not use; this is the first")
			}
			return true
		}
		if len(params) == 0 {
			delete(t.byName, tool.GetName())
			return false
		}
		size := len(tool.GetName())
		for _, p := range params {
			size += len(p.Header) + len(p.Type) + 64
			for _, name := range p.Path {
				size += len(name) + 16
			}
		}
		if t.size += size; t.byName == nil || t.size > maxParamSize {
			t.byName, t.size = map[string][]mcphttp.Param{}, size
		}
		if size <= maxParamSize {
			t.byName[tool.GetName()] = params
		}
		return false
	})
}

// refreshTools reads the tool list again, as seen by a caller. It reports whether that succeeded.
func (c *Client) refreshTools(ctx context.Context, call *bridge.Call) bool {
	caller := call.Context()
	var cursor *string
	for range limits.ListPages {
		res, err := c.handle(ctx, call.With(bridge.ListTools, &pb.ListToolsRequest{
			Context: &pb.CallContext{
				ProtocolVersion: caller.GetProtocolVersion(), ClientInfo: caller.GetClientInfo(),
				ClientCapabilities: caller.GetClientCapabilities(), Verified: caller.GetVerified(),
			},
			Cursor: cursor,
		}), func(context.Context, bridge.Event) error { return nil })
		if err != nil {
			return false
		}
		page := res.Complete.(*pb.ListToolsResponse)
		if page.NextCursor == nil {
			return true
		}
		cursor = page.NextCursor
	}
	return false
}
