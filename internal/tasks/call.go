package tasks

import (
	"cmp"
	"context"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/limit"
	"github.com/mcpbridge/mcpbridge/internal/limits"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// CallOptions configure a call that may become a task.
type CallOptions struct {
	// Handler executes the call and its further rounds. It must not be nil.
	Handler bridge.Handler
	// Backend is the name of the Handler, by which Resume finds it in the next run.
	Backend string
	// After is when the call becomes a task: at once if zero, and only when the tool sends TaskStarted if negative.
	After time.Duration
	// Retry repeats a call whose backend was lost, once.
	Retry bool
	// Required makes a call fail that cannot become a task because of a limit. Otherwise it is executed as any other.
	Required bool
}

// Call executes a tools/call of a caller that accepts a task. Its Result is a task, unless the call ends before it has
// become one.
func (t *Tasks) Call(ctx context.Context, call *bridge.Call, o CallOptions, emit bridge.Emit) (*bridge.Result, error) {
	request, err := detach(call.Request.(*pb.CallToolRequest))
	if err != nil {
		return nil, err
	}
	ttl := t.ttl(request.Task)
	request.Task = nil
	if cc := request.Context; cc != nil {
		cc.ProgressWanted = true // it becomes the message of the task; fronts send it only to clients that request it
	}
	own := call.With(call.Method, request)
	own.Background, own.Header = true, nil // the header is validated, and belongs to the request of the client
	b := &background{
		t: t, call: own, o: o, ttl: ttl,
		events: make(chan event), detached: make(chan struct{}), ended: make(chan struct{}),
	}
	if o.After == 0 && !bridge.IsRetry(request) {
		k, err := t.create(own, o, ttl)
		switch {
		case err == nil:
			k.mu.Lock()
			defer k.mu.Unlock()
			k.begin()
			return &bridge.Result{Task: k.summaryLocked(call.Revision())}, nil
		case o.Required:
			return nil, err
		}
		b.o.After = -1
	}
	return b.run(ctx, emit)
}

// detach returns a copy of a request that outlives it. A clone would retain the body of the client's request, whose
// memory its strings share.
func detach(r *pb.CallToolRequest) (*pb.CallToolRequest, error) {
	own := &pb.CallToolRequest{}
	text, err := proto.Marshal(r)
	if err == nil {
		err = proto.Unmarshal(text, own)
	}
	return own, err
}

// ttl returns how long to keep a task: as long as the client requests, within the limit.
func (t *Tasks) ttl(m *pb.TaskMetadata) time.Duration {
	most := t.o.Limits.TTL
	if m == nil || m.TtlMs == nil || m.GetTtlMs() > most.Milliseconds() {
		return most
	}
	return max(time.Duration(m.GetTtlMs())*time.Millisecond, limits.TaskMinTTL)
}

// A background is a call that is executed in a goroutine of its own, because it may become a task.
type background struct {
	t    *Tasks
	call *bridge.Call
	o    CallOptions
	ttl  time.Duration

	// resumable is the call with the state that continues it, if there is one. Only run uses it.
	resumable *bridge.Call

	events   chan event    // for the caller, until the call is a task
	detached chan struct{} // closed when the call becomes a task
	ended    chan struct{} // closed when the call has ended

	mu   sync.Mutex // guards what follows
	task *task      // nil until the call is a task
	done bool
	res  *bridge.Result
	err  error
}

// An event is an Event for the caller.
type event struct {
	bridge.Event
	sent chan<- error
}

func (b *background) run(ctx context.Context, emit bridge.Emit) (*bridge.Result, error) {
	inner, stop := context.WithCancelCause(b.t.ctx)
	if !b.t.start(func() { b.execute(inner, stop) }) {
		stop(nil)
		return nil, errClosed
	}
	total := time.NewTimer(b.t.o.CallTotal)
	defer total.Stop()
	var due <-chan time.Time
	if b.o.After > 0 {
		timer := time.NewTimer(b.o.After)
		defer timer.Stop()
		due = timer.C
	}
	for {
		select {
		case <-b.ended:
			return b.res, b.err
		case e := <-b.events:
			if e.Resumable != nil {
				b.resumable = b.call.Retry(nil, e.Resumable)
				e.sent <- nil
				continue
			}
			if e.TaskStarted == nil {
				e.sent <- emit(ctx, e.Event)
				continue
			}
			k, err := b.detach(stop)
			e.sent <- err // that fails the call
			if k != nil {
				return &bridge.Result{Task: k.summary(b.call.Revision())}, nil
			}
		case <-due:
			if k, _ := b.detach(stop); k != nil {
				return &bridge.Result{Task: k.summary(b.call.Revision())}, nil
			}
		case <-total.C:
			stop(context.DeadlineExceeded)
			<-b.ended
			if b.err != nil {
				return nil, limit.TotalError(b.call, b.err, b.t.o.CallTotal)
			}
			return b.res, nil
		case <-ctx.Done():
			stop(context.Cause(ctx))
			<-b.ended
			return b.res, b.err
		}
	}
}

// detach makes the call a task. It returns nil if the call has ended, or a limit is reached; the latter is an error if
// the call must be a task.
func (b *background) detach(stop context.CancelCauseFunc) (*task, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.done || b.task != nil {
		return nil, nil //nolint:nilnil // there is nothing to detach
	}
	k, err := b.t.create(cmp.Or(b.resumable, b.call), b.o, b.ttl)
	if err != nil {
		if b.o.Required {
			return nil, err
		}
		return nil, nil //nolint:nilnil // the caller waits for the result
	}
	k.mu.Lock()
	k.stop = stop
	k.hold()
	k.mu.Unlock()
	b.task = k
	close(b.detached)
	return k, nil
}

// execute executes the call.
func (b *background) execute(ctx context.Context, stop context.CancelCauseFunc) {
	defer stop(nil)
	defer b.t.panics.Recover(b.call.Method.Name, func(e *bridge.Error) { b.end(nil, e) })
	b.end(b.o.Handler.Handle(ctx, b.call, b.emit))
}

// emit implements bridge.Emit.
func (b *background) emit(ctx context.Context, e bridge.Event) error {
	sent := make(chan error, 1)
	select {
	case b.events <- event{e, sent}:
		return <-sent
	case <-b.detached:
		b.task.event(e)
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// end gives the result to the task, or to the caller if there is none.
func (b *background) end(res *bridge.Result, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.done {
		return
	}
	b.done, b.res, b.err = true, res, err
	if b.task != nil {
		b.task.end(res, err)
	}
	close(b.ended)
}
