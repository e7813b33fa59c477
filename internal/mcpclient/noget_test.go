package mcpclient_test

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mcpbridge/mcpbridge/internal/bridgetest"
	"github.com/mcpbridge/mcpbridge/internal/jsonrpc"
	"github.com/mcpbridge/mcpbridge/internal/limits"
	"github.com/mcpbridge/mcpbridge/internal/mcpclient"
)

// Many legacy servers have no standalone stream and respond to GET with 404. That does not make the client replace the
// session.
func TestServersWithoutAStandaloneStream(t *testing.T) {
	for _, status := range []int{400, 404, 405, 406, 410, 501} {
		f := newFake(t, false, func(w http.ResponseWriter, _ *http.Request, m *jsonrpc.Message) { result(w, m, hello) })
		f.get = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }
		c := run(t, mcpclient.Options{URL: f.URL}, quick)
		for range 20 {
			if got := call(t, c, "t", "{}"); got != "hello" {
				t.Fatalf("%d: got %q", status, got)
			}
		}
		if n := f.count("initialize"); n != 1 {
			t.Errorf("%d: initialized %d times", status, n)
		}
	}
}

// If a server keeps ending the stream of a call with an ID, no response and a short retry interval, the client resumes
// it with backoff.
func TestStreamResumptionBacksOff(t *testing.T) {
	bridgetest.SkipIfShort(t)
	f := newFake(t, false, func(w http.ResponseWriter, _ *http.Request, _ *jsonrpc.Message) {
		stream(w, "id: 1\nretry: 0\ndata:\n\n")
	})
	var gets atomic.Int32
	f.get = func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Last-Event-Id") == "" {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		gets.Add(1)
		stream(w, "id: 1\nretry: 0\ndata:\n\n")
	}
	c := run(t, mcpclient.Options{URL: f.URL, Limits: limits.Limits{CallTotal: time.Second}}, quick)
	if _, err := c.Handle(t.Context(), toolCall("t", "{}"), ignore); err == nil {
		t.Error("got a response")
	}
	if n := gets.Load(); n < 2 || n > 46 { // 1 ms, 2 ms and so on: 45 of them are more than a second
		t.Errorf("resumed %d times in a second", n)
	}
}

// If a server ends the standalone stream at once with a short retry interval, the client waits between its requests.
func TestReconnectsAreRateLimited(t *testing.T) {
	bridgetest.SkipIfShort(t)
	const most = 15
	var times atomic.Int64
	begun, enough := time.Now(), make(chan time.Duration, 1)
	f := newFake(t, false, func(w http.ResponseWriter, _ *http.Request, m *jsonrpc.Message) { result(w, m, hello) })
	f.get = func(w http.ResponseWriter, _ *http.Request) {
		if times.Add(1) == most {
			enough <- time.Since(begun)
		}
		stream(w, "retry: 0\n\n")
	}
	run(t, mcpclient.Options{URL: f.URL}, quick)
	if took := <-enough; took < 700*time.Millisecond {
		t.Errorf("got %d requests in %v", most, took)
	}
}
