package mcpserver_test

import (
	"context"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/mcpbridge/mcpbridge/internal/mcpserver"
)

// openSSE opens the event stream of HTTP+SSE, and returns it and where to send messages.
func (f *front) openSSE(ctx context.Context, h ...string) (*stream, string) {
	f.Helper()
	s := read(f.T, f.do(ctx, http.MethodGet, f.url, "", append(header{"Accept", "", "Accept", "text/event-stream"}, h...)))
	e, ok := s.event()
	if !ok || e.name != "endpoint" || !strings.HasPrefix(e.data, "/mcp?") {
		f.Fatalf("the stream begins with %+v", e)
	}
	return s, strings.TrimSuffix(f.url, "/mcp") + e.data
}

func TestHTTPAndSSE(t *testing.T) {
	f := newFront(t, mcpserver.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	s, url := f.openSSE(ctx)
	send := func(body string) {
		t.Helper()
		if res := f.do(t.Context(), http.MethodPost, url, body, header{"Accept", ""}); res.StatusCode != 202 {
			t.Fatalf("%s: %s", body, res.Status)
		}
	}
	send(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2024-11-05","capabilities":{"roots":{}},"clientInfo":{"name":"old","version":"1"}}}`)
	e, _ := s.event()
	if e.name != "message" {
		t.Errorf("%+v", e)
	}
	want(t, e.data, "id", "1", "result.protocolVersion", `"2024-11-05"`)
	send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	send(call("2", "count", "{}", `"progressToken":"t"`))
	for range 4 { // three of progress, one of the log
		s.next()
	}
	want(t, s.next(), "id", "2", "result.content.0.text", `"counted"`)
	f.h.Add("new")
	want(t, s.next(), "method", `"notifications/tools/list_changed"`)
	send(call("3", "wait", "{}", ""))
	<-f.h.Started
	send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":3}}`)
	<-f.h.Ended
	send(call("4", "wait", "{}", ""))
	<-f.h.Started
	cancel()
	for f.do(t.Context(), http.MethodPost, url, `{"jsonrpc":"2.0","id":5,"method":"ping"}`, nil).StatusCode != 404 { // nobody hears the answer
		runtime.Gosched()
	}
	select {
	case <-f.h.Ended:
		t.Error("a stream that was lost cancels a call")
	default:
	}
	send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":4}}`)
	<-f.h.Ended
	if res := f.do(t.Context(), http.MethodPost, url+"x", `{"jsonrpc":"2.0","id":5,"method":"ping"}`, nil); res.StatusCode != 404 {
		t.Errorf("no such session: %s", res.Status)
	}
}

// Of two sessions in the query, another server on the way may read the other, and it may leave out what is not in its form.
func TestAMessageIsOfOneSession(t *testing.T) {
	f := newFront(t, mcpserver.Options{})
	_, url := f.openSSE(t.Context())
	for more, status := range map[string]int{
		"": 202, "&x=1": 202, "&sessionId=x": 400, "&sessionId=": 400, "&session%49d=x": 400, "&sessionId=%zz": 400, "&x;sessionId=x": 400,
	} {
		for _, body := range []string{`{"jsonrpc":"2.0","id":1,"method":"ping"}`, `{"jsonrpc":"2.0","method":"notifications/x"}`} {
			if res := f.do(t.Context(), http.MethodPost, url+more, body, header{"Accept", ""}); res.StatusCode != status {
				t.Errorf("%s: %s, want %d", more, res.Status, status)
			}
		}
	}
}

func TestHTTPAndSSEClientsAreApart(t *testing.T) {
	f := newFront(t, mcpserver.Options{})
	var streams []*stream
	for _, name := range []string{"a", "b"} {
		s, url := f.openSSE(t.Context())
		f.do(t.Context(), http.MethodPost, url, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2024-11-05","capabilities":{},"clientInfo":{"name":"`+name+`","version":"1"}}}`, nil)
		s.next()
		f.do(t.Context(), http.MethodPost, url, call(`"`+name+`"`, "who", "{}", ""), nil) // overtakes
		f.do(t.Context(), http.MethodPost, url, `{"jsonrpc":"2.0","method":"notifications/initialized"}`, nil)
		streams = append(streams, s)
	}
	for i, name := range []string{"a", "b"} {
		want(t, streams[i].next(), "id", `"`+name+`"`, "result.content.0.text", `"2024-11-05 `+name+` progress=false log=LOG_LEVEL_INFO forms=false"`)
	}
	f.s.Drain()
	for _, s := range streams {
		if m := s.next(); m != "" {
			t.Errorf("after the end: %s", m)
		}
	}
}
