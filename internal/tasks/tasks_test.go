package tasks_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/bridgetest"
	"github.com/mcpbridge/mcpbridge/internal/limits"
	"github.com/mcpbridge/mcpbridge/internal/rawjson"
	"github.com/mcpbridge/mcpbridge/internal/tasks"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// caller returns the context of a caller who accepts tasks and answers questions.
func caller(subject string) *pb.CallContext {
	cc := &pb.CallContext{
		ClientCapabilities: bridge.DeclareTasks(&pb.ClientCapabilities{Elicitation: &pb.ElicitationCapability{}}),
		Verified:           bridge.Verified(bridge.Rev20260728, nil, nil),
	}
	if subject != "" {
		cc.Verified = bridge.Verified(bridge.Rev20260728, &pb.Principal{Subject: subject, Issuer: "i"}, nil)
	}
	return cc
}

// call begins a call of a tool, which must become a task at once.
func call(t *testing.T, all *tasks.Tasks, h bridge.Handler, cc *pb.CallContext, o tasks.CallOptions) *pb.Task {
	t.Helper()
	o.Handler = h
	res, err := all.Call(t.Context(), toolCall(cc, "t"), o, nil)
	if err != nil {
		t.Fatal(err)
	}
	if res.Task.GetStatus() != "working" || len(res.Task.GetTaskId()) < 26 {
		t.Fatalf("got %v, want a task that is working, with an id that cannot be guessed", res)
	}
	return res.Task
}

func toolCall(cc *pb.CallContext, name string) *bridge.Call {
	return &bridge.Call{Method: bridge.CallTool, Request: &pb.CallToolRequest{Context: cc, Name: name}}
}

func get(all *tasks.Tasks, cc *pb.CallContext, id string) (*pb.Task, error) {
	return all.Get(&bridge.Call{Method: bridge.GetTask, Request: &pb.GetTaskRequest{Context: cc, TaskId: id}})
}

// status fails unless a task has a status.
func status(t *testing.T, all *tasks.Tasks, cc *pb.CallContext, id, want string) *pb.Task {
	t.Helper()
	task, err := get(all, cc, id)
	if err != nil || task.GetStatus() != want {
		t.Fatalf("got %v, %v, want the status %s", task, err, want)
	}
	return task
}

func update(t *testing.T, all *tasks.Tasks, cc *pb.CallContext, id string, keys ...string) {
	t.Helper()
	responses := map[string]*pb.InputResponse{}
	for _, k := range keys {
		responses[k] = &pb.InputResponse{Response: &pb.InputResponse_Elicit{Elicit: &pb.ElicitResult{Action: k}}}
	}
	_, err := all.Handle(t.Context(), &bridge.Call{Method: bridge.UpdateTask, Request: &pb.UpdateTaskRequest{
		Context: cc, TaskId: id, InputResponses: responses,
	}}, nil)
	if err != nil {
		t.Fatal(err)
	}
}

func cancel(t *testing.T, all *tasks.Tasks, cc *pb.CallContext, id string) {
	t.Helper()
	if _, err := all.Handle(t.Context(), &bridge.Call{Method: bridge.CancelTask, Request: &pb.CancelTaskRequest{
		Context: cc, TaskId: id,
	}}, nil); err != nil {
		t.Fatal(err)
	}
}

// tool returns a Handler for the calls of a tool.
func tool(f func(ctx context.Context, r *pb.CallToolRequest, emit bridge.Emit) (*bridge.Result, error)) bridge.Handler {
	return bridge.HandlerFunc(func(ctx context.Context, c *bridge.Call, emit bridge.Emit) (*bridge.Result, error) {
		return f(ctx, c.Request.(*pb.CallToolRequest), emit)
	})
}

func text(format string, args ...any) (*bridge.Result, error) {
	return &bridge.Result{Complete: bridgetest.Text(format, args...)}, nil
}

// waits is a tool that ends with its context.
var waits = tool(func(ctx context.Context, _ *pb.CallToolRequest, _ bridge.Emit) (*bridge.Result, error) {
	<-ctx.Done()
	return nil, ctx.Err()
})

