package mcpclient_test

import (
	"context"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/bridgetest"
	"github.com/mcpbridge/mcpbridge/internal/jsonrpc"
	"github.com/mcpbridge/mcpbridge/internal/mcpclient"
)

// A relay forwards connections to an address. When it is silenced, its connections stay open and transfer nothing any
// more.
type relay struct {
	net.Listener
	to      string
	silence atomic.Int64 // how often it was silenced
	conns   atomic.Int64
	wg      sync.WaitGroup
}

func newRelay(t *testing.T, to string) *relay {
	t.Helper()
	ln, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{Listener: ln, to: to}
	r.wg.Go(r.run)
	t.Cleanup(func() {
		_ = ln.Close()
		r.wg.Wait()
	})
	return r
}

func (r *relay) run() {
	for {
		in, err := r.Accept()
		if err != nil {
			return
		}
		out, err := new(net.Dialer).DialContext(context.Background(), "tcp", r.to)
		if err != nil {
			_ = in.Close()
			continue
		}
		r.conns.Add(1)
		since := r.silence.Load()
		for _, way := range [][2]net.Conn{{in, out}, {out, in}} {
			r.wg.Go(func() {
				defer way[1].Close()
				_, _ = io.Copy(&silenced{way[1], r, since}, way[0])
			})
		}
	}
}

// A silenced is a connection that drops what is written to it once the relay is silenced.
type silenced struct {
	net.Conn
	r     *relay
	since int64
}

func (s *silenced) Write(b []byte) (int, error) {
	if s.r.silence.Load() != s.since {
		return len(b), nil
	}
	return s.Conn.Write(b)
}

// An HTTP/2 connection that receives nothing is closed. Its call may have been executed, and the next one uses another
// connection.
func TestDeadConnectionIsClosed(t *testing.T) {
	bridgetest.SkipIfShort(t)
	t.Parallel()
	f := &fake{answer: func(w http.ResponseWriter, r *http.Request, m *jsonrpc.Message) {
		if r.ProtoMajor != 2 {
			t.Errorf("called by %s", r.Proto)
		}
		result(w, m, hello)
	}, cancelled: make(chan struct{}, 100), responses: make(chan struct{}, 100)}
	srv := httptest.NewUnstartedServer(f)
	srv.EnableHTTP2 = true
	srv.StartTLS()
	t.Cleanup(srv.Close)
	r := newRelay(t, srv.Listener.Addr().String())
	roots := x509.NewCertPool()
	roots.AddCert(srv.Certificate())
	c := run(t, mcpclient.Options{URL: "https://" + r.Addr().String()}, func(c *mcpclient.Client) { c.TrustRoots(roots) })
	if got := call(t, c, "t", "{}"); got != "hello" {
		t.Fatal(got)
	}
	before := r.conns.Load()
	r.silence.Add(1)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	res, err := c.Handle(ctx, toolCall("t", "{}"), ignore)
	if e := bridge.AsError(err); ctx.Err() != nil || e.Outcome != bridge.OutcomeUnknown {
		t.Fatalf("on the dead connection: %v %v", res, err)
	}
	if got := call(t, c, "t", "{}"); got != "hello" || r.conns.Load() == before {
		t.Errorf("later: %s, over %d more connections", got, r.conns.Load()-before)
	}
}
