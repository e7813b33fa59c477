// Package lifecycle holds the phase of the bridge, which everything that serves clients observes, and counts the calls
// in flight, for which a drain waits.
package lifecycle

import (
	"context"
	"errors"
	"sync"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/mcpbridge/mcpbridge/bridge"
)

// A Phase is a phase of the bridge. The phases follow one another in their order.
type Phase int

const (
	// Starting is the phase in which backends start. Nothing is refused.
	Starting Phase = iota
	// Running is the phase in which the bridge is ready.
	Running
	// LameDuck is the phase in which calls are accepted, but clients are asked to reconnect elsewhere.
	LameDuck
	// Draining is the phase in which new sessions are refused and streams of changes end. Calls are accepted.
	Draining
	// Finishing is the phase in which new calls are refused. Those in flight continue.
	Finishing
	// Closing is the phase in which calls in flight are canceled and everything ends.
	Closing
	phases
)

// ErrClosing is the cause with which the context of Closing is canceled.
var ErrClosing = errors.New("the bridge is shutting down")

// A Lifecycle is the phase of the bridge and its calls in flight. Its methods may be called concurrently.
type Lifecycle struct {
	until [phases]cancelable

	mu       sync.Mutex // guards what follows
	phase    Phase
	inFlight int
	accepted uint64        // number of all calls so far
	changed  chan struct{} // closed when calls begin or the last one ends; nil if nothing waits for that
}

// New returns a Lifecycle that is Starting.
func New() *Lifecycle {
	l := &Lifecycle{}
	for p := range phases {
		l.until[p] = newCancelable()
	}
	return l
}

// A cancelable is a context with its cancel function.
type cancelable struct {
	context.Context //nolint:containedctx // the context of a phase
	cancel          context.CancelCauseFunc
}

func newCancelable() cancelable {
	ctx, cancel := context.WithCancelCause(context.Background())
	return cancelable{ctx, cancel}
}

// Phase returns the current phase.
func (l *Lifecycle) Phase() Phase {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.phase
}

// Until returns a context that is canceled when p or a later phase begins.
func (l *Lifecycle) Until(p Phase) context.Context { return l.until[p].Context }

// Advance begins a phase, unless it or a later one has begun.
func (l *Lifecycle) Advance(to Phase) {
	l.mu.Lock()
	from := l.phase
	l.phase = max(from, to)
	l.mu.Unlock()
	for p := from + 1; p <= to; p++ {
		l.until[p].cancel(ErrClosing)
	}
}

// Begin counts a call as in flight until end is called. It returns an error if the call is refused. Discovery and calls
// that continue earlier ones, or their tasks, are never refused. Listen calls are not counted: they end only when a
// phase ends them.
func (l *Lifecycle) Begin(call *bridge.Call) (end func(), err error) {
	if call.Method == bridge.Listen {
		return func() {}, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.phase >= Finishing && !isNeverRefused(call) {
		return nil, bridge.Failed(codes.Unavailable, bridge.OutcomeNotExecuted, "SHUTTING_DOWN",
			"%w; call again", ErrClosing)
	}
	l.begin()
	return l.end, nil
}

// Hold counts what an accepted call has begun as in flight until end is called.
func (l *Lifecycle) Hold() (end func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.begin()
	return l.end
}

func isNeverRefused(call *bridge.Call) bool {
	switch call.Method {
	case bridge.Discover, bridge.GetTask, bridge.UpdateTask, bridge.CancelTask:
		return true
	}
	return bridge.IsRetry(call.Request)
}

// begin counts a call. The caller holds mu.
func (l *Lifecycle) begin() {
	l.inFlight++
	l.accepted++
	if l.inFlight == 1 {
		l.notify()
	}
}

func (l *Lifecycle) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.inFlight--
	if l.inFlight == 0 {
		l.notify()
	}
}

// notify wakes wait. The caller holds mu.
func (l *Lifecycle) notify() {
	if l.changed != nil {
		close(l.changed)
		l.changed = nil
	}
}

// InFlight returns the number of calls in flight.
func (l *Lifecycle) InFlight() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.inFlight
}

// AwaitIdle waits until no call is in flight, or ctx is done. It returns the number of calls in flight.
func (l *Lifecycle) AwaitIdle(ctx context.Context) int {
	l.wait(ctx, func() bool { return l.inFlight == 0 })
	return l.InFlight()
}

// AwaitQuiet waits until no call has been in flight for d, or ctx is done.
func (l *Lifecycle) AwaitQuiet(ctx context.Context, d time.Duration) {
	var before uint64
	idle := func() bool { before = l.accepted; return l.inFlight == 0 }
	for l.wait(ctx, idle) {
		pause, cancel := context.WithTimeout(ctx, d)
		resumed := l.wait(pause, func() bool { return l.accepted != before })
		cancel()
		if !resumed {
			return
		}
	}
}

// wait waits until condition, which it calls with mu held, returns true, or ctx is done. It returns the last result of
// condition.
func (l *Lifecycle) wait(ctx context.Context, condition func() bool) bool {
	for {
		l.mu.Lock()
		if condition() {
			l.mu.Unlock()
			return true
		}
		if l.changed == nil {
			l.changed = make(chan struct{})
		}
		changed := l.changed
		l.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}
