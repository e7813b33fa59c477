package supervise

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"google.golang.org/grpc/codes"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/bridgetest"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

func TestRestartsBackOff(t *testing.T) {
	t.Parallel()
	i := Intervals{Backoff: 50 * time.Millisecond, MaxBackoff: 30 * time.Second, Crashes: 5, CrashWindow: time.Minute}
	now := time.Now()
	var row failures
	for n := range 4 {
		if d := row.add(now, &i); d <= 0 || d > 50*time.Millisecond<<n {
			t.Errorf("after failure %d: got %v, want at most %v", n+1, d, 50*time.Millisecond<<n)
		}
	}
	if d := row.add(now.Add(time.Minute), &i); d != 30*time.Second {
		t.Errorf("after five failures in a minute: got %v, want 30s", d)
	}
	row = nil
	for n := range 100 { // too seldom for a crash loop
		if d := row.add(now.Add(time.Duration(n)*16*time.Second), &i); d > 30*time.Second || len(row) > 6 {
			t.Errorf("after failure %d: got %v and %d kept failures, want at most 30s and 6", n+1, d, len(row))
		}
	}
}

type conn struct{ done chan struct{} }

func (c *conn) Lost() <-chan struct{} { return c.done }

// A fake is a backend whose connections a test establishes and closes.
type fake struct {
	connects    chan error // for each attempt to connect: nil for a connection
	unreachable bool
	again       bool
}

