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
		cc.Verified = &pb.VerifiedCaller{Principal: &pb.Principal{Subject: subject}}
	}
	return &bridge.Call{Method: bridge.CallTool, Request: &pb.CallToolRequest{Context: cc, Name: "x"}}
}

func ignore(context.Context, bridge.Event) error { return nil }

// failure returns the reason and the outcome of an error.
func failure(err error) string {
	f := bridge.AsError(err)
	return f.Reason + " " + string(f.Outcome)
}

const (
	overloaded = "OVERLOADED not_executed"
	deadline   = "DEADLINE unknown"
)

// Calls above the limit wait, and are refused before they reach the backend.
func TestConcurrentCallsAreLimited(t *testing.T) {
	for _, c := range []struct {
		name     string
		o        limit.Options
		subjects []string // of the callers
		refused  int
	}{
		{"one below", limit.Options{Limits: limits.Limits{Calls: 3}}, []string{"", ""}, 0},
		{"at the limit", limit.Options{Limits: limits.Limits{Calls: 3}}, []string{"", "", ""}, 0},
		{"one above", limit.Options{Limits: limits.Limits{Calls: 3}}, []string{"", "", "", ""}, 1},
		{"one below, of one caller", limit.Options{Limits: limits.Limits{CallsPerCaller: 3}}, []string{"a", "a"}, 0},
		{
			"at the limit, of one caller",
			limit.Options{Limits: limits.Limits{CallsPerCaller: 3}},
			[]string{"a", "a", "a"},
			0,
		},
		{
			"one above, of one caller",
			limit.Options{Limits: limits.Limits{CallsPerCaller: 3}},
			[]string{"a", "a", "a", "a"},
			1,
		},
		{
			"other callers",
			limit.Options{Limits: limits.Limits{CallsPerCaller: 3}},
			[]string{"a", "a", "a", "b", "b", "b"},
			0,
		},
		{"unauthenticated callers", limit.Options{Limits: limits.Limits{CallsPerCaller: 1}}, []string{"", "", ""}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				end := make(chan struct{})
				var seen, refused atomic.Int32
				h := limit.New(bridge.HandlerFunc(
					func(context.Context, *bridge.Call, bridge.Emit) (*bridge.Result, error) {
						seen.Add(1)
						<-end
						return &bridge.Result{}, nil
					}), c.o)
				for _, s := range c.subjects {
					go func() {
						if _, err := h.Handle(t.Context(), call(s), ignore); err != nil {
							if got := failure(err); got != overloaded {
								t.Errorf("got %s, want %s", got, overloaded)
							}
							refused.Add(1)
						}
					}()
				}
				synctest.Wait()
				if n := refused.Load(); n != 0 {
					t.Errorf("got %d calls refused without waiting, want 0", n)
				}
				bridgetest.Pass(101 * time.Millisecond)
				if int(refused.Load()) != c.refused || int(seen.Load()) != len(c.subjects)-c.refused {
					t.Errorf("got %d of %d calls refused, %d executed, want %d refused",
						refused.Load(), len(c.subjects), seen.Load(), c.refused)
				}
				close(end)
				synctest.Wait()
				if _, err := h.Handle(t.Context(), call("a"), ignore); err != nil {
					t.Errorf("a call after the others have ended: %v", err)
				}
			})
		})
	}
}

