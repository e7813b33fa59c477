package plugin

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/test/bufconn"
)

// A countedHealth responds to health checks and counts them.
type countedHealth struct {
	grpc_health_v1.UnimplementedHealthServer
	n atomic.Int64
}

func (c *countedHealth) Check(context.Context,
	*grpc_health_v1.HealthCheckRequest,
) (*grpc_health_v1.HealthCheckResponse, error) {
	c.n.Add(1)
	return &grpc_health_v1.HealthCheckResponse{Status: grpc_health_v1.HealthCheckResponse_SERVING}, nil
}

// An idle backend gets two health checks a minute, and one with a call in flight gets one a second.
func TestHealthIsCheckedDuringCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		listener, checks := bufconn.Listen(1<<20), &countedHealth{}
		server := grpc.NewServer()
		grpc_health_v1.RegisterHealthServer(server, checks)
		go server.Serve(listener)
		defer server.Stop()
		conn, err := grpc.NewClient("passthrough:///b", grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithIdleTimeout(0),
			grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn,
				error,
			) {
				return listener.DialContext(ctx)
			}))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		k := &link{conn: conn}
		if err := k.check(t.Context(), ""); err != nil {
			t.Fatal(err)
		}
		p, err := New(Options{Address: "unix:b"})
		if err != nil {
			t.Fatal(err)
		}
		l := p.newInstance(&instance{link: k})
		ctx, cancel := context.WithCancel(t.Context())
		watched := make(chan loss)
		go func() { watched <- p.watch(ctx, t.Context(), l, "") }()
		for _, c := range []struct {
			name  string
			calls int // calls in flight
			want  int64
		}{{"idle", 0, 20}, {"one call", 1, 600}, {"two calls", 2, 600}, {"idle again", 0, 20}} {
			for range c.calls {
				l.calls.begin(tool("x", ""))
			}
			checks.n.Store(0)
			time.Sleep(10 * time.Minute) //nolint:forbidigo // in a bubble
			if n := checks.n.Load(); n < c.want-2 || n > c.want+2 {
				t.Errorf("%s: %d health checks in 10 minutes, want %d", c.name, n, c.want)
			}
			for call := l.calls.oldest(); call != nil; call = l.calls.oldest() {
				l.calls.end(call)
			}
		}
		// With short calls too, at most one check a second is sent.
		checks.n.Store(0)
		for range 6000 {
			call := tool("x", "")
			l.calls.begin(call)
			l.calls.end(call)
			time.Sleep(10 * time.Millisecond) //nolint:forbidigo // in a bubble
		}
		if n := checks.n.Load(); n > 61 {
			t.Errorf("short calls: %d health checks in a minute", n)
		}
		cancel()
		<-watched
	})
}
