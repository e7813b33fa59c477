// Package supervise keeps one backend of any kind connected, and makes the calls to it. It decides when to reconnect,
// which calls wait for that, and which calls are repeated: it is the only implementation of the delivery law.
package supervise

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/child"
	"github.com/mcpbridge/mcpbridge/internal/contain"
)

// A Connection carries calls, from the first response of the backend until the connection is lost.
type Connection interface {
	comparable
	// Lost is closed when the connection is lost.
	Lost() <-chan struct{}
}

// A Backend makes connections. Run calls its methods one after the other.
type Backend[C Connection] interface {
	// Connect returns a connection on which the backend has responded, or an error.
	Connect(ctx context.Context) (C, error)
	// Watch returns when the connection is lost, or ctx ends. unreachable means that calls do not wait for the next
	// connection.
	Watch(ctx context.Context, c C) (unreachable bool)
	// Release frees the resources of the connection, which gets no new calls. It reports whether Run reconnects without
	// a pause: the connection was useful, or its loss is not a failure of the backend.
	Release(ctx context.Context, c C) (again bool)
	// IsFinal reports whether Run returns an error of Connect; first means that it is of the first attempt.
	IsFinal(err error, first bool) bool
}

// Intervals are the times between attempts to connect, and the maximum waits of calls.
type Intervals struct {
	// Backoff bounds the wait after the first failure; it doubles with each further one, up to MaxBackoff.
	Backoff, MaxBackoff time.Duration
	// Crashes is the number of failures within CrashWindow that are a crash loop: then attempts are MaxBackoff apart,
	// and calls fail at once. If zero, there are no crash loops.
	Crashes     int
	CrashWindow time.Duration
	// ShortageDelay is the wait after an attempt that failed because the machine lacks a resource, which does not count
	// as a failure of the backend.
	ShortageDelay time.Duration
	// CallWait is how long a call waits for a connection. While a program starts, CallWait does not apply.
	CallWait time.Duration
	// FailFast is a threshold: if the next attempt to connect is further away, calls fail at once.
	FailFast time.Duration
}

// Options configure a Supervisor.
type Options struct {
	// Name is the backend's name, and Noun its kind: "backend" or "server".
	Name, Noun string
	// IsProgram means that Connect starts a program.
	IsProgram bool
	Log       zerolog.Logger
	Panics    *contain.Panics // of the whole process; if nil, this Supervisor has a count of its own
	*Intervals
}

// A Supervisor keeps one backend connected. Run is called once; the other methods may be called concurrently.
type Supervisor[C Connection] struct {
	// Retries limits the retries of lost calls.
	Retries RetryBudget

	o       Options
	backend Backend[C]
	panics  *contain.Panics

	live atomic.Value // of holder[C]: State.Connection, without the lock

	mu    sync.Mutex // guards state
	state State[C]
}

type holder[C Connection] struct{ c C }

// A State is the state of the backend.
type State[C Connection] struct {
	Connection C             // the zero value while there is none
	Connected  bool          // there has been a connection
	Ended      bool          // Run has returned
	Err        error         // why Run returned, or why the last attempt to connect failed
	CrashLoop  bool          // see Intervals
	Changed    chan struct{} // closed when any of this changes

	lost        time.Time // time of the loss, while there is no connection
	next        time.Time // of the next attempt, if none is being made
	unreachable bool
	starting    bool // a program is being started, and the last one did not fail to start
}

// New returns the Supervisor of a backend.
func New[C Connection](b Backend[C], o Options) *Supervisor[C] {
	s := &Supervisor[C]{o: o, backend: b, panics: o.Panics.With(o.Log)}
	s.state = State[C]{lost: time.Now(), starting: o.IsProgram, Changed: make(chan struct{})}
	return s
}

// Live returns the connection that calls are sent on, or the zero value.
func (s *Supervisor[C]) Live() C {
	h, _ := s.live.Load().(holder[C])
	return h.c
}

// State returns the current state.
func (s *Supervisor[C]) State() State[C] {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state
}

func (s *Supervisor[C]) change(f func(*State[C])) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(&s.state)
	s.live.Store(holder[C]{s.state.Connection})
	close(s.state.Changed)
	s.state.Changed = make(chan struct{})
}

