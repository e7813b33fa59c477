package grpcserver_test

import (
	"context"
	"net"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"
	"google.golang.org/grpc"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/bridge/bridgetest"
	"github.com/mcpbridge/mcpbridge/bridge/grpcserver"
	"github.com/mcpbridge/mcpbridge/bridge/plugin"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A handler served by gRPC and dialled as a backend is the same handler.
func TestServedAndDialledHandlerIsTheSame(t *testing.T) {
	bridgetest.Laws(t, func(t *testing.T, h bridge.Handler) bridge.Handler {
		t.Helper()
		path := filepath.Join(t.TempDir(), "s")
		ln, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", path)
		if err != nil {
			t.Fatal(err)
		}
		s := grpc.NewServer()
		grpcserver.Register(s, h)
		served := make(chan error, 1)
		go func() { served <- s.Serve(ln) }()
		p, err := plugin.New(plugin.Options{Name: "laws", Address: "unix:" + path})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
		ran := make(chan error, 1)
		go func() { ran <- p.Run(ctx) }()
		t.Cleanup(func() {
			cancel()
			if err := <-ran; err != nil {
				t.Error(err)
			}
			s.Stop()
			<-served
		})
		if err := p.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		return p
	})
}
