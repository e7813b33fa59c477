// Package limit limits the concurrency and duration of a backend's calls, and the memory of the process. Calls above
// a limit are rejected before the backend receives them, or canceled.
package limit

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/limits"
)

// Options configure a Handler.
type Options struct {
	// Limits are the limits of calls. If a field is zero, its default is used. Unauthenticated callers share Calls.
	// After a call was rejected, others wait for at most a twentieth of CallQueue, until none was rejected for ten
	// times CallQueue.
	Limits limits.Limits
	// TaskCalls is the maximum number of concurrent Background calls. If zero, it is that of Limits.
	TaskCalls int
	// Memory rejects new calls while memory is low. If nil, it is not limited.
	Memory *Memory
}

// A Handler limits the calls of another Handler. Listen calls are not limited, and the duration of Background calls is
// not, which their tasks limit.
type Handler struct {
	next atomic.Pointer[bridge.Handler]
	o    Options
	// all limits the calls, and background those that are or may become tasks, which wait for their turn: they would
	// otherwise hold the slots of all others for hours.
	all, background *semaphore

	mu         sync.Mutex // guards what follows
	principals map[principal]*share
}

// A principal is a verified caller.
type principal struct{ issuer, subject string }

// A share is the semaphore of one principal.
type share struct {
	semaphore *semaphore
	users     int // calls that hold it or wait for it
}

var _ bridge.Handler = (*Handler)(nil)

// New returns a Handler that limits the calls of next.
func New(next bridge.Handler, o Options) *Handler {
	o.Limits = o.Limits.OrDefaults()
	h := &Handler{
		o: o, all: newSemaphore(o.Limits.Calls, o.Limits.CallQueue, "the backend's"),
		background: newSemaphore(cmp.Or(o.TaskCalls, o.Limits.Calls), -1, "the backend's"),
		principals: map[principal]*share{},
	}
	h.SetNext(next)
	return h
}

// SetNext replaces the Handler for new calls.
func (h *Handler) SetNext(next bridge.Handler) { h.next.Store(&next) }

// Handle implements bridge.Handler.
func (h *Handler) Handle(ctx context.Context, call *bridge.Call, emit bridge.Emit) (*bridge.Result, error) {
	next := *h.next.Load()
	if call.Method == bridge.Listen {
		return next.Handle(ctx, call, emit)
	}
	if !bridge.IsRetry(call.Request) {
		if err := h.o.Memory.Admit(NewCalls); err != nil {
			return nil, err
		}
	}
	if call.Background {
		if err := h.background.acquire(ctx); err != nil {
			return nil, err
		}
		defer h.background.release()
		return next.Handle(ctx, call, emit)
	}
	if p := call.Context().GetVerified().GetPrincipal(); p != nil {
		its, leave := h.share(principal{p.GetIssuer(), p.GetSubject()})
		defer leave()
		if err := its.acquire(ctx); err != nil {
			return nil, err
		}
		defer its.release()
	}
	if err := h.all.acquire(ctx); err != nil {
		return nil, err
	}
	defer h.all.release()

	ctx, cut := context.WithCancelCause(ctx)
	defer cut(nil)
	idle := time.AfterFunc(h.o.Limits.CallIdle, func() { cut(errIdle) })
	defer idle.Stop()
	total := time.AfterFunc(h.o.Limits.CallTotal, func() { cut(errTotal) })
	defer total.Stop()
	res, err := next.Handle(ctx, call, func(ctx context.Context, e bridge.Event) error {
		// The time in which a slow caller receives the event does not count.
		idle.Stop()
		defer idle.Reset(h.o.Limits.CallIdle)
		return emit(ctx, e)
	})
	switch cause := context.Cause(ctx); {
	case err == nil:
		return res, nil
	case cause == errIdle: //nolint:errorlint // the cause is set above, never wrapped
		return nil, timeoutError(call, err,
			"the backend sent nothing for %s: raise limits.callIdle, or have the tool report its progress",
			h.o.Limits.CallIdle)
	case cause == errTotal: //nolint:errorlint // as above
		return nil, TotalError(call, err, h.o.Limits.CallTotal)
	}
	return nil, err
}

// share returns the semaphore of a principal. The caller calls leave when it is done.
func (h *Handler) share(p principal) (its *semaphore, leave func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.principals[p]
	if s == nil {
		s = &share{semaphore: newSemaphore(h.o.Limits.CallsPerCaller, h.o.Limits.CallQueue, "this caller's")}
		h.principals[p] = s
	}
	s.users++
	return s.semaphore, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if s.users--; s.users == 0 {
			delete(h.principals, p)
		}
	}
}

var (
	errIdle  = errors.New("idle timeout")
	errTotal = errors.New("total timeout")
)

// TotalError returns the error of a call that took longer than limits.callTotal, and then returned err.
func TotalError(call *bridge.Call, err error, total time.Duration) error {
	return timeoutError(call, err, "it took longer than %s: raise limits.callTotal", total)
}

// timeoutError returns the error of a call that timed out and then returned err. A call that was still waiting for a
// backend was not executed.
func timeoutError(call *bridge.Call, err error, format string, after time.Duration) error {
	outcome, end := bridge.OutcomeUnknown, "whether it was executed is not known"
	if bridge.AsError(err).Outcome == bridge.OutcomeNotExecuted {
		outcome, end = bridge.OutcomeNotExecuted, "it was not executed"
	}
	e := bridge.Failed(codes.DeadlineExceeded, outcome, "DEADLINE", "%s timed out: "+format+"; %s",
		call.Method.Name, after, end)
	e.Cause = err
	return e
}
