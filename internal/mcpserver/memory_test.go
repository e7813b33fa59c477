package mcpserver_test

import (
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/rs/zerolog"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/bridgetest"
	"github.com/mcpbridge/mcpbridge/internal/limit"
	"github.com/mcpbridge/mcpbridge/internal/mcpserver"
)

// A testMemory is a memory of 1,000 bytes with a settable usage.
type testMemory struct {
	*limit.Memory
	taken, reads atomic.Int64
}

func newTestMemory() *testMemory {
	s := &testMemory{}
	s.Memory = limit.NewMemory(1000, func(bool) int64 {
		s.reads.Add(1)
		return s.taken.Load()
	}, zerolog.Nop())
	return s
}

// setUsage sets the usage and returns when it has taken effect.
func (s *testMemory) setUsage(n int64) {
	s.taken.Store(n)
	for before := s.reads.Load(); s.reads.Load() == before; {
		_ = s.Admit(limit.NewSessions) // reads the usage again at intervals
		runtime.Gosched()
	}
}

const initializeBody = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},` +
	`"clientInfo":{"name":"c","version":"1"}}}`

// When memory is low, requests that retain memory are rejected first, then calls, and never those that free memory or
// complete other requests.
func TestRequestsAreRejectedWhileMemoryIsLow(t *testing.T) {
	bridgetest.SkipIfShort(t)
	long := strings.Repeat(" ", 200<<10)
	listBody, listHeader := modern(1, "tools/list", "", noCaps)
	listenBody, listenHeader := modern(2, "subscriptions/listen", `"notifications":{"toolsListChanged":true}`, noCaps)
	for _, c := range []struct {
		name         string
		from         int64 // the usage of 1,000 bytes at which it is rejected; above 1,000: never
		method, body string
		header       header
		of           bool // the session, whose headers are added
		status       int  // below that usage
	}{
		{name: "a session", from: 850, method: "POST", body: initializeBody, status: 200},
		{
			name: "a session of HTTP+SSE", from: 850, method: "GET",
			header: header{"Accept", "", "Accept", "text/event-stream"}, status: 200,
		},
		{
			name: "a stream of a session", from: 920, method: "GET",
			header: header{"Accept", "", "Accept", "text/event-stream"}, of: true, status: 200,
		},
		{
			name: "a stream of 2026-07-28", from: 920, method: "POST", body: listenBody, header: listenHeader,
			status: 200,
		},
		{name: "a call of 2026-07-28", from: 970, method: "POST", body: listBody, header: listHeader, status: 200},
		{
			name: "a call of a session", from: 970, method: "POST",
			body: `{"jsonrpc":"2.0","id":9,"method":"tools/list"}`,
			of:   true, status: 200,
		},
		{
			name: "a long call of a session", from: 970, method: "POST",
			body: `{"jsonrpc":"2.0","id":9,"method":"tools/list"}` + long, of: true, status: 200,
		},
		{
			name: "a cancellation", from: 10_000, method: "POST",
			body: `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`, of: true,
			status: 202,
		},
		{
			name: "a response", from: 10_000, method: "POST", body: `{"jsonrpc":"2.0","id":"1","result":{}}`, of: true,
			status: 202,
		},
		{
			name: "a ping", from: 10_000, method: "POST", body: `{"jsonrpc":"2.0","id":10,"method":"ping"}`, of: true,
			status: 200,
		},
		{name: "the end of a session", from: 10_000, method: "DELETE", of: true, status: 204},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, taken := range []int64{c.from - 1, c.from, c.from + 1} {
				m := newTestMemory()
				f := newFrontOf(t, mcpserver.Options{Memory: m.Memory}, func(h bridge.Handler) bridge.Handler {
					return limit.New(h, limit.Options{Memory: m.Memory})
				})
				s := f.initialize("2025-11-25", clientCaps)
				h := c.header
				if c.of {
					h = append(s.headers(), h...)
				}
				m.setUsage(taken)
				want := c.status
				if taken >= c.from && c.from <= 1000 {
					want = http.StatusServiceUnavailable
				}
				res := f.do(t.Context(), c.method, f.url, c.body, h)
				if res.StatusCode != want {
					t.Errorf("at a usage of %d of 1,000 bytes: %s, want %d", taken, res.Status, want)
				}
				if want != http.StatusServiceUnavailable {
					continue
				}
				text, _ := io.ReadAll(res.Body) // contains what is missing
				if !strings.Contains(string(text), `"jsonrpc":"2.0"`) ||
					!strings.Contains(string(text), "memory is low") || res.Header.Get("Retry-After") != "1" {
					t.Errorf("%s, %v", text, res.Header)
				}
			}
		})
	}
}

// Concurrent long bodies take at most an eighth of the memory, with or without Content-Length.
func TestLongBodiesAreBounded(t *testing.T) {
	const room = 512 << 10
	body := func(n int) io.Reader {
		return strings.NewReader(initializeBody + strings.Repeat(" ", n-len(initializeBody)))
	}
	for _, c := range []struct {
		name    string
		bytes   int
		chunked bool
		status  int
	}{
		{"one below", room/2 - 1, false, 200},
		{"as much", room / 2, false, 200},
		{"one above", room/2 + 1, false, 503},
		{"one below, of no length", room/2 - 1, true, 200},
		{"as much, of no length", room / 2, true, 200},
		{"one above, of no length", room/2 + 1, true, 503},
		{"a short one", 128 << 10, false, 200},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := limit.NewMemory(8*room, func(bool) int64 { return 0 }, zerolog.Nop())
			f := newFront(t, mcpserver.Options{Memory: m})
			if err := m.ReserveBody(room / 2); err != nil { // of another request
				t.Fatal(err)
			}
			for range 3 { // each releases what it reserved
				from := body(c.bytes)
				if c.chunked {
					from = io.MultiReader(from) // without Content-Length
				}
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, f.url, from)
				if err != nil {
					t.Fatal(err)
				}
				req.Header = http.Header{
					"Content-Type": {"application/json"},
					"Accept":       {"application/json, text/event-stream"},
				}
				res, err := f.c.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				res.Body.Close()
				if res.StatusCode != c.status || c.status == 503 && res.Header.Get("Retry-After") != "1" {
					t.Errorf("%s", res.Status)
				}
			}
		})
	}
}
