package mcpserver

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"google.golang.org/grpc/codes"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/feed"
	"github.com/mcpbridge/mcpbridge/internal/jsonrpc"
	"github.com/mcpbridge/mcpbridge/internal/mcpjson"
	"github.com/mcpbridge/mcpbridge/internal/rawjson"
	"github.com/mcpbridge/mcpbridge/internal/tasks"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// metaRelatedTask is the key of `_meta` for the task that a message belongs to (2025-11-25: basic/utilities/tasks,
// related task metadata).
const metaRelatedTask = "io.modelcontextprotocol/related-task"

// methodTaskResult waits for the result of a task, 2025-11-25 only.
const methodTaskResult = "tasks/result"

// checkTasks returns an error if a modern client uses tasks without declaring the extension (2026-07-28: extension
// tasks, protocol errors).
func checkTasks(call *bridge.Call) error {
	r, listens := call.Request.(*pb.ListenRequest)
	if !isTaskMethod(call.Method) && len(r.GetNotifications().GetTaskIds()) == 0 {
		return nil
	}
	if bridge.DeclaresTasks(call.Context().GetClientCapabilities()) {
		return nil
	}
	what := call.Method.Name
	if listens {
		what += " with taskIds"
	}
	return mcpjson.MissingTasks(what)
}

// isTaskMethod reports whether m is a method of the extension for tasks.
func isTaskMethod(m *bridge.Method) bool {
	return m == bridge.GetTask || m == bridge.UpdateTask || m == bridge.CancelTask
}

// taskCall returns the call of tasks/get for a caller.
func taskCall(caller *pb.CallContext, id string) *bridge.Call {
	return &bridge.Call{Method: bridge.GetTask, Request: &pb.GetTaskRequest{Context: caller, TaskId: id}}
}

// createdTask responds to a tools/call of a legacy client with a task, whose further changes the client is notified of.
func (ss *session) createdTask(x *exchange, call *bridge.Call, task *pb.Task) {
	if r := ss.reports(); r.add(task.GetTaskId(), ss.progressOf(x, task.GetTaskId())) {
		// the task ends the watch
		_, _ = ss.s.opts.Tasks.Changes(call, []string{task.GetTaskId()}, r.changes.Add)
		r.changes.Add(feed.TaskChanged(task.GetTaskId())) // it may have reported progress before
	}
	result, err := ss.s.encode([]byte(`{"task":`), task, ss.rev)
	if err != nil {
		x.fail(call.Method, err)
		return
	}
	x.finishRaw(append(result, '}'))
}

// taskReports are the tasks of a session of 2025-11-25 that have not ended. One goroutine notifies the client of their
// changes. When the session has ended, they do not refer to it, because the tasks refer to them.
type taskReports struct {
	changes *feed.Pending

	mu    sync.Mutex // guards what follows
	tasks map[string]*taskReport
	ended bool // with the session
}

// A taskReport is what the client has received of a task.
type taskReport struct {
	version uint64
	// progress sends the progress of the task. It is nil if the client did not request it.
	progress *exchange
}

// reports returns the reports of the session's tasks, which begin with the first task. A call of the session must be in
// flight.
func (ss *session) reports() *taskReports {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if ss.running.reports == nil {
		r := &taskReports{tasks: map[string]*taskReport{}}
		r.changes = feed.NewPending(ss.s.opts.Limits.Changes, ss.s.opts.Limits.ChangesBytes, r.filter)
		ss.running.reports = r
		ss.calls.Go(func() { ss.reportTasks(r) })
	}
	return ss.running.reports
}

// add adds a task. It returns false if the session has ended.
func (r *taskReports) add(id string, progress *exchange) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.ended {
		r.tasks[id] = &taskReport{progress: progress}
	}
	return !r.ended
}

// get returns the report of a task, or nil after its end.
func (r *taskReports) get(id string) *taskReport {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.tasks[id]
}

func (r *taskReports) remove(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if t := r.tasks[id]; t != nil && t.progress != nil {
		t.progress.pace.end(false)
	}
	delete(r.tasks, id)
}

func (r *taskReports) filter() *pb.SubscriptionFilter {
	r.mu.Lock()
	defer r.mu.Unlock()
	return &pb.SubscriptionFilter{TaskIds: slices.Collect(maps.Keys(r.tasks))}
}

func (r *taskReports) end() {
	r.mu.Lock()
	r.ended = true
	r.mu.Unlock()
	for _, id := range r.filter().GetTaskIds() {
		r.remove(id)
	}
}

// reportTasks notifies the client of the changes of its tasks until the session ends.
func (ss *session) reportTasks(r *taskReports) {
	defer r.end()
	for {
		select {
		case <-r.changes.Ready():
			for _, c := range r.changes.Take() {
				ss.reportTask(r, c.GetTaskChanged().GetTaskId())
			}
		case <-ss.ctx.Done():
			return
		}
	}
}

// reportTask notifies the client of the current state of a task, if it has changed. While the task is working, it only
// reports progress, if the client requested it.
func (ss *session) reportTask(r *taskReports, id string) {
	defer ss.s.panics.Recover("a change of a task", nil)
	report := r.get(id)
	if report == nil {
		return
	}
	task, version, progress, err := ss.s.opts.Tasks.State(taskCall(ss.caller, id))
	if err != nil || tasks.IsFinal(task.GetStatus()) {
		r.remove(id)
	}
	if err != nil || version == report.version {
		return
	}
	report.version = version
	switch {
	case task.GetStatus() != tasks.Working:
		ss.notify(feed.TaskChanged(id))
	case report.progress != nil && progress != nil:
		_ = report.progress.reportProgress(progress) // of no consequence: the client may have no stream now
	}
}

