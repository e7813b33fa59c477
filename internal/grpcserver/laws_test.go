package grpcserver_test

import (
	"bytes"
	"context"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/bridgetest"
	"github.com/mcpbridge/mcpbridge/internal/grpcserver"
	"github.com/mcpbridge/mcpbridge/internal/plugin"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A handler that is served over gRPC and dialed as a backend keeps its laws. Its request state returns unchanged and is
// unreadable for clients.
func TestServedAndDialedHandlerAreEquivalent(t *testing.T) {
	bridgetest.Laws(t, func(t *testing.T, h bridge.Handler) bridge.Handler {
		t.Helper()
		states := &states{t: t, sealed: map[string][]byte{}}
		addr := serve(t, states.backend(h), nil, grpcserver.Options{})
		p, err := plugin.New(plugin.Options{Name: "laws", Address: addr})
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
		})
		if err := p.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		return states.client(p)
	})
}

// states seals request states, and fails the test if a client would see the backend's own.
type states struct {
	t      *testing.T
	mu     sync.Mutex
	last   []byte
	sealed map[string][]byte // sealed states by their plaintext
}

func (s *states) backend(h bridge.Handler) bridge.Handler {
	return bridge.HandlerFunc(func(ctx context.Context, call *bridge.Call, emit bridge.Emit) (*bridge.Result, error) {
		res, err := h.Handle(ctx, call, emit)
		if err == nil && res.InputRequired.GetRequestState() != nil {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.last = res.InputRequired.GetRequestState()
		}
		return res, err
	})
}

func (s *states) client(h bridge.Handler) bridge.Handler {
	return bridge.HandlerFunc(func(ctx context.Context, call *bridge.Call, emit bridge.Emit) (*bridge.Result, error) {
		if state := bridge.State(call.Request); state != nil {
			s.mu.Lock()
			call = &bridge.Call{Method: call.Method, Request: bridge.ShallowCopy(call.Request)}
			bridge.SetState(call.Request, s.sealed[string(state)])
			s.mu.Unlock()
		}
		res, err := h.Handle(ctx, call, emit)
		if err == nil && res.InputRequired.GetRequestState() != nil {
			s.mu.Lock()
			defer s.mu.Unlock()
			if bytes.Contains(res.InputRequired.GetRequestState(), s.last) {
				s.t.Errorf("the client can read the request state %q", res.InputRequired.GetRequestState())
			}
			s.sealed[string(s.last)] = res.InputRequired.GetRequestState()
			needs := bridge.ShallowCopy(res.InputRequired)
			needs.RequestState = s.last
			res = &bridge.Result{InputRequired: needs}
		}
		return res, err
	})
}
