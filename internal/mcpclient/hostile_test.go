package mcpclient_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/rs/zerolog"
	"google.golang.org/grpc/codes"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/jsonrpc"
	"github.com/mcpbridge/mcpbridge/internal/limits"
	"github.com/mcpbridge/mcpbridge/internal/mcpclient"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// A server that rejects some calls, however many, remains available for others.
func TestRejectedCallsDoNotDelayOthers(t *testing.T) {
	for _, modern := range []bool{false, true} {
		f := newFake(t, modern, func(w http.ResponseWriter, _ *http.Request, m *jsonrpc.Message) {
			if strings.Contains(string(m.Params), "gone") {
				w.WriteHeader(http.StatusNotFound)
				return
			}
			result(w, m, `{"resultType":"complete","content":[{"type":"text","text":"hello"}]}`)
		})
		c := run(t, mcpclient.Options{URL: f.URL}, (*mcpclient.Client).Hasten)
		for range 20 {
			_, err := c.Handle(t.Context(), toolCall("gone", "{}"), ignore)
			e := bridge.AsError(err)
			outcome := bridge.OutcomeUnknown
			if !modern { // the session is unknown
				outcome = bridge.OutcomeNotExecuted
			}
			if e.Outcome != outcome || !strings.Contains(e.Message, "rejected the call") {
				t.Fatalf("modern %v: %v", modern, err)
			}
		}
		if got := call(t, c, "t", "{}"); got != "hello" {
			t.Errorf("modern %v: got %q", modern, got)
		}
	}
}

// A response without an end fails its call only. Transcripts cover other invalid responses (hostile/).
func TestEndlessResponses(t *testing.T) {
	long := strings.Repeat("x", 2<<20)
	for name, tt := range map[string]struct {
		answer func(w http.ResponseWriter, r *http.Request, m *jsonrpc.Message)
		text   string
	}{
		"an event without an end": {
			func(w http.ResponseWriter, r *http.Request, _ *jsonrpc.Message) {
				stream(w, "data: ")
				for r.Context().Err() == nil {
					if _, err := io.WriteString(w, long); err != nil {
						return
					}
				}
			}, "an event has more than",
		},
		"an event of many lines": {
			func(w http.ResponseWriter, r *http.Request, _ *jsonrpc.Message) {
				stream(w)
				for r.Context().Err() == nil {
					if _, err := io.WriteString(w, strings.Repeat("data: x\n", 1<<12)); err != nil {
						return
					}
				}
			}, "an event has more than",
		},
		"a body without an end": {
			func(w http.ResponseWriter, r *http.Request, _ *jsonrpc.Message) {
				w.Header().Set("Content-Type", "application/json")
				for r.Context().Err() == nil {
					if _, err := io.WriteString(w, long); err != nil {
						return
					}
				}
			}, "the limit is",
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t, true, tt.answer)
			c := run(t, mcpclient.Options{URL: f.URL, Limits: limits.Limits{Message: 1 << 20}}, quick)
			_, err := c.Handle(t.Context(), toolCall("t", "{}"), nil)
			e := bridge.AsError(err)
			if e.Code != codes.ResourceExhausted || e.Outcome != bridge.OutcomeUnknown ||
				e.Reason != "RESPONSE_TOO_LARGE" || !strings.Contains(e.Message, tt.text) {
				t.Errorf("got %v %v: %v", e.Code, e.Outcome, e)
			}
			f.answer = func(w http.ResponseWriter, _ *http.Request, m *jsonrpc.Message) { result(w, m, hello) }
			if got := call(t, c, "t", "{}"); got != "hello" {
				t.Errorf("the next call returned %q", got)
			}
		})
	}
}

// A logged receives the first line of a log.
type logged chan string

func (l logged) Write(line []byte) (int, error) {
	select {
	case l <- string(line):
	default:
	}
	return len(line), nil
}

