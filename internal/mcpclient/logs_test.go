package mcpclient_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/bridgetest"
	"github.com/mcpbridge/mcpbridge/internal/jsonrpc"
	"github.com/mcpbridge/mcpbridge/internal/mcpclient"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// Log messages are sent to the only call that runs. A canceled call counts as running until its response arrives or the
// maximum duration of a call has passed.
func TestLogOfCanceledCalls(t *testing.T) {
	for name, many := range map[string]int{"one": 1, "more than the client distinguishes": 1100} {
		t.Run(name, func(t *testing.T) {
			var begun chan struct{}
			var slow []string // the IDs of the canceled calls
			s := &script{on: func(m *jsonrpc.Message, send func(...string)) bool {
				switch params := string(m.Params); {
				case m.Method == "initialize":
					send(strings.Replace(initializeResponse, `{"tools":{}}`, `{"tools":{},"logging":{}}`, 1))
				case m.Method == "logging/setLevel":
					send(emptyResponse)
				case m.Method != "tools/call":
				case strings.Contains(params, "slow"):
					slow = append(slow, string(m.ID))
					begun <- struct{}{}
				case strings.Contains(params, "late"):
					for _, id := range slow {
						send(strings.ReplaceAll(helloResponse, "ID", id))
					}
					slow = nil
					send(helloResponse)
				default:
					send(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"a row"}}`,
						helloResponse)
				}
				return true
			}}
			bubble(t, mcpclient.Options{}, s.serve, func(t *testing.T, c *mcpclient.Client) {
				t.Helper()
				begun = make(chan struct{}, 1)
				do := func(ctx context.Context, name, who string) (shown int) {
					call := toolCall(name, "{}")
					call.Context().Verified = &pb.VerifiedCaller{Principal: &pb.Principal{Subject: who, Issuer: "i"}}
					call.Context().LogLevel = pb.LogLevel_LOG_LEVEL_INFO
					_, err := c.Handle(ctx, call, func(_ context.Context, e bridge.Event) error {
						if e.Log != nil {
							shown++
						}
						return nil
					})
					if (err != nil) != (name == "slow") {
						t.Errorf("%s: %v", name, err)
					}
					return shown
				}
				give := func() {
					for range many {
						ctx, cancel := context.WithCancel(t.Context())
						go func() { <-begun; cancel() }()
						do(ctx, "slow", "ada")
					}
				}
				var shown []int
				look := func() {
					synctest.Wait()
					shown = append(shown, do(t.Context(), "t", "ben"))
				}
				look()
				give()
				look()
				do(t.Context(), "late", "ben")
				look()
				time.Sleep(15 * time.Minute) //nolint:forbidigo // by the bubble's clock
				look()
				give()
				look()
				time.Sleep(15 * time.Minute) //nolint:forbidigo // by the bubble's clock
				look()
				want := []int{1, 0, 1, 1, 0, 1}
				if many > 1024 {
					want[2] = 0 // the client cannot match the responses to these
				}
				if fmt.Sprint(shown) != fmt.Sprint(want) {
					t.Errorf("ben received %v lines, want %v: before, while ada's call may run, when it is "+
						"answered, and later; and so again", shown, want)
				}
			})
		})
	}
}

// A caller that has canceled a call still receives the program's log messages: they may be about that call. Other
// callers do not receive them, nor do callers without a principal, which cannot be distinguished.
func TestLogOfCallsThatTheirCallersCanceled(t *testing.T) {
	for _, tt := range []struct {
		gives, looks, sessions string
		before, many, shown    int // in before, before is the maximum duration of a call
	}{
		{"ada", "ada", "", 0, 1, 1},
		{"ada", "ben", "", 0, 1, 0},
		{"ada", "ada", "", 0, 1100, 0}, // without a principal, callers cannot be distinguished
		{"ada", "ada", "", 1100, 1, 1},
		{"", "", "", 0, 1, 0},
		{"", "ada", "", 0, 1, 0},
		{"ada", "", "", 0, 1, 0},
		{"", "", "s s", 0, 1, 1},
		{"", "", "s t", 0, 1, 0},
		{"ada", "ada", "s t", 0, 1, 1},
	} {
		var begun chan struct{}
		s := &script{on: func(m *jsonrpc.Message, send func(...string)) bool {
			switch {
			case m.Method == "initialize":
				send(strings.Replace(initializeResponse, `{"tools":{}}`, `{"tools":{},"logging":{}}`, 1))
			case m.Method == "logging/setLevel":
				send(emptyResponse)
			case m.Method != "tools/call":
			case strings.Contains(string(m.Params), "slow"):
				begun <- struct{}{}
			default:
				send(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"a row"}}`,
					helloResponse)
			}
			return true
		}}
		bubble(t, mcpclient.Options{}, s.serve, func(t *testing.T, c *mcpclient.Client) {
			t.Helper()
			begun = make(chan struct{}, 1)
			shown := 0
			do := func(ctx context.Context, name, who, session string) error {
				call := toolCall(name, "{}")
				call.Context().LogLevel = pb.LogLevel_LOG_LEVEL_INFO
				call.Session = session
				if who != "" {
					call.Context().Verified = &pb.VerifiedCaller{Principal: &pb.Principal{Subject: who, Issuer: "i"}}
				}
				_, err := c.Handle(ctx, call, func(_ context.Context, e bridge.Event) error {
					if e.Log != nil {
						shown++
					}
					return nil
				})
				return err
			}
			gives, looks, _ := strings.Cut(tt.sessions, " ")
			give := func(many int) {
				for range many {
					ctx, cancel := context.WithCancel(t.Context())
					go func() { <-begun; cancel() }()
					if err := do(ctx, "slow", tt.gives, gives); err == nil {
						t.Error("a canceled call got a response")
					}
				}
				synctest.Wait()
			}
			give(tt.before)
			bridgetest.Pass(15 * time.Minute)
			give(tt.many)
			if err := do(t.Context(), "t", tt.looks, looks); err != nil || shown != tt.shown {
				t.Errorf("%+v: received %d lines, %v", tt, shown, err)
			}
		})
	}
}

