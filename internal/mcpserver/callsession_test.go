package mcpserver_test

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/bridgetest"
	"github.com/mcpbridge/mcpbridge/internal/mcpserver"
)

// All calls of a connection or session have the same Session, and no others have it.
func TestCallsCarryTheirSession(t *testing.T) {
	const modern = `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
		`"io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"}}}}`
	const legacy = `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`
	const begin = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`
	seen := map[string]bool{}
	for _, messages := range [][]string{
		{modern, modern},
		{begin, `{"jsonrpc":"2.0","method":"notifications/initialized"}`, legacy, legacy},
	} {
		for range 2 {
			var mu sync.Mutex
			var sessions []string
			inner := bridgetest.New()
			client, end := stdioOf(t,
				bridge.HandlerFunc(func(ctx context.Context, call *bridge.Call, emit bridge.Emit) (*bridge.Result,
					error,
				) {
					if call.Method == bridge.ListTools {
						mu.Lock()
						sessions = append(sessions, call.Session)
						mu.Unlock()
					}
					return inner.Handle(ctx, call, emit)
				}), mcpserver.Options{})
			for _, m := range messages {
				client.send(m)
				if strings.Contains(m, `"id"`) {
					client.next()
				}
			}
			end()
			if len(sessions) != 2 || sessions[0] == "" || sessions[0] != sessions[1] || seen[sessions[0]] {
				t.Fatalf("got sessions %q", sessions)
			}
			seen[sessions[0]] = true
		}
	}
}