// progressOf returns the exchange that sends the progress of a task with the progress token of its tools/call, x, or
// nil if there is no token (2025-11-25: basic/utilities/progress, behavior requirements).
func (ss *session) progressOf(x *exchange, id string) *exchange {
	if x.token == nil {
		return nil
	}
	y := &exchange{
		s: ss.s, rev: ss.rev, out: pushSink{ss}, token: bytes.Clone(x.token), progress: x.progress,
		related: []mcpjson.Member{relatedTask(id)},
	}
	y.pace = newPacer(y.sendProgress)
	return y
}

// relatedTask returns the member of `_meta` of a message that belongs to a task.
func relatedTask(id string) mcpjson.Member {
	return mcpjson.Member{Name: metaRelatedTask, Value: taskParams(id)}
}

func taskParams(id string) []byte { return append(rawjson.AppendString([]byte(`{"taskId":`), id), '}') }

// A pushSink sends notifications on the stream of a session, if the client has one open.
type pushSink struct{ ss *session }

func (p pushSink) send(msg []byte) error {
	if push := p.ss.stream(); push != nil {
		push(msg)
	}
	return nil
}

func (pushSink) finish(head, []byte) {}

// cancelledTask responds to tasks/cancel of a legacy client with the task (2025-11-25: basic/utilities/tasks, task
// cancellation).
func (ss *session) cancelledTask(x *exchange, call *bridge.Call) {
	task, err := ss.s.opts.Tasks.Get(taskCall(call.Context(), call.Method.Target(call.Request)))
	x.finish(call.Method, &pb.GetTaskResponse{Task: task}, err)
}

// errSuperseded ends the input requests of a tasks/result whose client has sent another one for the same task.
var errSuperseded = errors.New("superseded by another tasks/result")

// taskResult handles tasks/result: it sends the input requests of the task to the client, waits for its end, and
// responds as the tools/call would have (2025-11-25: basic/utilities/tasks, result retrieval).
func (ss *session) taskResult(ctx context.Context, x *exchange, msg *jsonrpc.Message, from origin) {
	id, ok := rawjson.String(rawjson.Get(msg.Params, "taskId"))
	if !ok {
		x.refuse(nil, bridge.Errorf(codes.InvalidArgument, "tasks/result: params.taskId must be a string"))
		return
	}
	call := taskCall(ss.callContext(x, from), id)
	end, err := ss.s.life.Begin(call)
	if err != nil {
		x.fail(nil, err)
		return
	}
	defer end()
	related := relatedTask(id)
	task, err := ss.awaitTask(ctx, x, call, related)
	switch {
	case isCanceled(ctx):
		x.end(head{}, nil)
	case err != nil && ctx.Err() != nil:
		x.fail(nil, interrupted(context.Cause(ctx), err))
	case err != nil:
		x.fail(nil, err)
	case task.GetResult() != nil:
		x.finish(bridge.CallTool, task.GetResult(), nil, related)
	case task.GetError() != nil:
		x.fail(nil, &bridge.Error{Code: codes.Unknown, Message: task.GetError().GetMessage(), RPC: task.GetError()})
	default:
		x.fail(nil, bridge.Errorf(codes.InvalidArgument, "tasks/result: the task was cancelled and has no result"))
	}
}

// awaitTask returns the task once it has ended.
func (ss *session) awaitTask(
	ctx context.Context, x *exchange, call *bridge.Call, related mcpjson.Member,
) (*pb.Task, error) {
	for version := uint64(0); ; {
		task, newer, err := ss.s.opts.Tasks.Next(ctx, call, version)
		if err != nil || tasks.IsFinal(task.GetStatus()) {
			return task, err
		}
		if version = newer; len(task.GetInputRequests()) == 0 {
			continue
		}
		asking, done := ss.supersede(ctx, task.GetTaskId())
		answers, err := ss.requestInput(asking, x, task.GetInputRequests(), related)
		superseded := context.Cause(asking) == errSuperseded //nolint:errorlint // the cause is set by us, never wrapped
		done()
		switch {
		case superseded:
		case err != nil:
			return nil, err
		default:
			if err := ss.s.opts.Tasks.Update(call, answers); err != nil {
				return nil, err
			}
		}
	}
}

// supersede returns the context of the input requests for a task, and ends those of an earlier tasks/result.
func (ss *session) supersede(ctx context.Context, id string) (asking context.Context, done func()) {
	asking, cancel := context.WithCancelCause(ctx)
	mine := &cancel
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if earlier := ss.running.asking[id]; earlier != nil {
		(*earlier)(errSuperseded)
	}
	if ss.running.asking == nil {
		ss.running.asking = map[string]*context.CancelCauseFunc{}
	}
	ss.running.asking[id] = mine
	return asking, func() {
		ss.mu.Lock()
		defer ss.mu.Unlock()
		if ss.running.asking[id] == mine {
			delete(ss.running.asking, id)
		}
		cancel(nil)
	}
}
