package mcpbridge_test

import (
	"bufio"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/mcpbridge/mcpbridge/internal/bridgetest"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
	"github.com/mcpbridge/mcpbridge/sdkgen/go/mcpbridge"
	"github.com/mcpbridge/mcpbridge/sdkgen/go/mcpbridgetest"
)

// addTasks adds tools whose calls can be tasks.
func addTasks(app *mcpbridge.App) {
	canceled := make(chan struct{})
	type none struct{}
	mcpbridge.Tool(app, "report", "Waits until it is canceled.", func(ctx context.Context, _ none) (string, error) {
		mcpbridge.Progress(ctx, 1, 2, "reading")
		<-ctx.Done()
		close(canceled)
		return "", ctx.Err()
	}, mcpbridge.Task{})
	does(app, "canceled", func(ctx context.Context) (string, error) {
		select {
		case <-canceled:
			return "canceled", nil
		case <-ctx.Done():
			return "", ctx.Err()
		}
	})
	mcpbridge.Tool(app, "book", "Asks for a name.", func(ctx context.Context, _ none) (string, error) {
		name, err := mcpbridge.Elicit[string](ctx, "Who are you?")
		return "Booked for " + name.Data, err
	}, mcpbridge.Task{Required: true, Retry: true})
	mcpbridge.Tool(app, "later", "Asks, and starts a task then.", func(ctx context.Context, _ none) (string, error) {
		name, err := mcpbridge.Elicit[string](ctx, "Who are you?")
		if err != nil {
			return "", err
		}
		mcpbridge.StartTask(ctx)
		mcpbridge.Progress(ctx, 1, 1)
		return "Hello, " + name.Data, nil
	}, mcpbridge.Task{StartsLater: true})
}

func TestTasksAreDeclared(t *testing.T) {
	app := mcpbridge.New("test", "1")
	addTasks(app)
	got := map[string]*pb.ToolExecution{}
	for _, tool := range list(t, app) {
		got[tool.GetName()] = tool.GetExecution()
	}
	for name, want := range map[string]*pb.ToolExecution{
		"canceled": nil,
		"report":   {TaskSupport: proto.String("optional")},
		"book":     {TaskSupport: proto.String("required"), Retry: true},
		"later":    {TaskSupport: proto.String("optional"), StartsLater: true},
	} {
		if !proto.Equal(got[name], want) {
			t.Errorf("%s: got %v, want %v", name, got[name], want)
		}
	}
	for app, want := range map[*mcpbridge.App]string{
		app: `{"io.modelcontextprotocol/tasks":{}}`, weather(t): "",
	} {
		d, err := app.Service().Discover(t.Context(), &pb.DiscoverRequest{})
		if extensions := d.GetCapabilities().GetExtensions(); err != nil || extensions != want {
			t.Errorf("got the extensions %q, %v, want %q", extensions, err, want)
		}
	}
}

func TestToolStartsItsTask(t *testing.T) {
	app := mcpbridge.New("test", "1")
	addTasks(app)
	mcpbridge.StartTask(t.Context()) // outside of a call, it has no effect
	called := mcpbridgetest.Call(t, app, "later", nil, mcpbridgetest.WithAnswers("Ada"))
	if called.Text() != "Hello, Ada" || !called.TaskStarted || len(called.Progress) != 1 {
		t.Errorf("got %s, a task: %t", called.Text(), called.TaskStarted)
	}
	called = mcpbridgetest.Call(t, app, "book", nil, mcpbridgetest.WithAnswers("Ada"))
	if called.Text() != "Booked for Ada" || called.TaskStarted {
		t.Errorf("got %s, a task: %t", called.Text(), called.TaskStarted)
	}
}

// A task is what is common to those of both eras.
type task struct {
	TaskID        string `json:"taskId"`
	Status        string
	StatusMessage string
	Result        struct{ Content []struct{ Text string } }
}

// A requester sends a request and returns the response.
type requester func(method string, params any) mcpbridgetest.Message

