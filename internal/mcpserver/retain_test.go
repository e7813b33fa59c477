package mcpserver

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/mcpbridge/mcpbridge/internal/bridgetest"
	"github.com/mcpbridge/mcpbridge/internal/limit"
	"github.com/mcpbridge/mcpbridge/internal/mcphttp"
)

// heap returns the number of bytes in use.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// A session keeps the declarations in initialize, and not the message around them.
func TestSessionDoesNotRetainItsMessage(t *testing.T) {
	const n, long = 16, 1 << 20
	s := New(bridgetest.New(), Options{})
	defer s.Close()
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"initialize","pad":%q,"params":{"protocolVersion":"2025-11-25",`+
		`"capabilities":{"experimental":{"x":{}}},"clientInfo":{"name":"c","version":"1","x":1}}}`,
		strings.Repeat("x", long))
	begin := func() {
		if res := post(t, s, "", body); res.StatusCode != http.StatusOK {
			t.Fatal(res.Status)
		}
	}
	begin()
	before := heap()
	for range n {
		begin()
	}
	if kept := heap() - before; kept > n*long/4 {
		t.Errorf("%d sessions retain %d KiB after messages of %d KiB", n, kept>>10, long>>10)
	}
	runtime.KeepAlive(s)
}

// A subscription stream retains nothing of its request, and reserves no memory for bodies, with or without a
// Content-Length.
func TestStreamDoesNotRetainItsMessage(t *testing.T) {
	const n, long = 32, 100 << 10
	for major := 1; major <= 2; major++ {
		for _, chunked := range []bool{false, true} {
			t.Run(fmt.Sprintf("HTTP/%d, chunked %v", major, chunked), func(t *testing.T) {
				m := limit.NewMemory(8*2*long, func(bool) int64 { return 0 }, zerolog.Nop())
				s := New(bridgetest.New(), Options{Memory: m})
				ctx, cancel := context.WithCancel(t.Context())
				defer s.Close()
				defer cancel()
				client := overHTTP(t, s, major)
				body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","pad":%q,"params":{`+
					`"notifications":{"toolsListChanged":true},"_meta":{"progressToken":"t","io.modelcontextprotocol/protocolVersion":"2026-07-28",`+
					`"io.modelcontextprotocol/clientCapabilities":{"experimental":{"x":{}}}}}}`,
					strings.Repeat("x", long))
				open := func() {
					t.Helper()
					var from io.Reader = strings.NewReader(body)
					if chunked {
						from = io.MultiReader(from)
					}
					req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://localhost/mcp", from)
					if err != nil {
						t.Fatal(err)
					}
					req.Header = http.Header{
						mcphttp.HeaderVersion: {"2026-07-28"}, mcphttp.HeaderMethod: {"subscriptions/listen"},
						"Content-Type": {mcphttp.JSON}, "Accept": {mcphttp.JSON + ", " + mcphttp.EventStream},
					}
					res, err := client.RoundTrip(req)
					if err != nil {
						t.Fatal(err)
					}
					t.Cleanup(func() { res.Body.Close() })
					for in := bufio.NewReader(res.Body); ; {
						line, err := in.ReadString('\n')
						if err != nil {
							t.Fatalf("%s: %v", res.Status, err)
						}
						if strings.Contains(line, "acknowledged") {
							return
						}
					}
				}
				open()
				before := heap()
				for range n {
					open()
				}
				if kept := heap() - before; kept > n*long/2 {
					t.Errorf("%d streams retain %d KiB after messages of %d KiB", n, kept>>10, long>>10)
				}
				if err := errors.Join(m.ReserveBody(1), m.ReserveBody(2*long-1)); err != nil { // the whole budget
					t.Errorf("while streams are open: %v", err)
				}
				runtime.KeepAlive(body)
			})
		}
	}
}
