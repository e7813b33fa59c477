package lifecycle_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/lifecycle"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

var (
	call    = &bridge.Call{Method: bridge.CallTool, Request: &pb.CallToolRequest{}}
	retried = call.Retry(map[string]*pb.InputResponse{"name": {}}, nil)
	listens = &bridge.Call{Method: bridge.Listen, Request: &pb.ListenRequest{}}
)

// begin begins a call that must be accepted.
func begin(t *testing.T, l *lifecycle.Lifecycle, call *bridge.Call) (end func()) {
	t.Helper()
	end, err := l.Begin(call)
	if err != nil {
		t.Fatal(err)
	}
	return end
}

func TestPhasesFollowOneAnother(t *testing.T) {
	l := lifecycle.New()
	for _, tt := range []struct{ to, want lifecycle.Phase }{
		{lifecycle.Starting, lifecycle.Starting},
		{lifecycle.Running, lifecycle.Running},
		{lifecycle.Draining, lifecycle.Draining},
		{lifecycle.LameDuck, lifecycle.Draining},
		{lifecycle.Running, lifecycle.Draining},
		{lifecycle.Closing, lifecycle.Closing},
	} {
		l.Advance(tt.to)
		if got := l.Phase(); got != tt.want {
			t.Errorf("after Advance(%d) the phase is %d, want %d", tt.to, got, tt.want)
		}
		for p := lifecycle.Running; p <= lifecycle.Closing; p++ {
			if began := l.Until(p).Err() != nil; began != (p <= tt.want) {
				t.Errorf("in phase %d, the context of %d is canceled: %t", tt.want, p, began)
			}
		}
	}
	if cause := context.Cause(l.Until(lifecycle.Closing)); cause != lifecycle.ErrClosing {
		t.Errorf("the cause is %v", cause)
	}
}

func TestNewCallsAreRefusedWhenFinishing(t *testing.T) {
	discover := &bridge.Call{Method: bridge.Discover, Request: &pb.DiscoverRequest{}}
	l := lifecycle.New()
	l.Advance(lifecycle.Draining)
	begin(t, l, call)()
	l.Advance(lifecycle.Finishing)
	_, err := l.Begin(call)
	if f := bridge.AsError(err); f.Reason != "SHUTTING_DOWN" ||
		f.Outcome != bridge.OutcomeNotExecuted {
		t.Errorf("a new call got %v", err)
	}
	for _, accepted := range []*bridge.Call{
		retried, discover, listens,
		{Method: bridge.GetTask, Request: &pb.GetTaskRequest{}},
		{Method: bridge.UpdateTask, Request: &pb.UpdateTaskRequest{}},
		{Method: bridge.CancelTask, Request: &pb.CancelTaskRequest{}},
	} {
		begin(t, l, accepted)()
	}
	if n := l.InFlight(); n != 0 {
		t.Errorf("%d calls are in flight", n)
	}
}

func TestListenCallsAreNotCounted(t *testing.T) {
	l := lifecycle.New()
	defer begin(t, l, listens)()
	if n := l.InFlight(); n != 0 {
		t.Errorf("%d calls are in flight", n)
	}
}

func TestAwaitIdleWaitsForCallsInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := lifecycle.New()
		first, second := begin(t, l, call), begin(t, l, call)
		began := time.Now()
		time.AfterFunc(time.Second, first)
		time.AfterFunc(3*time.Second, second)
		limit, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		if n := l.AwaitIdle(limit); n != 1 || time.Since(began) != 2*time.Second {
			t.Errorf("%d calls are in flight after %s", n, time.Since(began))
		}
		if n := l.AwaitIdle(t.Context()); n != 0 || time.Since(began) != 3*time.Second {
			t.Errorf("%d calls are in flight after %s", n, time.Since(began))
		}
	})
}

func TestAwaitQuietWaitsForAPauseBetweenCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := lifecycle.New()
		began := time.Now()
		for _, at := range []time.Duration{50 * time.Millisecond, 120 * time.Millisecond, 250 * time.Millisecond} {
			time.AfterFunc(at, func() {
				end := begin(t, l, call)
				if at == 120*time.Millisecond { // the others end at once
					time.AfterFunc(100*time.Millisecond, end)
					return
				}
				end()
			})
		}
		l.AwaitQuiet(t.Context(), 100*time.Millisecond)
		if took := time.Since(began); took != 350*time.Millisecond {
			t.Errorf("it returned after %s", took)
		}
	})
}

func TestAwaitQuietEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := lifecycle.New()
		defer begin(t, l, call)()
		limit, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		began := time.Now()
		l.AwaitQuiet(limit, 100*time.Millisecond)
		if took := time.Since(began); took != 2*time.Second {
			t.Errorf("it returned after %s", took)
		}
	})
}
