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

// Many servers of the legacy era have nothing to GET, and say so by 404. That is no reason to begin the session again
// and again.
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

// A server that ends the stream of a call each time with an id and no answer, and wants us back at once, is not asked
// as fast as it can be.
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
		t.Error("there is an answer")
	}
	if n := gets.Load(); n < 2 || n > 46 { // 1 ms, 2 ms and so on: 45 of them are more than a second
		t.Errorf("resumed %d times in a second", n)
	}
}

// A server that ends the stream of what is no answer at once, and wants us back at once, is not asked without a pause.
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
		t.Errorf("it was asked %d times in %v", most, took)
	}
}
