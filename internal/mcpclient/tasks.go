package mcpclient

import (
	"cmp"
	"context"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/jsonrpc"
	"github.com/mcpbridge/mcpbridge/internal/limits"
	"github.com/mcpbridge/mcpbridge/internal/mcpjson"
	"github.com/mcpbridge/mcpbridge/internal/rawjson"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// A task of a server of 2026-07-28 is a result of tools/call, which the Catalog waits for. A server of 2025-11-25
// creates one only if the request has `task`, and keeps it in the session, in which it also requests input. So the call
// of a tool that runs as a task only remains one call here: tasks/result follows tools/call in the same session.
const (
	methodTaskResult = "tasks/result"
	methodCancelTask = "tasks/cancel"

	// metaRelatedTask is the key of `_meta` for the task that a message belongs to (2025-11-25: basic/utilities/tasks,
	// related task metadata).
	metaRelatedTask = "io.modelcontextprotocol/related-task"

	taskOptional = "optional"
	taskRequired = "required"
)

// A taskUse relates tasks/result to the tools/call that created the task.
type taskUse struct {
	task  string // the id of the task, or empty
	token string // the progress token of the tools/call
	ended bool   // the task has ended, so that the next response to tasks/result is its result or its error
}

// readTasks reads the capability for tasks in the declaration of a legacy server, and replaces it by that of the
// contract. It reports whether tools/call supports tasks. The extension has no meaning in these revisions (2026-07-28:
// extension tasks, backward compatibility).
func readTasks(d *pb.DiscoverResponse, rev bridge.Revision) bool {
	can := d.GetCapabilities()
	if can == nil {
		return false
	}
	requests := rawjson.Get(rawjson.AsBytes(can.GetTasks()), "requests")
	supported := rev.HasTaskMetadata() && rawjson.IsObject(rawjson.Get(rawjson.Get(requests, "tools"), "call"))
	can.Tasks = ""
	if bridge.ServesTasks(can) {
		can.Extensions = rawjson.AsString(rawjson.Without(rawjson.AsBytes(can.GetExtensions()), bridge.TasksExtension))
	}
	if supported {
		d.Capabilities = bridge.WithTasks(can)
	}
	return supported
}

// declareExecution declares tasks for the tools of a modern server with tasks: any call can become one, as the server
// decides.
func declareExecution(page *pb.ListToolsResponse) {
	for _, t := range page.GetTools() {
		t.Execution = &pb.ToolExecution{TaskSupport: proto.String(taskOptional), StartsLater: true}
	}
}

// updateTasks records which tools of a page run as tasks only, and offers them to clients without tasks, too.
func (t *paramTable) updateTasks(c *Client, page *pb.ListToolsResponse) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, tool := range page.GetTools() {
		if tool.GetExecution().GetTaskSupport() != taskRequired {
			delete(t.tasksOnly, tool.GetName())
			continue
		}
		tool.Execution.TaskSupport = proto.String(taskOptional)
		if t.tasksOnly == nil || len(t.tasksOnly) >= c.o.Limits.Tools {
			t.tasksOnly = map[string]struct{}{}
		}
		t.tasksOnly[tool.GetName()] = struct{}{}
	}
}

// requiresTask reports whether a tool runs as a task only.
func (t *paramTable) requiresTask(tool string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, ok := t.tasksOnly[tool]
	return ok
}

// withTask returns the request for a legacy server, which requests a task if the tool requires it.
func (c *Client) withTask(p *peer, r bridge.Request) bridge.Request {
	call, ok := r.(*pb.CallToolRequest)
	if !ok || !p.tasks.Load() || !c.params.requiresTask(call.GetName()) {
		return r
	}
	call = bridge.ShallowCopy(call)
	call.Task = &pb.TaskMetadata{}
	return call
}

// metaTaskOfFastMCP is the key of `_meta` under which FastMCP 2.14 returns a task, with empty content, as a draft of
// 2025-11-25 did.
const metaTaskOfFastMCP = "modelcontextprotocol.io/task"

