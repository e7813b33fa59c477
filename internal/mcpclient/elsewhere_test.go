package mcpclient_test

import (
	"context"
	"net/http"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/jsonrpc"
	"github.com/mcpbridge/mcpbridge/internal/mcpclient"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// pinging is an event that the client answers as soon as it reads it.
const pinging = `data: {"jsonrpc":"2.0","id":"p","method":"ping"}` + "\n\n"

// If the server sends the response on the standalone stream and keeps the request's stream open, the client closes that
// stream: for a call in a session of its own, for a request beside the call, and for a call whose stream was cut.
func TestStreamEndsWhenItsRequestIsAnsweredElsewhere(t *testing.T) {
	for name, tt := range map[string]struct {
		call *bridge.Call
		cut  bool
		at   string // the request whose stream is left open
	}{
		"without input capabilities":               {toolCall("t", "{}"), false, "tools/call"},
		"with input capabilities":                  {callOf("t", "{}", "ada"), false, "tools/call"},
		"a stream that was cut":                    {toolCall("t", "{}"), true, "tools/call"},
		"beside the call":                          {toolCall("t", "{}"), false, "logging/setLevel"},
		"beside the call, with input capabilities": {callOf("t", "{}", "ada"), false, "logging/setLevel"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tt.call.Context().LogLevel = pb.LogLevel_LOG_LEVEL_INFO
			var sessions sync.Map // channels of the lines for their standalone streams, by session ID
			events := func(r *http.Request) chan string {
				s, _ := sessions.LoadOrStore(r.Header.Get("Mcp-Session-Id"), make(chan string, 10))
				return s.(chan string)
			}
			ended := make(chan struct{}, 10)
			var f *fake
			open := func(w http.ResponseWriter, r *http.Request, answer string) {
				stream(w, pinging)
				<-f.responses // the client reads this stream
				events(r) <- "data: " + answer + "\n\n"
				<-r.Context().Done()
				ended <- struct{}{}
			}
			var cut string // the response to the request whose stream was cut
			f = newFake(t, false, func(w http.ResponseWriter, r *http.Request, m *jsonrpc.Message) {
				answer := string(jsonrpc.AppendResult(nil, m.ID, []byte(hello)))
				switch {
				case m.Method != tt.at:
					result(w, m, hello)
				case tt.cut:
					cut = answer
					stream(w, "id: e1\nretry: 0\ndata:\n\n")
				default:
					open(w, r, answer)
				}
			})
			f.capabilities = `{"tools":{},"logging":{}}`
			f.get = func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Last-Event-Id") != "" {
					open(w, r, cut)
					return
				}
				stream(w)
				for {
					select {
					case e := <-events(r):
						stream(w, e)
					case <-r.Context().Done():
						return
					}
				}
			}
			c := run(t, mcpclient.Options{URL: f.URL}, quick)
			if got := callText(t, c, tt.call); got != "hello" {
				t.Fatalf("got %q", got)
			}
			select {
			case <-ended:
			case <-time.After(10 * time.Second):
				t.Error("the stream of the request is still open")
			}
		})
	}
}

// A session that ends is replaced even if the server keeps its streams open.
func TestOpenStreamDoesNotKeepItsSession(t *testing.T) {
	events, over, again := make(chan string, 1), make(chan struct{}), make(chan struct{})
	var f *fake
	f = newFake(t, false, func(w http.ResponseWriter, r *http.Request, m *jsonrpc.Message) {
		if m.Method != "logging/setLevel" {
			result(w, m, hello)
			return
		}
		stream(w, pinging)
		<-f.responses
		events <- string(jsonrpc.AppendResult(nil, m.ID, []byte("{}")))
		<-r.Context().Done()
	})
	f.capabilities = `{"tools":{},"logging":{}}`
	f.get = func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-over:
			if r.Header.Get("Mcp-Session-Id") == "s1" {
				w.WriteHeader(http.StatusNotFound)
				return
			}
			close(again)
			<-r.Context().Done()
			return
		default:
		}
		stream(w)
		for {
			select {
			case e := <-events:
				stream(w, "data: "+e+"\n\n")
			case <-over:
				return
			case <-r.Context().Done():
				return
			}
		}
	}
	c := run(t, mcpclient.Options{URL: f.URL}, quick)
	logs := toolCall("t", "{}")
	logs.Context().LogLevel = pb.LogLevel_LOG_LEVEL_INFO
	if got := callText(t, c, logs); got != "hello" {
		t.Fatalf("got %q", got)
	}
	close(over)
	select {
	case <-again:
	case <-time.After(10 * time.Second):
		t.Error("no second session")
	}
}

// Events on the standalone stream that arrive during a call are emitted by the goroutine of the call.
func TestEventsOfOtherStreamsAreEmittedByTheCallsGoroutine(t *testing.T) {
	const line = `data: {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"a line"}}` +
		"\n\n"
	called, shown := make(chan struct{}), make(chan struct{})
	f := newFake(t, false, func(w http.ResponseWriter, _ *http.Request, m *jsonrpc.Message) {
		if m.Method == "tools/call" {
			close(called)
			<-shown
		}
		result(w, m, hello)
	})
	f.capabilities = `{"tools":{},"logging":{}}`
	f.get = func(w http.ResponseWriter, r *http.Request) {
		stream(w)
		select {
		case <-called:
			stream(w, line)
		case <-r.Context().Done():
		}
		<-r.Context().Done()
	}
	c := run(t, mcpclient.Options{URL: f.URL}, quick)
	call := toolCall("t", "{}")
	call.Context().LogLevel = pb.LogLevel_LOG_LEVEL_INFO
	caller := goroutine()
	_, err := c.Handle(t.Context(), call, func(context.Context, bridge.Event) error {
		if g := goroutine(); g != caller {
			t.Errorf("emitted by goroutine %s, called by %s", g, caller)
		}
		close(shown)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// goroutine returns the name of the calling goroutine.
func goroutine() string {
	name, _, _ := strings.Cut(string(debug.Stack()), " [")
	return name
}