func newTasks(t *testing.T, o tasks.Options) *tasks.Tasks {
	t.Helper()
	all, err := tasks.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := all.Close(); err != nil {
			t.Error(err)
		}
	})
	return all
}

// The tasks of another caller do not exist, whatever the caller does with their ids (TX-11, TE-12).
func TestOthersDoNotFindATask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := newTasks(t, tasks.Options{})
		id := call(t, all, waits, caller("a"), tasks.CallOptions{}).GetTaskId()
		for _, other := range []*pb.CallContext{caller("b"), caller("")} {
			for _, m := range []*bridge.Method{bridge.GetTask, bridge.UpdateTask, bridge.CancelTask} {
				r := m.NewRequest(other)
				r.ProtoReflect().Set(r.ProtoReflect().Descriptor().Fields().ByName("task_id"),
					protoreflect.ValueOfString(id))
				_, err := all.Handle(t.Context(), &bridge.Call{Method: m, Request: r}, nil)
				if bridge.AsError(err).Code != codes.NotFound {
					t.Errorf("%s: got %v, want NOT_FOUND", m.Name, err)
				}
			}
			found, stop := all.Watch(toolCall(other, "t"), []string{id}, func(string, string) {})
			stop()
			if len(found) != 0 {
				t.Errorf("another caller watches %v", found)
			}
		}
		status(t, all, caller("a"), id, "working")
	})
}

// Above a limit, a call that need not be a task is executed as any other, and another one fails (TX-11).
func TestTasksAreBounded(t *testing.T) {
	for name, c := range map[string]struct {
		o    limits.Tasks
		text string
	}{
		"in all":     {limits.Tasks{Most: 2}, "tasks.most"},
		"per caller": {limits.Tasks{PerCaller: 2}, "tasks.perCaller"},
		"in bytes":   {limits.Tasks{Bytes: 5 * proto.Size(toolCall(caller("a"), "t").Request) / 2}, "tasks.bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				all := newTasks(t, tasks.Options{Limits: c.o})
				cc := caller("a")
				first := call(t, all, waits, cc, tasks.CallOptions{})
				call(t, all, waits, cc, tasks.CallOptions{})
				done := tool(func(context.Context, *pb.CallToolRequest, bridge.Emit) (*bridge.Result, error) {
					return text("done")
				})
				res, err := all.Call(t.Context(), toolCall(cc, "t"), tasks.CallOptions{Handler: done}, nil)
				if err != nil || res.Complete == nil {
					t.Errorf("got %v, %v, want the result of an ordinary call", res, err)
				}
				_, err = all.Call(t.Context(), toolCall(cc, "t"), tasks.CallOptions{Handler: done, Required: true}, nil)
				if e := bridge.AsError(err); e.Code != codes.ResourceExhausted || !strings.Contains(e.Message, c.text) {
					t.Errorf("got %v, want RESOURCE_EXHAUSTED that names %s", err, c.text)
				}
				cancel(t, all, cc, first.GetTaskId())
				bridgetest.Pass(limits.Tasks{}.OrDefaults().TTL)
				call(t, all, waits, cc, tasks.CallOptions{}) // the expired ones do not count
			})
		})
	}
}

// The size of a result counts as long as it is kept.
func TestResultsCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := newTasks(t, tasks.Options{Limits: limits.Tasks{Bytes: 1 << 20}})
		large := tool(func(context.Context, *pb.CallToolRequest, bridge.Emit) (*bridge.Result, error) {
			return text("%s", strings.Repeat("x", 1<<20))
		})
		call(t, all, large, caller("a"), tasks.CallOptions{})
		synctest.Wait()
		_, err := all.Call(t.Context(), toolCall(caller("a"), "t"), tasks.CallOptions{Handler: large, Required: true},
			nil)
		if bridge.AsError(err).Code != codes.ResourceExhausted {
			t.Errorf("got %v, want RESOURCE_EXHAUSTED", err)
		}
	})
}

