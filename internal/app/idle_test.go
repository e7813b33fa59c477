package app

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/config"
	"github.com/mcpbridge/mcpbridge/internal/lifecycle"
	"github.com/mcpbridge/mcpbridge/internal/limits"
)

// A pipeListener hands out connections within the process.
type pipeListener struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once // guards the end of done
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

func (l *pipeListener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8080} }

// A connection is kept for two minutes after a response, one that does not finish its header for five seconds, and one
// that does not finish its body for thirty if at least 1 KiB of it comes each second, after five.
func TestIdleConnectionsAreClosed(t *testing.T) {
	const (
		body    = `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`
		request = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nAccept: application/json, " +
			"text/event-stream\r\nContent-Type: application/json\r\n" +
			"MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/list\r\nContent-Length: "
	)
	get, whole := "GET /nothing HTTP/1.1\r\nHost: localhost", request+strconv.Itoa(len(body))+"\r\n\r\n"
	const (
		late = "HTTP/1.1 408 Request Timeout\r\n"
		none = "HTTP/1.1 404 Not Found\r\n" // because there are no tools, or nothing is there
	)
	for name, tt := range map[string]struct {
		limits limits.Limits
		rest   string // what is sent after the first request
		drips  int    // how many bytes are sent after that each second, for half a minute at most
		then   string // what is sent in the end,
		wait   time.Duration
		after  time.Duration
		want   string // first, after that
	}{
		"idle": {after: 120 * time.Second},
		"idle, and a request just in time": {
			then: get + "\r\n\r\n", wait: 120*time.Second - 1,
			after: 120*time.Second - 1, want: none,
		},
		"idle, and a request a moment too late": {
			then: get + "\r\n\r\n", wait: 120*time.Second + 1,
			after: 120 * time.Second,
		},
		"a header, in part": {rest: get, after: 5 * time.Second},
		"a header just in time": {
			rest: get, then: "\r\n\r\n", wait: 5*time.Second - 1,
			after: 5*time.Second - 1, want: none,
		},
		"a header a moment too late": {
			rest: get, then: "\r\n\r\n", wait: 5*time.Second + 1,
			after: 5 * time.Second,
		},
		"no body": {rest: request + "100\r\n\r\n", after: 5 * time.Second, want: late},
		"a body, in part": {
			rest:  request + "100\r\n\r\n{",
			after: 5*time.Second + time.Second/1024, want: late,
		},
		"a body just in time": {
			rest: whole + body[:1], then: body[1:],
			wait: 5*time.Second + time.Second/1024 - 1, after: 5*time.Second + time.Second/1024 - 1, want: none,
		},
		"a body a moment too late": {
			rest: whole + body[:1], then: body[1:],
			wait: 5*time.Second + time.Second/1024 + 1, after: 5*time.Second + time.Second/1024, want: late,
		},
		"a body of unknown length, in part": {rest: strings.Replace(request, "Content-Length: ",
			"Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n", 1), after: 5*time.Second + time.Second/1024, want: late},
		"a body for ever": {
			rest: request + "100000\r\n\r\n{", drips: 1024,
			after: 30 * time.Second, want: late,
		},
		"a body that is too slow": {
			rest: request + "100000\r\n\r\n{", drips: 800,
			after: 5*time.Second + (1+19*800)*time.Second/1024, want: late,
		},
		"a body byte by byte": {
			rest: request + "100000\r\n\r\n{", drips: 1,
			after: 5*time.Second + 6*time.Second/1024, want: late,
		},
		"a body that is slow, and whole in 29s": {rest: request + strconv.Itoa(1+29*1024+len(body)-1) + "\r\n\r\n" +
			body, drips: 1024, after: 29 * time.Second, want: none},

		"idle for the configured time": {
			limits: limits.Limits{ConnectionIdle: 7 * time.Second}, after: 7 * time.Second,
		},
		"idle, and a request just in time for the configured limit": {
			limits: limits.Limits{ConnectionIdle: 7 * time.Second}, then: get + "\r\n\r\n", wait: 7*time.Second - 1,
			after: 7*time.Second - 1, want: none,
		},
		"idle, and a request a moment too late for the configured limit": {
			limits: limits.Limits{ConnectionIdle: 7 * time.Second}, then: get + "\r\n\r\n", wait: 7*time.Second + 1,
			after: 7 * time.Second,
		},
		"a header just in time for the configured limit": {
			limits: limits.Limits{HeaderTime: time.Second},
			rest:   get, then: "\r\n\r\n", wait: time.Second - 1, after: time.Second - 1, want: none,
		},
		"a header a moment too late for the configured limit": {
			limits: limits.Limits{HeaderTime: time.Second},
			rest:   get, then: "\r\n\r\n", wait: time.Second + 1, after: time.Second,
		},
		"a body that is due before the grace ends": {
			limits: limits.Limits{BodyTime: 2 * time.Second},
			rest:   request + "100\r\n\r\n{", after: 2 * time.Second, want: late,
		},
		"a body just in time for the configured limit": {
			limits: limits.Limits{BodyTime: 2 * time.Second},
			rest:   whole + body[:1], then: body[1:], wait: 2*time.Second - 1, after: 2*time.Second - 1, want: none,
		},
		"a body of a GET, for as long as configured": {
			limits: limits.Limits{BodyTime: 2 * time.Second},
			rest:   "GET /mcp HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\nContent-Length: 100\r\n\r\n{",
			after:  2 * time.Second, want: late,
		},
		"a body for ever, as slow as configured": {limits: limits.Limits{
			BodyTime: 10 * time.Second,
			BodyRate: 64,
		}, rest: request + "100000\r\n\r\n{", drips: 64, after: 10 * time.Second, want: late},
		"a body that is slower than configured": {
			limits: limits.Limits{BodyRate: 2048},
			rest:   request + "100000\r\n\r\n{", drips: 1024, after: 5*time.Second + (1+9*1024)*time.Second/2048,
			want: late,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ln := &pipeListener{conns: make(chan net.Conn), done: make(chan struct{})}
				cfg := &config.Config{Settings: config.Settings{Limits: tt.limits}}
				cfg.Serve.HTTP.Path = "/mcp"
				a := &App{cfg: cfg, lifecycle: lifecycle.New(), listeners: listeners{http: ln}}
				a.endpoint = a.newEndpoint("",
					bridge.HandlerFunc(func(_ context.Context, call *bridge.Call, _ bridge.Emit) (*bridge.Result,
						error,
					) {
						return &bridge.Result{Complete: call.Method.NewResult()}, nil // so that there are no tools
					}), nil)
				f, err := a.newHTTPFront()
				if err != nil {
					t.Fatal(err)
				}
				served := make(chan error, 1)
				go func() { served <- f.srv.Serve(ln) }()
				client, server := net.Pipe()
				ln.conns <- server
				var sending sync.WaitGroup
				sending.Go(func() {
					_, _ = io.WriteString(client, whole+body+tt.rest)
					for i := 0; i < 30 && tt.drips > 0; i++ {
						<-time.After(time.Second)
						if _, err := io.WriteString(client, strings.Repeat(" ", tt.drips)); err != nil {
							return
						}
					}
					if <-time.After(tt.wait); tt.then != "" {
						_, _ = io.WriteString(client, tt.then) // fails if it is too late
					}
				})
				in := bufio.NewReader(client)
				res, err := http.ReadResponse(in, nil)
				if err != nil {
					t.Fatal(err)
				}
				if body, err := io.ReadAll(res.Body); err != nil || res.Close ||
					!strings.Contains(string(body), `"code":-32601`) {
					t.Fatalf("%s, %v, closes: %t", body, err, res.Close)
				}
				res.Body.Close()
				closed := make(chan time.Time, 1)
				began := time.Now()
				go func() {
					if line, _ := in.ReadString('\n'); line != tt.want { // an error means that it is closed
						t.Errorf("got %q", line)
					}
					closed <- time.Now()
					_, _ = io.Copy(io.Discard, in) // as above
				}()
				if took := (<-closed).Sub(began); took != tt.after {
					t.Errorf("ended after %v, want %v", took, tt.after)
				}
				_ = f.srv.Close()
				if err := <-served; !errors.Is(err, http.ErrServerClosed) {
					t.Error(err)
				}
				client.Close()
				sending.Wait()
				a.endpoint.mcp.Close()
			})
		})
	}
}
