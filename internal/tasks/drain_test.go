package tasks_test

import (
	"context"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/bridgetest"
	"github.com/mcpbridge/mcpbridge/internal/lifecycle"
	"github.com/mcpbridge/mcpbridge/internal/tasks"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// A drain waits for the tools of tasks, but not for those that the next run continues.
func TestDrainWaitsForTasks(t *testing.T) {
	for name, c := range map[string]struct {
		store, retry, driven bool
		want                 int // calls in flight
	}{
		"in memory":                         {want: 1},
		"in memory, may be repeated":        {retry: true, want: 1},
		"in memory, kept by the backend":    {driven: true, want: 1},
		"in the store":                      {store: true, want: 1},
		"in the store, may be repeated":     {store: true, retry: true},
		"in the store, kept by the backend": {store: true, driven: true},
	} {
		t.Run(name, func(t *testing.T) {
			life := lifecycle.New()
			o := tasks.Options{Lifecycle: life}
			if c.store {
				var err error
				if o.Store, err = tasks.OpenStore(t.TempDir()); err != nil {
					t.Fatal(err)
				}
			}
			all, cc := newTasks(t, o), caller("a")
			running, lost, end := make(chan struct{}), make(chan struct{}), make(chan struct{})
			runs := 0
			h := tool(func(ctx context.Context, _ *pb.CallToolRequest, emit bridge.Emit) (*bridge.Result, error) {
				if c.driven {
					state := append([]byte("mcpbridge.task\x00"), "upstream"...)
					if err := emit(ctx, bridge.Event{Resumable: state}); err != nil {
						return nil, err
					}
				}
				runs++
				running <- struct{}{}
				if c.retry && runs == 1 {
					<-lost
					return nil, bridge.Failed(codes.Unavailable, bridge.OutcomeUnknown, "BACKEND_LOST", "lost")
				}
				<-end
				return &bridge.Result{Complete: bridgetest.Text("done")}, nil
			})
			id := call(t, all, h, cc, tasks.CallOptions{Retry: c.retry}).GetTaskId()
			<-running
			if n := life.InFlight(); n != c.want {
				t.Errorf("%d calls are in flight, want %d", n, c.want)
			}
			if c.retry { // once only
				close(lost)
				<-running
				if n := life.InFlight(); n != 1 {
					t.Errorf("%d calls are in flight after the tool is called again, want 1", n)
				}
			}
			close(end)
			await(t, all, cc, id)
			if n := life.AwaitIdle(t.Context()); n != 0 {
				t.Errorf("%d calls are in flight after the task has ended", n)
			}
		})
	}
}
