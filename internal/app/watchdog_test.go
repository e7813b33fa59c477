package app

import (
	"context"
	"net"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/config"
	"github.com/mcpbridge/mcpbridge/internal/contain"
	"github.com/mcpbridge/mcpbridge/internal/lifecycle"
)

// A hangingFront hangs until it is released.
type hangingFront struct {
	stdioFront
	released chan struct{}
}

func (f *hangingFront) check() { <-f.released }

// A panickingFront has a bug, and does not hang.
type panickingFront struct{ stdioFront }

func (*panickingFront) check() { panic("a bug") }

// The watchdog receives four beats in its timeout, and none while a front hangs.
func TestAHangingFrontStopsTheBeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var beats atomic.Int32
		a := &App{panics: contain.New(zerolog.Nop())}
		a.Watchdog = Watchdog{Timeout: time.Minute, Beat: func() { beats.Add(1) }}
		f := &hangingFront{released: make(chan struct{})}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go a.beat(ctx, []front{f, &panickingFront{}})
		<-time.After(time.Hour)
		if n := beats.Load(); n != 0 {
			t.Errorf("%d beats while the front hangs", n)
		}
		close(f.released)
		synctest.Wait()
		beats.Store(0)
		<-time.After(time.Minute)
		synctest.Wait()
		if n := beats.Load(); n != 4 && n != 5 { // a tick of the time before may be left
			t.Errorf("%d beats in a minute", n)
		}
	})
}

// A server hangs if it neither accepts connections nor waits for one.
func TestAServerThatDoesNotAcceptHangs(t *testing.T) {
	ln := &pipeListener{conns: make(chan net.Conn), done: make(chan struct{})}
	cfg := &config.Config{}
	cfg.Serve.HTTP.Path = "/mcp"
	a := &App{cfg: cfg, lifecycle: lifecycle.New()}
	bound := &retryingListener{Listener: ln}
	a.http, a.bound = bound, []*retryingListener{bound}
	a.endpoint = a.newEndpoint("",
		bridge.HandlerFunc(func(_ context.Context, call *bridge.Call, _ bridge.Emit) (*bridge.Result, error) {
			return &bridge.Result{Complete: call.Method.NewResult()}, nil
		}), nil)
	defer a.endpoint.mcp.Close()
	f, err := a.newHTTPFront()
	if err != nil {
		t.Fatal(err)
	}
	if a.hangs() {
		t.Error("it hangs before it is served")
	}
	served := make(chan error, 1)
	go func() { served <- f.serve() }()
	f.mu.Lock() // track needs it for each accepted connection
	client, server := net.Pipe()
	defer client.Close()
	ln.conns <- server
	for !a.hangs() {
		runtime.Gosched()
	}
	f.check() // although requests are handled
	f.mu.Unlock()
	for a.hangs() {
		runtime.Gosched()
	}
	_ = f.srv.Close()
	if err := <-served; err != nil {
		t.Error(err)
	}
}
