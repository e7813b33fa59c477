package app

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/mcpbridge/mcpbridge/internal/auth"
	"github.com/mcpbridge/mcpbridge/internal/config"
	"github.com/mcpbridge/mcpbridge/internal/grpcserver"
	"github.com/mcpbridge/mcpbridge/internal/lifecycle"
	"github.com/mcpbridge/mcpbridge/internal/problem"
)

// healthTime is how often the health of backends is checked for gRPC clients.
const healthTime = time.Second

// A grpcFront serves gRPC clients.
type grpcFront struct {
	lifecycle *lifecycle.Lifecycle
	srv       *grpcserver.Server
	ln        net.Listener
	backends  []*backend
	served    chan struct{} // closed when serve has returned
}

func (a *App) newGRPCFront() (*grpcFront, error) {
	g := a.cfg.Serve.GRPC
	o := grpcserver.Options{
		Log: a.Log, Panics: a.panics, Lifecycle: a.lifecycle, Limits: a.cfg.Limits, Streams: a.streams,
		Memory: a.memory, Tasks: a.tasks,
	}
	if g.TLS.Cert != "" {
		o.TLS = &grpcserver.TLS{Cert: g.TLS.Cert, Key: g.TLS.Key, ClientCA: g.TLS.ClientCA}
	}
	if network, _ := config.GRPCNetwork(g.Addr); (network == "tcp" || g.TLS.ClientCA != "") &&
		a.cfg.Serve.HTTP.Auth.Enabled() {
		o.Principal = a.auth.Caller // both ports must require the same authentication
		o.AccessExpiry = auth.Until
	}
	var named []grpcserver.Backend
	for _, e := range a.named {
		named = append(named, grpcserver.Backend{Name: e.name, Handler: e.handler})
	}
	srv, err := grpcserver.New(a.endpoint.handler, named, o)
	if err != nil {
		return nil, &problem.Error{
			Exit: problem.ExitConfig, Code: "grpc", What: "gRPC cannot be served", Where: a.cfg.Where("serve.grpc"),
			Why: err.Error(),
			Fix: "correct its settings", Cause: err,
		}
	}
	return &grpcFront{
		lifecycle: a.lifecycle, srv: srv, ln: a.grpc, backends: a.backends,
		served: make(chan struct{}),
	}, nil
}

func (f *grpcFront) serve() error {
	defer close(f.served)
	var wg sync.WaitGroup
	defer wg.Wait()
	watching, stop := context.WithCancel(f.lifecycle.Until(lifecycle.Draining))
	defer stop()
	wg.Go(func() { f.watch(watching) })
	return f.srv.Serve(f.ln)
}

// watch updates the health service with the state of each backend.
func (f *grpcFront) watch(ctx context.Context) {
	tick := time.NewTicker(healthTime)
	defer tick.Stop()
	for {
		for _, b := range f.backends {
			f.srv.SetServing(b.Name, b.readiness() == nil)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// flush waits for serve, which returns while the bridge drains: gRPC closes a connection when its responses are read.
func (f *grpcFront) flush(ctx context.Context) {
	select {
	case <-f.served:
	case <-ctx.Done():
	}
}

func (f *grpcFront) end(context.Context) { f.srv.Close() }
