package mcpclient_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/jsonrpc"
	"github.com/mcpbridge/mcpbridge/internal/limits"
	"github.com/mcpbridge/mcpbridge/internal/mcpclient"
)

// An invalid message in a batch does not affect the response beside it, however many there are.
func TestBatchesOfServers(t *testing.T) {
	const invalid = `{"jsonrpc":"2.0","method":"notifications/message","params":[]}`
	batches := map[string]struct{ batch, want string }{
		"two": {
			`[{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}},` + helloResponse +
				`]`,
			"hello",
		},
		"invalid message first": {`[` + invalid + `,` + helloResponse + `]`, "hello"},
		"invalid message last":  {`[` + helloResponse + `,` + invalid + `]`, "hello"},
		"invalid UTF-8":         {"[{\"jsonrpc\":\"2.0\",\"method\":\"\xff\"}," + helloResponse + `]`, "hello"},
		"a duplicate name":      {`[{"jsonrpc":"2.0","jsonrpc":"2.0","method":"m"},` + helloResponse + `]`, "hello"},
		"deeply nested": {
			`[` + strings.Repeat("[", 1000) + strings.Repeat("]", 1000) + `,` + helloResponse + `]`,
			"hello",
		},
		"more messages than a client may send": {
			`[` + strings.Repeat(invalid+`,`, 100) + helloResponse + `]`,
			"hello",
		},
		"more elements than the limit of arrays": {`[` + strings.Repeat("0,", 100_000) + helloResponse + `]`, "hello"},
		"invalid response": {
			`[` + invalid + `,{"jsonrpc":"2.0","id":ID,"result":[]}]`,
			"responded with invalid MCP",
		},
		"two responses": {`[{"jsonrpc":"2.0","id":"x","result":[]},` + helloResponse + `]`, "hello"},
	}
	overHTTP := func(answer func(w http.ResponseWriter, batch string)) func(*testing.T, string) *mcpclient.Client {
		return func(t *testing.T, batch string) *mcpclient.Client {
			t.Helper()
			f := newFake(t, false, func(w http.ResponseWriter, _ *http.Request, m *jsonrpc.Message) {
				answer(w, strings.ReplaceAll(batch, "ID", string(m.ID)))
			})
			return run(t, mcpclient.Options{URL: f.URL, Limits: limits.Limits{CallTotal: 10 * time.Second}}, quick)
		}
	}
	transports := map[string]func(*testing.T, string) *mcpclient.Client{
		"stdio": func(t *testing.T, batch string) *mcpclient.Client {
			t.Helper()
			s := &script{on: func(m *jsonrpc.Message, send func(...string)) bool {
				switch m.Method {
				case "initialize":
					send(strings.Replace(initializeResponse, "2024-11-05", "2025-03-26", 1))
				case "tools/call":
					send(batch)
				}
				return true
			}}
			o := mcpclient.Options{
				Command: []string{"pipe"}, Revision: bridge.Rev20250326,
				Limits: limits.Limits{CallTotal: 10 * time.Second},
			}
			return run(t, o, func(c *mcpclient.Client) { c.Pipe(s.serve) })
		},
		"HTTP+SSE": func(t *testing.T, batch string) *mcpclient.Client {
			t.Helper()
			f := newFake(t, false, nil)
			f.Config.Handler = sseServer(func(w http.ResponseWriter, _ *http.Request, m *jsonrpc.Message) {
				_, _ = io.WriteString(w, strings.ReplaceAll(batch, "ID", string(m.ID)))
			})
			return run(t, mcpclient.Options{URL: f.URL, Limits: limits.Limits{CallTotal: 10 * time.Second}}, quick)
		},
		"an event": overHTTP(func(w http.ResponseWriter, batch string) { stream(w, "data: "+batch+"\n\n") }),
		"JSON": overHTTP(func(w http.ResponseWriter, batch string) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, batch)
		}),
	}
	for transport, client := range transports {
		t.Run(transport, func(t *testing.T) {
			t.Parallel()
			for name, tt := range batches {
				c := client(t, tt.batch)
				_, err := c.Handle(t.Context(), toolCall("t", "{}"), ignore)
				if tt.want == "hello" && err != nil || tt.want != "hello" &&
					(err == nil || !strings.Contains(err.Error(), tt.want)) {
					t.Errorf("%s: %v", name, err)
				}
			}
		})
	}
}
