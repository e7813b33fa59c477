package mcpclient_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/bridgetest"
	"github.com/mcpbridge/mcpbridge/internal/catalog"
	"github.com/mcpbridge/mcpbridge/internal/jsonrpc"
	"github.com/mcpbridge/mcpbridge/internal/mcpclient"
	"github.com/mcpbridge/mcpbridge/internal/mcpserver"
	"github.com/mcpbridge/mcpbridge/internal/rawjson"
	"github.com/mcpbridge/mcpbridge/internal/tasks"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

const declaresTasks = `{"` + bridge.TasksExtension + `":{}}`

// greeter is a backend with a tool that runs as a task only, and requires the name of whom to greet.
func greeter(ctx context.Context, call *bridge.Call, emit bridge.Emit) (*bridge.Result, error) {
	switch r := call.Request.(type) {
	case *pb.DiscoverRequest:
		return &bridge.Result{Complete: &pb.DiscoverResponse{
			Capabilities: bridge.WithTasks(&pb.ServerCapabilities{Tools: &pb.ToolsCapability{}}),
		}}, nil
	case *pb.ListToolsRequest:
		return &bridge.Result{Complete: &pb.ListToolsResponse{Tools: []*pb.Tool{{
			Name: "greet", Execution: &pb.ToolExecution{TaskSupport: proto.String("required")},
		}}}}, nil
	case *pb.CallToolRequest:
		if answer := r.GetInputResponses()["name"]; answer != nil {
			return &bridge.Result{Complete: bridgetest.Text("hello %s", answer.GetElicit().GetContent())}, nil
		}
		asking := &pb.Progress{Progress: 1, Message: proto.String("asking")}
		if err := emit(ctx, bridge.Event{Progress: asking}); err != nil {
			return nil, err
		}
		return &bridge.Result{InputRequired: &pb.InputRequired{
			InputRequests: []*pb.InputRequest{bridgetest.Form("name", "who?", "name")},
		}}, nil
	}
	return bridgetest.New().Handle(ctx, call, emit)
}

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

// serveTasks serves a Handler with tasks.
func serveTasks(t *testing.T, h bridge.Handler) mcpclient.Options {
	t.Helper()
	all := newTasks(t)
	s := mcpserver.New(catalog.New(h, catalog.Options{Tasks: all}), mcpserver.Options{Tasks: all})
	srv := httptest.NewServer(s)
	t.Cleanup(func() { s.Close(); srv.Close() })
	return mcpclient.Options{URL: srv.URL + "/mcp"}
}

// A tool that runs as a task only can be called by every client: the bridge handles the task of the server.
func TestTasksOfServers(t *testing.T) {
	for _, rev := range []bridge.Revision{bridge.Rev20251125, bridge.Rev20260728} {
		t.Run(rev.String(), func(t *testing.T) {
			o := serveTasks(t, bridge.HandlerFunc(greeter))
			o.Revision = rev
			own := newTasks(t)
			h := catalog.New(run(t, o), catalog.Options{Tasks: own})
			res, err := h.Handle(t.Context(), &bridge.Call{
				Method: bridge.Discover, Request: &pb.DiscoverRequest{},
			}, ignore)
			if err != nil || !bridge.ServesTasks(res.Complete.(*pb.DiscoverResponse).GetCapabilities()) {
				t.Fatalf("got %v, %v, want that the server declares tasks", res, err)
			}
			t.Run("without tasks", func(t *testing.T) {
				c := callOf("greet", "{}", "a")
				required := requiredInput(t, h, c)
				if got := callText(t, h,
					c.Retry(answers(required, `{"name":"Ann"}`), required.GetRequestState())); got !=
					`hello {"name":"Ann"}` {
					t.Errorf("got %q", got)
				}
			})
			t.Run("with tasks", func(t *testing.T) {
				c := callOf("greet", "{}", "a")
				c.Context().ClientCapabilities.Extensions = declaresTasks
				c.Context().Verified.ProtocolVersion = bridge.Rev20260728.String()
				first, err := h.Handle(t.Context(), c, ignore)
				if err != nil || first.Task == nil {
					t.Fatalf("got %v, %v, want a task", first, err)
				}
				get := c.With(bridge.GetTask, &pb.GetTaskRequest{Context: c.Context(), TaskId: first.Task.GetTaskId()})
				for version := uint64(0); ; {
					task, next, err := own.Next(t.Context(), get, version)
					if err != nil {
						t.Fatal(err)
					}
					version = next
					if tasks.IsFinal(task.GetStatus()) {
						if got := task.GetResult().GetContent()[0].GetText().GetText(); got != `hello {"name":"Ben"}` {
							t.Errorf("got %q", got)
						}
						return
					}
					all := &pb.InputRequired{InputRequests: task.GetInputRequests()}
					if err := own.Update(get, answers(all, `{"name":"Ben"}`)); err != nil {
						t.Fatal(err)
					}
				}
			})
		})
	}
}