// With a limit of one call, which is in flight, other calls are refused after callQueue, or sooner in an overload.
func TestCallsQueueInBurstsAndNotInOverload(t *testing.T) {
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	for _, c := range []struct {
		name             string
		arrives, refused []int // in ms
	}{
		{"the first call waits for callQueue", []int{0}, []int{100}},
		{"calls of the same burst are refused with it", []int{0, 40, 94, 95}, []int{100, 100, 100, 100}},
		{"each call waits for at least a twentieth of callQueue", []int{0, 96, 99}, []int{100, 101, 104}},
		{"an overload reduces callQueue to a twentieth", []int{0, 101, 500, 1100}, []int{100, 106, 505, 1105}},
		{"the overload ends after ten times callQueue", []int{0, 1100, 2105, 3300}, []int{100, 1105, 2110, 3400}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				end := make(chan struct{})
				h := limit.New(bridge.HandlerFunc(
					func(context.Context, *bridge.Call, bridge.Emit) (*bridge.Result, error) {
						<-end
						return &bridge.Result{}, nil
					}), limit.Options{Limits: limits.Limits{Calls: 1}})
				go func() { _, _ = h.Handle(t.Context(), call(""), ignore) }() // occupies the limit
				synctest.Wait()
				began := time.Now()
				got := make([]time.Duration, len(c.arrives))
				var wg sync.WaitGroup
				for i, at := range c.arrives {
					wg.Go(func() {
						bridgetest.Pass(ms(at))
						if _, err := h.Handle(t.Context(), call(""), ignore); err == nil || failure(err) != overloaded {
							t.Errorf("got %v, want %s", err, overloaded)
						}
						got[i] = time.Since(began)
					})
				}
				wg.Wait()
				for i, want := range c.refused {
					if got[i] != ms(want) {
						t.Errorf("a call at %d ms: got refused at %s, want %d ms", c.arrives[i], got[i], want)
					}
				}
				close(end)
			})
		})
	}
}

func TestQueuedCallsTimeOut(t *testing.T) {
	for free, want := range map[time.Duration]string{
		100*time.Millisecond - 1: "", 100*time.Millisecond + 1: overloaded, // the default
	} {
		synctest.Test(t, func(t *testing.T) {
			h := limit.New(bridge.HandlerFunc(func(context.Context, *bridge.Call, bridge.Emit) (*bridge.Result, error) {
				<-time.After(free)
				return &bridge.Result{}, nil
			}), limit.Options{Limits: limits.Limits{Calls: 1}})
			go func() { _, _ = h.Handle(t.Context(), call(""), ignore) }() // occupies the limit
			synctest.Wait()
			began, got := time.Now(), ""
			if _, err := h.Handle(t.Context(), call(""), ignore); err != nil {
				got = failure(err)
			}
			if took := time.Since(began); got != want || got != "" && took != 100*time.Millisecond {
				t.Errorf("the other call ends after %v: got %q after %v, want %q", free, got, took, want)
			}
			bridgetest.Pass(time.Second)
		})
	}
}

// The call that has waited longest is next, and canceled calls are skipped.
func TestQueuedCallsRunInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var order []string
		h := limit.New(bridge.HandlerFunc(
			func(_ context.Context, c *bridge.Call, _ bridge.Emit) (*bridge.Result, error) {
				<-time.After(10 * time.Millisecond)
				order = append(order, c.Request.(*pb.CallToolRequest).GetName())
				return &bridge.Result{}, nil
			}), limit.Options{Limits: limits.Limits{Calls: 1}})
		canceled, cancel := context.WithCancel(t.Context())
		for _, name := range []string{"a", "b", "canceled", "c"} {
			go func() {
				ctx, c, want := t.Context(), call(""), ""
				if name == "canceled" {
					ctx, want = canceled, "CANCELLED not_executed"
				}
				c.Request.(*pb.CallToolRequest).Name = name
				if _, err := h.Handle(ctx, c, ignore); err == nil && want != "" || err != nil && failure(err) != want {
					t.Errorf("call %s: got %v, want %q", name, err, want)
				}
			}()
			synctest.Wait()
		}
		cancel()
		bridgetest.Pass(50 * time.Millisecond)
		if want := []string{"a", "b", "c"}; !slices.Equal(order, want) {
			t.Errorf("got order %v, want %v", order, want)
		}
	})
}

