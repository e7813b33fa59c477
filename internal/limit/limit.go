// Package limit keeps the calls of a backend within bounds: how many there are at a time, and how long each may last. What is
// beyond is refused before the backend sees it, or cut, and the caller is told which of the two it was.
package limit

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/limits"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// Options configure a Handler.
type Options struct {
	// Limits are the limits of calls. Zero fields are the defaults. Callers that nobody has verified share what Calls
	// allows. Once a call was refused, further ones wait for a twentieth of CallQueue, until none has been refused for
	// ten times as long.
	Limits limits.Limits
	// Memory is how much there is: while it is short, calls are refused unless they go on with one. Nil: there is enough.
	Memory *Memory
}

// A Handler is a bridge.Handler that keeps the calls of another one within bounds. Listen calls are as many as there are, and
// last.
type Handler struct {
	next atomic.Pointer[bridge.Handler]
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
	o.Limits = o.Limits.OrDefaults()
	h := &Handler{o: o, all: newLot(o.Limits.Calls, o.Limits.CallQueue, "the backend's"), principals: map[principal]*share{}}
	h.SetNext(next)
	return h
}

// SetNext replaces the Handler that new calls go to. Calls that run stay where they are.
func (h *Handler) SetNext(next bridge.Handler) { h.next.Store(&next) }

// Handle implements bridge.Handler.
func (h *Handler) Handle(ctx context.Context, call *bridge.Call, emit bridge.Emit) (*bridge.Result, error) {
	next := *h.next.Load()
	if call.Method == bridge.Listen {
		return next.Handle(ctx, call, emit)
	}
	if !bridge.IsRetry(call.Request) {
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

	ctx, cut := context.WithCancelCause(ctx)
	defer cut(nil)
	idle := time.AfterFunc(h.o.Limits.CallIdle, func() { cut(errIdle) })
	defer idle.Stop()
	total := time.AfterFunc(h.o.Limits.CallTotal, func() { cut(errTotal) })
	defer total.Stop()
	res, err := next.Handle(ctx, call, func(ctx context.Context, e bridge.Event) error {
		// While the caller is slow to take the event, that is its time and not the backend's.
		idle.Stop()
		defer idle.Reset(h.o.Limits.CallIdle)
		return emit(ctx, e)
	})
	switch cause := context.Cause(ctx); {
	case err == nil:
		return res, nil
	case cause == errIdle: //nolint:errorlint // the cause is set above, never wrapped
		return nil, late(call, err, "it said nothing for %s: raise limits.callIdle, or have it tell its progress", h.o.Limits.CallIdle)
	case cause == errTotal: //nolint:errorlint // as above
		return nil, late(call, err, "it lasted %s: raise limits.callTotal", h.o.Limits.CallTotal)
	}
	return nil, err
}

// share returns the places of a principal. Whoever has them calls leave.
func (h *Handler) share(p principal) (its *lot, leave func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.principals[p]
	if s == nil {
		s = &share{lot: newLot(h.o.Limits.CallsPerCaller, h.o.Limits.CallQueue, "this caller's")}
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
