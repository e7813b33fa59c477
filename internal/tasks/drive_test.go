package tasks_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/bridgetest"
	"github.com/mcpbridge/mcpbridge/internal/limits"
	"github.com/mcpbridge/mcpbridge/internal/tasks"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// A keeper is a backend that keeps one task itself. Each tasks/get takes the next answer, and the last one repeats.
type keeper struct {
	t       *testing.T
	answers []keeperAnswer
	updates []error // of tasks/update, in order; then there is none

	gets      []time.Duration // when tasks/get arrived, since the start
	begun     time.Time
	update    []*pb.UpdateTaskRequest
	cancelled int
}

type keeperAnswer struct {
	task *pb.Task
	err  error
}

func (k *keeper) Handle(_ context.Context, call *bridge.Call, _ bridge.Emit) (*bridge.Result, error) {
	if id := call.Method.Target(call.Request); id != "upstream" {
		k.t.Errorf("%s names the task %q", call.Method.Name, id)
	}
	switch r := call.Request.(type) {
	case *pb.GetTaskRequest:
		k.gets = append(k.gets, time.Since(k.begun))
		next := k.answers[0]
		if len(k.answers) > 1 {
			k.answers = k.answers[1:]
		}
		return &bridge.Result{Complete: &pb.GetTaskResponse{Task: next.task}}, next.err
	case *pb.UpdateTaskRequest:
		k.update = append(k.update, r)
		if n := len(k.update); n <= len(k.updates) {
			return nil, k.updates[n-1]
		}
		return &bridge.Result{Complete: &pb.UpdateTaskResponse{}}, nil
	case *pb.CancelTaskRequest:
		k.cancelled++
		return &bridge.Result{Complete: &pb.CancelTaskResponse{}}, nil
	}
	k.t.Errorf("unexpected %s", call.Method.Name)
	return nil, bridge.Errorf(codes.Unimplemented, "unexpected")
}

// upstream returns the task of a keeper.
func upstream(status string, interval ...int64) *pb.Task {
	task := &pb.Task{TaskId: "upstream", Status: status}
	if len(interval) > 0 {
		task.PollIntervalMs = proto.Int64(interval[0])
	}
	if status == "completed" {
		task.Result = bridgetest.Text("done")
	}
	return task
}

func drive(ctx context.Context, k *keeper, created *pb.Task, emit bridge.Emit) (*bridge.Result, error) {
	k.begun = time.Now()
	return tasks.Await(ctx, k, toolCall(caller("a"), "t"), created, emit)
}

func ignore(context.Context, bridge.Event) error { return nil }

func done(t *testing.T, res *bridge.Result, err error) {
	t.Helper()
	if err != nil || res.Complete == nil ||
		res.Complete.(*pb.CallToolResult).GetContent()[0].GetText().GetText() != "done" {
		t.Errorf("got %v, %v, want the result of the task", res, err)
	}
}

// A task is requested at the interval that its backend wants, within bounds, and at the newest one (TX-5, TE-11).
func TestPollInterval(t *testing.T) {
	for name, c := range map[string]struct {
		created, then *pb.Task
		first, second time.Duration
	}{
		"none":    {upstream("working"), upstream("working"), limits.TaskPoll, limits.TaskPoll},
		"changes": {upstream("working", 300), upstream("working", 700), 300 * time.Millisecond, 700 * time.Millisecond},
		"bounds":  {upstream("working", 0), upstream("working", 1<<40), limits.TaskMinPoll, limits.TaskMaxPoll},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := &keeper{t: t, answers: []keeperAnswer{{task: c.then}, {task: upstream("completed")}}}
				res, err := drive(t.Context(), k, c.created, ignore)
				done(t, res, err)
				if len(k.gets) != 2 || k.gets[0] != c.first || k.gets[1] != c.first+c.second {
					t.Errorf("requested after %v, want %s and %s", k.gets, c.first, c.second)
				}
			})
		})
	}
}

// Each new message of a task is progress of its call.
func TestMessageOfTaskIsProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		withStatus := func(message string) *pb.Task {
			task := upstream("working")
			task.StatusMessage = proto.String(message)
			return task
		}
		var got []string
		emit := func(_ context.Context, e bridge.Event) error {
			if n := len(got); e.Progress.GetProgress() != float64(n+1) {
				t.Errorf("progress %v after %d messages", e.Progress.GetProgress(), n)
			}
			got = append(got, e.Progress.GetMessage())
			return nil
		}
		k := &keeper{t: t, answers: []keeperAnswer{
			{task: withStatus("one")}, {task: withStatus("two")}, {task: upstream("completed")},
		}}
		res, err := drive(t.Context(), k, withStatus("one"), emit)
		done(t, res, err)
		if s := strings.Join(got, " "); s != "one two" {
			t.Errorf("the messages are %q", s)
		}
	})
}

