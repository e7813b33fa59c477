package tasks

import (
	"context"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/feed"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// HandlerOf returns the Handler of a call: t for the methods of tasks, and h for the others. A Listen call for tasks is
// one of h with the changes of the tasks. t may be nil.
func (t *Tasks) HandlerOf(call *bridge.Call, h bridge.Handler) bridge.Handler {
	if t == nil {
		return h
	}
	switch call.Method {
	case bridge.GetTask, bridge.ListTasks, bridge.UpdateTask, bridge.CancelTask:
		return t
	case bridge.Listen:
		if len(call.Request.(*pb.ListenRequest).GetNotifications().GetTaskIds()) > 0 {
			return &listener{t, h}
		}
	}
	return h
}

// Changes reports the changes of tasks as events of a Listen call until stop is called, and returns the ids of tasks
// that exist. The events only have ids: Current replaces them. t may be nil.
func (t *Tasks) Changes(call *bridge.Call, ids []string, report func(*pb.ListenResponse)) (
	found []string, stop func(),
) {
	if t == nil || len(ids) == 0 {
		return nil, func() {}
	}
	return t.Watch(call, ids, func(id, _ string) { report(feed.TaskChanged(id)) })
}

// Current replaces the task of a change, which only has the id, by the current one. It returns false if the task does
// not exist any more.
func (t *Tasks) Current(change *pb.ListenResponse, caller *pb.CallContext) (*pb.ListenResponse, bool) {
	id := change.GetTaskChanged().GetTaskId()
	if id == "" {
		return change, true
	}
	task, err := t.Get(&bridge.Call{Method: bridge.GetTask, Request: &pb.GetTaskRequest{Context: caller, TaskId: id}})
	return &pb.ListenResponse{Event: &pb.ListenResponse_TaskChanged{TaskChanged: task}}, err == nil
}

// A listener handles Listen calls for the changes of tasks and of a Handler.
type listener struct {
	t *Tasks
	h bridge.Handler
}

// Handle implements bridge.Handler.
func (l *listener) Handle(ctx context.Context, call *bridge.Call, emit bridge.Emit) (*bridge.Result, error) {
	r := call.Request.(*pb.ListenRequest)
	want := r.GetNotifications()
	own := bridge.ShallowCopy(r)
	own.Notifications = bridge.ShallowCopy(want)
	own.Notifications.TaskIds = nil

	s := feed.NewStream(func() *pb.SubscriptionFilter { return want })
	source := s.Source(nil)
	found, stop := l.t.Changes(call, want.GetTaskIds(), s.Add)
	defer stop()
	caller := &pb.CallContext{Verified: call.Context().GetVerified()} // without the text of the request
	return s.Answer(ctx, nil, func(ctx context.Context, e bridge.Event) error {
		change, ok := l.t.Current(e.Change, caller)
		if !ok {
			return nil
		}
		return emit(ctx, bridge.Event{Change: change})
	}, func(acknowledged *pb.SubscriptionFilter) *pb.ListenResponse {
		acknowledged.TaskIds = found
		return feed.Acknowledgment(acknowledged)
	}, func(ctx context.Context) (*bridge.Result, error) {
		return l.listen(ctx, call.With(bridge.Listen, own), source)
	})
}

// listen reports the changes of the Handler, if any are requested.
func (l *listener) listen(
	ctx context.Context, call *bridge.Call, source *feed.Source,
) (res *bridge.Result, err error) {
	defer l.t.panics.Recover(bridge.Listen.Name, func(e *bridge.Error) { res, err = nil, e })
	if feed.IsEmpty(call.Request.(*pb.ListenRequest).GetNotifications()) {
		source.Acknowledge(nil)
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return l.h.Handle(ctx, call, func(_ context.Context, e bridge.Event) error {
		if ack := e.Change.GetAcknowledged(); ack != nil {
			source.Acknowledge(ack.GetNotifications())
		} else {
			source.Report(e.Change)
		}
		return nil
	})
}
