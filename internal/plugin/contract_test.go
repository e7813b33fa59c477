package plugin

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mcpbridge/mcpbridge/bridge"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// A backend of another version of the contract gets no calls, and the error has both versions and the fix.
func TestBackendsOfAnotherContractVersionAreRefused(t *testing.T) {
	for version, lastError := range map[int32]string{
		-1: "version -1 of the contract", 1: "version 1 of the contract",
		3: "version 3 of the contract",
	} {
		called := false
		f := &fake{
			discover: func() (*pb.DiscoverResponse, error) {
				return &pb.DiscoverResponse{ContractVersion: version},
					nil
			},
			call: func(*pb.CallToolRequest, stream) error { called = true; return nil },
		}
		r := attach(t, f, Options{})
		for _, call := range []*bridge.Call{
			tool("x", ""),
			{Method: bridge.Discover, Request: &pb.DiscoverRequest{}},
			tool("x", ""),
		} {
			_, err := r.Handle(t.Context(), call, ignore)
			e := bridge.AsError(err)
			if e.Reason != "CONTRACT_VERSION" ||
				e.Outcome != bridge.OutcomeNotExecuted ||
				!strings.Contains(e.Message,
					lastError+", and this mcpbridge has version 2: update its SDK, or its stubs with mcpbridge "+
						"proto DIR") {
				t.Errorf("version %d: got %v", version, err)
			}
		}
		if called {
			t.Errorf("version %d: the call was executed", version)
		}
		r.log.wait(t, lastError)
	}
}

// No call reaches a backend of another version while the first one calls Discover, or after that one was canceled.
func TestCallsWaitForTheContractVersion(t *testing.T) {
	entered, release := make(chan struct{}, 2), make(chan struct{})
	var executed atomic.Bool
	r := attach(t, &fake{
		discover: func() (*pb.DiscoverResponse, error) {
			entered <- struct{}{}
			<-release
			return &pb.DiscoverResponse{ContractVersion: 1}, nil
		},
		call: func(*pb.CallToolRequest, stream) error { executed.Store(true); return nil },
	}, Options{})
	first, cancel := context.WithCancel(t.Context())
	canceled := make(chan error)
	go func() {
		_, err := r.Handle(first, tool("x", ""), ignore)
		canceled <- err
	}()
	<-entered
	second, end := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer end()
	if _, err := r.Handle(second, tool("x", ""), ignore); err == nil {
		t.Error("a concurrent call did not wait")
	}
	cancel()
	if err := <-canceled; err == nil {
		t.Error("the canceled call has a result")
	}
	close(release)
	if _, err := r.Handle(t.Context(), tool("x", ""), ignore); bridge.AsError(err).
		Reason != "CONTRACT_VERSION" {
		t.Errorf("got %v", err)
	}
	if executed.Load() {
		t.Error("a call was executed")
	}
}
