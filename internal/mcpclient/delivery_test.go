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
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/jsonrpc"
	"github.com/mcpbridge/mcpbridge/internal/mcpclient"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

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
