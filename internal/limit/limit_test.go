package limit_test

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/bridgetest"
	"github.com/mcpbridge/mcpbridge/internal/limit"
	"github.com/mcpbridge/mcpbridge/internal/limits"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestLaws(t *testing.T) {
	bridgetest.Laws(t, func(_ *testing.T, h bridge.Handler) bridge.Handler { return limit.New(h, limit.Options{}) })
}

func call(subject string) *bridge.Call {
	cc := &pb.CallContext{}
	if subject != "" {
		cc.Principal = &pb.Principal{Subject: subject}
	}
	return &bridge.Call{Method: bridge.CallTool, Request: &pb.CallToolRequest{Context: cc, Name: "x"}}
}

func nobody(context.Context, bridge.Event) error { return nil }

// failure returns what an error says became of the call.
func failure(err error) string {
	f := bridge.AsError(err).Failure
	return f.GetReason() + " " + f.GetOutcome().String()
}

const (
	overloaded = "OVERLOADED OUTCOME_NOT_EXECUTED"
	deadline   = "DEADLINE OUTCOME_UNKNOWN"
)

// As many calls run as may, and those beyond wait their time and are refused without being seen by the backend.
func TestCallsAtATime(t *testing.T) {
	for _, c := range []struct {
		name     string
		o        limit.Options
		subjects []string // of the callers
		refused  int
	}{
		{"one below", limit.Options{Limits: limits.Limits{Calls: 3}}, []string{"", ""}, 0},
		{"as many", limit.Options{Limits: limits.Limits{Calls: 3}}, []string{"", "", ""}, 0},
		{"one above", limit.Options{Limits: limits.Limits{Calls: 3}}, []string{"", "", "", ""}, 1},
		{"one below, of one caller", limit.Options{Limits: limits.Limits{CallsPerCaller: 3}}, []string{"a", "a"}, 0},
		{"as many, of one caller", limit.Options{Limits: limits.Limits{CallsPerCaller: 3}}, []string{"a", "a", "a"}, 0},
		{"one above, of one caller", limit.Options{Limits: limits.Limits{CallsPerCaller: 3}}, []string{"a", "a", "a", "a"}, 1},
		{"others beside it", limit.Options{Limits: limits.Limits{CallsPerCaller: 3}}, []string{"a", "a", "a", "b", "b", "b"}, 0},
		{"callers nobody knows", limit.Options{Limits: limits.Limits{CallsPerCaller: 1}}, []string{"", "", ""}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				end := make(chan struct{})
				var seen, refused atomic.Int32
				h := limit.New(bridge.HandlerFunc(func(context.Context, *bridge.Call, bridge.Emit) (*bridge.Result, error) {
					seen.Add(1)
					<-end
					return &bridge.Result{}, nil
				}), c.o)
				for _, s := range c.subjects {
					go func() {
						if _, err := h.Handle(t.Context(), call(s), nobody); err != nil {
							if got := failure(err); got != overloaded {
								t.Error(got)
							}
							refused.Add(1)
						}
					}()
				}
				synctest.Wait()
				if refused.Load() != 0 {
					t.Error("refused at once")
				}
				bridgetest.Pass(101 * time.Millisecond)
				if int(refused.Load()) != c.refused || int(seen.Load()) != len(c.subjects)-c.refused {
					t.Errorf("%d refused, %d seen", refused.Load(), seen.Load())
				}
				close(end)
				synctest.Wait()
				if _, err := h.Handle(t.Context(), call("a"), nobody); err != nil {
					t.Errorf("afterwards: %v", err)
				}
			})
		})
	}
}