// A server may still run a call after its gateway timed out or after the caller's limit of messages ended the call. Log
// messages on the standalone stream are not sent to another caller then. A call that the server ended itself is over.
func TestLogOfFailedCalls(t *testing.T) {
	for name, tt := range map[string]struct {
		status int // of the first call; 0: its caller accepts no log messages
		shown  int
	}{
		"internal server error": {http.StatusInternalServerError, 1},
		"gateway timeout":       {http.StatusGatewayTimeout, 0},
		"bad gateway":           {http.StatusBadGateway, 0},
		"caller's limit":        {0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			logs := make(chan struct{})
			var f *fake
			f = newFake(t, false, func(w http.ResponseWriter, r *http.Request, m *jsonrpc.Message) {
				switch {
				case m.Method != "tools/call":
					result(w, m, "{}")
				case !strings.Contains(string(m.Params), "slow"):
					logs <- struct{}{}
					<-f.responses
					result(w, m, hello)
				case tt.status != 0:
					w.WriteHeader(tt.status)
				default:
					logs <- struct{}{}
					<-r.Context().Done()
				}
			})
			f.capabilities = `{"tools":{},"logging":{}}`
			f.get = func(w http.ResponseWriter, r *http.Request) {
				stream(w)
				for {
					select {
					case <-logs:
						stream(w, `data: {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"a row"}}`+"\n\n", pinging)
					case <-r.Context().Done():
						return
					}
				}
			}
			c := run(t, mcpclient.Options{URL: f.URL}, quick)
			shown := 0
			do := func(name, who string, takes error) error {
				call := toolCall(name, "{}")
				call.Context().Verified = &pb.VerifiedCaller{Principal: &pb.Principal{Subject: who, Issuer: "i"}}
				call.Context().LogLevel = pb.LogLevel_LOG_LEVEL_INFO
				_, err := c.Handle(t.Context(), call, func(context.Context, bridge.Event) error {
					shown++
					return takes
				})
				return err
			}
			if err := do("slow", "ada", errors.New("no room")); err == nil {
				t.Error("ada's call got a response")
			}
			if tt.status == 0 {
				<-f.responses
			}
			shown = 0
			if err := do("t", "ben", nil); err != nil || shown != tt.shown {
				t.Errorf("ben received %d lines, want %d: %v", shown, tt.shown, err)
			}
		})
	}
}

// If a server sends log messages without declaring the capability, the client reports it as declared and sends no
// level: the bridge filters.
func TestUndeclaredLogMessages(t *testing.T) {
	s := &script{on: func(m *jsonrpc.Message, send func(...string)) bool {
		switch m.Method {
		case "initialize":
			send(initializeResponse)
		case "tools/call":
			send(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"a row"}}`,
				`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":"a failure"}}`,
				helloResponse)
		case "logging/setLevel":
			t.Error("the server received a level")
			send(emptyResponse)
		}
		return true
	}}
	c := run(t, mcpclient.Options{Command: []string{"pipe"}, Revision: bridge.Rev20251125},
		func(c *mcpclient.Client) { c.Pipe(s.serve) })
	res, err := c.Handle(t.Context(), &bridge.Call{Method: bridge.Discover, Request: &pb.DiscoverRequest{}}, ignore)
	if err != nil {
		t.Fatal(err)
	}
	if res.Complete.(*pb.DiscoverResponse).GetCapabilities().GetLogging() == nil {
		t.Error("logging is not declared")
	}
	call := toolCall("t", "{}")
	call.Context().LogLevel = pb.LogLevel_LOG_LEVEL_WARNING
	var got []string
	_, err = c.Handle(t.Context(), call, func(_ context.Context, e bridge.Event) error {
		got = append(got, e.Log.GetData())
		return nil
	})
	if err != nil || len(got) != 1 || got[0] != `"a failure"` {
		t.Errorf("got %q, %v", got, err)
	}
}
