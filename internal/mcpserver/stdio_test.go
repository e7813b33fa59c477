package mcpserver_test

import (
	"bufio"
	"context"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/bridgetest"
	"github.com/mcpbridge/mcpbridge/internal/limits"
	"github.com/mcpbridge/mcpbridge/internal/mcpserver"
)

// A pipe is a stdio client.
type pipe struct {
	*testing.T
	h    *bridgetest.Handler
	in   io.WriteCloser
	out  *bufio.Scanner
	done chan error
}

func newPipe(t *testing.T, o mcpserver.Options) *pipe {
	t.Helper()
	o.Log = zerolog.New(zerolog.NewTestWriter(t)).Level(zerolog.WarnLevel)
	p := &pipe{T: t, h: bridgetest.New(), done: make(chan error, 1)}
	s := mcpserver.New(p.h, o)
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	p.in, p.out = inW, bufio.NewScanner(outR)
	p.out.Buffer(nil, 32<<20)
	go func() {
		p.done <- s.ServeStdio(context.WithoutCancel(t.Context()), inR, outW)
		outW.Close()
	}()
	t.Cleanup(func() {
		inW.Close()
		for p.out.Scan() {
			continue // the rest is ignored
		}
		s.Close()
	})
	return p
}

func (p *pipe) send(line string) {
	p.Helper()
	if _, err := io.WriteString(p.in, line+"\n"); err != nil {
		p.Fatal(err)
	}
}

func (p *pipe) next() string {
	p.Helper()
	if !p.out.Scan() {
		p.Fatal("the output has ended")
	}
	return p.out.Text()
}

func (p *pipe) initialize(rev string) {
	p.Helper()
	p.send(`{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":"` + rev + `","capabilities":` +
		clientCaps + `,"clientInfo":{"name":"old","version":"1"}}}`)
	want(p.T, p.next(), "id", `"i"`, "result.protocolVersion", `"`+rev+`"`)
	p.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
}

func modernLine(id int, method, params, meta string) string {
	body, _ := modern(id, method, params, meta)
	return body
}

func TestStdioSendsChanges(t *testing.T) {
	p := newPipe(t, mcpserver.Options{})
	p.initialize("2025-11-25")
	p.send(modernLine(7, "subscriptions/listen", `"notifications":{"toolsListChanged":true}`, noCaps))
	want(t, p.next(), "method", `"notifications/subscriptions/acknowledged"`)
	p.h.Add("new")
	tagged := map[bool]bool{}
	for range 2 { // one for the session, one for the subscription
		m := p.next()
		want(t, m, "method", `"notifications/tools/list_changed"`)
		tagged[get(t, m, "params._meta") != "null"] = true
	}
	if len(tagged) != 2 {
		t.Error("not one of each era")
	}
}

// A flood of invalid lines gets at most a hundred error responses per second, and other requests are served.
func TestStdioFloodOfInvalidLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPipe(t, mcpserver.Options{})
		received := make(chan int)
		go func() {
			defer close(received)
			n := 0
			for p.out.Scan() {
				if get(t, p.out.Text(), "id") != "null" {
					received <- n
					n = 0
					continue
				}
				n++
			}
		}()
		for second := range 3 {
			for range 5000 {
				p.send("garbage")
			}
			p.send(`{"jsonrpc":"2.0","id":1,"method":"ping"}`)
			if n := <-received; n < 100 || n > 101 {
				t.Errorf("second %d: got %d errors", second, n)
			}
			bridgetest.Pass(time.Second)
		}
		p.in.Close()
		<-received // until the reader has ended
	})
}

// Lines that a transcript cannot contain (stdio/garbage).
func TestStdioSurvivesInvalidLines(t *testing.T) {
	p := newPipe(t, mcpserver.Options{Limits: limits.Limits{Line: 4096}})
	p.initialize("2025-11-25")
	for _, c := range []struct{ line, code string }{
		{"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}", "-32700"},
		{"\u00a0" + `{"jsonrpc":"2.0","id":1,"method":"ping"}`, "-32700"},
		{`{"jsonrpc":"2.0","id":1,"method":"ping"}` + "\u2028", "-32700"},
		{`{"jsonrpc":"2.0","id":1,"method":"ping"}` + "\f", "-32700"},
		{"\u0085", "-32700"},
		{strings.Repeat("x", 4097), "-32600"},
		{strings.Repeat("x", 100_000), "-32600"},
	} {
		p.send(c.line)
		m := p.next()
		want(t, m, "error.code", c.code)
	}
	p.send("")
	p.send(`{"jsonrpc":"2.0","id":1,"method":"ping"}` +
		strings.Repeat(" ", 4095-len(`{"jsonrpc":"2.0","id":1,"method":"ping"}`)) + "\r")
	want(t, p.next(), "id", "1", "result", "{}")
}