// The input that a task requires is input that its call requires, each request once, although the backend lists it
// until it has processed the response (TE-4, TE-6).
func TestInputOfTaskOfBackend(t *testing.T) {
	requiring := func(names ...string) keeperAnswer {
		task := upstream("input_required")
		for _, name := range names {
			task.InputRequests = append(task.InputRequests, bridgetest.Form(name, name+"?", name))
		}
		return keeperAnswer{task: task}
	}
	lost := bridge.Failed(codes.Unknown, bridge.OutcomeUnknown, "BACKEND_CRASHED", "lost")
	synctest.Test(t, func(t *testing.T) {
		k := &keeper{t: t, updates: []error{lost}, answers: []keeperAnswer{
			requiring("a"), requiring("a", "b"), {task: upstream("completed")},
		}}
		first := toolCall(caller("a"), "t")
		res, err := drive(t.Context(), k, requiring().task, ignore)
		for _, name := range []string{"a", "b"} {
			if err != nil || len(res.InputRequired.GetInputRequests()) != 1 ||
				res.InputRequired.GetInputRequests()[0].GetKey() != name {
				t.Fatalf("got %v, %v, want that the call requires %s", res, err, name)
			}
			retry := first.Retry(map[string]*pb.InputResponse{
				name: {Response: &pb.InputResponse_Elicit{Elicit: &pb.ElicitResult{Action: name}}},
			}, res.InputRequired.GetRequestState())
			if !tasks.IsDriven(retry.Request) {
				t.Fatal("the state is not one of a task")
			}
			res, err = tasks.Resume(t.Context(), k, retry, ignore)
		}
		done(t, res, err)
		if len(k.update) != 3 { // the first one was lost
			t.Fatalf("the backend received %v", k.update)
		}
		for i, name := range []string{"a", "a", "b"} {
			if got := k.update[i].GetInputResponses(); len(got) != 1 || got[name].GetElicit().GetAction() != name {
				t.Errorf("the backend received %v, want the response for %s", got, name)
			}
		}
	})
}

// A call that ends early cancels the task of its backend.
func TestCanceledCallCancelsTaskOfBackend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &keeper{t: t, answers: []keeperAnswer{{task: upstream("working")}}}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		_, err := drive(ctx, k, upstream("working"), ignore)
		if bridge.AsError(err).Outcome != bridge.OutcomeUnknown || k.cancelled != 1 {
			t.Errorf("got %v and %d cancellations, want one", err, k.cancelled)
		}
	})
}

// A lost connection does not end a task.
func TestLostConnectionDoesNotEndTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &keeper{t: t, answers: []keeperAnswer{
			{err: bridge.Failed(codes.Unavailable, bridge.OutcomeNotExecuted, "BACKEND_UNAVAILABLE", "not there")},
			{err: bridge.Failed(codes.Unknown, bridge.OutcomeUnknown, "BACKEND_CRASHED", "lost")},
			{task: upstream("working")},
			{task: upstream("completed")},
		}}
		res, err := drive(t.Context(), k, upstream("working"), ignore)
		done(t, res, err)
		if k.cancelled != 0 {
			t.Error("the task was cancelled")
		}
	})
}

// The ends of a task other than a result are errors of its call.
func TestEndsOfTaskOfBackend(t *testing.T) {
	failed := upstream("failed")
	failed.Error = &pb.JsonRpcError{Code: -32000, Message: "no luck"}
	unfilled := upstream("completed")
	unfilled.Result = nil
	for name, c := range map[string]struct {
		answer keeperAnswer
		code   codes.Code
		text   string
	}{
		"failed":    {keeperAnswer{task: failed}, codes.Unknown, "no luck"},
		"cancelled": {keeperAnswer{task: upstream("cancelled")}, codes.Canceled, "cancelled its task"},
		"no result": {keeperAnswer{task: unfilled}, codes.Internal, "has no result"},
		"unknown": {
			keeperAnswer{err: bridge.Errorf(codes.InvalidArgument, "no such task")}, codes.Internal, "no such task",
		},
		"invalid": {
			keeperAnswer{err: bridge.ProtocolViolation(bridge.OutcomeUnknown, "no task")}, codes.Internal, "no task",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := &keeper{t: t, answers: []keeperAnswer{c.answer}}
				_, err := drive(t.Context(), k, upstream("working"), ignore)
				if e := bridge.AsError(err); err == nil || e.Code != c.code || !strings.Contains(e.Message, c.text) {
					t.Errorf("got %v, want %s with %q", err, c.code, c.text)
				}
				if len(k.gets) != 1 {
					t.Errorf("%d requests, want one", len(k.gets))
				}
			})
		})
	}
}

// A call that may become a task becomes one when its backend returns a task.
func TestTaskOfBackendStartsTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := newTasks(t, tasks.Options{})
		k := &keeper{t: t, begun: time.Now(), answers: []keeperAnswer{{task: upstream("completed")}}}
		drives := func(ctx context.Context, c *bridge.Call, emit bridge.Emit) (*bridge.Result, error) {
			return tasks.Await(ctx, k, c, upstream("working"), emit)
		}
		id := call(t, all, bridge.HandlerFunc(drives), caller("a"), tasks.CallOptions{After: -1}).GetTaskId()
		bridgetest.Pass(2 * limits.TaskPoll)
		status(t, all, caller("a"), id, "completed")
	})
}
