package grpcserver_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/bridge/grpcserver"
)

// serve serves handlers at a unix socket until the test ends, and returns its address.
func serve(t testing.TB, merged bridge.Handler, backends []grpcserver.Backend, o grpcserver.Options) string {
	t.Helper()
	_, addr := start(t, merged, backends, o)
	return addr
}

// start does the same, and returns the server too.
func start(t testing.TB, merged bridge.Handler, backends []grpcserver.Backend, o grpcserver.Options) (*grpcserver.Server, string) {
	t.Helper()
	s, err := grpcserver.New(merged, backends, o)
	if err != nil {
		t.Fatal(err)
	}
	addr := "unix:" + filepath.Join(t.TempDir(), "s")
	ln, err := grpcserver.Listen(t.Context(), addr, 0)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(context.WithoutCancel(t.Context()), ln) }()
	t.Cleanup(func() {
		s.Close()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return s, addr
}
