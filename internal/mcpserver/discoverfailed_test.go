package mcpserver_test

import (
	"context"
	"io"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/mcpserver"
)

// A call needs Discover. If that fails, the error contains the outcome of the call, which is not_executed, and not that
// of Discover, which is unknown.
func TestCallsWithoutDiscover(t *testing.T) {
	called := false
	f := newFrontOf(t, mcpserver.Options{}, func(next bridge.Handler) bridge.Handler {
		return bridge.HandlerFunc(
			func(ctx context.Context, call *bridge.Call, emit bridge.Emit) (*bridge.Result, error) {
				if call.Method == bridge.Discover {
					return nil, bridge.Failed(codes.DeadlineExceeded, bridge.OutcomeUnknown, "DEADLINE",
						"server/discover was cut")
				}
				called = called || call.Method == bridge.CallTool
				return next.Handle(ctx, call, emit)
			})
	})
	const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`
	for method, want := range map[string]string{
		"tools/call":      `"message":"tools/call: server/discover of its backend failed; the call was not executed","data":{"reason":"DEADLINE","outcome":"not_executed"}`,
		"server/discover": `"message":"server/discover was cut","data":{"reason":"DEADLINE","outcome":"unknown"}`,
	} {
		h := header{"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", method}
		if method == "tools/call" {
			h = append(h, "Mcp-Name", "t")
		}
		body, err := io.ReadAll(
			f.post(`{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":{"name":"t",`+meta+`}}`, h).Body)
		if err != nil || !strings.Contains(string(body), want) {
			t.Errorf("%s: %s %v", method, body, err)
		}
	}
	if called {
		t.Error("the tool was called")
	}
}
