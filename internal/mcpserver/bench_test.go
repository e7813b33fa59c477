package mcpserver_test

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/bridgetest"
	"github.com/mcpbridge/mcpbridge/internal/mcpserver"
	"github.com/mcpbridge/mcpbridge/internal/tasks"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// BenchmarkCall measures the front's part of a tool call, without sockets and a backend.
func BenchmarkCall(b *testing.B) {
	s := mcpserver.New(bridgetest.New(), mcpserver.Options{})
	b.Cleanup(s.Close)
	session := beginBenchSession(s)
	for _, size := range []int{200, 64 << 10} {
		args := fmt.Sprintf(`{"text":"%s"}`, strings.Repeat("lorem ipsum ", size/12))
		body, h := modern(1, "tools/call", `"name":"echo","arguments":`+args, noCaps, "Mcp-Name", "echo")
		b.Run(fmt.Sprintf("modern/%d", size), func(b *testing.B) { benchmarkPost(b, s, body, h, size) })
		b.Run(fmt.Sprintf("legacy/%d", size), func(b *testing.B) {
			benchmarkPost(b, s, call("1", "echo", args, ""), session, size)
		})
	}
}

// BenchmarkPoll measures the front's part of tasks/get for a task that waits for an answer, and of requests that need
// no task.
func BenchmarkPoll(b *testing.B) {
	all, err := tasks.New(tasks.Options{})
	if err != nil {
		b.Fatal(err)
	}
	asks := bridge.HandlerFunc(func(context.Context, *bridge.Call, bridge.Emit) (*bridge.Result, error) {
		return &bridge.Result{InputRequired: &pb.InputRequired{
			InputRequests: []*pb.InputRequest{bridgetest.Form("1", "Which token?", "token")},
		}}, nil
	})
	h := bridge.HandlerFunc(func(ctx context.Context, c *bridge.Call, emit bridge.Emit) (*bridge.Result, error) {
		if c.Method == bridge.CallTool {
			return all.Call(ctx, c, tasks.CallOptions{Handler: asks, Required: true}, emit)
		}
		return &bridge.Result{Complete: &pb.DiscoverResponse{
			Capabilities: bridge.WithTasks(&pb.ServerCapabilities{Tools: &pb.ToolsCapability{}}),
		}}, nil
	})
	s := mcpserver.New(h, mcpserver.Options{Tasks: all})
	b.Cleanup(func() {
		s.Close()
		if err := all.Close(); err != nil {
			b.Error(err)
		}
	})
	session := beginBenchSession(s)
	const caps = `,"io.modelcontextprotocol/clientCapabilities":` +
		`{"elicitation":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}`
	body, callHeader := modern(1, "tools/call", `"name":"t"`, caps, "Mcp-Name", "t")
	_, rest, _ := strings.Cut(serve(s, body, callHeader).Body.String(), `"taskId":"`)
	id, _, _ := strings.Cut(rest, `"`)
	params := fmt.Sprintf(`"taskId":%q`, id)
	legacy := func(method, params string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q%s}`, method, params)
	}
	get, getHeader := modern(1, "tasks/get", params, caps, "Mcp-Name", id)
	for state := ""; !strings.Contains(state, `"input_required"`); {
		state = serve(s, get, getHeader).Body.String()
	}
	discover, discoverHeader := modern(1, "server/discover", "", caps)
	for _, c := range []struct {
		name, body string
		h          header
	}{
		{"legacy/ping", legacy("ping", ""), session},
		{"legacy/get", legacy("tasks/get", `,"params":{`+params+`}`), session},
		{"modern/discover", discover, discoverHeader},
		{"modern/get", get, getHeader},
	} {
		b.Run(c.name, func(b *testing.B) { benchmarkPost(b, s, c.body, c.h, 1) })
	}
}

// beginBenchSession returns the header of a session of 2025-11-25.
func beginBenchSession(s *mcpserver.Server) header {
	h := header{"Mcp-Session-Id", "", "Mcp-Protocol-Version", "2025-11-25"}
	for _, body := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"b","version":"1"}}}`,
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
	} {
		h[1] = cmp.Or(serve(s, body, h).Header().Get("Mcp-Session-Id"), h[1])
	}
	return h
}

// serve returns the response to a POST.
func serve(s *mcpserver.Server, body string, h header) *httptest.ResponseRecorder {
	rec := httptest.NewRecorder()
	s.ServeHTTP(rec, newPost(body, h))
	return rec
}

func newPost(body string, h header) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "http://localhost/mcp", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	for i := 0; i < len(h); i += 2 {
		r.Header.Set(h[i], h[i+1])
	}
	return r
}

// benchmarkPost measures a POST whose response has at least the given size.
func benchmarkPost(b *testing.B, s *mcpserver.Server, body string, h header, size int) {
	b.Helper()
	r := newPost(body, h)
	data := []byte(body)
	w := &discard{h: http.Header{}}
	b.ReportAllocs()
	for b.Loop() {
		r.Body = io.NopCloser(bytes.NewReader(data))
		clear(w.h)
		w.n = 0
		s.ServeHTTP(w, r)
		if w.n < size {
			b.Fatalf("got a response of %d bytes", w.n)
		}
	}
}

// discard is an http.ResponseWriter that counts bytes.
type discard struct {
	h http.Header
	n int
}

func (d *discard) Header() http.Header              { return d.h }
func (d *discard) WriteHeader(int)                  {}
func (d *discard) Write(p []byte) (int, error)      { d.n += len(p); return len(p), nil }
func (d *discard) SetReadDeadline(time.Time) error  { return nil }
func (d *discard) SetWriteDeadline(time.Time) error { return nil }
