package supervise

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/mcpbridge/mcpbridge/bridge"
)

// An Outcome is the outcome of one attempt to make a call.
type Outcome int

const (
	// Answered means that the backend answered, with a result or an error. That is final.
	Answered Outcome = iota
	// NotSent means that the backend has not received the call. It is sent again as long as the call waits for a
	// connection.
	NotSent
	// Refused means that the backend received the call and did not execute it, for a reason that may be temporary. It
	// is sent once more.
	Refused
	// Lost means that the backend may have executed the call. It is sent once more if it is read-only.
	Lost
)

// An Attempt is the result of one attempt to make a call.
type Attempt struct {
	Outcome Outcome
	Result  *bridge.Result
	// Err is the error if there is no result.
	Err error
	// Emitted means that events were emitted.
	Emitted bool
	// Fail returns the error of a call that was Refused or Lost and is not sent again. sent reports whether the backend
	// may have executed it.
	Fail func(sent bool) error
	// Prepare, if not nil, is called before a Refused call is sent again. It reports whether to send it.
	Prepare func(ctx context.Context) bool
}

// Do makes a call: it calls attempt with a connection until the delivery law allows no further attempt. A call is
// executed at most once unless it is read-only, and an error reports whether it was executed.
func (s *Supervisor[C]) Do(
	ctx context.Context, call *bridge.Call, attempt func(context.Context, C) Attempt,
) (*bridge.Result, error) {
	var w Wait
	var lost, refused func(sent bool) error
	s.Retries.Called()
	for {
		c, err := s.Await(ctx, &w)
		switch {
		case err != nil && lost == nil:
			return nil, err
		case ctx.Err() != nil:
			return nil, bridge.Canceled(ctx, lost != nil)
		case err != nil:
			return nil, lost(true)
		}
		a := attempt(ctx, c)
		switch {
		case a.Err == nil:
			return a.Result, nil
		case a.Outcome != Answered && ctx.Err() != nil:
			return nil, bridge.Canceled(ctx, a.Outcome == Lost || lost != nil)
		}
		switch a.Outcome {
		case Answered:
			return nil, a.Err
		case NotSent:
		case Refused:
			if refused != nil || a.Prepare != nil && !a.Prepare(ctx) {
				return nil, a.Fail(lost != nil)
			}
			refused = a.Fail
		case Lost:
			if lost != nil || a.Emitted || !call.Method.ReadOnly || bridge.IsRetry(call.Request) || !s.Retries.Retry() {
				return nil, a.Fail(true)
			}
			lost = a.Fail
		}
		// The loss of the connection may not have been noticed yet.
		w.pause(ctx, c.Lost())
	}
}

// A Wait is the time that a call has waited for a connection. The zero value is for a new call.
type Wait struct {
	until time.Time
	step  time.Duration
}

// pause waits until gone is closed, for a short time.
func (w *Wait) pause(ctx context.Context, gone <-chan struct{}) {
	w.step = min(max(2*w.step, 10*time.Millisecond), time.Second)
	t := time.NewTimer(w.step)
	defer t.Stop()
	select {
	case <-gone:
	case <-t.C:
	case <-ctx.Done():
	}
}

// Await waits for a connection for the call, unless calls should fail at once.
func (s *Supervisor[C]) Await(ctx context.Context, w *Wait) (C, error) {
	var none C
	c := s.Live()
	if c != none && w.step == 0 && !isGone(c) {
		return c, nil
	}
	if w.until.IsZero() {
		w.until = time.Now().Add(s.o.CallWait)
	}
	timer := time.NewTimer(time.Until(w.until))
	defer timer.Stop()
	for started := false; ; {
		st := s.State()
		c, now := st.Connection, time.Now()
		switch {
		case ctx.Err() != nil:
			return none, bridge.Canceled(ctx, false)
		case st.Ended:
			return none, s.unavailable(&st, 0)
		case c != none && !isGone(c) && (started || now.Before(w.until)):
			return c, nil
		case st.next.Sub(now) > s.o.FailFast, c == none && st.failsFast(&s.o, now):
			return none, s.unavailable(&st, max(st.next.Sub(now), time.Second))
		case c == none && st.isStarting(&s.o, now):
			started = true
		case !now.Before(w.until):
			return none, s.unavailable(&st, max(st.next.Sub(now), time.Second))
		}
		select {
		case <-st.Changed:
		case <-timer.C:
		case <-ctx.Done():
		}
	}
}

