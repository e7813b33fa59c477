package mcpserver

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/lifecycle"
	"github.com/mcpbridge/mcpbridge/internal/limits"
	"github.com/mcpbridge/mcpbridge/internal/mcphttp"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// A worker is a handler whose calls run until they are released or canceled, and which records events.
type worker struct {
	letGo chan struct{}
	notes chan string
}

func newWorker() *worker { return &worker{make(chan struct{}), make(chan string, 10)} }

func (w *worker) Handle(ctx context.Context, call *bridge.Call, emit bridge.Emit) (*bridge.Result, error) {
	switch call.Method {
	case bridge.Discover:
		return &bridge.Result{Complete: &pb.DiscoverResponse{
			Capabilities: &pb.ServerCapabilities{Tools: &pb.ToolsCapability{}},
		}}, nil
	case bridge.CallTool:
	default:
		return &bridge.Result{Complete: call.Method.NewResult()}, nil
	}
	w.notes <- "begins"
	select {
	case <-w.letGo:
		err := emit(ctx, bridge.Event{Progress: &pb.Progress{Progress: 1}})
		w.notes <- fmt.Sprint("ends after an event, with error: ", err)
		return &bridge.Result{Complete: toolError("it went well")}, nil
	case <-ctx.Done():
		w.notes <- fmt.Sprint("is cancelled: ", context.Cause(ctx))
		return nil, ctx.Err()
	}
}

// next returns what has been recorded since, if anything.
func (w *worker) next() string {
	select {
	case note := <-w.notes:
		return note
	default:
		return ""
	}
}

// A lossy is a response that is lost when its client disconnects.
type lossy struct {
	header   http.Header
	ctx      context.Context //nolint:containedctx // the connection's context
	received chan string
}

func (l *lossy) Header() http.Header { return l.header }
func (l *lossy) WriteHeader(int)     {}
func (l *lossy) Flush()              {}

func (l *lossy) Write(data []byte) (int, error) {
	if l.ctx.Err() != nil {
		return 0, l.ctx.Err()
	}
	l.received <- string(data)
	return len(data), nil
}

// An sseClient is a client of HTTP+SSE.
type sseClient struct {
	t        *testing.T
	s        *Server
	path     string
	received chan string
	drop     context.CancelFunc
}

// openSSEClient opens the stream of a client and starts its session.
func openSSEClient(t *testing.T, s *Server) *sseClient {
	t.Helper()
	ctx, drop := context.WithCancel(t.Context())
	o := &sseClient{t: t, s: s, received: make(chan string, 100), drop: drop}
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/mcp", http.NoBody)
	r.Header.Set("Accept", mcphttp.EventStream)
	go s.ServeHTTP(&lossy{http.Header{}, ctx, o.received}, r)
	_, rest, _ := strings.Cut(o.next(), "data: ")
	o.path, _, _ = strings.Cut(rest, "\n")
	o.send(202, strings.ReplaceAll(beginBody, "2025-11-25", "2024-11-05"))
	o.next()
	o.send(202, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return o
}

// next returns the next event.
func (o *sseClient) next() string {
	for {
		if received := <-o.received; received != "" {
			return received
		}
	}
}

// send sends a message and expects a status.
func (o *sseClient) send(status int, body string) {
	o.t.Helper()
	w := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(o.t.Context(), http.MethodPost, o.path, strings.NewReader(body))
	r.Header.Set("Content-Type", mcphttp.JSON)
	o.s.ServeHTTP(w, r)
	synctest.Wait()
	if w.Code != status {
		o.t.Errorf("%s got %d, want %d: %s", body, w.Code, status, w.Body)
	}
}

const (
	workBody   = `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"x","_meta":{"progressToken":"t"}}}`
	cancelBody = `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}`
)

// count returns the number of sessions of a server.
func (s *Server) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.sessions) + len(s.conns)
}

// The loss of an HTTP+SSE stream cancels no calls. Its session remains for up to a minute while calls run.
func TestCallsContinueWithoutTheirStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newWorker()
		s := New(h, Options{Sessions: NewSessions(limits.Limits{Sessions: 1})})
		defer s.Close()
		o := openSSEClient(t, s)
		o.send(202, workBody)
		o.drop()
		synctest.Wait()
		if first, then := h.next(), h.next(); first != "begins" || then != "" {
			t.Fatalf("call: %s, and %s", first, then)
		}
		o.send(404, pingBody) // no stream could carry the response
		if n := s.hub.Len(); n > 0 {
			t.Errorf("the handler has %d subscriptions", n)
		}
		pass(sseGrace - 1)
		if note := h.next(); note != "" || s.count() != 1 {
			t.Errorf("within the minute: call %s, %d sessions", note, s.count())
		}
		if res := post(t, s, "", beginBody); res.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("another session: %s", res.Status)
		}
		pass(1)
		if note := h.next(); note != "is cancelled: the client has disconnected" || s.count() != 0 {
			t.Errorf("after a minute: call %s, %d sessions", note, s.count())
		}
		o.send(404, cancelBody)
		beginSession(t, s)
	})
}

