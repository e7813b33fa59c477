// Package limit keeps the calls of a backend within bounds: how many there are at a time, and how long each may last. What is
// beyond is refused before the backend sees it, or cut, and the caller is told which of the two it was.
package limit

import (
	"context"
	"errors"
	"sync"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/mcpbridge/mcpbridge/bridge"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// Options are the bounds. The zero value has sensible ones.
type Options struct {
	// Calls is how many calls may be with the backend at a time. Zero: 256.
	Calls int
	// CallsPerPrincipal is how many of them may be of one verified caller. Zero: 64. Callers that nobody has verified share
	// what Calls says.
	CallsPerPrincipal int
	// Queue is how long a burst of calls waits for its turn. Once a call was refused, further ones wait for a twentieth of it,
	// until none has been refused for ten times as long. Zero: 100 ms.
	Queue time.Duration
	// Idle is how long a call may say nothing: no progress, no log line, no answer. Zero: 60 s.
	Idle time.Duration
	// Total is how long a call may last, whatever it says. Zero: 15 min.
	Total time.Duration
	// Memory is how much there is: while it is short, calls are refused unless they go on with one. Nil: there is enough.
	Memory *Memory
}

// A Handler is a bridge.Handler that keeps the calls of another one within bounds. Listen calls are as many as there are, and
// last.
type Handler struct {
	next bridge.Handler
	o    Options
	all  *lot

	mu         sync.Mutex // guards what follows
	principals map[principal]*share
}

// A principal is a verified caller.
type principal struct{ issuer, subject string }

// A share is what one principal may have at a time.
type share struct {
	lot   *lot
	users int // how many calls have it or wait for it; it is forgotten with the last one
}

var _ bridge.Handler = (*Handler)(nil)

// New returns a Handler for the calls of next.
func New(next bridge.Handler, o Options) *Handler {
	def := func(v, d time.Duration) time.Duration {
		if v == 0 {
			return d
		}
		return v
	}
	if o.Calls == 0 {
		o.Calls = 256
	}
	if o.CallsPerPrincipal == 0 {
		o.CallsPerPrincipal = 64
	}
	o.Queue, o.Idle, o.Total = def(o.Queue, 100*time.Millisecond), def(o.Idle, time.Minute), def(o.Total, 15*time.Minute)
	return &Handler{next: next, o: o, all: newLot(o.Calls, o.Queue, "the backend's"), principals: map[principal]*share{}}
}

// Handle implements bridge.Handler.
func (h *Handler) Handle(ctx context.Context, call *bridge.Call, emit bridge.Emit) (*bridge.Result, error) {
	if call.Method == bridge.Listen {
		return h.next.Handle(ctx, call, emit)
	}
	if !bridge.Continues(call.Request) {
		if err := h.o.Memory.Full(NewCalls); err != nil {
			return nil, err
		}
	}
	if p := call.Context().GetPrincipal(); p != nil {
		its, leave := h.share(principal{p.GetIssuer(), p.GetSubject()})
		defer leave()
		if err := its.enter(ctx); err != nil {
			return nil, err
		}
		defer its.leave()
	}
	if err := h.all.enter(ctx); err != nil {
		return nil, err
	}
	defer h.all.leave()
	return h.timed(ctx, call, emit)
}

// share returns the places of a principal. Whoever has them calls leave.
func (h *Handler) share(p principal) (its *lot, leave func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.principals[p]
	if s == nil {
		s = &share{lot: newLot(h.o.CallsPerPrincipal, h.o.Queue, "this caller's")}
		h.principals[p] = s
	}
	s.users++
	return s.lot, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if s.users--; s.users == 0 {
			delete(h.principals, p)
		}
	}
}

// The causes for which a call is cut.
var (
	errIdle  = errors.New("it said nothing")
	errTotal = errors.New("it lasted")
)

// timed has a call answered in time.
func (h *Handler) timed(ctx context.Context, call *bridge.Call, emit bridge.Emit) (*bridge.Result, error) {
	ctx, cut := context.WithCancelCause(ctx)
	defer cut(nil)
	idle := time.AfterFunc(h.o.Idle, func() { cut(errIdle) })
	defer idle.Stop()
	total := time.AfterFunc(h.o.Total, func() { cut(errTotal) })
	defer total.Stop()
	res, err := h.next.Handle(ctx, call, func(ctx context.Context, e bridge.Event) error {
		// While the caller is slow to take the event, that is its time and not the backend's.
		idle.Stop()
		defer idle.Reset(h.o.Idle)
		return emit(ctx, e)
	})
	switch cause := context.Cause(ctx); {
	case err == nil:
		return res, nil
	case cause == errIdle: //nolint:errorlint // the cause is set above, never wrapped
		return nil, late(call, err, "it said nothing for %s: raise limits.callIdle, or have it tell its progress", h.o.Idle)
	case cause == errTotal: //nolint:errorlint // as above
		return nil, late(call, err, "it lasted %s: raise limits.callTotal", h.o.Total)
	}
	return nil, err
}

// late returns the error of a call that was cut, and then ended with err. What waited for a backend until then was not executed.
func late(call *bridge.Call, err error, format string, after time.Duration) error {
	outcome, end := pb.CallFailure_OUTCOME_UNKNOWN, "whether it was executed is not known"
	if bridge.AsError(err).Failure.GetOutcome() == pb.CallFailure_OUTCOME_NOT_EXECUTED {
		outcome, end = pb.CallFailure_OUTCOME_NOT_EXECUTED, "it was not executed"
	}
	e := bridge.Failed(codes.DeadlineExceeded, outcome, "DEADLINE", "%s was cut: "+format+"; %s", call.Method.Name, after, end)
	e.Cause = err
	return e
}