func isGone[C Connection](c C) bool {
	select {
	case <-c.Lost():
		return true
	default:
		return false
	}
}

// failsFast reports whether calls fail at once.
func (st *State[C]) failsFast(o *Options, now time.Time) bool {
	return st.CrashLoop || st.unreachable || !o.IsProgram && now.Sub(st.lost) > o.CallWait
}

// isStarting reports whether a program starts, or is about to: a call waits for it without a limit of its own.
func (st *State[C]) isStarting(o *Options, now time.Time) bool {
	return st.starting && !st.Ended && !st.CrashLoop && st.next.Sub(now) <= o.FailFast
}

// Ready waits until there is a connection. It returns an error if Run returns or ctx ends first.
func (s *Supervisor[C]) Ready(ctx context.Context) error {
	var none C
	for {
		st := s.State()
		switch {
		case st.Connection != none:
			return nil
		case st.Ended && st.Err != nil:
			return st.Err
		case st.Ended:
			return fmt.Errorf("%s %q has been stopped", s.o.Noun, s.o.Name)
		}
		select {
		case <-st.Changed:
		case <-ctx.Done():
			if st.Err != nil {
				return st.Err
			}
			return fmt.Errorf("%s %q: waiting until it answers: %w", s.o.Noun, s.o.Name, ctx.Err())
		}
	}
}

// Started waits while a program starts, and returns nil when it is ready or its start has failed. It returns an error
// if ctx ends first.
func (s *Supervisor[C]) Started(ctx context.Context) error {
	var none C
	for {
		st := s.State()
		if st.Connection != none || !st.isStarting(&s.o, time.Now()) {
			return nil
		}
		select {
		case <-st.Changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// description describes the state of the backend while calls are not sent.
func (st *State[C]) description(o *Options, now time.Time) string {
	var none C
	switch {
	case st.Ended && st.Err != nil:
		return "did not start"
	case st.Ended:
		return "has been stopped"
	case st.Connection != none:
		return "does not accept calls"
	case st.CrashLoop:
		return "is in a crash loop"
	case st.next.Sub(now) > o.FailFast:
		return "keeps failing"
	case st.unreachable:
		return "no longer responds"
	case st.Connected:
		return "was lost and does not respond yet"
	}
	return "does not answer yet"
}

func (s *Supervisor[C]) unavailable(st *State[C], after time.Duration) error {
	return s.Unavailable(st.description(&s.o, time.Now()), after, st.Err)
}

// Unavailable returns the error of a call that was not sent because of the backend's state, which word describes. If
// cause is an error of the bridge, such as missing credentials, the caller receives it. If after is zero, a retry is
// useless.
func (s *Supervisor[C]) Unavailable(word string, after time.Duration, cause error) error {
	advice := "the call was not executed"
	if after > 0 {
		advice += "; try again in " + after.Round(100*time.Millisecond).String()
	}
	e := bridge.Failed(codes.Unavailable, bridge.OutcomeNotExecuted, "BACKEND_UNAVAILABLE",
		"%s %q %s; %s", s.o.Noun, s.o.Name, word, advice)
	if inner, ok := errors.AsType[*bridge.Error](cause); ok && inner.Outcome != "" {
		e.Code, e.Message, e.Reason = inner.Code, inner.Message, inner.Reason
	}
	e.Cause = cause
	if after > 0 {
		e.RetryAfter = after
	}
	return e
}