// Credentials are sent only to the server that they are for.
func TestCredentialsAreSentOnlyToTheirServer(t *testing.T) {
	var others atomic.Int64
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { others.Add(1) }))
	defer other.Close()
	header := http.Header{"Authorization": {"Bearer secret"}}
	t.Run("by a redirection", func(t *testing.T) {
		for _, status := range []int{http.StatusTemporaryRedirect, http.StatusPermanentRedirect, http.StatusFound} {
			f := newFake(t, true, func(w http.ResponseWriter, r *http.Request, _ *jsonrpc.Message) {
				http.Redirect(w, r, other.URL+"/mcp?secret", status)
			})
			c := run(t, mcpclient.Options{URL: f.URL, Header: header}, quick)
			_, err := c.Handle(t.Context(), toolCall("t", "{}"), nil)
			if e := bridge.AsError(err); e.Reason != "UPSTREAM_REDIRECTS" ||
				strings.Contains(e.Message, "secret") {
				t.Errorf("%d: got %v", status, err)
			}
		}
	})
	t.Run("by an endpoint", func(t *testing.T) {
		for _, endpoint := range []string{
			other.URL + "/post", "//" + strings.TrimPrefix(other.URL, "http://") + "/post", "javascript:alert(1)",
			"file:///etc/passwd",
			"http://me:you@" + strings.TrimPrefix(other.URL, "http://"), strings.Repeat("x", 1<<20),
		} {
			f := newFake(t, false, nil)
			f.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method != http.MethodGet {
					w.WriteHeader(http.StatusMethodNotAllowed)
					return
				}
				stream(w, "event: endpoint\ndata: "+endpoint+"\n\n")
				<-r.Context().Done()
			})
			log := make(logged, 1)
			c, err := mcpclient.New(mcpclient.Options{URL: f.URL, Header: header, Log: zerolog.New(log)})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error)
			go func() { done <- c.Run(ctx) }()
			if got := <-log; !strings.Contains(got, "the endpoint is") {
				t.Errorf("%.40s: got %s", endpoint, got)
			}
			cancel()
			<-done
		}
	})
	if n := others.Load(); n > 0 {
		t.Errorf("another server received %d requests", n)
	}
}

// A restarted server does not know any session of its callers. A call loses one attempt to that, however many sessions
// expired, and whichever of its messages meets the first of them.
func TestAllExpiredSessionsAreReplaced(t *testing.T) {
	for name, tt := range map[string]struct {
		capabilities string
		level        pb.LogLevel
	}{
		"the call":                  {"", pb.LogLevel_LOG_LEVEL_UNSPECIFIED},
		"a request before the call": {`{"tools":{},"logging":{}}`, pb.LogLevel_LOG_LEVEL_INFO},
	} {
		t.Run(name, func(t *testing.T) {
			var anew atomic.Int64 // the first valid session
			both, on := make(chan struct{}, 3), make(chan struct{})
			f := newFake(t, false, func(w http.ResponseWriter, r *http.Request, m *jsonrpc.Message) {
				var n int64
				_, _ = fmt.Sscanf(r.Header.Get("Mcp-Session-Id"), "s%d", &n)
				switch {
				case n < anew.Load():
					w.WriteHeader(http.StatusNotFound)
					return
				case strings.Contains(string(m.Params), "together"):
					both <- struct{}{}
					<-on
				}
				result(w, m, hello)
			})
			f.capabilities = tt.capabilities
			c := run(t, mcpclient.Options{URL: f.URL}, quick)
			var wg sync.WaitGroup
			for range cap(both) {
				wg.Go(func() { callText(t, c, callOf("together", "{}", "ada")) })
			}
			for range cap(both) {
				<-both
			}
			close(on)
			wg.Wait()
			anew.Store(f.n.Load() + 1)
			call := callOf("t", "{}", "ada")
			call.Context().LogLevel = tt.level
			if got := callText(t, c, call); got != "hello" {
				t.Errorf("got %q", got)
			}
			if n := f.n.Load() + 1 - anew.Load(); n != 1 {
				t.Errorf("%d sessions were started", n)
			}
		})
	}
}