// Input requests, the request state and responses count as long as they are kept, and nothing counts once all tasks
// have expired.
func TestInputCounts(t *testing.T) {
	const most, half = 1 << 20, 600 << 10
	long := strings.Repeat("x", half)
	for name, c := range map[string]struct {
		question, state string
		response        int
	}{"requests": {question: long}, "state": {state: long}, "responses": {response: half}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				all, cc := newTasks(t, tasks.Options{Limits: limits.Tasks{Bytes: most}}), caller("a")
				askingTool := tool(func(context.Context, *pb.CallToolRequest, bridge.Emit) (*bridge.Result, error) {
					return &bridge.Result{InputRequired: &pb.InputRequired{
						InputRequests: []*pb.InputRequest{
							bridgetest.Form("a", "?", "x"), bridgetest.Form("b", c.question, "x"),
						}, RequestState: []byte(c.state),
					}}, nil
				})
				id := call(t, all, askingTool, cc, tasks.CallOptions{}).GetTaskId()
				synctest.Wait()
				if err := respond(t, all, cc, id, "1", c.response); err != nil {
					t.Fatal(err)
				}
				refused(t, "a further task", create(t, all, half))
				refused(t, "a further response", respond(t, all, cc, id, "2", half))
				pending := status(t, all, cc, id, "input_required").GetInputRequests()
				if len(pending) != 1 || pending[0].GetKey() != "2" {
					t.Errorf("got the requests %v, want the one whose response was not accepted", pending)
				}
				cancel(t, all, cc, id)
				if err := create(t, all, half); err != nil {
					t.Errorf("the input of a canceled task counts: %v", err)
				}
				bridgetest.Pass(limits.Tasks{}.OrDefaults().TTL)
				if err := create(t, all, 2*most-proto.Size(sized(most).Request)); err != nil { // exactly the limit
					t.Errorf("expired tasks count: %v", err)
				}
			})
		})
	}
}

// sized returns a call with arguments of a size.
func sized(n int) *bridge.Call {
	c := toolCall(caller("a"), "t")
	r := c.Request.(*pb.CallToolRequest)
	r.Context.ProgressWanted, r.Arguments = true, make([]byte, n) // as in the request that is kept
	return c
}

// create begins a task with arguments of a size.
func create(t *testing.T, all *tasks.Tasks, size int) error {
	t.Helper()
	_, err := all.Call(t.Context(), sized(size), tasks.CallOptions{Handler: waits, Required: true}, nil)
	return err
}

// respond sends a response of a size.
func respond(t *testing.T, all *tasks.Tasks, cc *pb.CallContext, id, key string, size int) error {
	t.Helper()
	response := &pb.InputResponse{Response: &pb.InputResponse_Elicit{
		Elicit: &pb.ElicitResult{Action: strings.Repeat("x", size)},
	}}
	_, err := all.Handle(t.Context(), &bridge.Call{Method: bridge.UpdateTask, Request: &pb.UpdateTaskRequest{
		Context: cc, TaskId: id, InputResponses: map[string]*pb.InputResponse{key: response},
	}}, nil)
	return err
}

// refused fails unless err names tasks.bytes.
func refused(t *testing.T, what string, err error) {
	t.Helper()
	if err == nil || bridge.AsError(err).Code != codes.ResourceExhausted ||
		!strings.Contains(err.Error(), "tasks.bytes") {
		t.Errorf("%s: got %v, want RESOURCE_EXHAUSTED that names tasks.bytes", what, err)
	}
}

