package mcpserver_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/mcpbridge/mcpbridge/internal/bridgetest"
	"github.com/mcpbridge/mcpbridge/internal/mcpserver"
)

// BenchmarkCall measures the front's part of a tool call, without sockets and a backend.
func BenchmarkCall(b *testing.B) {
	s := mcpserver.New(bridgetest.New(), mcpserver.Options{})
	b.Cleanup(s.Close)
	session := ""
	for _, body := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"b","version":"1"}}}`,
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
	} {
		r := httptest.NewRequest(http.MethodPost, "http://localhost/mcp", strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		r.Header.Set("Mcp-Session-Id", session)
		rec := httptest.NewRecorder()
		s.ServeHTTP(rec, r)
		session = rec.Header().Get("Mcp-Session-Id") + session
	}
	for _, size := range []int{200, 64 << 10} {
		args := fmt.Sprintf(`{"text":"%s"}`, strings.Repeat("lorem ipsum ", size/12))
		body, h := modern(1, "tools/call", `"name":"echo","arguments":`+args, noCaps, "Mcp-Name", "echo")
		for name, c := range map[string]struct {
			body string
			h    header
		}{
			"modern": {body, h},
			"legacy": {
				call("1", "echo", args, ""),
				header{"Mcp-Session-Id", session, "Mcp-Protocol-Version", "2025-11-25"},
			},
		} {
			b.Run(fmt.Sprintf("%s/%d", name, size), func(b *testing.B) {
				r := httptest.NewRequest(http.MethodPost, "http://localhost/mcp", nil)
				r.Header.Set("Content-Type", "application/json")
				r.Header.Set("Accept", "application/json, text/event-stream")
				for i := 0; i < len(c.h); i += 2 {
					r.Header.Set(c.h[i], c.h[i+1])
				}
				r.ContentLength = int64(len(c.body))
				data := []byte(c.body)
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
			})
		}
	}
}

// discard is an http.ResponseWriter that counts bytes.
type discard struct {
	h http.Header
	n int
}

func (d *discard) Header() http.Header         { return d.h }
func (d *discard) WriteHeader(int)             {}
func (d *discard) Write(p []byte) (int, error) { d.n += len(p); return len(p), nil }
