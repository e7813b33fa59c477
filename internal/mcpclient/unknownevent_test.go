package mcpclient_test

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/jsonrpc"
	"github.com/mcpbridge/mcpbridge/internal/mcpclient"
)

// If the server rejects Last-Event-ID, the session may still be valid: the client opens the stream again without it. If
// the session is invalid too, the client starts another one. Calls in flight complete in both cases.
func TestExpiredEventsDoNotEndTheCall(t *testing.T) {
	for name, tt := range map[string]struct {
		call   *bridge.Call
		status int
		over   bool // the session is invalid
	}{
		"an event":                             {toolCall("slow", "{}"), 404, false},
		"an event, by 400":                     {toolCall("slow", "{}"), 400, false},
		"an event, with input capabilities":    {callOf("slow", "{}", "ada"), 404, false},
		"the session":                          {toolCall("slow", "{}"), 404, true},
		"the session, by 400":                  {toolCall("slow", "{}"), 400, true},
		"the session, with input capabilities": {callOf("slow", "{}", "ada"), 404, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			session, sessions := "s1", int64(1) // the session of the call, and the number of sessions so far
			if tt.call.Context().GetClientCapabilities() != nil {
				session, sessions = "s2", 2
			}
			running, refused, anew, deleted := make(chan struct{}), make(chan struct{}), make(chan struct{}),
				make(chan string, 10)
			f := newFake(t, false, func(w http.ResponseWriter, r *http.Request, m *jsonrpc.Message) {
				if !strings.Contains(string(m.Params), "slow") {
					if over := r.Header.Get("Mcp-Session-Id") == session; over != !tt.over {
						t.Errorf("the next call uses session %s", r.Header.Get("Mcp-Session-Id"))
					}
					result(w, m, hello)
					return
				}
				stream(w)
				close(running)
				select {
				case <-refused:
				case <-r.Context().Done():
				}
				select { // a test cannot wait for the consequences of the rejection
				case <-time.After(100 * time.Millisecond):
				case <-r.Context().Done():
				}
				stream(w, "data: "+string(jsonrpc.AppendResult(nil, m.ID, []byte(hello)))+"\n\n")
			})
			serve := f.Config.Handler
			f.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodDelete {
					deleted <- r.Header.Get("Mcp-Session-Id")
				}
				serve.ServeHTTP(w, r)
			})
			var mu sync.Mutex
			var gets []string // the received Last-Event-ID headers
			f.get = func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Mcp-Session-Id") != session {
					stream(w)
					<-r.Context().Done()
					return
				}
				mu.Lock()
				gets = append(gets, r.Header.Get("Last-Event-Id"))
				n := len(gets)
				mu.Unlock()
				switch {
				case n == 1:
					stream(w, "id: e1\nretry: 0\ndata:\n\n")
					<-running
				case n == 2:
					w.WriteHeader(tt.status)
					if !tt.over {
						close(refused)
					}
				case tt.over:
					w.WriteHeader(tt.status)
					close(refused)
				default:
					stream(w)
					close(anew)
					<-r.Context().Done()
				}
			}
			c := run(t, mcpclient.Options{URL: f.URL}, quick)
			if got := callText(t, c, tt.call); got != "hello" {
				t.Fatalf("got %q", got)
			}
			if tt.over {
				sessions++
			}
			select {
			case got := <-deleted:
				if !tt.over || got != session {
					t.Errorf("%s is deleted", got)
				}
			case <-anew:
			case <-time.After(10 * time.Second):
				t.Fatal("the client neither opened the stream again nor replaced the session")
			}
			next := toolCall("t", "{}")
			next.Context().ClientCapabilities = tt.call.Context().GetClientCapabilities()
			next.Context().Verified = tt.call.Context().GetVerified()
			if got := callText(t, c, next); got != "hello" {
				t.Errorf("then got %q", got)
			}
			if n := f.n.Load(); n != sessions {
				t.Errorf("%d sessions were started, want %d", n, sessions)
			}
			mu.Lock()
			defer mu.Unlock()
			if want := []string{"", "e1", ""}; !slices.Equal(gets, want) {
				t.Errorf("the stream was resumed after %q, want %q", gets, want)
			}
		})
	}
}