func (f *fake) Connect(ctx context.Context) (*conn, error) {
	select {
	case err := <-f.connects:
		if err != nil {
			return nil, err
		}
		return &conn{done: make(chan struct{})}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (f *fake) Watch(ctx context.Context, c *conn) bool {
	select {
	case <-c.done:
	case <-ctx.Done():
	}
	return f.unreachable
}

func (f *fake) Release(context.Context, *conn) bool { return f.again }

func (*fake) IsFinal(err error, first bool) bool { return first && err.Error() == "final" }

var intervals = Intervals{
	Backoff: 100 * time.Millisecond, MaxBackoff: 10 * time.Second, Crashes: 3, CrashWindow: time.Minute,
	ShortageDelay: time.Second, CallWait: 5 * time.Second, FailFast: 2 * time.Second,
}

// supervised runs a Supervisor of f until the end of the test. The returned function stops it, and returns the error
// of Run.
func supervised(t *testing.T, f *fake, program bool) (*Supervisor[*conn], func() error) {
	t.Helper()
	i := intervals
	f.connects = make(chan error)
	s := New[*conn](f, Options{Name: "b", Noun: "backend", IsProgram: program, Log: zerolog.Nop(), Intervals: &i})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	stop := sync.OnceValue(func() error { cancel(); return <-done })
	t.Cleanup(func() { _ = stop() })
	return s, stop
}

func outcomeOf(err error) bridge.Outcome { return bridge.AsError(err).Outcome }

// The delivery law decides which calls are sent again, and which outcome the error of a failed call has.
func TestDeliveryLaw(t *testing.T) {
	t.Parallel()
	const (
		executed = "" // the call has no error
		unknown  = bridge.OutcomeUnknown
		not      = bridge.OutcomeNotExecuted
	)
	write := &bridge.Call{Method: bridge.CallTool, Request: &pb.CallToolRequest{}}
	read := &bridge.Call{Method: bridge.ListTools, Request: &pb.ListToolsRequest{}}
	resumed := &bridge.Call{Method: bridge.ReadResource, Request: &pb.ReadResourceRequest{RequestState: []byte("s")}}
	type outcomes []Outcome
	for _, c := range []struct {
		name     string
		call     *bridge.Call
		outcomes outcomes // of the attempts; the last one also of all further attempts
		shown    bool
		spent    bool // the retry budget is exhausted
		attempts int
		want     bridge.Outcome
	}{
		{"an answered call is not repeated", write, outcomes{Answered}, false, false, 1, executed},
		{
			"an unsent call is sent again", write,
			outcomes{NotSent, NotSent, NotSent, Answered},
			false, false, 4,
			executed,
		},
		{"a refused call is sent once more", write, outcomes{Refused, Answered}, false, false, 2, executed},
		{"a call refused twice is not sent again", write, outcomes{Refused}, false, false, 2, not},
		{"a lost call is not repeated", write, outcomes{Lost}, false, false, 1, unknown},
		{"a lost read is repeated", read, outcomes{Lost, Answered}, false, false, 2, executed},
		{"a lost read is repeated once", read, outcomes{Lost}, false, false, 2, unknown},
		{"a lost read is not repeated after an event", read, outcomes{Lost}, true, false, 1, unknown},
		{"a lost read with answers of its caller is not repeated", resumed, outcomes{Lost}, false, false, 1, unknown},
		{"a lost read is not repeated without a budget", read, outcomes{Lost}, false, true, 1, unknown},
		{"a refusal after a loss leaves the outcome unknown", read, outcomes{Lost, Refused}, false, false, 3, unknown},
		{"a loss after a refusal leaves the outcome unknown", write, outcomes{Refused, Lost}, false, false, 2, unknown},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := &fake{}
				s, stop := supervised(t, f, true)
				f.connects <- nil
				for c.spent && s.Retries.Retry() {
				}
				attempts := 0
				_, err := s.Do(t.Context(), c.call, func(context.Context, *conn) Attempt {
					o := c.outcomes[min(attempts, len(c.outcomes)-1)]
					attempts++
					if o == Answered {
						return Attempt{Result: &bridge.Result{}}
					}
					return Attempt{
						Outcome: o, Err: errors.New("it failed"), Emitted: c.shown,
						Fail: func(sent bool) error {
							if sent || o == Lost {
								return bridge.Failed(codes.Unknown, unknown, "LOST", "lost")
							}
							return bridge.Failed(codes.Unavailable, not, "REFUSED", "refused")
						},
					}
				})
				if attempts != c.attempts || (err == nil) != (c.want == executed) || err != nil &&
					outcomeOf(err) != c.want {
					t.Errorf("got %d attempts, %v (%v), want %d, %v", attempts, err, outcomeOf(err), c.attempts, c.want)
				}
				if err := stop(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func TestCanceledCallReportsWhetherItWasExecuted(t *testing.T) {
	t.Parallel()
	for outcome, want := range map[Outcome]bridge.Outcome{
		NotSent: bridge.OutcomeNotExecuted, Refused: bridge.OutcomeNotExecuted,
		Lost: bridge.OutcomeUnknown,
	} {
		synctest.Test(t, func(t *testing.T) {
			f := &fake{}
			s, stop := supervised(t, f, true)
			f.connects <- nil
			ctx, cancel := context.WithCancel(t.Context())
			_, err := s.Do(ctx, &bridge.Call{Method: bridge.ListTools, Request: &pb.ListToolsRequest{}},
				func(context.Context, *conn) Attempt {
					cancel()
					return Attempt{Outcome: outcome, Err: ctx.Err()}
				})
			if bridge.AsError(err).Code != codes.Canceled || outcomeOf(err) != want {
				t.Errorf("attempt with outcome %d: got %v (%v), want %v", outcome, err, outcomeOf(err), want)
			}
			if err := stop(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestCallsWaitForAConnection(t *testing.T) {
	t.Parallel()
	broken := errors.New("it is broken")
	for _, c := range []struct {
		name    string
		program bool
		do      func(*fake, *Supervisor[*conn])
		least   time.Duration
		most    time.Duration
		want    string
	}{
		{"a starting program: until it has started", true, func(f *fake, _ *Supervisor[*conn]) {
			time.AfterFunc(time.Minute, func() { f.connects <- nil })
		}, time.Minute, time.Minute, ""},
		{
			"an address that does not answer: for CallWait", false, func(*fake, *Supervisor[*conn]) {},
			5 * time.Second, 5 * time.Second, "does not answer yet",
		},
		{"a program that exited: until the next one answers", true, func(f *fake, s *Supervisor[*conn]) {
			f.connects <- nil
			synctest.Wait()
			close(s.Live().done)
			time.AfterFunc(20*time.Second, func() { f.connects <- nil })
			synctest.Wait()
		}, 20 * time.Second, 20 * time.Second, ""},
		{"a crash loop: not at all", true, func(f *fake, s *Supervisor[*conn]) {
			for range 3 {
				f.connects <- broken
			}
			synctest.Wait()
		}, 0, 0, "is in a crash loop"},
		{"an address that has been unreachable for a minute: not at all", false, func(f *fake, s *Supervisor[*conn]) {
			f.connects <- nil
			synctest.Wait()
			close(s.Live().done)
			bridgetest.Pass(time.Minute)
		}, 0, 0, "was lost and does not respond yet"},
		{"an unreachable address: not at all", false, func(f *fake, s *Supervisor[*conn]) {
			f.unreachable = true
			f.connects <- nil
			synctest.Wait()
			close(s.Live().done)
			synctest.Wait()
		}, 0, 0, "no longer responds"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := &fake{}
				s, stop := supervised(t, f, c.program)
				c.do(f, s)
				began := time.Now()
				_, err := s.Do(t.Context(), &bridge.Call{Method: bridge.CallTool, Request: &pb.CallToolRequest{}},
					func(context.Context, *conn) Attempt {
						return Attempt{Result: &bridge.Result{}}
					})
				if took := time.Since(began); took < c.least || took > c.most+intervals.Backoff {
					t.Errorf("got a wait of %v, want %v to %v", took, c.least, c.most)
				}
				switch {
				case (err == nil) != (c.want == ""):
					t.Errorf("got %v, want %q", err, c.want)
				case err != nil && (!strings.Contains(err.Error(), c.want) ||
					outcomeOf(err) != bridge.OutcomeNotExecuted):
					t.Errorf("got %v (%v), want %q", err, outcomeOf(err), c.want)
				}
				if err := stop(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func TestOnlyFinalErrorsEndRun(t *testing.T) {
	t.Parallel()
	for _, final := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			f := &fake{}
			s, stop := supervised(t, f, true)
			text := map[bool]string{true: "final", false: "later"}[final]
			f.connects <- errors.New(text)
			synctest.Wait()
			if st := s.State(); st.Ended != final || st.Err == nil || st.Err.Error() != text {
				t.Errorf("got ended %v, error %v, want %v, %s", st.Ended, st.Err, final, text)
			}
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if err := s.Ready(ctx); err == nil || err.Error() != text {
				t.Errorf("Ready: got %v, want %s", err, text)
			}
			if err := stop(); (err != nil) != final {
				t.Errorf("Run: got %v, want %s: %t", err, text, final)
			}
		})
	}
}
