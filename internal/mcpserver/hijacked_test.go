package mcpserver_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/mcpbridge/mcpbridge/internal/bridgetest"
	"github.com/mcpbridge/mcpbridge/internal/lifecycle"
	"github.com/mcpbridge/mcpbridge/internal/limit"
	"github.com/mcpbridge/mcpbridge/internal/limits"
	"github.com/mcpbridge/mcpbridge/internal/mcpserver"
)

// waiting are the kinds of idle subscription streams: a function opens each and reads up to its first change.
var waiting = map[string]func(*front) *stream{
	"subscriptions/listen": func(f *front) *stream {
		body, h := modern(7, "subscriptions/listen", `"notifications":{"toolsListChanged":true}`, noCaps)
		s := read(f.T, f.post(body, h))
		want(f.T, s.next(), "method", `"notifications/subscriptions/acknowledged"`)
		return s
	},
	"GET of a session": func(f *front) *stream {
		return read(f.T, f.initialize("2025-11-25", clientCaps).get(f.Context(), ""))
	},
	"HTTP+SSE": func(f *front) *stream {
		s, url := f.openSSE(f.Context())
		f.do(f.Context(), http.MethodPost, url,
			`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2024-11-05","capabilities":{},"clientInfo":{"name":"a","version":"1"}}}`, nil)
		want(f.T, s.next(), "id", "1")
		f.do(f.Context(), http.MethodPost, url, `{"jsonrpc":"2.0","method":"notifications/initialized"}`, nil)
		return s
	},
}

// Over each version of HTTP, a subscriber receives changes and the end of its stream.
func TestStreamsOverEveryHTTP(t *testing.T) {
	for _, over := range []struct {
		name      string
		tls, http bool // http: version 2
		taken     bool
	}{
		{"HTTP/1.1", false, false, true},
		{"HTTP/1.1 over TLS", true, false, true},
		{"HTTP/2", true, true, false},
	} {
		for name, open := range waiting {
			t.Run(over.name+", "+name, func(t *testing.T) {
				f := &front{T: t, h: bridgetest.New()}
				f.s = mcpserver.New(f.h,
					mcpserver.Options{Log: zerolog.New(zerolog.NewTestWriter(t)).Level(zerolog.WarnLevel)})
				var taken atomic.Bool
				srv := httptest.NewUnstartedServer(f.s)
				srv.EnableHTTP2 = over.http
				srv.Config.ConnState = func(_ net.Conn, state http.ConnState) {
					if state == http.StateHijacked {
						taken.Store(true)
					}
				}
				if over.tls {
					srv.StartTLS()
				} else {
					srv.Start()
				}
				defer srv.Close()
				f.url, f.c = srv.URL+"/mcp", srv.Client()
				s := open(f)
				f.h.Add("new")
				want(t, s.next(), "method", `"notifications/tools/list_changed"`)
				closed := make(chan struct{})
				go func() {
					f.s.Close()
					close(closed)
				}()
				if _, err := io.Copy(io.Discard, s.r); err != nil {
					t.Errorf("the stream ended with %v", err)
				}
				<-closed
				reused := false
				ctx := httptrace.WithClientTrace(t.Context(),
					&httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) { reused = i.Reused }})
				if res := f.do(ctx, http.MethodPut, f.url, "", nil); res.StatusCode != http.StatusMethodNotAllowed ||
					!reused {
					t.Errorf("next request: %s, on the same connection: %v", res.Status, reused)
				}
				if taken.Load() != over.taken {
					t.Errorf("the connection was hijacked: %v", taken.Load())
				}
			})
		}
	}
}

// A raw is a connection with an open stream.
type raw struct {
	*net.TCPConn

	r   *bufio.Reader
	res *http.Response
}

// listenRaw opens a subscription stream and sends more after the request.
func (f *front) listenRaw(more string) *raw {
	f.Helper()
	addr := strings.TrimSuffix(strings.TrimPrefix(f.url, "http://"), "/mcp")
	c, err := new(net.Dialer).DialContext(f.Context(), "tcp", addr)
	if err != nil {
		f.Fatal(err)
	}
	body, h := modern(1, "subscriptions/listen",
		`"notifications":{"toolsListChanged":true,"resourceSubscriptions":["test://a"]}`, noCaps)
	var head strings.Builder
	for i := 0; i < len(h); i += 2 {
		head.WriteString(h[i] + ": " + h[i+1] + "\r\n")
	}
	fmt.Fprintf(c, "POST /mcp HTTP/1.1\r\nHost: %s\r\nAccept: application/json, text/event-stream\r\nContent-Type: "+
		"application/json\r\n%sContent-Length: %d\r\n\r\n%s%s",
		addr, head.String(), len(body), body, more)
	r := bufio.NewReader(c)
	res, err := http.ReadResponse(r, nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() {
		c.Close() // first, because the peer reads to the end of the stream
		res.Body.Close()
	})
	return &raw{c.(*net.TCPConn), r, res}
}