// A legacy server receives `task` for a tool that runs as a task only, tasks/result in the same session, and
// tasks/cancel if the call ends early (TX-2, TX-3, TX-6, TX-9). Its input requests and results lose the reference to
// its task, and the responses to it have one (TX-8).
func TestLegacyTasks(t *testing.T) {
	const task = `{"task":{"taskId":"id","status":"working","createdAt":"c","lastUpdatedAt":"u","ttl":null}}`
	const related = `"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"id"}}`
	cancelled := make(chan string, 1)
	answered := make(chan string, 1)
	var session, token string
	f := newFake(t, false, nil)
	f.capabilities = `{"tools":{},"tasks":{"requests":{"tools":{"call":{}}}},"extensions":` + declaresTasks + `}`
	f.answer = func(w http.ResponseWriter, r *http.Request, m *jsonrpc.Message) {
		id, _ := rawjson.String(rawjson.Get(m.Params, "taskId"))
		switch m.Method {
		case "tools/list":
			result(w, m, `{"tools":[{"name":"t","inputSchema":{"type":"object"},`+
				`"execution":{"taskSupport":"required"}},{"name":"plain","inputSchema":{"type":"object"}}]}`)
		case "tools/call":
			name, _ := rawjson.String(rawjson.Get(m.Params, "name"))
			if got := string(rawjson.Get(m.Params, "task")); (got == "{}") != (name == "t") {
				t.Errorf("the call of %s has the task %q", name, got)
			}
			if name == "plain" {
				result(w, m, hello)
				return
			}
			session, token = r.Header.Get("Mcp-Session-Id"), string(rawjson.Get(m.Meta, "progressToken"))
			result(w, m, task)
		case "tasks/result":
			if r.Header.Get("Mcp-Session-Id") != session || id != "id" {
				t.Errorf("tasks/result has the session %q and the task %q", r.Header.Get("Mcp-Session-Id"), id)
			}
			stream(w, `data: {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":`+token+
				`,"progress":7}}`+"\n\n",
				`data: {"jsonrpc":"2.0","id":"e","method":"elicitation/create","params":{"message":"m",`+
					`"requestedSchema":{"type":"object","properties":{}},`+related+"}}\n\n")
			select {
			case text := <-answered:
				stream(w, "data: "+string(jsonrpc.AppendResult(nil, m.ID,
					[]byte(`{"content":[{"type":"text","text":`+strconv.Quote(text)+`}],`+related+`}`)))+"\n\n")
			case <-r.Context().Done():
			}
		case "tasks/cancel":
			cancelled <- id
			result(w, m, task)
		}
	}
	f.respond = func(body []byte) { answered <- string(rawjson.Get(rawjson.Get(body, "result"), "_meta")) }
	c := run(t, mcpclient.Options{URL: f.URL, Revision: bridge.Rev20251125}, quick)
	h := catalog.New(c, catalog.Options{})
	call(t, h, "plain", "{}")
	tool := callOf("t", "{}", "a")
	tool.Context().ProgressWanted = true
	var progress float64
	res, err := h.Handle(t.Context(), tool, func(_ context.Context, e bridge.Event) error {
		progress = e.Progress.GetProgress()
		return nil
	})
	if err != nil || res.InputRequired == nil || progress != 7 {
		t.Fatalf("got %v, %v and progress %v, want progress and an input request", res, err, progress)
	}
	if meta := res.InputRequired.GetInputRequests()[0].GetElicit().GetForm().GetMeta(); meta != "" {
		t.Errorf("the input request has _meta %s", meta)
	}
	retry := tool.Retry(answers(res.InputRequired, "{}"), res.InputRequired.GetRequestState())
	res, err = h.Handle(t.Context(), retry, ignore)
	if err != nil || res.Complete == nil {
		t.Fatalf("got %v, %v, want the result", res, err)
	}
	got := res.Complete.(*pb.CallToolResult)
	if s := got.GetContent()[0].GetText().GetText(); s !=
		`{"io.modelcontextprotocol/related-task":{"taskId":"id"}}` || got.GetMeta() != "" {
		t.Errorf("the server received _meta %s, and the result has %s", s, got.GetMeta())
	}

	ctx, cancel := context.WithCancel(t.Context())
	early := toolCall("t", "{}") // it has no session of its own, so its server's request is rejected
	early.Context().ProgressWanted = true
	_, err = h.Handle(ctx, early, func(context.Context, bridge.Event) error {
		cancel()
		return nil
	})
	if e := bridge.AsError(err); e.Code != codes.Canceled || e.Outcome != bridge.OutcomeUnknown {
		t.Errorf("got %v, want that the call was canceled", err)
	}
	if id := <-cancelled; id != "id" {
		t.Errorf("the task %s was cancelled", id)
	}
}

// FastMCP 2.14 returns a task in `_meta`, and responds to tasks/result with an error until the task has ended.
func TestTasksOfFastMCP(t *testing.T) {
	const state = `"taskId":"id","createdAt":"c","lastUpdatedAt":"u","ttl":null,"pollInterval":1`
	requested := 0
	f := newFake(t, false, nil)
	f.capabilities = `{"tools":{},"tasks":{"requests":{"tools":{"call":{}}}}}`
	f.answer = func(w http.ResponseWriter, _ *http.Request, m *jsonrpc.Message) {
		switch m.Method {
		case "tools/list":
			result(w, m, `{"tools":[{"name":"t","inputSchema":{"type":"object"},"execution":{"taskSupport":"required"}}]}`)
		case "tools/call":
			result(w, m, `{"content":[],"isError":false,"_meta":{"modelcontextprotocol.io/task":{"taskId":"id"}}}`)
		case "tasks/get":
			status := map[bool]string{true: "working", false: "completed"}[requested < 2]
			result(w, m, `{`+state+`,"status":"`+status+`"}`)
		case "tasks/result":
			if requested++; requested < 3 { // before the third, tasks/get reports that the task has ended meanwhile
				w.Header().Set("Content-Type", "application/json")
				_, _ = w.Write(jsonrpc.AppendError(nil, m.ID,
					&pb.JsonRpcError{Code: -32602, Message: "Task not completed yet (current state: working)"}, false))
				return
			}
			result(w, m, hello)
		}
	}
	c := run(t, mcpclient.Options{URL: f.URL, Revision: bridge.Rev20251125}, quick)
	if got := call(t, catalog.New(c, catalog.Options{}), "t", "{}"); got != "hello" || requested != 3 {
		t.Errorf("got %q after %d requests for the result", got, requested)
	}
}
