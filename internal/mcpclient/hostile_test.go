package mcpclient_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"google.golang.org/grpc/codes"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/jsonrpc"
	"github.com/mcpbridge/mcpbridge/internal/limits"
	"github.com/mcpbridge/mcpbridge/internal/mcpclient"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// A fake is an MCP server over HTTP whose behavior its test defines.
type fake struct {
	*httptest.Server
	// modern selects the era.
	modern bool
	// answer responds to requests other than those of the session itself.
	answer func(w http.ResponseWriter, r *http.Request, m *jsonrpc.Message)
	// get handles GET. If nil, the response is 405.
	get http.HandlerFunc
	// discover responds to server/discover. If nil, the response depends on the era.
	discover func(w http.ResponseWriter, m *jsonrpc.Message)
	// ping responds to ping. If nil, at once.
	ping func(w http.ResponseWriter, m *jsonrpc.Message)
	// noSession disables sessions.
	noSession bool
	// noInitialize makes initialize unsupported. capabilities are those of the server; if empty, it has tools.
	noInitialize bool
	capabilities string

	// respond receives the responses of the client, if it is not nil.
	respond func(body []byte)

	mu   sync.Mutex
	seen []string // the methods of all messages
	n    atomic.Int64
	// cancelled and responses receive a value for each notifications/cancelled and each response.
	cancelled, responses chan struct{}
}

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

func newFake(t *testing.T, modern bool, answer func(w http.ResponseWriter, r *http.Request, m *jsonrpc.Message)) *fake {
	t.Helper()
	f := &fake{modern: modern, answer: answer, cancelled: make(chan struct{}, 100), responses: make(chan struct{}, 100)}
	f.Server = httptest.NewServer(f)
	t.Cleanup(f.Close)
	return f
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Method == http.MethodGet && f.get != nil:
		f.get(w, r)
		return
	case r.Method != http.MethodPost:
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	body, _ := io.ReadAll(r.Body)
	m, err := jsonrpc.Parse(body, limits.Defaults())
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	f.mu.Lock()
	f.seen = append(f.seen, m.Method)
	f.mu.Unlock()
	can := f.capabilities
	if can == "" {
		can = `{"tools":{}}`
	}
	switch {
	case m.Method == "server/discover" && f.discover != nil:
		f.discover(w, &m)
	case m.Method == "server/discover" && f.modern:
		result(w, &m, `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":`+can+
			`,"ttlMs":0,"cacheScope":"private"}`)
	case m.Method == "initialize" && f.noInitialize:
		w.WriteHeader(http.StatusBadRequest)
	case m.Method == "server/discover":
		w.WriteHeader(http.StatusBadRequest)
	case m.Method == "initialize":
		if !f.noSession {
			w.Header().Set("Mcp-Session-Id", fmt.Sprint("s", f.n.Add(1)))
		}
		result(w, &m, `{"protocolVersion":"2025-11-25","capabilities":`+can+`,"serverInfo":{"name":"f","version":"1"}}`)
	case m.Method == "ping" && f.ping != nil:
		f.ping(w, &m)
	case m.Method == "ping":
		result(w, &m, `{}`)
	case !m.IsRequest():
		if m.Method == "notifications/cancelled" {
			f.cancelled <- struct{}{}
		}
		if m.IsResponse() && f.respond != nil {
			f.respond(body)
		}
		if m.IsResponse() {
			f.responses <- struct{}{}
		}
		w.WriteHeader(http.StatusAccepted)
	default:
		f.answer(w, r, &m)
	}
}

// count returns the number of messages with the method.
func (f *fake) count(method string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, m := range f.seen {
		if m == method {
			n++
		}
	}
	return n
}

func result(w http.ResponseWriter, m *jsonrpc.Message, text string) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(jsonrpc.AppendResult(nil, m.ID, []byte(text)))
}

func stream(w http.ResponseWriter, events ...string) {
	w.Header().Set("Content-Type", "text/event-stream")
	for _, e := range events {
		_, _ = io.WriteString(w, e)
	}
	_ = http.NewResponseController(w).Flush()
}

const hello = `{"content":[{"type":"text","text":"hello"}]}`

// quick shortens the client's intervals.
func quick(c *mcpclient.Client) { c.Hasten() }

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

// A read-only call whose response is lost is not retried if the budget of retries is exhausted.
func TestRetriesHaveABudget(t *testing.T) {
	for _, modern := range []bool{true, false} {
		var n atomic.Int64
		f := newFake(t, modern, func(http.ResponseWriter, *http.Request, *jsonrpc.Message) {
			n.Add(1)
			panic(http.ErrAbortHandler)
		})
		c := run(t, mcpclient.Options{URL: f.URL}, quick)
		c.SpendRetries()
		_, err := c.Handle(t.Context(), &bridge.Call{Method: bridge.ListTools, Request: &pb.ListToolsRequest{}}, nil)
		if e := bridge.AsError(err); e.Reason != "BACKEND_CRASHED" || n.Load() != 1 {
			t.Errorf("after %d attempts: %v", n.Load(), err)
		}
	}
}