// awaitNoListeners waits until all subscription streams have ended.
func (f *front) awaitNoListeners() {
	for f.h.Listeners() > 0 {
		runtime.Gosched()
	}
}

// A stream ends when its client disconnects, in whatever way, and frees its place.
func TestStreamEndsWhenItsClientDisconnects(t *testing.T) {
	for name, end := range map[string]func(*raw) error{
		"closed":      func(c *raw) error { return c.Close() },
		"half-closed": func(c *raw) error { return c.CloseWrite() },
		"reset": func(c *raw) error {
			if err := c.SetLinger(0); err != nil {
				return err
			}
			return c.Close()
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFront(t, mcpserver.Options{Streams: limit.StreamsOf(limits.Limits{Streams: 1}, nil)})
			c := f.listenRaw("")
			if c.res.Close {
				t.Error("got Connection: close, which makes a lost connection look like an end")
			}
			if err := end(c); err != nil {
				t.Fatal(err)
			}
			f.awaitNoListeners()
			if res := f.listenRaw("").res; res.StatusCode != http.StatusOK {
				t.Errorf("next stream: %s", res.Status)
			}
		})
	}
}

// Requests that a client sends on the connection of a stream get their responses after the stream.
func TestConnectionIsReusedAfterAStream(t *testing.T) {
	const next = "PUT /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
	for name, send := range map[string]func(*front) (c *raw, later string){
		"at once": func(f *front) (*raw, string) { return f.listenRaw(next), "" },
		"meanwhile": func(f *front) (*raw, string) {
			c := f.listenRaw("")
			fmt.Fprint(c, next)
			return c, ""
		},
		"afterwards": func(f *front) (*raw, string) { return f.listenRaw(""), next },
	} {
		t.Run(name, func(t *testing.T) {
			life := lifecycle.New()
			f := newFront(t, mcpserver.Options{Lifecycle: life})
			c, later := send(f)
			s := read(t, c.res)
			want(t, s.next(), "method", `"notifications/subscriptions/acknowledged"`)
			f.h.Add("new")
			want(t, s.next(), "method", `"notifications/tools/list_changed"`)
			life.Advance(lifecycle.Draining)
			want(t, s.next(), "result.resultType", `"complete"`)
			if more := s.next(); more != "" {
				t.Error(more)
			}
			fmt.Fprint(c, later)
			res, err := http.ReadResponse(c.r, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			if res.StatusCode != http.StatusMethodNotAllowed {
				t.Errorf("%s", res.Status)
			}
		})
	}
}

// A subscriber that does not read is disconnected, and its buffer is freed.
func TestUnreadStreamIsClosed(t *testing.T) {
	f := newFront(t, mcpserver.Options{Limits: limits.Limits{WriteTime: 50 * time.Millisecond}})
	f.listenRaw("")
	uri := "test://a/" + strings.Repeat("x", 256<<10)
	for i := 0; f.h.Listeners() > 0; i++ {
		f.h.Update(fmt.Sprint(uri, i))
		runtime.Gosched()
	}
}

// A stream whose connection cannot be hijacked also ends with its client.
func TestAStreamOfHTTP10(t *testing.T) {
	f := newFront(t, mcpserver.Options{})
	addr := strings.TrimSuffix(strings.TrimPrefix(f.url, "http://"), "/mcp")
	c, err := new(net.Dialer).DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	session := f.initialize("2025-11-25", clientCaps)
	fmt.Fprintf(c, "GET /mcp HTTP/1.0\r\nHost: %s\r\nAccept: text/event-stream\r\nMcp-Session-Id: %s\r\n\r\n", addr,
		session.id)
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	defer c.Close()
	f.h.Add("new")
	want(t, read(t, res).next(), "method", `"notifications/tools/list_changed"`)
}