// createdTask returns the id of the task in the response of a legacy server to a call, or "" if it is not a task.
func createdTask(x *exchange, call *bridge.Call, msg *jsonrpc.Message) string {
	if call.Method != bridge.CallTool || x.task != "" || x.p.rev().Modern() || !x.p.tasks.Load() {
		return ""
	}
	task := rawjson.Get(rawjson.Get(msg.Result, "_meta"), metaTaskOfFastMCP)
	if task == nil && rawjson.Get(msg.Result, "content") == nil {
		task = rawjson.Get(msg.Result, "task")
	}
	id, _ := rawjson.String(rawjson.Get(task, "taskId"))
	return id
}

// lacksTask reports whether a legacy server may have rejected a call because the tool runs as a task only, and its list
// was not read yet.
func lacksTask(call *bridge.Call, p *peer, e *pb.JsonRpcError) bool {
	return call.Method == bridge.CallTool && !p.rev().Modern() && p.tasks.Load() && e.GetCode() == codeMethodNotFound
}

// startTaskResult ends the exchange of a tools/call that has created a task, and returns that of tasks/result, which
// receives the remaining messages of the call.
func (c *Client) startTaskResult(
	ctx context.Context, x *exchange, id string, call *bridge.Call, emit bridge.Emit,
) (*exchange, error) {
	y, err := x.p.begin(methodTaskResult, x.purpose)
	if err != nil {
		return nil, err
	}
	y.taskUse = taskUse{task: id, token: cmp.Or(x.token, x.id), ended: x.ended}
	y.serverRequests, y.progress, y.emitted = x.serverRequests, x.progress, x.emitted
	x.requests = nil
	x.p.end(x)
	y.each = c.messageHandler(ctx, y, call, emit)
	y.body = jsonrpc.AppendRequest(nil, []byte(y.id), methodTaskResult, taskParams(id))
	y.p.start(y)
	return y, nil
}

// awaitsTask reports whether tasks/result must be repeated, because a server has responded to it with an error before
// the task has ended, as FastMCP 2.14 does. It returns after the interval at which the task is to be requested, or when
// the task or ctx has ended.
func (c *Client) awaitsTask(ctx context.Context, x *exchange, e *pb.JsonRpcError) bool {
	if x.task == "" || x.ended || e.GetCode() != codeInvalidParams {
		return false
	}
	msg, err := x.p.do(ctx, bridge.GetTask.Name, taskParams(x.task))
	if err != nil || msg.Error != nil {
		return false
	}
	got := &pb.GetTaskResponse{}
	if mcpjson.Unmarshal(msg.Result, got, x.p.rev()) != nil {
		return false
	}
	if x.ended = got.GetTask().GetStatus() != "working"; !x.ended {
		sleep(ctx, limits.TaskInterval(got.GetTask().PollIntervalMs))
	}
	return true
}

func taskParams(id string) []byte { return append(rawjson.AppendString([]byte(`{"taskId":`), id), '}') }

// cancelTask cancels the task of an exchange that ends without a response.
func (c *Client) cancelTask(ctx context.Context, x *exchange) {
	ctx, cancel := context.WithTimeout(ctx, limits.TaskCancel)
	defer cancel()
	if _, err := x.p.do(ctx, methodCancelTask, taskParams(x.task)); err != nil {
		c.log.Debug().Err(err).Msg("the server did not respond to the cancellation of its task")
	}
}

// relatedTo returns the response to a request of the server with the task that the request belongs to.
func relatedTo(task string, result []byte) []byte {
	if task == "" {
		return result
	}
	related := slices.Concat([]byte(`{"`+metaRelatedTask+`":`), taskParams(task))
	for name, value := range rawjson.Members(rawjson.Get(result, "_meta")) {
		related = append(append(rawjson.AppendString(append(related, ','), string(name)), ':'), value...)
	}
	out := slices.Concat([]byte(`{"_meta":`), related, []byte{'}'})
	for name, value := range rawjson.Members(result) {
		if string(name) != "_meta" {
			out = append(append(rawjson.AppendString(append(out, ','), string(name)), ':'), value...)
		}
	}
	return append(out, '}')
}

// ofProgress returns the exchange with a progress token, or nil.
func (p *peer) ofProgress(token []byte, via *exchange) *exchange {
	if via != nil && via.token != "" && via.token == string(token) {
		return via
	}
	if x := p.exchangeOf(token, via); x != nil || via != nil {
		return x
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, x := range p.running {
		if x.token != "" && x.token == string(token) {
			return x
		}
	}
	return nil
}