// The response of such a call is dropped, and the session ends with the last one: it cannot be resumed.
func TestASessionWithoutStreamEndsWithItsLastCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newWorker()
		s := New(h, Options{})
		defer s.Close()
		o := openSSEClient(t, s)
		o.send(202, workBody)
		o.send(202, strings.NewReplacer(`"id":2`, `"id":3`, `"progressToken":"t"`, `"progressToken":3`).
			Replace(workBody))
		o.drop()
		pass(time.Second)
		h.letGo <- struct{}{}
		synctest.Wait()
		if s.count() != 1 {
			t.Errorf("got %d sessions while a call runs", s.count())
		}
		close(h.letGo)
		synctest.Wait()
		for _, want := range []string{
			"begins", "begins", "ends after an event, with error: <nil>",
			"ends after an event, with error: <nil>", "",
		} {
			if note := h.next(); note != want {
				t.Errorf("a call %q, want %q", note, want)
			}
		}
		if s.count() != 0 {
			t.Errorf("%d sessions afterwards", s.count())
		}
		o = openSSEClient(t, s) // without calls, a session ends with its stream
		o.drop()
		synctest.Wait()
		if s.count() != 0 {
			t.Errorf("got %d sessions of a disconnected client", s.count())
		}
	})
}

func TestACallWithoutStreamCanBeCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newWorker()
		s := New(h, Options{})
		defer s.Close()
		o := openSSEClient(t, s)
		o.send(202, workBody)
		o.drop()
		pass(sseGrace / 2)
		o.send(202, cancelBody)
		if first, then := h.next(), h.next(); first != "begins" ||
			then != "is cancelled: the client cancelled the request" || s.count() != 0 {
			t.Errorf("call: %s, and %s; %d sessions", first, then, s.count())
		}
		if len(o.received) > 0 {
			t.Errorf("got %s", <-o.received)
		}
	})
}

// The shutdown does not wait for disconnected clients.
func TestShutdownDoesNotWaitForDisconnectedClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newWorker()
		s := New(h, Options{})
		o := openSSEClient(t, s)
		o.send(202, workBody)
		o.drop()
		for range 10_000 { // notifying these takes time
			_, cancel := context.WithCancel(s.closing())
			defer cancel()
		}
		synctest.Wait()
		began := time.Now()
		s.life.Advance(lifecycle.Draining)
		s.Close()
		if took := time.Since(began); took != 0 {
			t.Errorf("it took %v", took)
		}
		if first, then := h.next(), h.next(); first != "begins" ||
			then != "is cancelled: the bridge is shutting down" || s.count() != 0 {
			t.Errorf("call: %s, and %s; %d sessions", first, then, s.count())
		}
	})
}

// If the shutdown ends a call that waits for its backend, the error contains not_executed.
func TestUnsentCallsAtShutdown(t *testing.T) {
	for begun, outcome := range map[bool]string{false: "not_executed", true: "unknown"} {
		synctest.Test(t, func(t *testing.T) {
			s := New(bridge.HandlerFunc(
				func(ctx context.Context, call *bridge.Call, _ bridge.Emit) (*bridge.Result, error) {
					if call.Method != bridge.CallTool {
						return newWorker().Handle(ctx, call, nil)
					}
					<-ctx.Done()
					return nil, bridge.Canceled(ctx, begun)
				}), Options{})
			id := beginSession(t, s)
			post(t, s, id, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
			want := `"data":{"reason":"SHUTTING_DOWN","outcome":"` + outcome + `"}`
			var wg sync.WaitGroup
			ctx, cut := context.WithCancel(t.Context()) // the connections' context, which the end of the front cancels
			for _, session := range []string{id, ""} {
				wg.Go(func() {
					res := calls(ctx, t, s, session)
					if body, _ := io.ReadAll(res.Body); !strings.Contains(string(body), want) {
						t.Errorf("in a session %t: %s, want %s", session != "", body, want)
					}
				})
			}
			pass(time.Second)
			s.life.Advance(lifecycle.Draining)
			cut()
			s.Close()
			wg.Wait()
		})
	}
}

// calls calls a tool in a session, or as a client of 2026-07-28 if session is empty.
func calls(ctx context.Context, t *testing.T, s *Server, session string) *http.Response {
	t.Helper()
	if session != "" {
		return post(t, s, session, workBody)
	}
	w := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/mcp",
		strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x",`+
			`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`))
	for name, value := range map[string]string{
		"Content-Type": mcphttp.JSON, "Accept": mcphttp.JSON + ", " + mcphttp.EventStream,
		"Mcp-Protocol-Version": "2026-07-28",
		"Mcp-Method":           "tools/call", "Mcp-Name": "x",
	} {
		r.Header.Set(name, value)
	}
	s.ServeHTTP(w, r)
	return w.Result()
}

// Closing a connection waits for its calls, and no further call starts on it.
func TestNoCallStartsOnAClosedConnection(t *testing.T) {
	s := New(bridge.HandlerFunc(nil), Options{})
	defer s.Close()
	c := s.newConn(func([]byte) error { return nil }, true)
	began, end := make(chan struct{}), make(chan struct{})
	if !c.start(func() { close(began); <-end }) {
		t.Fatal("the first call did not start")
	}
	<-began
	closed := make(chan struct{})
	go func() { c.close(errDisconnected); close(closed) }()
	<-c.ctx.Done()
	select {
	case <-closed:
		t.Error("closing did not wait for the call")
	default:
	}
	close(end)
	<-closed
	if c.start(func() {}) {
		t.Error("a call started after the wait")
	}
}
