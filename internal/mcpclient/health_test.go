package mcpclient_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/jsonrpc"
	"github.com/mcpbridge/mcpbridge/internal/mcpclient"
)

// If a program is silent during a call, the client pings it once and waits for the response. It restarts the program
// only if nothing arrives before the timeout, and not if the program processes one request at a time, prints to
// standard output, or waits for its caller's input.
func TestSilentPrograms(t *testing.T) {
	const longest = 15 * time.Minute // the maximum duration of a call
	for name, tt := range map[string]struct {
		hang   time.Duration
		works  time.Duration // the duration of a call
		beside bool          // the program reads during the call
		prints time.Duration // the interval of its output during the call
		input  bool          // it requests input, and the caller takes this long
		fails  bool
		pings  string
	}{
		"one thing at a time":      {hang: longest, works: longest - time.Second, pings: "once"},
		"below the default":        {works: 58 * time.Second, pings: "once"},
		"above the default":        {works: 61 * time.Second, fails: true, pings: "once"},
		"many things at a time":    {works: longest - time.Second, beside: true, pings: "often"},
		"quick":                    {works: 1900 * time.Millisecond, pings: "never"},
		"below the limit":          {hang: time.Minute, works: 58 * time.Second, pings: "once"},
		"above the limit":          {hang: time.Minute, works: 61 * time.Second, fails: true, pings: "once"},
		"a limit, and it responds": {hang: time.Minute, works: 10 * time.Minute, beside: true, pings: "often"},
		"a limit, and it prints": {
			hang: time.Minute, works: 10 * time.Minute, prints: 50 * time.Second,
			pings: "once",
		},
		"a limit, and a slow user": {hang: time.Minute, works: 4 * time.Minute, input: true, pings: "never"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				pings, answer := 0, ""
				s := &script{on: func(m *jsonrpc.Message, send func(...string)) bool {
					switch m.Method {
					case "initialize":
						send(initializeResponse)
					case "ping":
						pings++
						send(`{"jsonrpc":"2.0","id":ID,"result":{}}`)
					case "tools/call":
						pings = 0 // without those of the start
						answer = strings.Replace(helloResponse, "ID", string(m.ID), 1)
						switch {
						case tt.input:
							send(`{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"message":"?","requestedSchema":{"type":"object","properties":{}}}}`)
						case tt.beside:
							time.AfterFunc(tt.works, func() { send(answer) })
						default:
							at := time.Now()
							for tt.prints > 0 && time.Since(at)+tt.prints < tt.works {
								time.Sleep(tt.prints) //nolint:forbidigo // by the bubble's clock
								send("still at it")
							}
							time.Sleep(tt.works - time.Since(at)) //nolint:forbidigo // as above
							send(answer)
						}
					case "":
						send(answer)
					}
					return true
				}}
				c, end := startScript(t, mcpclient.Options{Revision: bridge.Rev20251125, HangTimeout: tt.hang}, s)
				err := c.Ready(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if tt.input {
					first := callOf("t", "{}", "a")
					n := requiredInput(t, c, first)
					time.Sleep(tt.works) //nolint:forbidigo // by the bubble's clock
					_, err = c.Handle(t.Context(), first.Retry(answers(n, "{}"), n.RequestState), ignore)
				} else {
					_, err = c.Handle(t.Context(), toolCall("t", "{}"), ignore)
				}
				if !tt.fails && err != nil {
					t.Error(err)
				}
				if tt.fails {
					e := bridge.AsError(err)
					if e == nil || e.Reason != "BACKEND_CRASHED" ||
						e.Outcome != bridge.OutcomeUnknown ||
						!strings.Contains(e.Cause.Error(), "it has sent nothing for 1m0s") {
						t.Errorf("got %v", err)
					}
					time.Sleep(10 * time.Second) //nolint:forbidigo // until the program has been restarted
				}
				programs := int64(1)
				if tt.input || tt.fails { // one program for callers with input capabilities
					programs = 2
				}
				if got := s.starts.Load(); got != programs {
					t.Errorf("%d programs were started, want %d", got, programs)
				}
				if err := end(); err != nil {
					t.Error(err)
				}
				if !map[string]bool{"never": pings == 0, "once": pings == 1, "often": pings > 1}[tt.pings] {
					t.Errorf("got %d pings, want %s", pings, tt.pings)
				}
			})
		})
	}
}

// A program that could not start for lack of file descriptors starts as soon as some are free.
func TestProgramStartWithoutFreeDescriptors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{on: func(m *jsonrpc.Message, send func(...string)) bool {
			switch {
			case m.Method == "initialize":
				send(initializeResponse)
			case strings.Contains(string(m.Params), "end"):
				return false
			case m.Method == "tools/call":
				send(helloResponse)
			}
			return true
		}}
		var starved atomic.Bool
		c, end := startScript(t, mcpclient.Options{Revision: bridge.Rev20251125}, s,
			func(c *mcpclient.Client) { c.FailStarts(starved.Load) })
		if err := c.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		starved.Store(true)
		if _, err := c.Handle(t.Context(), toolCall("end", "{}"), ignore); err == nil {
			t.Error("the call does not end")
		}
		time.Sleep(30 * time.Second) //nolint:forbidigo // by the bubble's clock
		starved.Store(false)
		began := time.Now()
		if got := call(t, c, "t", "{}"); got != "hello" || time.Since(began) > time.Second {
			t.Errorf("%q after %v", got, time.Since(began))
		}
		if err := end(); err != nil {
			t.Error(err)
		}
	})
}