// until requests a task until its status and message are the given ones.
func until(t *testing.T, request requester, id, status, message string) task {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; {
		var got task
		m := request("tasks/get", M{"taskId": id})
		if err := json.Unmarshal(m.Result, &got); err != nil {
			t.Fatalf("%v: %+v", err, m.Error)
		}
		if got.Status == status && got.StatusMessage == message {
			return got
		}
		if time.Now().After(end) {
			t.Fatalf("got %+v, want the status %s with %q", got, status, message)
		}
	}
}

// Progress is the status, questions are input requests, and the context is canceled with the task.
func TestTaskBehindTheBridge(t *testing.T) {
	bridgetest.SkipIfShort(t)
	c := mcpbridgetest.Start(t, bridgeBinary(t), os.Args[0])
	begin := func(tool string) string {
		t.Helper()
		m := c.Request("tools/call", M{"name": tool, "arguments": M{}, "task": M{}})
		var created struct{ Task task }
		if err := json.Unmarshal(m.Result, &created); err != nil || created.Task.Status != "working" {
			t.Fatalf("got %s, %+v, want a task", m.Result, m.Error)
		}
		return created.Task.TaskID
	}
	id := begin("report")
	until(t, c.Request, id, "working", "reading")
	c.Request("tasks/cancel", M{"taskId": id})
	until(t, c.Request, id, "cancelled", "")
	if got := c.Call("canceled", nil); got != "canceled" {
		t.Errorf("got %s, want that the context is canceled", got)
	}

	c.Answer = func(string, json.RawMessage) any { return M{"action": "accept", "content": M{"value": "Ada"}} }
	id = begin("book")
	until(t, c.Request, id, "input_required", "")
	var result struct{ Content []struct{ Text string } }
	m := c.Request("tasks/result", M{"taskId": id})
	if err := json.Unmarshal(m.Result, &result); err != nil || result.Content[0].Text != "Booked for Ada" {
		t.Errorf("got %s, %+v", m.Result, m.Error)
	}
	if got := c.Call("book",
		nil); got != `error -32601: tools/call: the tool "book" runs as a task only: call it with `+
		"`task`" {
		t.Errorf("got %s", got)
	}
}

// Before it starts its task, a call asks questions like any other call.
func TestTaskThatStartsLaterBehindTheBridge(t *testing.T) {
	bridgetest.SkipIfShort(t)
	cmd := exec.CommandContext(t.Context(), bridgeBinary(t), "run", "--stdio", "--", os.Args[0])
	in, _ := cmd.StdinPipe()
	out, _ := cmd.StdoutPipe()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		cmd.Wait()
	})
	lines, id := json.NewDecoder(bufio.NewReader(out)), 0
	request := func(method string, params any) (m mcpbridgetest.Message) {
		t.Helper()
		id++
		params.(M)["_meta"] = M{
			"io.modelcontextprotocol/protocolVersion": "2026-07-28",
			"io.modelcontextprotocol/clientInfo":      M{"name": "test", "version": "1"},
			"io.modelcontextprotocol/clientCapabilities": M{
				"elicitation": M{}, "extensions": M{"io.modelcontextprotocol/tasks": M{}},
			},
		}
		err := json.NewEncoder(in).Encode(M{"jsonrpc": "2.0", "id": id, "method": method, "params": params})
		if err != nil {
			t.Fatal(err)
		}
		if err := lines.Decode(&m); err != nil {
			t.Fatal(err)
		}
		return m
	}
	var params struct {
		ResultType, RequestState string
		InputRequests            map[string]json.RawMessage
	}
	m := request("tools/call", M{"name": "later", "arguments": M{}})
	if err := json.Unmarshal(m.Result, &params); err != nil || params.ResultType != "input_required" {
		t.Fatalf("got %s, %+v, want a question", m.Result, m.Error)
	}
	answers := M{}
	for key := range params.InputRequests {
		answers[key] = M{"action": "accept", "content": M{"value": "Ada"}}
	}
	m = request("tools/call", M{
		"name": "later", "arguments": M{}, "inputResponses": answers, "requestState": params.RequestState,
	})
	var created task
	if err := json.Unmarshal(m.Result, &created); err != nil || created.TaskID == "" {
		t.Fatalf("got %s, %+v, want a task", m.Result, m.Error)
	}
	if got := until(t, request, created.TaskID, "completed", ""); got.Result.Content[0].Text != "Hello, Ada" {
		t.Errorf("got %+v", got)
	}
}
