package tasks_test

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/bridgetest"
	"github.com/mcpbridge/mcpbridge/internal/limits"
	"github.com/mcpbridge/mcpbridge/internal/tasks"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

var kills = flag.Int("kills", 10, "how often TestKilledBridgeKeepsTasks kills the process")

// open returns Tasks of a directory, which the caller closes.
func open(t *testing.T, dir string) *tasks.Tasks {
	t.Helper()
	store, err := tasks.OpenStore(dir)
	if err != nil {
		t.Fatal(err)
	}
	all, err := tasks.New(tasks.Options{Store: store})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// askingTool is a tool that requires two answers, one after the other, and returns them.
var askingTool = tool(func(_ context.Context, r *pb.CallToolRequest, _ bridge.Emit) (*bridge.Result, error) {
	given := string(r.GetRequestState())
	if answer := r.GetInputResponses()["k"]; answer != nil {
		given += answer.GetElicit().GetAction() + " "
	}
	if strings.Count(given, " ") == 2 {
		return text("%s", given)
	}
	return &bridge.Result{InputRequired: &pb.InputRequired{
		InputRequests: []*pb.InputRequest{bridgetest.Form("k", "?", "x")}, RequestState: []byte(given),
	}}, nil
})

// await returns a task once it has a status other than working.
func await(t *testing.T, all *tasks.Tasks, cc *pb.CallContext, id string) *pb.Task {
	t.Helper()
	read := &bridge.Call{Method: bridge.GetTask, Request: &pb.GetTaskRequest{Context: cc, TaskId: id}}
	for version := uint64(0); ; {
		task, next, err := all.Next(t.Context(), read, version)
		if err != nil {
			t.Fatal(err)
		}
		if version = next; task.GetStatus() != "working" {
			return task
		}
	}
}

// In the next run, a task that waits for input still does, one that has ended has its result, and one whose call was
// in flight is continued if its backend keeps it, repeated if its tool allows that, and failed otherwise. A task uses
// a key only once (TE-6).
func TestTasksOfAnEarlierRun(t *testing.T) {
	dir, cc := t.TempDir(), caller("a")
	first := open(t, dir)
	if _, err := tasks.OpenStore(dir); !errors.Is(err, tasks.ErrInUse) {
		t.Errorf("a second process opens the store: %v", err)
	}
	server := bridge.HandlerFunc(func(_ context.Context, c *bridge.Call, _ bridge.Emit) (*bridge.Result, error) {
		if c.Method != bridge.GetTask {
			return nil, bridge.Errorf(codes.Unimplemented, "%s", c.Method.Name)
		}
		return &bridge.Result{Complete: &pb.GetTaskResponse{Task: &pb.Task{
			TaskId: c.Method.Target(c.Request), Status: "completed", Result: bridgetest.Text("kept"),
		}}}, nil
	})
	kept := bridge.HandlerFunc(func(ctx context.Context, c *bridge.Call, emit bridge.Emit) (*bridge.Result, error) {
		return tasks.Resume(ctx, server, c, emit)
	})
	running := make(chan struct{}, 4)
	stays := tool(func(ctx context.Context, _ *pb.CallToolRequest, emit bridge.Emit) (*bridge.Result, error) {
		running <- struct{}{}
		<-ctx.Done()
		return nil, ctx.Err()
	})
	driven := tool(func(ctx context.Context, r *pb.CallToolRequest, emit bridge.Emit) (*bridge.Result, error) {
		task := &pb.Task{TaskId: "upstream", Status: "working"}
		defer func() { running <- struct{}{} }()
		return tasks.Await(ctx, waits, &bridge.Call{
			Method: bridge.CallTool, Request: r, Background: true,
		}, task, func(ctx context.Context, e bridge.Event) error {
			err := emit(ctx, e)
			running <- struct{}{}
			return err
		})
	})
	inputTask := call(t, first, askingTool, cc, tasks.CallOptions{Backend: "asks"}).GetTaskId()
	await(t, first, cc, inputTask)
	update(t, first, cc, inputTask, "1")
	await(t, first, cc, inputTask)
	ended := call(t, first, tool(func(context.Context, *pb.CallToolRequest, bridge.Emit) (*bridge.Result, error) {
		return text("done")
	}), cc, tasks.CallOptions{Backend: "asks"}).GetTaskId()
	await(t, first, cc, ended)
	lost := call(t, first, stays, cc, tasks.CallOptions{Backend: "asks"}).GetTaskId()
	again := call(t, first, stays, cc, tasks.CallOptions{Backend: "done", Retry: true}).GetTaskId()
	upstream := call(t, first, driven, cc, tasks.CallOptions{Backend: "kept"}).GetTaskId()
	gone := call(t, first, askingTool, cc, tasks.CallOptions{Backend: "gone"}).GetTaskId()
	await(t, first, cc, gone)
	for range 3 {
		<-running
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}

	second := open(t, dir)
	defer second.Close()
	second.Resume(map[string]bridge.Handler{
		"asks": askingTool, "kept": kept,
		"done": tool(func(context.Context, *pb.CallToolRequest, bridge.Emit) (*bridge.Result, error) {
			return text("again")
		}),
	})
	want := func(id, status, text string) {
		t.Helper()
		task := await(t, second, cc, id)
		got := task.GetError().GetMessage()
		if task.GetResult() != nil {
			got = task.GetResult().GetContent()[0].GetText().GetText()
		}
		if task.GetStatus() != status || !strings.Contains(got, text) {
			t.Errorf("got %v, want %s with %q", task, status, text)
		}
	}
	want(inputTask, "input_required", "")
	update(t, second, cc, inputTask, "2")
	want(inputTask, "completed", "1 2 ")
	want(ended, "completed", "done")
	want(lost, "failed", "restarted")
	want(again, "completed", "again")
	want(upstream, "completed", "kept")
	want(gone, "failed", "gone")
	if id := call(t, second, waits, cc, tasks.CallOptions{}).GetTaskId(); id == inputTask {
		t.Error("an id was used twice")
	}
}

// The input of the tasks of an earlier run counts.
func TestInputOfAnEarlierRunCounts(t *testing.T) {
	const half = 600 << 10
	dir, cc := t.TempDir(), caller("a")
	first := open(t, dir)
	id := call(t, first, tool(func(context.Context, *pb.CallToolRequest, bridge.Emit) (*bridge.Result, error) {
		return &bridge.Result{InputRequired: &pb.InputRequired{
			InputRequests: []*pb.InputRequest{bridgetest.Form("k", "?", "x")}, RequestState: make([]byte, half),
		}}, nil
	}), cc, tasks.CallOptions{}).GetTaskId()
	await(t, first, cc, id)
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	store, err := tasks.OpenStore(dir)
	if err != nil {
		t.Fatal(err)
	}
	refused(t, "a further task", create(t, newTasks(t, tasks.Options{
		Store: store, Limits: limits.Tasks{Bytes: 1 << 20},
	}), half))
}

// childDir is the variable with the directory of the child process of TestKilledBridgeKeepsTasks.
const childDir = "MCPBRIDGE_TEST_TASKS"

// Everything that was acknowledged before kill -9 holds in the next run: a created task exists, an answered request is
// not pending, and a completed task has its result (TE-3).
func TestKilledBridgeKeepsTasks(t *testing.T) {
	if dir := os.Getenv(childDir); dir != "" {
		acknowledge(t, dir)
		return
	}
	cc, dir := caller("a"), ""
	var acknowledged map[string]string // the last acknowledgment by task
	created := 0
	for n := range *kills {
		if n%50 == 0 { // so that there are not too many tasks
			dir, acknowledged = t.TempDir(), map[string]string{}
		}
		for id, event := range runAndKill(t, dir) {
			if acknowledged[id] == "" {
				created++
			}
			acknowledged[id] = event
		}
		all := open(t, dir)
		for id, event := range acknowledged {
			task, err := get(all, cc, id)
			switch {
			case err != nil:
				t.Fatalf("after %q the task is lost: %v", event, err)
			case event == "answered" && len(task.GetInputRequests()) > 0 && task.GetInputRequests()[0].GetKey() == "1":
				t.Errorf("after %q its request is pending: %v", event, task)
			case event == "completed" && task.GetResult().GetContent()[0].GetText().GetText() != "1 2 ":
				t.Errorf("after %q got %v", event, task)
			}
		}
		if err := all.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if t.Logf("%d kills, %d tasks", *kills, created); created < *kills {
		t.Error("fewer tasks than kills")
	}
}

// runAndKill runs acknowledge in a child process, kills it after a random number of acknowledgments, and returns the
// last one of each task.
func runAndKill(t *testing.T, dir string) map[string]string {
	t.Helper()
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestKilledBridgeKeepsTasks$")
	child.Env = append(os.Environ(), childDir+"="+dir)
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	last, n := map[string]string{}, 1+rand.IntN(200)
	for lines := bufio.NewScanner(out); lines.Scan(); n-- {
		if event, id, ok := strings.Cut(lines.Text(), " "); ok && len(id) >= 26 {
			last[id] = event
		}
		if n == 0 {
			_ = child.Process.Kill()
		}
	}
	_ = child.Wait() // it was killed
	return last
}

// acknowledge creates tasks and answers their requests until the process is killed, and prints what was acknowledged.
func acknowledge(t *testing.T, dir string) {
	t.Helper()
	all, cc := open(t, dir), caller("a")
	all.Resume(map[string]bridge.Handler{"asks": askingTool})
	timeout := time.After(time.Minute)
	for done := make(chan struct{}, 8); ; {
		select {
		case <-timeout:
			t.Fatal("the process was not killed")
		case done <- struct{}{}:
		}
		go func() {
			defer func() { <-done }()
			id := call(t, all, askingTool, cc, tasks.CallOptions{Backend: "asks"}).GetTaskId()
			fmt.Println("created", id)
			for _, event := range []string{"answered", "completed"} {
				await(t, all, cc, id)
				update(t, all, cc, id, map[string]string{"answered": "1", "completed": "2"}[event])
				if event == "completed" {
					await(t, all, cc, id)
				}
				fmt.Println(event, id)
			}
		}()
	}
}
