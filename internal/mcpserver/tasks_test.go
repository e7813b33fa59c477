package mcpserver

import (
	"context"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/bridgetest"
	"github.com/mcpbridge/mcpbridge/internal/tasks"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// serveTasks returns a Server whose tool calls are tasks that execute f.
func serveTasks(
	t *testing.T, f func(ctx context.Context, r *pb.CallToolRequest) *bridge.Result,
) *Server {
	t.Helper()
	all, err := tasks.New(tasks.Options{})
	if err != nil {
		t.Fatal(err)
	}
	tool := bridge.HandlerFunc(func(ctx context.Context, c *bridge.Call, _ bridge.Emit) (*bridge.Result, error) {
		return f(ctx, c.Request.(*pb.CallToolRequest)), nil
	})
	s := New(bridge.HandlerFunc(func(ctx context.Context, c *bridge.Call, emit bridge.Emit) (*bridge.Result, error) {
		if c.Method == bridge.CallTool {
			return all.Call(ctx, c, tasks.CallOptions{Handler: tool, Required: true}, emit)
		}
		return &bridge.Result{Complete: &pb.DiscoverResponse{
			Capabilities: bridge.WithTasks(&pb.ServerCapabilities{Tools: &pb.ToolsCapability{}}),
		}}, nil
	}), Options{Tasks: all})
	t.Cleanup(func() {
		s.Close()
		if err := all.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// beginTask calls a tool as a task with a ttl of a minute, and returns the id of the task.
func beginTask(t *testing.T, s *Server, session string) string {
	t.Helper()
	post(t, s, session, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	res := post(t, s, session,
		`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"t","task":{"ttl":60000}}}`)
	text, err := io.ReadAll(res.Body)
	_, rest, ok := strings.Cut(string(text), `"taskId":"`)
	id, _, _ := strings.Cut(rest, `"`)
	if err != nil || res.StatusCode != http.StatusOK || !ok {
		t.Fatalf("got %s %s, %v, want a task", res.Status, text, err)
	}
	return id
}

// A session keeps neither an expired task nor its result, and a change that is pending has the state of its task when
// the client opens a stream (TX-10).
func TestSessionDoesNotRetainTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var result weak.Pointer[pb.CallToolResult]
		s := serveTasks(t, func(context.Context, *pb.CallToolRequest) *bridge.Result {
			r := bridgetest.Text("done")
			result = weak.Make(r)
			return &bridge.Result{Complete: r}
		})
		session := beginSession(t, s)
		beginTask(t, s, session)
		pass(0)
		if runtime.GC(); result.Value() == nil {
			t.Error("a task has no result")
		}
		pass(time.Minute)
		if runtime.GC(); result.Value() != nil {
			t.Error("the result of an expired task is kept")
		}
		if res := post(t, s, session, pingBody); res.StatusCode != http.StatusOK {
			t.Errorf("the session has ended: %s", res.Status)
		}
	})
}

// A task that goes on does not keep the ended session that began it.
func TestTaskDoesNotRetainItsSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		end := make(chan struct{})
		s := serveTasks(t, func(ctx context.Context, _ *pb.CallToolRequest) *bridge.Result {
			select {
			case <-end:
			case <-ctx.Done():
			}
			return &bridge.Result{Complete: bridgetest.Text("done")}
		})
		id := beginSession(t, s)
		beginTask(t, s, id)
		kept := weak.Make(s.session(id, origin{}))
		if runtime.GC(); kept.Value() == nil {
			t.Fatal("there is no session")
		}
		s.endSession(id)
		pass(10 * time.Second)
		if runtime.GC(); kept.Value() != nil {
			t.Error("the session is kept")
		}
		close(end)
	})
}