// A call becomes a task when its tool sends that it continues in the background, not before.
func TestToolStartsItsTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := newTasks(t, tasks.Options{})
		started := tool(func(ctx context.Context, r *pb.CallToolRequest, emit bridge.Emit) (*bridge.Result, error) {
			if !r.GetContext().GetProgressWanted() {
				t.Error("the backend does not send progress, which is the message of the task")
			}
			answer := r.GetInputResponses()["name"].GetElicit().GetAction()
			if answer == "" {
				return &bridge.Result{InputRequired: &pb.InputRequired{
					InputRequests: []*pb.InputRequest{bridgetest.Form("name", "who?", "name")},
				}}, nil
			}
			for _, e := range []bridge.Event{
				{Progress: &pb.Progress{Progress: 1}},
				{TaskStarted: &pb.TaskStarted{}},
				{Progress: &pb.Progress{Progress: 2, Total: proto.Float64(3)}},
			} {
				if err := emit(ctx, e); err != nil {
					return nil, err
				}
			}
			<-time.After(time.Minute)
			return text("hello %s", answer)
		})
		o := tasks.CallOptions{Handler: started, After: -1}
		var events []bridge.Event
		emit := func(_ context.Context, e bridge.Event) error {
			events = append(events, e)
			return nil
		}
		first := toolCall(caller("a"), "t")
		res, err := all.Call(t.Context(), first, o, emit)
		if err != nil || res.InputRequired == nil {
			t.Fatalf("got %v, %v, want that the call requires input", res, err)
		}
		answers := map[string]*pb.InputResponse{
			"name": {Response: &pb.InputResponse_Elicit{Elicit: &pb.ElicitResult{Action: "accept"}}},
		}
		res, err = all.Call(t.Context(), first.Retry(answers, nil), o, emit)
		if err != nil || res.Task == nil || len(events) != 1 || events[0].Progress == nil {
			t.Fatalf("got %v, %v and the events %v, want a task after one event", res, err, events)
		}
		synctest.Wait()
		if m := status(t, all, caller("a"), res.Task.GetTaskId(), "working").GetStatusMessage(); m != "2 of 3" {
			t.Errorf("the message is %q, want the progress", m)
		}
		bridgetest.Pass(2 * time.Minute)
		got := status(t, all, caller("a"), res.Task.GetTaskId(), "completed")
		if s := got.GetResult().GetContent()[0].GetText().GetText(); s != "hello accept" {
			t.Errorf("the result is %q", s)
		}
	})
}

// A call that does not become a task in time ends at limits.callTotal, as without tasks.
func TestCallThatIsNoTaskTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := newTasks(t, tasks.Options{CallTotal: time.Minute})
		_, err := all.Call(t.Context(), toolCall(caller("a"), "t"), tasks.CallOptions{Handler: waits, After: -1}, nil)
		e := bridge.AsError(err)
		if e.Code != codes.DeadlineExceeded || e.Reason != "DEADLINE" || e.Outcome != bridge.OutcomeUnknown ||
			!strings.Contains(e.Message, "longer than 1m0s: raise limits.callTotal") {
			t.Errorf("got %v, want DEADLINE_EXCEEDED with the limit to raise", err)
		}
	})
}

// A tool is called again, once, if its backend was lost and the tool allows it.
func TestLostCallIsRetriedOnce(t *testing.T) {
	for _, retry := range []bool{false, true} {
		t.Run(strconv.FormatBool(retry), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				all := newTasks(t, tasks.Options{})
				calls := 0
				lost := tool(func(context.Context, *pb.CallToolRequest, bridge.Emit) (*bridge.Result, error) {
					calls++
					return nil, bridge.Failed(codes.Unavailable, bridge.OutcomeUnknown, "BACKEND_LOST",
						"the backend was lost")
				})
				id := call(t, all, lost, caller("a"), tasks.CallOptions{Retry: retry}).GetTaskId()
				synctest.Wait()
				data := status(t, all, caller("a"), id, "failed").GetError().GetData()
				if want := map[bool]int{false: 1, true: 2}[retry]; calls != want ||
					!strings.Contains(data, `"unknown"`) {
					t.Errorf("%d calls, want %d; the error has the data %s, want the outcome", calls, want, data)
				}
			})
		})
	}
}

// A request waits until the task is not working, and at most for its wait_ms.
func TestGetWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := newTasks(t, tasks.Options{})
		slow := tool(func(context.Context, *pb.CallToolRequest, bridge.Emit) (*bridge.Result, error) {
			<-time.After(10 * time.Second)
			return text("done")
		})
		id := call(t, all, slow, caller("a"), tasks.CallOptions{}).GetTaskId()
		for _, want := range []string{"working", "completed"} {
			begin := time.Now()
			res, err := all.Handle(t.Context(), &bridge.Call{Method: bridge.GetTask, Request: &pb.GetTaskRequest{
				Context: caller("a"), TaskId: id, WaitMs: proto.Int64(6000),
			}}, nil)
			if err != nil {
				t.Fatal(err)
			}
			took := time.Since(begin)
			if s := res.Complete.(*pb.GetTaskResponse).GetTask().GetStatus(); s != want || took > 6*time.Second ||
				took < 4*time.Second {
				t.Errorf("got %s after %s, want %s", s, took, want)
			}
		}
	})
}