// An HTTP+SSE server that rejects a message with 404 still responds to others on its stream. The next call starts
// another session.
func TestOneRejectionEndsNoStream(t *testing.T) {
	waiting, refused := make(chan struct{}), make(chan struct{})
	var session, next string
	f := newFake(t, false, nil)
	f.Config.Handler = sseServer(func(w http.ResponseWriter, r *http.Request, m *jsonrpc.Message) {
		switch params := string(m.Params); {
		case strings.Contains(params, "bad"):
			w.WriteHeader(http.StatusNotFound)
			return
		case strings.Contains(params, "good"):
			session = r.URL.Query().Get("session")
			close(waiting)
			<-refused
		default:
			next = r.URL.Query().Get("session")
		}
		result(w, m, hello)
	})
	c := run(t, mcpclient.Options{URL: f.URL}, quick)
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, err := c.Handle(t.Context(), toolCall("good", "{}"), ignore); err != nil {
			t.Errorf("other call: %v", err)
		}
	})
	<-waiting
	_, err := c.Handle(t.Context(), toolCall("bad", "{}"), ignore)
	if e := bridge.AsError(err); e.Reason != "BACKEND_UNAVAILABLE" {
		t.Error(err)
	}
	if got := call(t, c, "t", "{}"); got != "hello" {
		t.Errorf("the next call returned %q", got)
	}
	close(refused)
	wg.Wait()
	if next == session {
		t.Error("the next call uses the same session")
	}
}

// A server that sends many requests and does not read the responses does not fill the log.
func TestUnreadResponsesDoNotFillTheLog(t *testing.T) {
	var log bytes.Buffer
	serve := func(ctx context.Context, in io.Reader, out io.Writer) {
		(&script{on: func(m *jsonrpc.Message, send func(...string)) bool {
			switch m.Method {
			case "initialize":
				send(initializeResponse)
			case "tools/call":
				for range 5_000 {
					send(`{"jsonrpc":"2.0","id":"again","method":"ping"}`)
				}
				send(helloResponse)
			}
			return true
		}}).serve(ctx, in, out)
	}
	bubble(t, mcpclient.Options{Log: zerolog.New(zerolog.SyncWriter(&log))}, serve,
		func(t *testing.T, c *mcpclient.Client) {
			t.Helper()
			for range 3 {
				if got := callText(t, c, toolCall("t", "{}")); got != "hello" {
					t.Errorf("got %s", got)
				}
			}
		})
	if n := strings.Count(log.String(), "server is not reading responses"); n != 1 {
		t.Errorf("logged %d times", n)
	}
}

// A broken transport returns bodies that panic when they are read.
type broken struct{}

func (broken) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body == nil {
		return http.DefaultTransport.RoundTrip(r)
	}
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	res, err := http.DefaultTransport.RoundTrip(r)
	if err == nil && bytes.Contains(body, []byte(`"tools/call"`)) {
		res.Body = bomb{res.Body}
	}
	return res, err
}

type bomb struct{ io.ReadCloser }

func (bomb) Read([]byte) (int, error) { panic("a bug") }

// A panic in a goroutine that reads a stream fails the call and does not end the bridge.
func TestPanicsOfStreamsEndTheirCalls(t *testing.T) {
	f := newFake(t, false, func(w http.ResponseWriter, _ *http.Request, m *jsonrpc.Message) {
		if m.Method != "tools/call" {
			result(w, m, `{}`)
			return
		}
		stream(w, "event: message\ndata: "+string(jsonrpc.AppendResult(nil, m.ID, []byte(hello)))+"\n\n")
	})
	c := run(t, mcpclient.Options{URL: f.URL, Transport: broken{}}, quick)
	_, err := c.Handle(t.Context(), callOf("t", `{}`, "ada"), ignore) // another goroutine reads its stream
	if e := bridge.AsError(err); e.Reason != "INTERNAL" ||
		e.Outcome != bridge.OutcomeUnknown {
		t.Errorf("%v %v", e.Outcome, err)
	}
}