// Run keeps the backend connected until ctx ends, and then returns nil. It returns an error of Connect that is final.
func (s *Supervisor[C]) Run(ctx context.Context) error {
	err := s.run(ctx)
	s.change(func(st *State[C]) {
		*st = State[C]{Connected: st.Connected, Ended: true, Err: err, Changed: st.Changed}
	})
	return err
}

func (s *Supervisor[C]) run(ctx context.Context) error {
	var failed failures
	isShortage := false
	for first := true; ctx.Err() == nil; first = false {
		c, err := s.connect(ctx)
		wasShortage := isShortage
		shortage := child.ShortageOf(err)
		isShortage = shortage != nil
		switch {
		case err != nil && ctx.Err() != nil:
			return nil //nolint:nilerr // it was canceled
		case err != nil && s.backend.IsFinal(err, first):
			return err
		case err != nil:
			s.change(func(st *State[C]) { st.Err, st.starting = err, false })
			what := "does not answer"
			if s.o.IsProgram {
				what = "did not start"
			}
			if !isShortage {
				s.o.Log.Error().Err(err).Msgf("the %s %s", s.o.Noun, what)
				break
			}
			level := zerolog.ErrorLevel
			if wasShortage {
				level = zerolog.DebugLevel
			}
			s.o.Log.WithLevel(level).Err(err).Str("fix", shortage.Fix).
				Msgf("the %s %s, because the bridge has no %s left", s.o.Noun, what, shortage.Resource)
			s.pause(ctx, s.o.ShortageDelay)
			continue
		default:
			if !s.o.IsProgram {
				failed = nil // The backend has just responded, and needs no growing pauses.
			}
			s.change(func(st *State[C]) { *st = State[C]{Connection: c, Connected: true, Changed: st.Changed} })
			unreachable := s.watch(ctx, c)
			s.change(func(st *State[C]) {
				var none C
				st.Connection, st.lost, st.starting, st.unreachable = none, time.Now(), s.o.IsProgram, unreachable
			})
			if s.release(ctx, c) {
				failed = nil
				continue
			}
		}
		if ctx.Err() != nil {
			return nil //nolint:nilerr // an error of Connect was logged
		}
		delay := failed.add(time.Now(), s.o.Intervals)
		s.change(func(st *State[C]) { st.CrashLoop = s.o.Crashes > 0 && len(failed) >= s.o.Crashes })
		s.pause(ctx, delay)
	}
	return nil
}

func (s *Supervisor[C]) connect(ctx context.Context) (c C, err error) {
	defer s.panics.Recover("connecting to the backend", func(e *bridge.Error) { err = e })
	return s.backend.Connect(ctx)
}

func (s *Supervisor[C]) watch(ctx context.Context, c C) bool {
	defer s.panics.Recover("watching the backend", nil)
	return s.backend.Watch(ctx, c)
}

func (s *Supervisor[C]) release(ctx context.Context, c C) bool {
	defer s.panics.Recover("releasing the connection to the backend", nil)
	return s.backend.Release(ctx, c)
}

// failures are the times of failures in a row.
type failures []time.Time

// add adds a failure and returns the wait until the next attempt. It is random, so that backends which fail for the
// same reason do not start together.
func (f *failures) add(now time.Time, i *Intervals) time.Duration {
	*f = append(*f, now)
	kept := i.Crashes
	if kept == 0 {
		kept = 20
	}
	for now.Sub((*f)[0]) > i.CrashWindow && len(*f) > kept {
		*f = (*f)[1:]
	}
	if n := len(*f); i.Crashes > 0 && n >= i.Crashes && now.Sub((*f)[n-i.Crashes]) <= i.CrashWindow {
		return i.MaxBackoff
	}
	return rand.N(min(i.Backoff<<min(len(*f)-1, 20), i.MaxBackoff)) + 1
}

func (s *Supervisor[C]) pause(ctx context.Context, d time.Duration) {
	s.change(func(st *State[C]) { st.next = time.Now().Add(d) })
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
	s.change(func(st *State[C]) { st.next = time.Time{} })
}
