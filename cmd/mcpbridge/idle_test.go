package main

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
)

// A pipeListener hands out connections within the process.
type pipeListener struct {
	conns chan net.Conn
	done  chan struct{}
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
	close(l.done)
	return nil
}

func (l *pipeListener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8080} }

// A connection is kept for two minutes after a response, one that does not finish its header for five seconds, and one that does not
// finish its body for thirty if at least 1 KiB of it comes each second, after five.
func TestIdleConnectionsAreClosed(t *testing.T) {
	const (
		body    = `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`
		request = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nAccept: application/json, text/event-stream\r\nContent-Type: application/json\r\n" +
			"MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/list\r\nContent-Length: "
	)
	const (
		late = "HTTP/1.1 408 Request Timeout\r\n"
		none = "HTTP/1.1 404 Not Found\r\n" // because there are no tools
	)
	for name, tt := range map[string]struct {
		rest  string // what is sent after the first request
		drips int    // how many bytes are sent after that each second, for half a minute at most
		after time.Duration
		says  string // first, in the end
	}{
		"idle":                                  {"", 0, 120 * time.Second, ""},
		"a header, in part":                     {"GET / HTTP/1.1\r\nHost: loc", 0, 5 * time.Second, ""},
		"no body":                               {request + "100\r\n\r\n", 0, 5 * time.Second, late},
		"a body, in part":                       {request + "100\r\n\r\n{", 0, 5*time.Second + time.Second/1024, late},
		"a body of unknown length, in part":     {strings.Replace(request, "Content-Length: ", "Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n", 1), 0, 5*time.Second + time.Second/1024, late},
		"a body for ever":                       {request + "100000\r\n\r\n{", 1024, 30 * time.Second, late},
		"a body that is too slow":               {request + "100000\r\n\r\n{", 800, 5*time.Second + (1+19*800)*time.Second/1024, late},
		"a body byte by byte":                   {request + "100000\r\n\r\n{", 1, 5*time.Second + 6*time.Second/1024, late},
		"a body that is slow, and whole in 29s": {request + strconv.Itoa(1+29*1024+len(body)-1) + "\r\n\r\n" + body, 1024, 29 * time.Second, none},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ln := &pipeListener{make(chan net.Conn), make(chan struct{})}
				cfg := &loaded{}
				cfg.Serve.HTTP.Path = "/mcp"
				a := &App{cfg: cfg, calls: newCalls(), ln: ln}
				a.endpoint = a.newEndpoint("", bridge.HandlerFunc(func(_ context.Context, call *bridge.Call, _ bridge.Emit) (*bridge.Result, error) {
					return &bridge.Result{Complete: call.Method.NewResult()}, nil // so that there are no tools
				}))
				f := a.newHTTPFront(t.Context())
				served := make(chan error, 1)
				go func() { served <- f.srv.Serve(ln) }()
				client, server := net.Pipe()
				ln.conns <- server
				var sending sync.WaitGroup
				sending.Go(func() {
					_, _ = io.WriteString(client, request+strconv.Itoa(len(body))+"\r\n\r\n"+body+tt.rest)
					for i := 0; i < 30 && tt.drips > 0; i++ {
						<-time.After(time.Second)
						if _, err := io.WriteString(client, strings.Repeat(" ", tt.drips)); err != nil {
							return
						}
					}
				})
				in := bufio.NewReader(client)
				res, err := http.ReadResponse(in, nil)
				if err != nil {
					t.Fatal(err)
				}
				if body, err := io.ReadAll(res.Body); err != nil || res.Close || !strings.Contains(string(body), `"code":-32601`) {
					t.Fatalf("%s, %v, closes: %t", body, err, res.Close)
				}
				res.Body.Close()
				closed := make(chan time.Time, 1)
				began := time.Now()
				go func() {
					if said, _ := in.ReadString('\n'); said != tt.says { // an error says that it is closed
						t.Errorf("it says %q", said)
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
