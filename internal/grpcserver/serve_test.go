package grpcserver_test

import (
	"path/filepath"
	"testing"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/grpcserver"
)

// serve serves handlers at a Unix socket until the end of the test and returns its address.
func serve(tb testing.TB, merged bridge.Handler, backends []grpcserver.Backend, o grpcserver.Options) string {
	tb.Helper()
	_, addr := start(tb, merged, backends, o)
	return addr
}

// start does the same and also returns the server.
func start(tb testing.TB, merged bridge.Handler, backends []grpcserver.Backend,
	o grpcserver.Options,
) (*grpcserver.Server, string) {
	tb.Helper()
	s, err := grpcserver.New(merged, backends, o)
	if err != nil {
		tb.Fatal(err)
	}
	addr := "unix:" + filepath.Join(tb.TempDir(), "s")
	ln, err := grpcserver.Listen(tb.Context(), addr, 0)
	if err != nil {
		tb.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(ln) }()
	tb.Cleanup(func() {
		s.Close()
		if err := <-served; err != nil {
			tb.Error(err)
		}
	})
	return s, addr
}