// One place, which is taken, and when a call that comes at some time is refused.
func TestABurstWaitsAndAnOverloadDoesNot(t *testing.T) {
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	for _, c := range []struct {
		name      string
		comes, at []int // in ms
	}{
		{"the first waits for as long as a call may", []int{0}, []int{100}},
		{"those after it have the same patience", []int{0, 40, 94, 95}, []int{100, 100, 100, 100}},
		{"but a little, in any case", []int{0, 96, 99}, []int{100, 101, 104}},
		{"it is known that there is an overload", []int{0, 101, 500, 1100}, []int{100, 106, 505, 1105}},
		{"it is over ten times later", []int{0, 1100, 2105, 3300}, []int{100, 1105, 2110, 3400}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				end := make(chan struct{})
				h := limit.New(bridge.HandlerFunc(func(context.Context, *bridge.Call, bridge.Emit) (*bridge.Result, error) {
					<-end
					return &bridge.Result{}, nil
				}), limit.Options{Limits: limits.Limits{Calls: 1}})
				go func() { _, _ = h.Handle(t.Context(), call(""), nobody) }() // takes the place
				synctest.Wait()
				began := time.Now()
				got := make([]time.Duration, len(c.comes))
				var wg sync.WaitGroup
				for i, comes := range c.comes {
					wg.Go(func() {
						bridgetest.Pass(ms(comes))
						if _, err := h.Handle(t.Context(), call(""), nobody); err == nil || failure(err) != overloaded {
							t.Error(err)
						}
						got[i] = time.Since(began)
					})
				}
				wg.Wait()
				for i, want := range c.at {
					if got[i] != ms(want) {
						t.Errorf("who came after %d ms was refused after %s, want %d ms", c.comes[i], got[i], want)
					}
				}
				close(end)
			})
		})
	}
}

// A place that is free a moment before the patience of who waits for it ends is taken.
func TestHowLongACallWaitsForItsTurn(t *testing.T) {
	for free, want := range map[time.Duration]string{
		100*time.Millisecond - 1: "", 100*time.Millisecond + 1: overloaded, // the default
	} {
		synctest.Test(t, func(t *testing.T) {
			h := limit.New(bridge.HandlerFunc(func(context.Context, *bridge.Call, bridge.Emit) (*bridge.Result, error) {
				<-time.After(free)
				return &bridge.Result{}, nil
			}), limit.Options{Limits: limits.Limits{Calls: 1}})
			go func() { _, _ = h.Handle(t.Context(), call(""), nobody) }() // takes the place
			synctest.Wait()
			began, got := time.Now(), ""
			if _, err := h.Handle(t.Context(), call(""), nobody); err != nil {
				got = failure(err)
			}
			if took := time.Since(began); got != want || got != "" && took != 100*time.Millisecond {
				t.Errorf("the place is free after %v: %q after %v", free, got, took)
			}
			bridgetest.Pass(time.Second)
		})
	}
}

// Who has waited for the longest time is the next, and who has gone meanwhile is not.
func TestTurnsAreTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var order []string
		h := limit.New(bridge.HandlerFunc(func(_ context.Context, c *bridge.Call, _ bridge.Emit) (*bridge.Result, error) {
			<-time.After(10 * time.Millisecond)
			order = append(order, c.Request.(*pb.CallToolRequest).GetName())
			return &bridge.Result{}, nil
		}), limit.Options{Limits: limits.Limits{Calls: 1}})
		gone, leave := context.WithCancel(t.Context())
		for _, name := range []string{"a", "b", "gone", "c"} {
			go func() {
				ctx, c, want := t.Context(), call(""), ""
				if name == "gone" {
					ctx, want = gone, "CANCELLED OUTCOME_NOT_EXECUTED"
				}
				c.Request.(*pb.CallToolRequest).Name = name
				if _, err := h.Handle(ctx, c, nobody); err == nil && want != "" || err != nil && failure(err) != want {
					t.Errorf("%s: %v", name, err)
				}
			}()
			synctest.Wait()
		}
		leave()
		bridgetest.Pass(50 * time.Millisecond)
		if want := []string{"a", "b", "c"}; !slices.Equal(order, want) {
			t.Errorf("%v, want %v", order, want)
		}
	})
}

