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

// question is what a server asks in the middle of a call.
const question = `{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"message":"?","requestedSchema":{"type":"object","properties":{}}}}`

// A curious server is a program of 2025-11-25 whose tool "ask" asks before it answers. It counts how many of it there
// are, how many there were at most, and how often it was started.
type curious struct {
	lingers              time.Duration // how long it takes to end when it is told to
	programs, most, ever atomic.Int64
}

func (s *curious) serve(ctx context.Context, in io.Reader, out io.Writer) {
	s.ever.Add(1)
	for n := s.programs.Add(1); n > s.most.Load(); {
		s.most.Store(n)
	}
	defer s.programs.Add(-1)
	defer time.Sleep(s.lingers) //nolint:forbidigo // by the bubble's clock
	var open string             // the call that has asked
	program := &script{on: func(m *jsonrpc.Message, say func(...string)) bool {
		switch {
		case m.Method == "initialize":
			say(strings.Replace(initialized, "2024-11-05", "2025-11-25", 1))
		case m.Method == "ping":
			say(pong)
		case m.Method == "tools/call" && strings.Contains(string(m.Params), `"ask"`):
			open = string(m.ID)
			say(question)
		case m.Method == "tools/call":
			say(said1)
		case m.IsResponse():
			say(strings.Replace(said1, "ID", open, 1))
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

// As many callers as there may be sessions can be asked at a time. The next waits for a moment, and is then told that
// it was not executed.
func TestSessionLimit(t *testing.T) {
	for set, most := range map[int]int{0: 32, 1: 1, 10: 10} {
		s := &curious{}
		bubble(t, mcpclient.Options{MaxSessions: set}, s.serve, func(t *testing.T, c *mcpclient.Client) {
			t.Helper()
			ask := asking("ask", `{}`, "a")
			var open []*pb.InputRequired
			for range most - 1 {
				open = append(open, needs(t, c, ask))
			}
			if got := said(t, c, asking("t", `{}`, "a")); got != "hello" {
				t.Errorf("one below %d: %s", most, got)
			}
			open = append(open, needs(t, c, ask))
			began := time.Now()
			_, err := c.Handle(t.Context(), ask, ignore)
			e := bridge.AsError(err)
			if e.Code != codes.ResourceExhausted || e.Failure.GetOutcome() != pb.CallFailure_OUTCOME_NOT_EXECUTED ||
				time.Since(began) != 10*time.Second {
				t.Errorf("one above %d, after %v: %v", most, time.Since(began), err)
			}
			if n := s.programs.Load(); n != int64(most)+1 {
				t.Errorf("%d programs, want %d", n, most+1)
			}
			// Who waits gets the session of who has done.
			next := make(chan string)
			go func() { next <- said(t, c, asking("t", `{}`, "a")) }()
			synctest.Wait()
			for _, n := range open {
				if got := said(t, c, ask.Retry(answers(n, `{}`), n.RequestState)); got != "hello" {
					t.Errorf("got %s", got)
				}
			}
			if got := <-next; got != "hello" {
				t.Errorf("who waited got %s", got)
			}
		})
	}
}

// However slowly programs end, and whether callers come one after the other or at once, there are no more than there
// may be, besides the one for those who can do nothing. Who does not get one is told that the call was not executed.
func TestStoppingProgramsCountTowardTheLimit(t *testing.T) {
	for _, most := range []int{1, 2, 5} {
		for _, lingers := range []time.Duration{0, time.Millisecond, 5 * time.Second, time.Minute} {
			s := &curious{lingers: lingers}
			bubble(t, mcpclient.Options{MaxSessions: most}, s.serve, func(t *testing.T, c *mcpclient.Client) {
				t.Helper()
				try := func(n int, limit time.Duration) {
					began := time.Now()
					res, err := c.Handle(t.Context(), asking("t", `{}`, fmt.Sprint("caller", n)), ignore)
					took := time.Since(began)
					right := err == nil
					if !right {
						e := bridge.AsError(err)
						right = took >= 10*time.Second && e.Code == codes.ResourceExhausted &&
							e.Failure.GetOutcome() == pb.CallFailure_OUTCOME_NOT_EXECUTED
					}
					if !right || took > limit {
						t.Errorf("%d programs that take %v to end, after %v: %v %v", most, lingers, took, res, err)
					}
				}
				for n := range 20 {
					try(n, min(lingers, 30*time.Second)) // as long as one may take to start
				}
				var wg sync.WaitGroup
				for n := range 60 {
					wg.Go(func() { try(n, 30*time.Second) })
				}
				wg.Wait()
				if got := s.most.Load(); got > int64(most)+1 {
					t.Errorf("%d programs that take %v to end, and %d and one are the most", got, lingers, most)
				}
			})
		}
	}
}

// While a program ends to make room for a caller, those of others do not end for the same caller.
func TestOneProgramIsStoppedPerWaitingCaller(t *testing.T) {
	s := &curious{lingers: 5 * time.Second}
	bubble(t, mcpclient.Options{MaxSessions: 3}, s.serve, func(t *testing.T, c *mcpclient.Client) {
		t.Helper()
		use := func(who string) {
			if got := said(t, c, asking("t", `{}`, who)); got != "hello" {
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
			use("b") // and each time there may be room
			synctest.Wait()
		}
		wg.Wait()
		use("c")
		if got := s.ever.Load(); got != 5 {
			t.Errorf("started %d times, want 5: for those who can do nothing, a, b, c and d", got)
		}
	})
}

// Calls that wait for answers of one caller keep half of the sessions from others, and no more: the rest they keep for
// as long as nobody else has waited for one.
func TestUnansweredInputHoldsAtMostHalfOfTheSessions(t *testing.T) {
	for _, most := range []int{1, 2, 5} {
		bubble(t, mcpclient.Options{MaxSessions: most}, (&curious{}).serve, func(t *testing.T, c *mcpclient.Client) {
			t.Helper()
			ask := asking("ask", `{}`, "ada")
			var open []*pb.InputRequired
			for range most {
				open = append(open, needs(t, c, ask))
				bridgetest.Pass(time.Second)
			}
			got := 0
			for {
				began := time.Now()
				res, err := c.Handle(t.Context(), asking("ask", `{}`, "ben"), ignore)
				// a session that begins takes some time as well
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
				t.Errorf("of %d sessions, others got %d", most, got)
			}
			for i, n := range open {
				if said := said(t, c, ask.Retry(answers(n, `{}`), n.RequestState)); (said == "hello") != (i >= most-keeps) {
					t.Errorf("of %d sessions, call %d: %s", most, i, said)
				}
			}
		})
	}
}

// Who comes when all sessions are at work waits for one, whoever they are of and however often they have been used.
func TestCallersWaitForBusySessions(t *testing.T) {
	s := &curious{}
	bubble(t, mcpclient.Options{MaxSessions: 1}, s.serve, func(t *testing.T, c *mcpclient.Client) {
		t.Helper()
		if got := said(t, c, asking("t", `{}`, "a")); got != "hello" {
			t.Errorf("got %s", got)
		}
		ask := asking("ask", `{}`, "a")
		open := needs(t, c, ask)
		if _, err := c.Handle(t.Context(), asking("t", `{}`, "b"), ignore); bridge.AsError(err).
			Code != codes.ResourceExhausted {
			t.Errorf("another caller: %v", err)
		}
		if got := said(t, c, ask.Retry(answers(open, `{}`), open.RequestState)); got != "hello" {
			t.Errorf("got %s", got)
		}
		if got := said(t, c, asking("t", `{}`, "b")); got != "hello" {
			t.Errorf("another caller, afterwards: %s", got)
		}
	})
}

// A call that ends in a panic closes its session, which makes room for another caller's.
func TestAPanicClosesTheSession(t *testing.T) {
	const line = `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"a line"}}`
	program := &script{on: func(m *jsonrpc.Message, say func(...string)) bool {
		switch m.Method {
		case "initialize":
			say(strings.Replace(initialized, "2024-11-05", "2025-11-25", 1))
		case "tools/call":
			say(line, said1)
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
			call := asking("t", `{}`, "a")
			call.Context().LogLevel = pb.LogLevel_LOG_LEVEL_INFO
			_, _ = c.Handle(t.Context(), call, func(context.Context, bridge.Event) error { panic("a bug") })
		}()
		if got := said(t, c, asking("t", `{}`, "b")); got != "hello" {
			t.Errorf("another caller: %s", got)
		}
	})
}

// A session that nobody uses is kept for as long as it is said, and no longer.
func TestIdleSessionsAreClosed(t *testing.T) {
	for set, idle := range map[time.Duration]time.Duration{0: 5 * time.Minute, time.Minute: time.Minute} {
		s := &curious{}
		bubble(t, mcpclient.Options{SessionIdle: set}, s.serve, func(t *testing.T, c *mcpclient.Client) {
			t.Helper()
			use := func() {
				if got := said(t, c, asking("t", `{}`, "a")); got != "hello" {
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
			use() // from now on
			programs(idle-time.Second, 2)
			programs(time.Second, 2)
			programs(time.Second, 1)
			use()
			programs(0, 2)
		})
	}
}

// A caller may take as long to come back as it is said, and no longer. Then its session is free.
func TestInputResponseTimeout(t *testing.T) {
	for set, life := range map[time.Duration]time.Duration{0: 5 * time.Minute, time.Minute: time.Minute} {
		for _, late := range []time.Duration{-time.Nanosecond, 0, time.Nanosecond} {
			s := &curious{}
			bubble(t, mcpclient.Options{Limits: limits.Limits{LegacyStateTTL: set}, MaxSessions: 1}, s.serve,
				func(t *testing.T, c *mcpclient.Client) {
					t.Helper()
					ask := asking("ask", `{}`, "a")
					n := needs(t, c, ask)
					time.Sleep(life + late) //nolint:forbidigo // by the bubble's clock
					if got := said(t, c, ask.Retry(answers(n, `{}`), n.RequestState)); (got == "hello") != (late <= 0) {
						t.Errorf("%v and %v later: %s", life, late, got)
					}
					if got := said(t, c, asking("t", `{}`, "b")); got != "hello" {
						t.Errorf("another caller: %s", got)
					}
				})
		}
	}
}

// Who waits for a legacy client until there is no more use in it comes back to say so, and the server is told.
func TestLegacyCallerMayReportNoAnswer(t *testing.T) {
	for _, c := range []struct{ ask, park, life time.Duration }{
		{0, 0, 5*time.Minute + 10*time.Second},
		{time.Second, 0, 5 * time.Minute},
		{time.Hour, time.Minute, time.Hour + 10*time.Second},
	} {
		for _, late := range []time.Duration{0, time.Nanosecond} {
			s := &curious{}
			bubble(t, mcpclient.Options{Limits: limits.Limits{AnswerTime: c.ask, LegacyStateTTL: c.park}}, s.serve,
				func(t *testing.T, client *mcpclient.Client) {
					t.Helper()
					ask := asking("ask", `{}`, "a")
					ask.Context().ProtocolVersion = bridge.Rev20250618.String()
					n := needs(t, client, ask)
					time.Sleep(c.life + late) //nolint:forbidigo // by the bubble's clock
					if got := said(t, client,
						ask.Retry(answers(n, `{}`), n.RequestState)); (got == "hello") != (late <= 0) {
						t.Errorf("%v, %v later: %s", c, late, got)
					}
				})
		}
	}
}

// A call that is made again because its program was lost may have been executed the first time, although it ends before
// it is sent the second.
func TestCanceledRetryMayHaveBeenExecuted(t *testing.T) {
	for lost, want := range map[bool]pb.CallFailure_Outcome{
		false: pb.CallFailure_OUTCOME_NOT_EXECUTED,
		true:  pb.CallFailure_OUTCOME_UNKNOWN,
	} {
		programs := 0 // the first is for those who can do nothing
		serve := func(ctx context.Context, in io.Reader, out io.Writer) {
			programs++
			begins := programs == 1 || lost && programs == 2
			(&script{on: func(m *jsonrpc.Message, say func(...string)) bool {
				switch {
				case m.Method == "initialize" && begins:
					say(strings.Replace(initialized, "2024-11-05", "2025-11-25", 1))
				case m.Method == "ping":
					say(pong)
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
			if e := bridge.AsError(err); e.Code != codes.DeadlineExceeded || e.Failure.GetOutcome() != want {
				t.Errorf("lost before: %t: %v, %v", lost, err, e.Failure)
			}
		})
	}
}

// accounted reports whether an error says what became of the call, or that it was a mistake to make it, as with a state
// that came too late.
func accounted(err error) bool {
	e := bridge.AsError(err)
	return e.Code == codes.InvalidArgument || e.Failure.GetOutcome() != pb.CallFailure_OUTCOME_UNSPECIFIED
}

// Whatever callers do, in whatever order, and whichever programs die: a program is one caller's, every call ends, and
// says what became of it.
func TestProgramsAreNeverSharedBetweenCallers(t *testing.T) {
	for n := range 8 {
		serve := func(ctx context.Context, in io.Reader, out io.Writer) {
			whose, open := "", ""
			(&script{on: func(m *jsonrpc.Message, say func(...string)) bool {
				switch {
				case m.Method == "initialize":
					time.Sleep(rand.N(10 * time.Second)) //nolint:forbidigo // by the bubble's clock
					say(strings.Replace(initialized, "2024-11-05", "2025-11-25", 1))
				case m.Method == "ping":
					say(pong)
				case m.Method == "tools/call":
					who := string(rawjson.Get(rawjson.Get(m.Params, "arguments"), "who"))
					if whose != "" && whose != who {
						t.Errorf("the program of %s is used by %s", whose, who)
					}
					whose, open = who, string(m.ID)
					if rand.IntN(20) == 0 {
						return false
					}
					if strings.Contains(string(m.Params), `"ask"`) {
						say(question)
					} else {
						say(said1)
					}
				case m.IsResponse():
					say(strings.Replace(said1, "ID", open, 1))
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
						call := asking([]string{"t", "ask"}[rand.IntN(2)], `{"who":"`+who+`"}`, who)
						ctx, cancel := context.WithTimeout(t.Context(), rand.N(20*time.Second))
						res, err := c.Handle(ctx, call, ignore)
						if err == nil && res.InputRequired != nil && rand.IntN(4) > 0 {
							<-upTo(12 * time.Second)
							_, err = c.Handle(ctx, call.Retry(answers(res.InputRequired, `{}`),
								res.InputRequired.RequestState), ignore)
						}
						cancel()
						if err != nil && !accounted(err) {
							t.Errorf("nothing says what became of a call: %v", err)
						}
						<-upTo(3 * time.Second)
					}
				})
			}
			wg.Wait()
		})
	}
}

// A program that takes longer to start than its callers wait goes on starting, and is there for who comes next: once,
// however many leave.
func TestSlowStartSucceeds(t *testing.T) {
	for _, takes := range []time.Duration{6 * time.Second, 29 * time.Second} {
		s := &script{on: func(m *jsonrpc.Message, say func(...string)) bool {
			switch m.Method {
			case "initialize":
				time.Sleep(takes) //nolint:forbidigo // by the bubble's clock
				say(strings.Replace(initialized, "2024-11-05", "2025-11-25", 1))
			case "ping":
				say(pong)
			case "tools/list":
				say(`{"jsonrpc":"2.0","id":ID,"result":{"tools":[{"name":"t","inputSchema":{"type":"object"}}]}}`)
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
					Method: bridge.ListTools, Request: &pb.ListToolsRequest{Context: asking("", "", "a").Context()},
				}, ignore)
				if err != nil {
					t.Fatal(err)
				}
				found = slices.ContainsFunc(res.Complete.(*pb.ListToolsResponse).GetTools(),
					func(tool *pb.Tool) bool { return tool.GetName() == "slow_t" })
				bridgetest.Pass(time.Second)
			}
			if took := time.Since(began); !found || took > takes+5*time.Second || s.starts.Load() != 2 {
				t.Errorf("a program that takes %v: found after %v: %t; started %d times, want 2", takes, took, found,
					s.starts.Load())
			}
		})
	}
}

// An opening that nobody waits for any more keeps its room from others for no longer than a session at work does: then
// it ends, and whoever waits has the room. That is so each time, and leaves nothing, also when the client ends
// meanwhile.
func TestAbandonedConnectFreesItsPlace(t *testing.T) {
	var most, programs, ever atomic.Int64
	serve := func(ctx context.Context, in io.Reader, out io.Writer) {
		for n := programs.Add(1); n > most.Load(); {
			most.Store(n)
		}
		defer programs.Add(-1)
		defer time.Sleep(3 * time.Second) //nolint:forbidigo // by the bubble's clock
		first := ever.Add(1) == 1         // for those who can do nothing
		(&script{on: func(m *jsonrpc.Message, say func(...string)) bool {
			switch m.Method {
			case "initialize":
				if !first {
					select {
					case <-time.After(25 * time.Second):
					case <-ctx.Done():
						return false
					}
				}
				say(strings.Replace(initialized, "2024-11-05", "2025-11-25", 1))
			case "ping":
				say(pong)
			case "tools/call":
				say(said1)
			}
			return true
		}}).serve(ctx, in, out)
	}
	bubble(t, mcpclient.Options{MaxSessions: 1}, serve, func(t *testing.T, c *mcpclient.Client) {
		t.Helper()
		leave := func(who string) {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			if _, err := c.Handle(ctx, asking("t", `{}`, who), ignore); bridge.AsError(err).
				Code != codes.DeadlineExceeded {
				t.Errorf("%s: %v", who, err)
			}
		}
		leave("ada")
		began := time.Now()
		if got := said(t, c, asking("t", `{}`, "ada")); got != "hello" || time.Since(began) != 20*time.Second ||
			ever.Load() != 2 {
			t.Errorf("who comes back, after %v: %s; %d programs were started, want 2", time.Since(began), got,
				ever.Load())
		}
		for n := range 5 {
			leave(fmt.Sprint("early ", n))
			began := time.Now()
			if got := said(t, c, asking("t", `{}`, fmt.Sprint("late ", n))); got != "hello" ||
				time.Since(began) > 40*time.Second {
				t.Errorf("another caller, after %v: %s", time.Since(began), got)
			}
			synctest.Wait()
			if total, ending := c.Room(); total != 1 || ending != 0 || programs.Load() != 2 {
				t.Errorf("%d sessions count, of which %d end, and there are %d programs", total, ending,
					programs.Load())
			}
		}
		if most.Load() != 2 {
			t.Errorf("%d programs, want one and another at most", most.Load())
		}
		leave("ada")
		// when that opening has yet to end, and everything does
		ctx, cancel := context.WithTimeout(t.Context(), 12*time.Second)
		defer cancel()
		if res, err := c.Handle(ctx, asking("t", `{}`, "ben"), ignore); err == nil || programs.Load() != 2 {
			t.Errorf("while an opening ends: %v %v; there are %d programs", res, err, programs.Load())
		}
	})
	if n := programs.Load(); n != 0 {
		t.Errorf("%d programs are left", n)
	}
}
