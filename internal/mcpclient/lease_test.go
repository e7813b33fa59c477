package mcpclient_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/bridgetest"
	"github.com/mcpbridge/mcpbridge/internal/jsonrpc"
	"github.com/mcpbridge/mcpbridge/internal/limits"
	"github.com/mcpbridge/mcpbridge/internal/mcpclient"
	"github.com/mcpbridge/mcpbridge/internal/rawjson"
	"github.com/mcpbridge/mcpbridge/internal/router"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// question is an input request in the middle of a call.
const question = `{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"message":"?","requestedSchema":{"type":"object","properties":{}}}}`

// A curious server is a program of 2025-11-25 whose tool "ask" requests input before it returns. It counts its running
// instances, their maximum, and its starts.
type curious struct {
	lingers              time.Duration // the time it takes to exit after its input is closed
	programs, most, ever atomic.Int64
}

func (s *curious) serve(ctx context.Context, in io.Reader, out io.Writer) {
	s.ever.Add(1)
	for n := s.programs.Add(1); n > s.most.Load(); {
		s.most.Store(n)
	}
	defer s.programs.Add(-1)
	defer time.Sleep(s.lingers) //nolint:forbidigo // by the bubble's clock
	var open string             // the ID of the call that requested input
	program := &script{on: func(m *jsonrpc.Message, send func(...string)) bool {
		switch {
		case m.Method == "initialize":
			send(strings.Replace(initializeResponse, "2024-11-05", "2025-11-25", 1))
		case m.Method == "ping":
			send(emptyResponse)
		case m.Method == "tools/call" && strings.Contains(string(m.Params), `"ask"`):
			open = string(m.ID)
			send(question)
		case m.Method == "tools/call":
			send(helloResponse)
		case m.IsResponse():
			send(strings.Replace(helloResponse, "ID", open, 1))
		}
		return true
	}}
	program.serve(ctx, in, out)
}