// A task that has ended does not change any more, whatever its tool does (TX-4, TX-9).
// TestNextReturnsTheTaskOfItsVersion: otherwise, tasks/result would send the same input request twice.
func TestNextReturnsTheTaskOfItsVersion(t *testing.T) {
	const steps = 20_000
	all, cc := newTasks(t, tasks.Options{}), caller("")
	task := call(t, all, tool(func(
		ctx context.Context, _ *pb.CallToolRequest, emit bridge.Emit,
	) (*bridge.Result, error) {
		for i := range steps {
			if err := emit(ctx, bridge.Event{Progress: &pb.Progress{Progress: float64(i + 2)}}); err != nil {
				return nil, err
			}
		}
		return text("done")
	}), cc, tasks.CallOptions{})
	get := &bridge.Call{
		Method: bridge.GetTask, Request: &pb.GetTaskRequest{Context: cc, TaskId: task.GetTaskId()},
	}
	for version := uint64(1); ; { // that of a task without progress
		task, newer, err := all.Next(t.Context(), get, version)
		if err != nil {
			t.Fatal(err)
		}
		if tasks.IsFinal(task.GetStatus()) {
			return
		}
		if got, want := task.GetStatusMessage(), strconv.FormatUint(newer, 10); got != want {
			t.Fatalf("the task of version %s has the message of version %s", want, got)
		}
		version = newer
	}
}

func TestEndedTaskDoesNotChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, cc := newTasks(t, tasks.Options{}), caller("a")
		id := call(t, all, tool(
			func(ctx context.Context, _ *pb.CallToolRequest, emit bridge.Emit) (*bridge.Result, error) {
				<-ctx.Done()
				_ = emit(ctx, bridge.Event{Progress: &pb.Progress{Progress: 1}})
				return text("done")
			}), cc, tasks.CallOptions{}).GetTaskId()
		cancel(t, all, cc, id)
		before := status(t, all, cc, id, "cancelled")
		bridgetest.Pass(time.Minute)
		if after := status(t, all, cc, id, "cancelled"); !proto.Equal(before, after) {
			t.Errorf("got %v, want %v as before", after, before)
		}
	})
}