func TestHowLongACallMayLast(t *testing.T) {
	o := limit.Options{Limits: limits.Limits{CallIdle: time.Minute, CallTotal: 10 * time.Minute}}
	for _, c := range []struct {
		name  string
		step  time.Duration // between two words of the backend
		steps int
		want  string
		after time.Duration // when it ends
	}{
		{"silent, but not too long", time.Minute - 1, 1, "", time.Minute - 1},
		{"silent for too long", time.Minute + 1, 1, deadline, time.Minute},
		{"silent for ever", time.Hour, 1, deadline, time.Minute},
		{"talking, but not too long", 50 * time.Second, 11, "", 550 * time.Second},
		{"talking for too long", 50 * time.Second, 13, deadline, 10 * time.Minute},
		{"talking for nearly as long as it may", 30*time.Second - 1, 20, "", 10*time.Minute - 20},
		{"talking for a moment too long", 30*time.Second + 1, 20, deadline, 10 * time.Minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := limit.New(bridge.HandlerFunc(func(ctx context.Context, _ *bridge.Call, emit bridge.Emit) (*bridge.Result, error) {
					for i := range c.steps {
						select {
						case <-time.After(c.step):
						case <-ctx.Done():
							return nil, ctx.Err()
						}
						if err := emit(ctx, bridge.Event{Progress: &pb.Progress{Progress: float64(i)}}); err != nil {
							return nil, err
						}
					}
					return &bridge.Result{Complete: &pb.CallToolResult{IsError: proto.Bool(false)}}, nil
				}), o)
				began := time.Now()
				_, err := h.Handle(t.Context(), call(""), nobody)
				if took := time.Since(began); took != c.after {
					t.Errorf("it ends after %v", took)
				}
				if c.want == "" && err != nil || c.want != "" && (err == nil || failure(err) != c.want) {
					t.Errorf("%v", err)
				}
			})
		})
	}
}

// Who listens does so for as long as it wants, and takes nobody's place.
func TestListeningIsNotBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		h := limit.New(bridge.HandlerFunc(func(ctx context.Context, c *bridge.Call, _ bridge.Emit) (*bridge.Result, error) {
			if c.Method == bridge.Listen {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return &bridge.Result{}, nil
		}), limit.Options{Limits: limits.Limits{Calls: 1}})
		var ended atomic.Int32
		for range 3 {
			go func() {
				_, _ = h.Handle(ctx, &bridge.Call{Method: bridge.Listen, Request: &pb.ListenRequest{}}, nobody) // ends by being cancelled
				ended.Add(1)
			}()
		}
		bridgetest.Pass(time.Hour)
		if _, err := h.Handle(t.Context(), call(""), nobody); err != nil || ended.Load() != 0 {
			t.Errorf("%v, %d ended", err, ended.Load())
		}
		cancel()
		synctest.Wait()
	})
}

// A call that was cut while it still waited for a backend was not executed.
func TestACallThatWasCutBeforeItWasSent(t *testing.T) {
	for sent, want := range map[bool]string{false: "DEADLINE OUTCOME_NOT_EXECUTED", true: deadline} {
		for name, o := range map[string]limit.Options{"idle": {Limits: limits.Limits{CallIdle: time.Second}}, "total": {Limits: limits.Limits{CallTotal: time.Second}}} {
			synctest.Test(t, func(t *testing.T) {
				h := limit.New(bridge.HandlerFunc(func(ctx context.Context, _ *bridge.Call, _ bridge.Emit) (*bridge.Result, error) {
					<-ctx.Done()
					return nil, bridge.Canceled(ctx, sent)
				}), o)
				if _, err := h.Handle(t.Context(), call(""), nobody); failure(err) != want {
					t.Errorf("%s, sent %t: %s: %v", name, sent, failure(err), err)
				}
			})
		}
	}
}