// bubble runs f in a bubble with a client of a program.
func bubble(t *testing.T, o mcpclient.Options, serve func(context.Context, io.Reader, io.Writer),
	f func(t *testing.T, c *mcpclient.Client),
) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		o.Command, o.Revision = []string{"pipe"}, bridge.Rev20251125
		c, err := mcpclient.New(o)
		if err != nil {
			t.Fatal(err)
		}
		c.Pipe(serve)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- c.Run(ctx) }()
		if err := c.Ready(ctx); err != nil {
			t.Error(err)
		} else {
			f(t, c)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// As many callers as the session limit can have calls with input requests at a time. The next call waits for a while
// and then fails with not_executed.
func TestSessionLimit(t *testing.T) {
	for set, most := range map[int]int{0: 32, 1: 1, 10: 10} {
		s := &curious{}
		bubble(t, mcpclient.Options{MaxSessions: set}, s.serve, func(t *testing.T, c *mcpclient.Client) {
			t.Helper()
			call := callOf("ask", `{}`, "a")
			var open []*pb.InputRequired
			for range most - 1 {
				open = append(open, requiredInput(t, c, call))
			}
			if got := callText(t, c, callOf("t", `{}`, "a")); got != "hello" {
				t.Errorf("one below %d: %s", most, got)
			}
			open = append(open, requiredInput(t, c, call))
			began := time.Now()
			_, err := c.Handle(t.Context(), call, ignore)
			e := bridge.AsError(err)
			if e.Code != codes.ResourceExhausted || e.Outcome != bridge.OutcomeNotExecuted ||
				time.Since(began) != 10*time.Second {
				t.Errorf("call above the limit of %d, after %v: %v", most, time.Since(began), err)
			}
			if n := s.programs.Load(); n != int64(most)+1 {
				t.Errorf("%d programs, want %d", n, most+1)
			}
			// A waiting call gets the session of a completed one.
			next := make(chan string)
			go func() { next <- callText(t, c, callOf("t", `{}`, "a")) }()
			synctest.Wait()
			for _, n := range open {
				if got := callText(t, c, call.Retry(answers(n, `{}`), n.RequestState)); got != "hello" {
					t.Errorf("got %s", got)
				}
			}
			if got := <-next; got != "hello" {
				t.Errorf("the waiting call got %s", got)
			}
		})
	}
}

// However slowly programs exit, and whether calls are sequential or concurrent, the number of programs stays within the
// limit, besides the one for callers without input capabilities. A call without a session fails with not_executed.
func TestStoppingProgramsCountTowardTheLimit(t *testing.T) {
	for _, most := range []int{1, 2, 5} {
		for _, lingers := range []time.Duration{0, time.Millisecond, 5 * time.Second, time.Minute} {
			s := &curious{lingers: lingers}
			bubble(t, mcpclient.Options{MaxSessions: most}, s.serve, func(t *testing.T, c *mcpclient.Client) {
				t.Helper()
				try := func(n int, limit time.Duration) {
					began := time.Now()
					res, err := c.Handle(t.Context(), callOf("t", `{}`, fmt.Sprint("caller", n)), ignore)
					took := time.Since(began)
					right := err == nil
					if !right {
						e := bridge.AsError(err)
						right = took >= 10*time.Second && e.Code == codes.ResourceExhausted &&
							e.Outcome == bridge.OutcomeNotExecuted
					}
					if !right || took > limit {
						t.Errorf("%d programs that take %v to exit, after %v: %v %v", most, lingers, took, res, err)
					}
				}
				for n := range 20 {
					try(n, min(lingers, 30*time.Second)) // the maximum duration of a start
				}
				var wg sync.WaitGroup
				for n := range 60 {
					wg.Go(func() { try(n, 30*time.Second) })
				}
				wg.Wait()
				if got := s.most.Load(); got > int64(most)+1 {
					t.Errorf("%d programs that take %v to exit, want at most %d and one", got, lingers, most)
				}
			})
		}
	}
}

// While a program exits to free its place for a caller, no second one is stopped for that caller.
func TestOneProgramIsStoppedPerWaitingCaller(t *testing.T) {
	s := &curious{lingers: 5 * time.Second}
	bubble(t, mcpclient.Options{MaxSessions: 3}, s.serve, func(t *testing.T, c *mcpclient.Client) {
		t.Helper()
		use := func(who string) {
			if got := callText(t, c, callOf("t", `{}`, who)); got != "hello" {
				t.Errorf("%s got %s", who, got)
			}
		}
		for _, who := range []string{"a", "b", "c"} {
			use(who)
			bridgetest.Pass(time.Second)
		}
		var wg sync.WaitGroup
		wg.Go(func() { use("d") })
		synctest.Wait()
		for range 3 {
			use("b") // a place may be free each time
			synctest.Wait()
		}
		wg.Wait()
		use("c")
		if got := s.ever.Load(); got != 5 {
			t.Errorf("started %d times, want 5: for callers without input capabilities, a, b, c and d", got)
		}
	})
}

// Pending input requests of one caller hold at most half of the sessions for a time; the other half they hold only
// while no other caller waits for one.
func TestUnansweredInputHoldsAtMostHalfOfTheSessions(t *testing.T) {
	for _, most := range []int{1, 2, 5} {
		bubble(t, mcpclient.Options{MaxSessions: most}, (&curious{}).serve, func(t *testing.T, c *mcpclient.Client) {
			t.Helper()
			call := callOf("ask", `{}`, "ada")
			var open []*pb.InputRequired
			for range most {
				open = append(open, requiredInput(t, c, call))
				bridgetest.Pass(time.Second)
			}
			got := 0
			for {
				began := time.Now()
				res, err := c.Handle(t.Context(), callOf("ask", `{}`, "ben"), ignore)
				// The start of a session takes time too.
				if waited := time.Since(began); waited < 10*time.Second {
					t.Fatalf("waited %v: %v %v", waited, res, err)
				}
				if err != nil {
					break
				}
				got++
			}
			keeps := max(most/2, 1)
			if got != most-keeps {
				t.Errorf("others got %d of %d sessions", got, most)
			}
			for i, n := range open {
				if got := callText(t, c,
					call.Retry(answers(n, `{}`), n.RequestState)); (got == "hello") != (i >= most-keeps) {
					t.Errorf("with %d sessions, call %d: %s", most, i, got)
				}
			}
		})
	}
}

// If all sessions are busy, a new caller waits for one, whichever callers use them and however often.
func TestCallersWaitForBusySessions(t *testing.T) {
	s := &curious{}
	bubble(t, mcpclient.Options{MaxSessions: 1}, s.serve, func(t *testing.T, c *mcpclient.Client) {
		t.Helper()
		if got := callText(t, c, callOf("t", `{}`, "a")); got != "hello" {
			t.Errorf("got %s", got)
		}
		call := callOf("ask", `{}`, "a")
		open := requiredInput(t, c, call)
		if _, err := c.Handle(t.Context(), callOf("t", `{}`, "b"), ignore); bridge.AsError(err).
			Code != codes.ResourceExhausted {
			t.Errorf("another caller: %v", err)
		}
		if got := callText(t, c, call.Retry(answers(open, `{}`), open.RequestState)); got != "hello" {
			t.Errorf("got %s", got)
		}
		if got := callText(t, c, callOf("t", `{}`, "b")); got != "hello" {
			t.Errorf("another caller, later: %s", got)
		}
	})
}

// A call that panics closes its session, which frees a place for another caller.
func TestAPanicClosesTheSession(t *testing.T) {
	const line = `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"a line"}}`
	program := &script{on: func(m *jsonrpc.Message, send func(...string)) bool {
		switch m.Method {
		case "initialize":
			send(strings.Replace(initializeResponse, "2024-11-05", "2025-11-25", 1))
		case "tools/call":
			send(line, helloResponse)
		}
		return true
	}}
	bubble(t, mcpclient.Options{MaxSessions: 1}, program.serve, func(t *testing.T, c *mcpclient.Client) {
		t.Helper()
		func() {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			call := callOf("t", `{}`, "a")
			call.Context().LogLevel = pb.LogLevel_LOG_LEVEL_INFO
			_, _ = c.Handle(t.Context(), call, func(context.Context, bridge.Event) error { panic("a bug") })
		}()
		if got := callText(t, c, callOf("t", `{}`, "b")); got != "hello" {
			t.Errorf("another caller: %s", got)
		}
	})
}

// An idle session is closed after its timeout.
func TestIdleSessionsAreClosed(t *testing.T) {
	for set, idle := range map[time.Duration]time.Duration{0: 5 * time.Minute, time.Minute: time.Minute} {
		s := &curious{}
		bubble(t, mcpclient.Options{SessionIdle: set}, s.serve, func(t *testing.T, c *mcpclient.Client) {
			t.Helper()
			use := func() {
				if got := callText(t, c, callOf("t", `{}`, "a")); got != "hello" {
					t.Errorf("got %s", got)
				}
			}
			programs := func(after time.Duration, want int64) {
				t.Helper()
				time.Sleep(after) //nolint:forbidigo // by the bubble's clock
				synctest.Wait()
				if n := s.programs.Load(); n != want {
					t.Errorf("idle for %v: %d programs, want %d", idle, n, want)
				}
			}
			use()
			programs(idle-time.Second, 2)
			use() // the timeout starts again
			programs(idle-time.Second, 2)
			programs(time.Second, 2)
			programs(time.Second, 1)
			use()
			programs(0, 2)
		})
	}
}

// A caller must respond to input requests within the timeout. Then its session is free.
func TestInputResponseTimeout(t *testing.T) {
	for set, life := range map[time.Duration]time.Duration{0: 5 * time.Minute, time.Minute: time.Minute} {
		for _, late := range []time.Duration{-time.Nanosecond, 0, time.Nanosecond} {
			s := &curious{}
			bubble(t, mcpclient.Options{Limits: limits.Limits{LegacyStateTTL: set}, MaxSessions: 1}, s.serve,
				func(t *testing.T, c *mcpclient.Client) {
					t.Helper()
					call := callOf("ask", `{}`, "a")
					n := requiredInput(t, c, call)
					time.Sleep(life + late) //nolint:forbidigo // by the bubble's clock
					if got := callText(t, c,
						call.Retry(answers(n, `{}`), n.RequestState)); (got == "hello") != (late <= 0) {
						t.Errorf("%v and %v later: %s", life, late, got)
					}
					if got := callText(t, c, callOf("t", `{}`, "b")); got != "hello" {
						t.Errorf("another caller: %s", got)
					}
				})
		}
	}
}

// A legacy client's timeout is reported by the retried call, and the client cancels the request at the server.
func TestLegacyCallerMayReportNoAnswer(t *testing.T) {
	for _, c := range []struct{ answer, state, life time.Duration }{
		{0, 0, 5*time.Minute + 10*time.Second},
		{time.Second, 0, 5 * time.Minute},
		{time.Hour, time.Minute, time.Hour + 10*time.Second},
	} {
		for _, late := range []time.Duration{0, time.Nanosecond} {
			s := &curious{}
			bubble(t, mcpclient.Options{Limits: limits.Limits{AnswerTime: c.answer, LegacyStateTTL: c.state}}, s.serve,
				func(t *testing.T, client *mcpclient.Client) {
					t.Helper()
					call := callOf("ask", `{}`, "a")
					call.Context().Verified = bridge.Verified(bridge.Rev20250618, nil, nil)
					n := requiredInput(t, client, call)
					time.Sleep(c.life + late) //nolint:forbidigo // by the bubble's clock
					if got := callText(t, client,
						call.Retry(answers(n, `{}`), n.RequestState)); (got == "hello") != (late <= 0) {
						t.Errorf("%v, %v later: %s", c, late, got)
					}
				})
		}
	}
}

// A call that is retried after its program was lost may have been executed by the first attempt, even if it ends before
// the second is sent.
func TestCanceledRetryMayHaveBeenExecuted(t *testing.T) {
	for lost, want := range map[bool]bridge.Outcome{
		false: bridge.OutcomeNotExecuted,
		true:  bridge.OutcomeUnknown,
	} {
		programs := 0 // the first is for callers without input capabilities
		serve := func(ctx context.Context, in io.Reader, out io.Writer) {
			programs++
			begins := programs == 1 || lost && programs == 2
			(&script{on: func(m *jsonrpc.Message, send func(...string)) bool {
				switch {
				case m.Method == "initialize" && begins:
					send(strings.Replace(initializeResponse, "2024-11-05", "2025-11-25", 1))
				case m.Method == "ping":
					send(emptyResponse)
				}
				return m.Method != "resources/read"
			}}).serve(ctx, in, out)
		}
		bubble(t, mcpclient.Options{}, serve, func(t *testing.T, c *mcpclient.Client) {
			t.Helper()
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			cc := &pb.CallContext{ClientCapabilities: &pb.ClientCapabilities{Roots: &pb.RootsCapability{}}}
			_, err := c.Handle(ctx, &bridge.Call{
				Method:  bridge.ReadResource,
				Request: &pb.ReadResourceRequest{Context: cc, Uri: "a:b"},
			}, ignore)
			if e := bridge.AsError(err); e.Code != codes.DeadlineExceeded || e.Outcome != want {
				t.Errorf("lost before: %t: %v, %v", lost, err, e.Outcome)
			}
		})
	}
}

// accounted reports whether an error contains the outcome of the call, or rejects the call as invalid, for example
// because of an expired request state.
func accounted(err error) bool {
	e := bridge.AsError(err)
	return e.Code == codes.InvalidArgument || e.Outcome != ""
}

// Under random calls and crashes, each program serves one caller, every call ends, and every error contains an outcome.
func TestProgramsAreNeverSharedBetweenCallers(t *testing.T) {
	for n := range 8 {
		serve := func(ctx context.Context, in io.Reader, out io.Writer) {
			whose, open := "", ""
			(&script{on: func(m *jsonrpc.Message, send func(...string)) bool {
				switch {
				case m.Method == "initialize":
					time.Sleep(rand.N(10 * time.Second)) //nolint:forbidigo // by the bubble's clock
					send(strings.Replace(initializeResponse, "2024-11-05", "2025-11-25", 1))
				case m.Method == "ping":
					send(emptyResponse)
				case m.Method == "tools/call":
					who := string(rawjson.Get(rawjson.Get(m.Params, "arguments"), "who"))
					if whose != "" && whose != who {
						t.Errorf("the program of %s was used by %s", whose, who)
					}
					whose, open = who, string(m.ID)
					if rand.IntN(20) == 0 {
						return false
					}
					if strings.Contains(string(m.Params), `"ask"`) {
						send(question)
					} else {
						send(helloResponse)
					}
				case m.IsResponse():
					send(strings.Replace(helloResponse, "ID", open, 1))
				}
				return true
			}}).serve(ctx, in, out)
		}
		o := mcpclient.Options{
			MaxSessions: 1 + n%4, SessionIdle: 20 * time.Second,
			Limits: limits.Limits{LegacyStateTTL: 10 * time.Second},
		}
		bubble(t, o, serve, func(t *testing.T, c *mcpclient.Client) {
			t.Helper()
			upTo := func(most time.Duration) <-chan time.Time { return time.After(rand.N(most)) }
			var wg sync.WaitGroup
			for range 8 {
				wg.Go(func() {
					for range 40 {
						who := string(rune('a' + rand.IntN(4)))
						call := callOf([]string{"t", "ask"}[rand.IntN(2)], `{"who":"`+who+`"}`, who)
						ctx, cancel := context.WithTimeout(t.Context(), rand.N(20*time.Second))
						res, err := c.Handle(ctx, call, ignore)
						if err == nil && res.InputRequired != nil && rand.IntN(4) > 0 {
							<-upTo(12 * time.Second)
							_, err = c.Handle(ctx, call.Retry(answers(res.InputRequired, `{}`),
								res.InputRequired.RequestState), ignore)
						}
						cancel()
						if err != nil && !accounted(err) {
							t.Errorf("error without an outcome: %v", err)
						}
						<-upTo(3 * time.Second)
					}
				})
			}
			wg.Wait()
		})
	}
}

// A program that starts more slowly than its callers wait continues to start, and serves the next caller. It is started
// once, however many callers disconnect.
func TestSlowStartSucceeds(t *testing.T) {
	for _, takes := range []time.Duration{6 * time.Second, 29 * time.Second} {
		s := &script{on: func(m *jsonrpc.Message, send func(...string)) bool {
			switch m.Method {
			case "initialize":
				time.Sleep(takes) //nolint:forbidigo // by the bubble's clock
				send(strings.Replace(initializeResponse, "2024-11-05", "2025-11-25", 1))
			case "ping":
				send(emptyResponse)
			case "tools/list":
				send(`{"jsonrpc":"2.0","id":ID,"result":{"tools":[{"name":"t","inputSchema":{"type":"object"}}]}}`)
			}
			return true
		}}
		bubble(t, mcpclient.Options{}, s.serve, func(t *testing.T, c *mcpclient.Client) {
			t.Helper()
			r, err := router.New([]router.Route{{Name: "slow", Handler: c}, {Name: "other", Handler: bridgetest.New()}},
				router.Options{})
			if err != nil {
				t.Fatal(err)
			}
			began, found := time.Now(), false
			for !found && time.Since(began) < time.Minute {
				res, err := r.Handle(t.Context(), &bridge.Call{
					Method: bridge.ListTools, Request: &pb.ListToolsRequest{Context: callOf("", "", "a").Context()},
				}, ignore)
				if err != nil {
					t.Fatal(err)
				}
				found = slices.ContainsFunc(res.Complete.(*pb.ListToolsResponse).GetTools(),
					func(tool *pb.Tool) bool { return tool.GetName() == "slow_t" })
				bridgetest.Pass(time.Second)
			}
			if took := time.Since(began); !found || took > takes+5*time.Second || s.starts.Load() != 2 {
				t.Errorf("start time %v: ready after %v: %t; started %d times, want 2", takes, took, found,
					s.starts.Load())
			}
		})
	}
}

// A session that starts without a waiting caller keeps its place no longer than a busy one does. Then it ends, and a
// waiting caller gets the place. That holds every time and leaks nothing, even if the client is closed meanwhile.
func TestAbandonedConnectFreesItsPlace(t *testing.T) {
	var most, programs, ever atomic.Int64
	serve := func(ctx context.Context, in io.Reader, out io.Writer) {
		for n := programs.Add(1); n > most.Load(); {
			most.Store(n)
		}
		defer programs.Add(-1)
		defer time.Sleep(3 * time.Second) //nolint:forbidigo // by the bubble's clock
		first := ever.Add(1) == 1         // for callers without input capabilities
		(&script{on: func(m *jsonrpc.Message, send func(...string)) bool {
			switch m.Method {
			case "initialize":
				if !first {
					select {
					case <-time.After(25 * time.Second):
					case <-ctx.Done():
						return false
					}
				}
				send(strings.Replace(initializeResponse, "2024-11-05", "2025-11-25", 1))
			case "ping":
				send(emptyResponse)
			case "tools/call":
				send(helloResponse)
			}
			return true
		}}).serve(ctx, in, out)
	}
	bubble(t, mcpclient.Options{MaxSessions: 1}, serve, func(t *testing.T, c *mcpclient.Client) {
		t.Helper()
		leave := func(who string) {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			if _, err := c.Handle(ctx, callOf("t", `{}`, who), ignore); bridge.AsError(err).
				Code != codes.DeadlineExceeded {
				t.Errorf("%s: %v", who, err)
			}
		}
		leave("ada")
		began := time.Now()
		if got := callText(t, c, callOf("t", `{}`, "ada")); got != "hello" || time.Since(began) != 20*time.Second ||
			ever.Load() != 2 {
			t.Errorf("returning caller, after %v: %s; %d programs were started, want 2", time.Since(began), got,
				ever.Load())
		}
		for n := range 5 {
			leave(fmt.Sprint("early ", n))
			began := time.Now()
			if got := callText(t, c, callOf("t", `{}`, fmt.Sprint("late ", n))); got != "hello" ||
				time.Since(began) > 40*time.Second {
				t.Errorf("another caller, after %v: %s", time.Since(began), got)
			}
			synctest.Wait()
			if total, ending := c.PoolSize(); total != 1 || ending != 0 || programs.Load() != 2 {
				t.Errorf("%d sessions count toward the limit, %d of them ending; %d programs run", total, ending,
					programs.Load())
			}
		}
		if most.Load() != 2 {
			t.Errorf("%d programs run, want 1 or 2", most.Load())
		}
		leave("ada")
		// The client is closed while that session has yet to end.
		ctx, cancel := context.WithTimeout(t.Context(), 12*time.Second)
		defer cancel()
		if res, err := c.Handle(ctx, callOf("t", `{}`, "ben"), ignore); err == nil || programs.Load() != 2 {
			t.Errorf("while a starting session ends: %v %v; %d programs run", res, err, programs.Load())
		}
	})
	if n := programs.Load(); n != 0 {
		t.Errorf("%d programs still run", n)
	}
}