func TestCallsTimeOutIdleAndInTotal(t *testing.T) {
	o := limit.Options{Limits: limits.Limits{CallIdle: time.Minute, CallTotal: 10 * time.Minute}}
	for _, c := range []struct {
		name  string
		step  time.Duration // between two events of the backend
		steps int
		want  string
		after time.Duration // when it ends
	}{
		{"idle for just less than CallIdle", time.Minute - 1, 1, "", time.Minute - 1},
		{"idle for just more than CallIdle", time.Minute + 1, 1, deadline, time.Minute},
		{"idle forever", time.Hour, 1, deadline, time.Minute},
		{"active for less than CallTotal", 50 * time.Second, 11, "", 550 * time.Second},
		{"active for more than CallTotal", 50 * time.Second, 13, deadline, 10 * time.Minute},
		{"active for just less than CallTotal", 30*time.Second - 1, 20, "", 10*time.Minute - 20},
		{"active for just more than CallTotal", 30*time.Second + 1, 20, deadline, 10 * time.Minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := limit.New(bridge.HandlerFunc(
					func(ctx context.Context, _ *bridge.Call, emit bridge.Emit) (*bridge.Result, error) {
						for i := range c.steps {
							select {
							case <-time.After(c.step):
							case <-ctx.Done():
								return nil, ctx.Err()
							}
							if err := emit(ctx, bridge.Event{
								Progress: &pb.Progress{Progress: float64(i)},
							}); err != nil {
								return nil, err
							}
						}
						return &bridge.Result{Complete: &pb.CallToolResult{IsError: proto.Bool(false)}}, nil
					}), o)
				began := time.Now()
				_, err := h.Handle(t.Context(), call(""), ignore)
				if took := time.Since(began); took != c.after {
					t.Errorf("ended after %v, want %v", took, c.after)
				}
				if c.want == "" && err != nil || c.want != "" && (err == nil || failure(err) != c.want) {
					t.Errorf("got %v, want %q", err, c.want)
				}
			})
		})
	}
}

// A Listen has no timeout, and does not count as a call.
func TestListensHaveNoLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		h := limit.New(bridge.HandlerFunc(
			func(ctx context.Context, c *bridge.Call, _ bridge.Emit) (*bridge.Result, error) {
				if c.Method == bridge.Listen {
					<-ctx.Done()
					return nil, ctx.Err()
				}
				return &bridge.Result{}, nil
			}), limit.Options{Limits: limits.Limits{Calls: 1}})
		var ended atomic.Int32
		for range 3 {
			go func() {
				// it ends with ctx
				_, _ = h.Handle(ctx, &bridge.Call{Method: bridge.Listen, Request: &pb.ListenRequest{}}, ignore)
				ended.Add(1)
			}()
		}
		bridgetest.Pass(time.Hour)
		if _, err := h.Handle(t.Context(), call(""), ignore); err != nil || ended.Load() != 0 {
			t.Errorf("got error %v, and %d Listens ended, want none", err, ended.Load())
		}
		cancel()
		synctest.Wait()
	})
}

func TestUnsentCallThatTimesOutWasNotExecuted(t *testing.T) {
	for sent, want := range map[bool]string{false: "DEADLINE not_executed", true: deadline} {
		for name, o := range map[string]limit.Options{
			"idle":  {Limits: limits.Limits{CallIdle: time.Second}},
			"total": {Limits: limits.Limits{CallTotal: time.Second}},
		} {
			synctest.Test(t, func(t *testing.T) {
				h := limit.New(bridge.HandlerFunc(
					func(ctx context.Context, _ *bridge.Call, _ bridge.Emit) (*bridge.Result, error) {
						<-ctx.Done()
						return nil, bridge.Canceled(ctx, sent)
					}), o)
				if _, err := h.Handle(t.Context(), call(""), ignore); failure(err) != want {
					t.Errorf("%s, sent %t: got %s (%v), want %s", name, sent, failure(err), err, want)
				}
			})
		}
	}
}
