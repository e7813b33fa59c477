package tasks

import (
	"bytes"
	"context"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/limits"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// statePrefix is the prefix of the request state of a call whose backend keeps a task. The id of the task follows.
var statePrefix = []byte("mcpbridge.task\x00")

func stateOf(id string) []byte { return append(bytes.Clone(statePrefix), id...) }

// IsDriven reports whether a call has the state of Await.
func IsDriven(r bridge.Request) bool { return bytes.HasPrefix(bridge.State(r), statePrefix) }

// Await waits for a task that a Handler has returned for a tools/call, and returns its result: to everything above, a
// task of a backend is an ordinary call. Input that the task requires is input that the call requires; Resume continues
// it.
func Await(
	ctx context.Context, h bridge.Handler, call *bridge.Call, task *pb.Task, emit bridge.Emit,
) (*bridge.Result, error) {
	if call.Background {
		// It may outlive this run of the bridge.
		if err := emit(ctx, bridge.Event{Resumable: stateOf(task.GetTaskId())}); err != nil {
			return nil, err
		}
		if err := emit(ctx, bridge.Event{TaskStarted: &pb.TaskStarted{}}); err != nil {
			return nil, err
		}
	}
	return (&driver{h: h, call: call, id: task.GetTaskId()}).wait(ctx, task, emit)
}

// Resume is Await for a call with the state that Await has returned, and the responses to its input requests.
func Resume(ctx context.Context, h bridge.Handler, call *bridge.Call, emit bridge.Emit) (*bridge.Result, error) {
	r := call.Request.(*pb.CallToolRequest)
	d := &driver{h: h, call: call, id: string(r.GetRequestState()[len(statePrefix):]), answered: r.GetInputResponses()}
	if len(r.GetInputResponses()) > 0 {
		_, err := d.do(ctx, bridge.UpdateTask, &pb.UpdateTaskRequest{
			Context: call.Context(), TaskId: d.id, InputResponses: r.GetInputResponses(),
		})
		if err != nil {
			return nil, err
		}
	}
	return d.wait(ctx, &pb.Task{Status: Working}, emit)
}

// A driver waits for a task of a backend.
type driver struct {
	h    bridge.Handler
	call *bridge.Call
	id   string
	// answered are the responses that the backend has received: it may still list their requests.
	answered map[string]*pb.InputResponse
	steps    float64 // of progress
	message  string
}

// do makes a call of a method of tasks. A lost connection does not end the task, and the methods are idempotent: the
// call is repeated on another connection.
func (d *driver) do(ctx context.Context, m *bridge.Method, r bridge.Request) (*bridge.Result, error) {
	for {
		res, err := d.h.Handle(ctx, d.call.With(m, r), ignore)
		switch {
		case err == nil:
			return res, nil
		case ctx.Err() != nil:
			return nil, d.cancel(ctx)
		case !isLost(bridge.AsError(err)):
			return nil, bridge.Failed(codes.Internal, bridge.OutcomeUnknown, "BACKEND_FAILED",
				"tools/call: the server rejects %s for its task: %w", m.Name, err)
		}
		if !sleep(ctx, limits.TaskPoll) {
			return nil, d.cancel(ctx)
		}
	}
}

func ignore(context.Context, bridge.Event) error { return nil }

// isLost reports whether a call has no response: the backend has not received it, or was lost during the call.
func isLost(e *bridge.Error) bool {
	return e.Outcome == bridge.OutcomeNotExecuted || e.Code == codes.Unavailable || e.Code == codes.DeadlineExceeded ||
		e.Outcome == bridge.OutcomeUnknown && e.Code == codes.Unknown
}

// sleep returns false if ctx ended before.
func sleep(ctx context.Context, d time.Duration) bool {
	next := time.NewTimer(d)
	defer next.Stop()
	select {
	case <-next.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// wait returns the result of the task, or the input that it requires.
func (d *driver) wait(ctx context.Context, task *pb.Task, emit bridge.Emit) (*bridge.Result, error) {
	for {
		switch pending := d.pending(task); {
		case task.GetStatus() == completed:
			if task.GetResult() == nil {
				return nil, bridge.ProtocolViolation(bridge.OutcomeExecuted,
					"tools/call: the completed task has no result")
			}
			return &bridge.Result{Complete: task.GetResult()}, nil
		case task.GetStatus() == failed:
			return nil, d.failure(task)
		case task.GetStatus() == cancelled:
			return nil, bridge.Failed(codes.Canceled, bridge.OutcomeUnknown, "CANCELLED",
				"tools/call: the server cancelled its task")
		case len(pending) > 0:
			return &bridge.Result{InputRequired: &pb.InputRequired{
				InputRequests: pending, RequestState: stateOf(d.id),
			}}, nil
		}
		if err := d.progress(ctx, task, emit); err != nil {
			return nil, err
		}
		if !sleep(ctx, limits.TaskInterval(task.PollIntervalMs)) {
			return nil, d.cancel(ctx)
		}
		res, err := d.do(ctx, bridge.GetTask, &pb.GetTaskRequest{Context: d.call.Context(), TaskId: d.id})
		if err != nil {
			return nil, err
		}
		task = res.Complete.(*pb.GetTaskResponse).GetTask()
	}
}

// pending returns the input requests of a task that have no response.
func (d *driver) pending(task *pb.Task) (pending []*pb.InputRequest) {
	if task.GetStatus() != inputRequired {
		return nil
	}
	for _, req := range task.GetInputRequests() {
		if d.answered[req.GetKey()] == nil {
			pending = append(pending, req)
		}
	}
	return pending
}

// failure returns the error of a failed task.
func (d *driver) failure(task *pb.Task) error {
	rpc := task.GetError()
	if rpc == nil {
		rpc = &pb.JsonRpcError{Code: -32603, Message: task.GetStatusMessage()}
	}
	e := bridge.Errorf(codes.Unknown, "%s", rpc.GetMessage())
	e.RPC = rpc
	return e
}

// progress reports the message of the task as progress, if it has changed.
func (d *driver) progress(ctx context.Context, task *pb.Task, emit bridge.Emit) error {
	if task.GetStatusMessage() == d.message {
		return nil
	}
	d.message = task.GetStatusMessage()
	d.steps++
	return emit(ctx, bridge.Event{Progress: &pb.Progress{Progress: d.steps, Message: proto.String(d.message)}})
}

// cancel cancels the task of a canceled call, and returns the error of the call.
func (d *driver) cancel(ctx context.Context) error {
	err := bridge.Canceled(ctx, true)
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), limits.TaskCancel)
	defer stop()
	request := &pb.CancelTaskRequest{Context: d.call.Context(), TaskId: d.id}
	_, _ = d.h.Handle(ctx, d.call.With(bridge.CancelTask, request), ignore) // cooperative
	return err
}
