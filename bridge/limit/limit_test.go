package limit_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/bridge/bridgetest"
	"github.com/mcpbridge/mcpbridge/bridge/limit"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

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

func nobody(bridge.Event) error { return nil }

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
		{"one below", limit.Options{Calls: 3}, []string{"", ""}, 0},
		{"as many", limit.Options{Calls: 3}, []string{"", "", ""}, 0},
		{"one above", limit.Options{Calls: 3}, []string{"", "", "", ""}, 1},
		{"one below, of one caller", limit.Options{CallsPerPrincipal: 3}, []string{"a", "a"}, 0},
		{"as many, of one caller", limit.Options{CallsPerPrincipal: 3}, []string{"a", "a", "a"}, 0},
		{"one above, of one caller", limit.Options{CallsPerPrincipal: 3}, []string{"a", "a", "a", "a"}, 1},
		{"others beside it", limit.Options{CallsPerPrincipal: 3}, []string{"a", "a", "a", "b", "b", "b"}, 0},
		{"callers nobody knows", limit.Options{CallsPerPrincipal: 1}, []string{"", "", ""}, 0},
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

func TestACallThatWaitsGetsItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := limit.New(bridge.HandlerFunc(func(context.Context, *bridge.Call, bridge.Emit) (*bridge.Result, error) {
			<-time.After(50 * time.Millisecond)
			return &bridge.Result{}, nil
		}), limit.Options{Calls: 1})
		for range 2 {
			go func() {
				if _, err := h.Handle(t.Context(), call(""), nobody); err != nil {
					t.Error(err)
				}
			}()
		}
		bridgetest.Pass(time.Second)
	})
}

func TestHowLongACallMayLast(t *testing.T) {
	o := limit.Options{Idle: time.Minute, Total: 10 * time.Minute}
	for _, c := range []struct {
		name  string
		step  time.Duration // between two words of the backend
		steps int
		want  string
	}{
		{"silent, but not too long", time.Minute - 1, 1, ""},
		{"silent for too long", time.Minute + 1, 1, deadline},
		{"talking, but not too long", 50 * time.Second, 11, ""},
		{"talking for too long", 50 * time.Second, 13, deadline},
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
						if err := emit(bridge.Event{Progress: &pb.Progress{Progress: float64(i)}}); err != nil {
							return nil, err
						}
					}
					return &bridge.Result{Complete: &pb.CallToolResult{IsError: proto.Bool(false)}}, nil
				}), o)
				_, err := h.Handle(t.Context(), call(""), nobody)
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
		}), limit.Options{Calls: 1})
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