// A server may execute a call and then reject it by status. The call is not retried, and its outcome is not
// not_executed. The exception is 404 with a session, which proves that the call was not executed: it is retried once.
// List requests are retried.
func TestRejectionDoesNotProveThatNothingWasExecuted(t *testing.T) {
	refusals := map[string]func(w http.ResponseWriter, _ *http.Request, m *jsonrpc.Message){
		"JSON": func(w http.ResponseWriter, _ *http.Request, _ *jsonrpc.Message) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"after the work"}}`)
		},
	}
	for _, status := range []int{400, 404, 405, 406, 410, 415, 422, 500} {
		refusals[strconv.Itoa(status)] = func(w http.ResponseWriter, _ *http.Request, _ *jsonrpc.Message) {
			http.Error(w, "after the work", status)
		}
	}
	for name, refuse := range refusals {
		for _, kind := range []string{"modern", "a session", "no session", "HTTP+SSE"} {
			t.Run(name+" "+kind, func(t *testing.T) {
				t.Parallel()
				var calls, lists atomic.Int64
				answer := func(w http.ResponseWriter, r *http.Request, m *jsonrpc.Message) {
					if m.Method == "tools/call" {
						calls.Add(1)
					} else if lists.Add(1) > 1 {
						result(w, m, `{"tools":[]}`)
						return
					}
					refuse(w, r, m)
				}
				f := newFake(t, kind == "modern", answer)
				f.noSession = kind == "no session"
				if kind == "HTTP+SSE" {
					f.Config.Handler = sseServer(answer)
				}
				c := run(t, mcpclient.Options{URL: f.URL}, quick)
				want, outcome := int64(1), bridge.OutcomeUnknown
				if name == "404" && (kind == "a session" || kind == "HTTP+SSE") {
					want, outcome = 2, bridge.OutcomeNotExecuted
				}
				_, err := c.Handle(t.Context(), toolCall("t", "{}"), ignore)
				e := bridge.AsError(err)
				// The response is a JSON-RPC error, which is passed on to the caller.
				answered := name == "JSON" && (kind == "modern" || kind == "no session")
				if n := calls.Load(); err == nil || n != want || (e.Outcome != outcome) != answered {
					t.Errorf("executed %d times: %v %v", n, e.Outcome, err)
				}
				if (name == "422" || name == "500") && !strings.Contains(e.Message, "the server answered with "+name) ||
					strings.Contains(e.Message, "lost") {
					t.Errorf("got %v", err)
				}
				if _, err := c.Handle(t.Context(),
					&bridge.Call{Method: bridge.ListTools, Request: &pb.ListToolsRequest{}},
					ignore); (err == nil) == answered {
					t.Errorf("list request, after %d attempts: %v", lists.Load(), err)
				}
			})
		}
	}
}

// sseServer returns an HTTP+SSE server of 2024-11-05. It sends the JSON that answer writes as an event.
func sseServer(answer func(http.ResponseWriter, *http.Request, *jsonrpc.Message)) http.HandlerFunc {
	var mu sync.Mutex
	streams, last := map[string]chan string{}, 0
	return func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodGet:
			events := make(chan string, 10)
			mu.Lock()
			last++
			session := strconv.Itoa(last)
			streams[session] = events
			mu.Unlock()
			stream(w, "event: endpoint\ndata: /post?session="+session+"\n\n")
			for {
				select {
				case e := <-events:
					stream(w, "data: "+e+"\n\n")
				case <-r.Context().Done():
					return
				}
			}
		case r.URL.Path != "/post":
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		body, _ := io.ReadAll(r.Body)
		m, _ := jsonrpc.Parse(body, limits.Defaults())
		rec := httptest.NewRecorder()
		switch {
		case m.Method == "initialize":
			result(rec, &m, `{"protocolVersion":"2024-11-05","capabilities":{"tools":{}},"serverInfo":{"name":"f","version":"1"}}`)
		case m.IsRequest():
			answer(rec, r, &m)
		}
		if rec.Code != http.StatusOK {
			w.WriteHeader(rec.Code)
			return
		}
		w.WriteHeader(http.StatusAccepted)
		if rec.Body.Len() > 0 {
			mu.Lock()
			streams[r.URL.Query().Get("session")] <- rec.Body.String()
			mu.Unlock()
		}
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

// A network is a transport that calls a function with each body before it is sent. An error of the function prevents
// that.
type network func(ctx context.Context, body []byte) error

func (n network) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body == nil {
		return http.DefaultTransport.RoundTrip(r)
	}
	body, err := io.ReadAll(r.Body)
	if err == nil {
		err = n(r.Context(), body)
	}
	if err != nil {
		return nil, err
	}
	r = r.Clone(r.Context())
	r.Body = io.NopCloser(bytes.NewReader(body))
	return http.DefaultTransport.RoundTrip(r)
}

// A call that its caller cancels is canceled at the server too, even while it is uncertain whether the request has been
// sent.
func TestCallCanceledBeforeItIsSent(t *testing.T) {
	f := newFake(t, false, func(http.ResponseWriter, *http.Request, *jsonrpc.Message) {})
	ctx, cancel := context.WithCancel(t.Context())
	c := run(t, mcpclient.Options{URL: f.URL, Transport: network(func(ctx context.Context, body []byte) error {
		if bytes.Contains(body, []byte(`"tools/call"`)) { // received, but not yet reported as sent
			cancel()
			<-ctx.Done()
		}
		return ctx.Err()
	})})
	if _, err := c.Handle(ctx, toolCall("t", `{}`), ignore); bridge.AsError(err).Code != codes.Canceled {
		t.Errorf("%v", err)
	}
	select {
	case <-f.cancelled:
	case <-time.After(10 * time.Second):
		t.Error("the server received no notifications/cancelled")
	}
}

// A late connection does not return from a write that ends in "the end" until held is done or the connection is closed.
type late struct {
	net.Conn
	held   context.Context //nolint:containedctx // a connection has no context of its own
	closed context.CancelFunc
}

func (l late) Write(b []byte) (int, error) {
	n, err := l.Conn.Write(b)
	if bytes.Contains(b, []byte("the end")) {
		<-l.held.Done()
	}
	return n, err
}

func (l late) Close() error {
	l.closed()
	return l.Conn.Close()
}

// A server may execute a call before the client's write has returned.
func TestCallMayBeExecutedBeforeTheWriteReturns(t *testing.T) {
	for _, kind := range []string{"HTTP/1", "HTTP/2", "HTTP+SSE"} {
		for _, size := range []int{1, 100 << 10} {
			t.Run(fmt.Sprint(kind, " ", size), func(t *testing.T) {
				t.Parallel()
				ctx, cancel := context.WithCancel(t.Context())
				lives, die := context.WithCancel(t.Context())
				var calls atomic.Int64
				answer := func(w http.ResponseWriter, r *http.Request, m *jsonrpc.Message) {
					if m.Method != "tools/call" {
						result(w, m, `{}`)
						return
					}
					calls.Add(1)
					if kind == "HTTP+SSE" {
						die()
					} else {
						cancel() // the caller disconnects
					}
					<-r.Context().Done()
				}
				f := &fake{
					modern: kind == "HTTP/2", answer: answer, cancelled: make(chan struct{}, 100),
					responses: make(chan struct{}, 100),
				}
				var serve http.Handler = f
				if kind == "HTTP+SSE" {
					serve = sseServer(answer)
				}
				f.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if r.Method == http.MethodGet { // the stream ends with the server
						r = r.WithContext(lives)
					}
					serve.ServeHTTP(w, r)
				}))
				f.Config.Protocols = new(http.Protocols)
				f.Config.Protocols.SetHTTP1(kind != "HTTP/2")
				f.Config.Protocols.SetUnencryptedHTTP2(kind == "HTTP/2")
				f.Start()
				t.Cleanup(f.Close)
				hold, free := context.WithCancel(t.Context())
				transport := &http.Transport{
					Protocols: f.Config.Protocols,
					DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
						conn, err := new(net.Dialer).DialContext(ctx, network, addr)
						held, closed := context.WithCancel(hold)
						return late{conn, held, closed}, err
					},
				}
				t.Cleanup(transport.CloseIdleConnections)
				c := run(t, mcpclient.Options{URL: f.URL, Transport: transport}, quick)
				_, err := c.Handle(ctx, callOf("t", `{"x":"`+strings.Repeat("x", size)+`the end"}`, "ada"), ignore)
				free()
				if e := bridge.AsError(err); e.Outcome != bridge.OutcomeUnknown ||
					calls.Load() != 1 {
					t.Errorf("executed %d times: %v %v", calls.Load(), e.Outcome, err)
				}
			})
		}
	}
}

// A dialled connection reports when it is closed.
type dialled struct {
	net.Conn
	closed context.CancelFunc
}

func (c dialled) Close() error {
	defer c.closed()
	return c.Conn.Close()
}

// A call reported as not_executed is not sent when the connection is established later.
func TestCallsReportedAsNotSentAreNotSent(t *testing.T) {
	for _, kind := range []string{"2025-11-25", "2026-07-28", "HTTP+SSE"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			var calls atomic.Int64
			answer := func(w http.ResponseWriter, _ *http.Request, m *jsonrpc.Message) {
				if m.Method != "tools/call" {
					result(w, m, `{}`)
					return
				}
				calls.Add(1)
				result(w, m, hello)
			}
			f := newFake(t, kind == "2026-07-28", answer)
			if kind == "HTTP+SSE" {
				f.Config.Handler = sseServer(answer)
			}
			ctx, cancel := context.WithCancel(t.Context())
			hold, free := context.WithCancel(t.Context())
			closed, closes := context.WithCancel(t.Context())
			var slow atomic.Bool
			transport := &http.Transport{
				DisableKeepAlives: true,
				DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
					if !slow.CompareAndSwap(true, false) {
						return new(net.Dialer).DialContext(ctx, network, addr)
					}
					cancel()
					<-hold.Done()
					conn, err := net.Dial(network, addr)
					return dialled{conn, closes}, err
				},
			}
			c := run(t, mcpclient.Options{URL: f.URL, Transport: transport}, quick)
			call(t, c, "t", "{}") // establishes a session
			calls.Store(0)
			slow.Store(true)
			_, err := c.Handle(ctx, toolCall("t", "{}"), ignore)
			if e := bridge.AsError(err); e.Outcome != bridge.OutcomeNotExecuted {
				t.Errorf("%v %v", e.Outcome, err)
			}
			free()
			select {
			case <-closed.Done():
			case <-time.After(10 * time.Second):
				t.Error("the connection stays open")
			}
			if n := calls.Load(); n != 0 {
				t.Errorf("executed %d times", n)
			}
		})
	}
}

// A torn connection fails before the first "the end" is written.
type torn struct {
	net.Conn
	once *atomic.Bool
}

func (c torn) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte("the end")) && !c.once.Swap(true) {
		_ = c.Close()
		return 0, net.ErrClosed
	}
	return c.Conn.Write(b)
}

// A call whose request was not fully written is retried: the server cannot have executed it.
func TestUnsentCallsAreRetried(t *testing.T) {
	for _, modern := range []bool{false, true} { // modern also runs over HTTP/2
		f := &fake{
			modern: modern, cancelled: make(chan struct{}, 100),
			answer: func(w http.ResponseWriter, _ *http.Request, m *jsonrpc.Message) {
				result(w, m, hello)
			},
		}
		f.Server = httptest.NewUnstartedServer(f)
		f.Config.Protocols = new(http.Protocols)
		f.Config.Protocols.SetHTTP1(!modern)
		f.Config.Protocols.SetUnencryptedHTTP2(modern)
		f.Start()
		t.Cleanup(f.Close)
		var once atomic.Bool
		transport := &http.Transport{
			Protocols: f.Config.Protocols,
			DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
				conn, err := new(net.Dialer).DialContext(ctx, network, addr)
				return torn{conn, &once}, err
			},
		}
		t.Cleanup(transport.CloseIdleConnections)
		c := run(t, mcpclient.Options{URL: f.URL, Transport: transport}, quick)
		if got := call(t, c, "t", `{"x":"`+strings.Repeat("x", 100<<10)+`the end"}`); got != "hello" ||
			f.count("tools/call") != 1 {
			t.Errorf("modern %t: got %q, executed %d times", modern, got, f.count("tools/call"))
		}
	}
}

// The session of a canceled call ends, but not before notifications/cancelled is sent.
func TestSessionOfACanceledCallEndsAfterTheCancellation(t *testing.T) {
	for _, kind := range []string{"Streamable HTTP", "HTTP+SSE"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			answer := func(w http.ResponseWriter, r *http.Request, m *jsonrpc.Message) {
				if m.Method != "tools/call" {
					result(w, m, `{}`)
					return
				}
				cancel()
				if kind == "Streamable HTTP" {
					<-r.Context().Done()
				}
			}
			f := newFake(t, false, answer)
			if kind == "HTTP+SSE" {
				f.Config.Handler = sseServer(answer)
			}
			serve, responses := f.Config.Handler, make(chan struct{}, 10)
			f.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				r.Body = io.NopCloser(bytes.NewReader(body))
				serve.ServeHTTP(w, r)
				if bytes.Contains(body, []byte("notifications/cancelled")) {
					responses <- struct{}{}
				}
			})
			c := run(t, mcpclient.Options{URL: f.URL, Transport: network(func(ctx context.Context, body []byte) error {
				if bytes.Contains(body, []byte("notifications/cancelled")) {
					select { // it is slow
					case <-time.After(100 * time.Millisecond):
					case <-ctx.Done():
					}
				}
				return ctx.Err()
			})})
			if _, err := c.Handle(ctx, callOf("t", `{}`, "ada"), ignore); bridge.AsError(err).Code != codes.Canceled {
				t.Errorf("%v", err)
			}
			select {
			case <-responses:
			case <-time.After(10 * time.Second):
				t.Error("the server received no notifications/cancelled")
			}
		})
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