// The error for a progress token above the limit differs from that for an invalid one.
func TestLongProgressTokens(t *testing.T) {
	p := newPipe(t, mcpserver.Options{})
	p.initialize("2025-11-25")
	p.send(call("1", "echo", "{}", `"progressToken":"`+strings.Repeat("t", 300)+`"`))
	if m := p.next(); !strings.Contains(m, "-32602") || !strings.Contains(m, "of at most 256 bytes") {
		t.Error(m)
	}
}

// A request ID can be reused as soon as its response has arrived.
func TestStdioIDsAreFreeOnceAnswered(t *testing.T) {
	p := newPipe(t, mcpserver.Options{})
	p.initialize("2025-11-25")
	for range 300 {
		p.send(modernLine(1, "tools/call", `"name":"echo"`, noCaps))
		want(t, p.next(), "id", "1", "error", "null")
		p.send(call("2", "echo", "{}", ""))
		want(t, p.next(), "id", "2", "error", "null")
	}
}

// A server shuts down while its client keeps sending.
func TestStdioEndsDuringACall(t *testing.T) {
	for range 100 {
		s := mcpserver.New(bridgetest.New(), mcpserver.Options{})
		in, client := io.Pipe()
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- s.ServeStdio(ctx, in, io.Discard) }()
		talking, received := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(talking)
			for i := 0; ; i++ {
				if i == 10 {
					close(received)
				}
				if _, err := io.WriteString(client, `{"jsonrpc":"2.0","method":"notifications/x"}`+"\n"); err != nil {
					return
				}
			}
		}()
		<-received
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		_ = in.Close()
		<-talking
		s.Close()
	}
}

// A request that is canceled before the backend is ready gets no response, like any other.
func TestStdioCancellationBeforeTheBackendIsReady(t *testing.T) {
	requested := make(chan struct{})
	s := mcpserver.New(bridge.HandlerFunc(
		func(ctx context.Context, _ *bridge.Call, _ bridge.Emit) (*bridge.Result, error) {
			close(requested)
			<-ctx.Done()
			return nil, ctx.Err()
		}), mcpserver.Options{})
	defer s.Close()
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	done := make(chan error, 1)
	go func() {
		done <- s.ServeStdio(t.Context(), inR, outW)
		outW.Close()
	}()
	p := &pipe{T: t, in: inW, out: bufio.NewScanner(outR)}
	p.send(modernLine(1, "tools/call", `"name":"a"`, noCaps))
	<-requested
	p.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
	p.send(modernLine(2, "nothing", "", noCaps))
	want(t, p.next(), "id", "2", "error.code", "-32601")
	inW.Close()
	if p.out.Scan() {
		t.Errorf("the canceled request got the response %s", p.out.Text())
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// If a client stops reading and closes stdout, its calls are canceled even if it keeps writing.
func TestStdioEndsWhenStdoutIsClosed(t *testing.T) {
	s := mcpserver.New(bridgetest.New(), mcpserver.Options{})
	defer s.Close()
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	done := make(chan error, 1)
	go func() {
		done <- s.ServeStdio(t.Context(), inR, outW)
		inR.Close()
	}()
	p := &pipe{T: t, in: inW, out: bufio.NewScanner(outR)}
	p.send(modernLine(1, "tools/list", "", noCaps))
	p.next()
	outR.Close()
	for id := 2; ; id++ {
		if _, err := io.WriteString(inW, modernLine(id, "tools/list", "", noCaps)+"\n"); err != nil {
			break
		}
		if id == 20_000 {
			t.Error("the server still reads from the client")
			inW.Close()
			break
		}
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}