// A list has the tasks of the caller in pages, the newest first (TX-9, TX-11).
func TestListHasPages(t *testing.T) {
	all, cc := newTasks(t, tasks.Options{}), caller("a")
	call(t, all, waits, caller("b"), tasks.CallOptions{})
	var want []string
	for range limits.TasksPage + 1 {
		want = append(want, call(t, all, waits, cc, tasks.CallOptions{}).GetTaskId())
	}
	slices.Reverse(want)
	list := func(cursor *string) (*pb.ListTasksResponse, error) {
		res, err := all.Handle(t.Context(), &bridge.Call{
			Method: bridge.ListTasks, Request: &pb.ListTasksRequest{Context: cc, Cursor: cursor},
		}, nil)
		if err != nil {
			return nil, err
		}
		return res.Complete.(*pb.ListTasksResponse), nil
	}
	var got []string
	var cursor *string
	for _, n := range []int{limits.TasksPage, 1} {
		page, err := list(cursor)
		if err != nil || len(page.GetTasks()) != n || (page.NextCursor != nil) != (n > 1) {
			t.Fatalf("got %v, %v, want %d tasks", page, err, n)
		}
		for _, task := range page.GetTasks() {
			got = append(got, task.GetTaskId())
		}
		cursor = page.NextCursor
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if _, err := list(proto.String("x")); bridge.AsError(err).Code != codes.InvalidArgument {
		t.Errorf("an unknown cursor: got %v, want INVALID_ARGUMENT", err)
	}
}

// The law of tasks: each of many tasks ends once, with its own answers and result, or because it was canceled.
func TestManyTasks(t *testing.T) {
	const n = 2_000
	all := newTasks(t, tasks.Options{})
	askingTool := tool(func(_ context.Context, r *pb.CallToolRequest, _ bridge.Emit) (*bridge.Result, error) {
		if len(r.GetInputResponses()) == 0 {
			return &bridge.Result{InputRequired: &pb.InputRequired{
				InputRequests: []*pb.InputRequest{
					bridgetest.Form("a", "a?", "a"), bridgetest.Form("b", "b?", "b"),
				}, RequestState: r.GetArguments(),
			}}, nil
		}
		return text("%s %s", r.GetArguments(), r.GetRequestState())
	})
	var callers sync.WaitGroup
	for i := range n {
		callers.Go(func() {
			cc, arguments := caller(strconv.Itoa(i%10)), fmt.Sprintf(`{"n":%d}`, i)
			c := toolCall(cc, "t")
			c.Request.(*pb.CallToolRequest).Arguments = []byte(arguments)
			res, err := all.Call(t.Context(), c, tasks.CallOptions{Handler: askingTool}, nil)
			if err != nil {
				t.Error(err)
				return
			}
			read := &bridge.Call{Method: bridge.GetTask, Request: &pb.GetTaskRequest{
				Context: cc, TaskId: res.Task.GetTaskId(),
			}}
			changes := 0
			for version := uint64(0); ; changes++ {
				task, next, err := all.Next(t.Context(), read, version)
				if err != nil {
					t.Error(err)
					return
				}
				version = next
				switch task.GetStatus() {
				case "input_required":
					if i%7 == 0 {
						cancel(t, all, cc, task.GetTaskId())
					}
					for _, req := range task.GetInputRequests() {
						update(t, all, cc, task.GetTaskId(), req.GetKey())
					}
				case "cancelled":
					if i%7 != 0 {
						t.Errorf("task %d was canceled", i)
					}
					return
				case "completed":
					if got := task.GetResult().GetContent()[0].GetText().GetText(); i%7 == 0 ||
						got != arguments+" "+arguments {
						t.Errorf("task %d has the result %q", i, got)
					}
					return
				case "failed":
					t.Errorf("task %d failed: %v", i, task.GetError())
					return
				}
			}
		})
	}
	callers.Wait()
}

// A subscription does not keep a task that has expired, nor one that had ended before.
func TestSubscriptionDoesNotRetainTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := newTasks(t, tasks.Options{})
		var results []weak.Pointer[pb.CallToolResult]
		done := tool(func(context.Context, *pb.CallToolRequest, bridge.Emit) (*bridge.Result, error) {
			<-time.After(time.Minute)
			r := bridgetest.Text("done")
			results = append(results, weak.Make(r))
			return &bridge.Result{Complete: r}, nil
		})
		cc, reports := caller("a"), 0
		ended := call(t, all, done, cc, tasks.CallOptions{}).GetTaskId()
		bridgetest.Pass(time.Minute)
		running := call(t, all, done, cc, tasks.CallOptions{}).GetTaskId()
		found, stop := all.Watch(toolCall(cc, "t"), []string{ended, running}, func(string, string) { reports++ })
		bridgetest.Pass(limits.Tasks{}.OrDefaults().TTL + 2*time.Minute)
		runtime.GC()
		for i, r := range results {
			if r.Value() != nil {
				t.Errorf("the result %d is kept", i)
			}
		}
		if len(found) != 2 || reports != 2 {
			t.Errorf("found %v with %d reports, want both tasks with one each", found, reports)
		}
		stop()
	})
}

// A task does not keep the body of the request that began it, whose memory the strings of the request share.
func TestTaskDoesNotRetainTheBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := newTasks(t, tasks.Options{})
		waits := tool(func(ctx context.Context, _ *pb.CallToolRequest, _ bridge.Emit) (*bridge.Result, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		})
		body := new([1 << 10]byte)
		kept := weak.Make(body)
		begun := toolCall(caller("a"), rawjson.AsString(append(body[:0], "name"...)))
		res, err := all.Call(t.Context(), begun, tasks.CallOptions{Handler: waits}, nil)
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if runtime.GC(); kept.Value() != nil {
			t.Error("the body is kept")
		}
		status(t, all, caller("a"), res.Task.GetTaskId(), "working")
	})
}
