package grpcserver_test

import (
	"context"
	"runtime"
	"slices"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/bridgetest"
	"github.com/mcpbridge/mcpbridge/internal/catalog"
	"github.com/mcpbridge/mcpbridge/internal/grpcserver"
	"github.com/mcpbridge/mcpbridge/internal/lifecycle"
	"github.com/mcpbridge/mcpbridge/internal/plugin"
	"github.com/mcpbridge/mcpbridge/internal/tasks"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

func newTasks(t *testing.T) *tasks.Tasks {
	t.Helper()
	all, err := tasks.New(tasks.Options{})
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

// withTasks serves a Handler each of whose calls becomes a task at once, of callers that accept one.
func withTasks(t *testing.T, h bridge.Handler, o grpcserver.Options) (addr string) {
	t.Helper()
	o.Tasks = newTasks(t)
	return serve(t, catalog.New(h, catalog.Options{
		Tasks: o.Tasks, TaskPolicy: tasks.Policy{All: tasks.Rule{Set: true}},
	}), nil, o)
}

// declaring returns the context of a caller that declares the extension for tasks, and can be asked.
func declaring() *pb.CallContext {
	return &pb.CallContext{
		ClientCapabilities: bridge.DeclareTasks(&pb.ClientCapabilities{Elicitation: &pb.ElicitationCapability{}}),
	}
}

// begin calls a tool, and returns its task.
func begin(ctx context.Context, t *testing.T, c pb.McpServiceClient, req *pb.CallToolRequest) *pb.Task {
	t.Helper()
	all, err := call(ctx, c, req)
	if err != nil {
		t.Fatal(err)
	}
	task := all[len(all)-1].GetTask().GetTask()
	if len(all) != 1 || task.GetStatus() != "working" || len(task.GetTaskId()) < 26 {
		t.Fatalf("got %v, want only a task that is working", all)
	}
	return task
}

// await returns a task once it is not working.
func await(ctx context.Context, t *testing.T, c pb.McpServiceClient, id string) *pb.Task {
	t.Helper()
	res, err := c.GetTask(ctx, &pb.GetTaskRequest{Context: declaring(), TaskId: id, WaitMs: proto.Int64(60_000)})
	if err != nil {
		t.Fatal(err)
	}
	return res.GetTask()
}

// The result is a task only for callers that declare the extension, or request a task in 2025-11-25 (TE-2, TX-1).
func TestCallersThatAcceptATaskGetOne(t *testing.T) {
	c := client(t, withTasks(t, bridgetest.Kit(), grpcserver.Options{}))
	for _, s := range []struct {
		req  *pb.CallToolRequest
		task bool
	}{
		{&pb.CallToolRequest{}, false},
		{&pb.CallToolRequest{Task: &pb.TaskMetadata{}}, false},
		{&pb.CallToolRequest{Context: declaring()}, true},
		{&pb.CallToolRequest{
			Context: clone(declaring(), func(cc *pb.CallContext) { cc.ProtocolVersion = "2025-11-25" }),
		}, false},
		{&pb.CallToolRequest{
			Context: &pb.CallContext{ProtocolVersion: "2025-11-25"}, Task: &pb.TaskMetadata{TtlMs: proto.Int64(5000)},
		}, true},
	} {
		s.req.Name, s.req.Arguments = "echo", []byte(`{"a":1}`)
		if !s.task {
			if got := callText(t, c, s.req); got != `{"a":1}` {
				t.Errorf("%v: %q", s.req, got)
			}
			continue
		}
		task := await(t.Context(), t, c, begin(t.Context(), t, c, s.req).GetTaskId())
		if got := task.GetResult().GetContent()[0].GetText().GetText(); got != `{"a":1}` ||
			s.req.GetTask() != nil && task.GetTtlMs() != 5000 {
			t.Errorf("%v: %v", s.req, task)
		}
	}
}

func TestTaskReceivesInput(t *testing.T) {
	c := client(t, withTasks(t, bridgetest.Kit(), grpcserver.Options{}))
	id := begin(t.Context(), t, c, &pb.CallToolRequest{Context: declaring(), Name: "ask"}).GetTaskId()
	for _, answer := range []string{`{"name":"Ada"}`, `{"yes":"y"}`} {
		task := await(t.Context(), t, c, id)
		if task.GetStatus() != "input_required" || len(task.GetInputRequests()) != 1 {
			t.Fatalf("got %v, want one input request", task)
		}
		_, err := c.UpdateTask(t.Context(), &pb.UpdateTaskRequest{
			TaskId: id, InputResponses: map[string]*pb.InputResponse{
				task.GetInputRequests()[0].GetKey(): {Response: &pb.InputResponse_Elicit{
					Elicit: &pb.ElicitResult{Action: "accept", Content: answer},
				}},
			},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	const want = `name={"name":"Ada"} {"yes":"y"}`
	if got := await(t.Context(), t, c, id).GetResult().GetContent()[0].GetText().GetText(); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestTaskIsCanceled(t *testing.T) {
	kit := bridgetest.Kit()
	c := client(t, withTasks(t, kit, grpcserver.Options{}))
	id := begin(t.Context(), t, c, &pb.CallToolRequest{
		Context: declaring(), Name: "wait", Arguments: []byte(`{"n":1}`),
	}).GetTaskId()
	<-kit.Started
	for _, s := range []struct {
		revision string
		code     codes.Code
	}{{"", codes.OK}, {"", codes.OK}, {"2025-11-25", codes.InvalidArgument}} {
		_, err := c.CancelTask(t.Context(), &pb.CancelTaskRequest{
			TaskId: id, Context: &pb.CallContext{ProtocolVersion: s.revision},
		})
		if status.Code(err) != s.code {
			t.Errorf("revision %q: got %v, want %s", s.revision, err, s.code)
		}
	}
	<-kit.Ended
	if task := await(t.Context(), t, c, id); task.GetStatus() != "cancelled" {
		t.Errorf("got %v, want a canceled task", task)
	}
}

// The tasks of another caller do not exist, and only callers that can be identified have a list (TX-11, TE-12).
func TestTasksBelongToTheirCaller(t *testing.T) {
	c := client(t, withTasks(t, bridgetest.Kit(), grpcserver.Options{
		Principal: func(_ context.Context, md metadata.MD) (*pb.Principal, error) {
			if names := md.Get("name"); len(names) > 0 {
				return &pb.Principal{Issuer: "i", Subject: names[0]}, nil
			}
			return nil, nil
		},
	}))
	as := func(name string) context.Context { return metadata.AppendToOutgoingContext(t.Context(), "name", name) }
	id := begin(as("ada"), t, c, &pb.CallToolRequest{Context: declaring(), Name: "echo"}).GetTaskId()
	await(as("ada"), t, c, id)
	for name, ctx := range map[string]context.Context{"bob": as("bob"), "anonymous": t.Context()} {
		_, get := c.GetTask(ctx, &pb.GetTaskRequest{TaskId: id})
		_, update := c.UpdateTask(ctx, &pb.UpdateTaskRequest{TaskId: id})
		_, cancel := c.CancelTask(ctx, &pb.CancelTaskRequest{TaskId: id})
		for _, err := range []error{get, update, cancel} {
			if status.Code(err) != codes.NotFound {
				t.Errorf("%s: got %v, want NotFound", name, err)
			}
		}
	}
	for name, want := range map[string]int{"ada": 1, "bob": 0} {
		page, err := c.ListTasks(as(name), &pb.ListTasksRequest{})
		if err != nil || len(page.GetTasks()) != want || want == 1 && page.GetTasks()[0].GetTaskId() != id {
			t.Errorf("%s: got %v, %v, want %d tasks", name, page, err, want)
		}
	}
	if _, err := c.ListTasks(t.Context(), &pb.ListTasksRequest{}); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("anonymous: got %v, want FailedPrecondition", err)
	}
}

// A Listen call reports the changes of tasks besides those of the backend, or alone (TE-10).
func TestListenReportsTasks(t *testing.T) {
	for name, tools := range map[string]bool{"alone": false, "with tools": true} {
		t.Run(name, func(t *testing.T) {
			kit := bridgetest.Kit()
			c := client(t, withTasks(t, kit, grpcserver.Options{}))
			id := begin(t.Context(), t, c, &pb.CallToolRequest{
				Context: declaring(), Name: "ask",
			}).GetTaskId()
			key := await(t.Context(), t, c, id).GetInputRequests()[0].GetKey()
			s, err := c.Listen(t.Context(), &pb.ListenRequest{Notifications: &pb.SubscriptionFilter{
				ToolsListChanged: proto.Bool(tools), TaskIds: []string{id, "none"},
			}})
			if err != nil {
				t.Fatal(err)
			}
			next := func() *pb.ListenResponse {
				t.Helper()
				m, err := s.Recv()
				if err != nil {
					t.Fatal(err)
				}
				return m
			}
			ack := next().GetAcknowledged().GetNotifications()
			if !slices.Equal(ack.GetTaskIds(), []string{id}) || ack.GetToolsListChanged() != tools {
				t.Fatalf("acknowledged %v", ack)
			}
			if task := next().GetTaskChanged(); task.GetTaskId() != id || task.GetStatus() != "input_required" {
				t.Fatalf("got %v, want the task, which has changed already", task)
			}
			if tools {
				kit.Add("new")
				if m := next(); m.GetToolsListChanged() == nil {
					t.Fatalf("got %v, want a change of the tools", m)
				}
			}
			_, err = c.UpdateTask(t.Context(), &pb.UpdateTaskRequest{
				TaskId: id, InputResponses: map[string]*pb.InputResponse{key: {Response: &pb.InputResponse_Elicit{
					Elicit: &pb.ElicitResult{Action: "decline"},
				}}},
			})
			if err != nil {
				t.Fatal(err)
			}
			for {
				if task := next().GetTaskChanged(); task.GetStatus() != "working" {
					if got := task.GetResult().GetContent()[0].GetText().GetText(); got != "the user said decline" {
						t.Errorf("got %v", task)
					}
					return
				}
			}
		})
	}
}

// A call that waits for a task does not delay the shutdown, and returns the task as it is.
func TestWaitForATaskEndsAtTheShutdown(t *testing.T) {
	kit, life := bridgetest.Kit(), lifecycle.New()
	c := client(t, withTasks(t, kit, grpcserver.Options{Lifecycle: life}))
	id := begin(t.Context(), t, c, &pb.CallToolRequest{Context: declaring(), Name: "wait"}).GetTaskId()
	<-kit.Started
	waiting := make(chan *pb.Task)
	go func() {
		res, err := c.GetTask(t.Context(), &pb.GetTaskRequest{TaskId: id, WaitMs: proto.Int64(60_000)})
		if err != nil {
			t.Error(err)
		}
		waiting <- res.GetTask()
	}()
	for life.InFlight() == 0 {
		runtime.Gosched()
	}
	life.Advance(lifecycle.Draining)
	if task := <-waiting; task.GetStatus() != "working" {
		t.Errorf("got %v, want a task that is working", task)
	}
}

// A bridge drives the tasks of another one that it dials: its callers get ordinary results.
func TestBridgeDrivesTheTasksOfAnother(t *testing.T) {
	p, err := plugin.New(plugin.Options{Name: "b", Address: withTasks(t, bridgetest.Kit(), grpcserver.Options{})})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ran := make(chan error, 1)
	go func() { ran <- p.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-ran; err != nil {
			t.Error(err)
		}
	}()
	h := catalog.New(p, catalog.Options{Tasks: newTasks(t), TaskPolicy: tasks.Policy{All: tasks.Rule{Never: true}}})
	for name, want := range map[string]string{"echo": `{"n":1}`, "ask": ""} {
		cc := declaring()
		cc.Verified = bridge.Verified(bridge.Rev20260728, nil, nil)
		res, err := h.Handle(t.Context(), &bridge.Call{Method: bridge.CallTool, Request: &pb.CallToolRequest{
			Context: cc, Name: name, Arguments: []byte(`{"n":1}`),
		}}, func(context.Context, bridge.Event) error { return nil })
		switch {
		case err != nil || res.Task != nil:
			t.Fatal(res, err)
		case name == "ask" && len(res.InputRequired.GetInputRequests()) != 1:
			t.Errorf("%s: got %v, want an input request", name, res)
		case name == "echo" && res.Complete.(*pb.CallToolResult).GetContent()[0].GetText().GetText() != want:
			t.Errorf("%s: got %v, want %s", name, res, want)
		}
	}
}
