package mcpclient_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"google.golang.org/grpc/codes"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/bridgetest"
	"github.com/mcpbridge/mcpbridge/internal/jsonrpc"
	"github.com/mcpbridge/mcpbridge/internal/limits"
	"github.com/mcpbridge/mcpbridge/internal/mcpclient"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// A script is a program on stdio whose behavior its test defines.
type script struct {
	// on prints the lines that respond to a request or notification, or those for the method "" by default. ID stands
	// for the request's ID. It returns false to end the program.
	on func(m *jsonrpc.Message, send func(lines ...string)) bool
	// starts is the number of starts.
	starts atomic.Int64
}

func (s *script) serve(_ context.Context, in io.Reader, out io.Writer) {
	s.starts.Add(1)
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		m, err := jsonrpc.Parse(bytes.Clone(lines.Bytes()), limits.Defaults())
		if err != nil {
			continue
		}
		if !s.on(&m, func(lines ...string) {
			for _, l := range lines {
				_, _ = io.WriteString(out, strings.ReplaceAll(l, "ID", string(m.ID))+"\n")
			}
		}) {
			return
		}
	}
}

const (
	initializeResponse    = `{"jsonrpc":"2.0","id":ID,"result":{"protocolVersion":"2024-11-05","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}}`
	discoverResponse      = `{"jsonrpc":"2.0","id":ID,"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}}`
	emptyResponse         = `{"jsonrpc":"2.0","id":ID,"result":{}}`
	helloResponse         = `{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"hello"}]}}`
	unknownMethodResponse = `{"jsonrpc":"2.0","id":ID,"error":{"code":-32601,"message":"what?"}}`
)

// Programs respond to server/discover in different ways; the client detects the revision of each.
func TestProbeOfPrograms(t *testing.T) {
	for name, tt := range map[string]struct {
		discover func(send func(...string)) bool
		starts   int64
		legacy   bool
	}{
		"a result":         {func(send func(...string)) bool { send(discoverResponse); return true }, 1, false},
		"method not found": {func(send func(...string)) bool { send(unknownMethodResponse); return true }, 1, true},
		"requires initialize first": {func(send func(...string)) bool {
			send(`{"jsonrpc":"2.0","id":ID,"error":{"code":-32602,"message":"not yet"}}`)
			return true
		}, 1, true},
		"has an error of its own": {func(send func(...string)) bool {
			send(`{"jsonrpc":"2.0","id":ID,"error":{"code":0,"message":""}}`)
			return true
		}, 1, true},
		"no response":    {func(func(...string)) bool { return true }, 1, true},
		"crash":          {func(func(...string)) bool { return false }, 2, true},
		"prints a stack": {func(send func(...string)) bool { send("Traceback", "  File"); return false }, 2, true},
		"echoes": {
			func(send func(...string)) bool { send(`{"jsonrpc":"2.0","id":ID,"result":{}}`); return true },
			1, true,
		},
		"supports older revisions only": {func(send func(...string)) bool {
			send(`{"jsonrpc":"2.0","id":ID,"error":{"code":-32022,"message":"","data":{"supported":["2025-11-25"]}}}`)
			return true
		}, 1, true},
		"older revisions in the result": {func(send func(...string)) bool {
			send(strings.Replace(discoverResponse, "2026-07-28", "2025-11-25", 1))
			return true
		}, 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			var initialize atomic.Int64
			s := &script{on: func(m *jsonrpc.Message, send func(...string)) bool {
				switch m.Method {
				case "server/discover":
					return tt.discover(send)
				case "initialize":
					initialize.Add(1)
					send(initializeResponse)
				case "tools/call":
					send(helloResponse)
				}
				return true
			}}
			c := run(t, mcpclient.Options{Command: []string{"pipe"}, ProbeTimeout: 100 * time.Millisecond},
				func(c *mcpclient.Client) { c.Pipe(s.serve); c.Hasten() })
			if got := call(t, c, "t", "{}"); got != "hello" {
				t.Errorf("got %q", got)
			}
			if s.starts.Load() != tt.starts || initialize.Load() != 1 == tt.legacy {
				t.Errorf("started %d times, initialized %d times", s.starts.Load(), initialize.Load())
			}
		})
	}
}

// A server of 2024-11-05 cannot declare completions. Clients that read the capabilities find them declared wherever the
// server may support them.
func TestUndeclarableCompletions(t *testing.T) {
	for capabilities, offered := range map[string]bool{
		`{"prompts":{}}`: true, `{"resources":{}}`: true,
		`{"tools":{}}`: false,
	} {
		t.Run(capabilities, func(t *testing.T) {
			s := &script{on: func(m *jsonrpc.Message, send func(...string)) bool {
				switch m.Method {
				case "initialize":
					send(`{"jsonrpc":"2.0","id":ID,"result":{"protocolVersion":"2024-11-05","serverInfo":{"name":"s","version":"1"},"capabilities":` + capabilities + `}}`)
				case "completion/complete":
					send(`{"jsonrpc":"2.0","id":ID,"result":{"completion":{"values":["Bern"]}}}`)
				}
				return true
			}}
			c := run(t, mcpclient.Options{Command: []string{"pipe"}, Revision: bridge.Rev20241105},
				func(c *mcpclient.Client) { c.Pipe(s.serve) })
			res, err := c.Handle(t.Context(), &bridge.Call{Method: bridge.Discover, Request: &pb.DiscoverRequest{}},
				ignore)
			if err != nil {
				t.Fatal(err)
			}
			if got := bridge.Complete.SupportedBy(res.Complete.(*pb.DiscoverResponse).
				GetCapabilities()); got != offered {
				t.Errorf("completions declared: %t, want %t", got, offered)
			}
			res, err = c.Handle(t.Context(), &bridge.Call{Method: bridge.Complete, Request: &pb.CompleteRequest{
				Reference: &pb.CompletionReference{
					Reference: &pb.CompletionReference_Prompt{Prompt: &pb.PromptReference{Name: "p"}},
				},
				Argument: &pb.CompletionArgument{Name: "city", Value: "B"},
			}}, ignore)
			if err != nil {
				t.Fatal(err)
			}
			if got := res.Complete.(*pb.CompleteResponse).GetCompletion().GetValues(); len(got) != 1 ||
				got[0] != "Bern" {
				t.Errorf("completed to %q", got)
			}
		})
	}
}

// Lines that are not MCP are dropped; an invalid response ends its call. Transcripts cover lines that they can contain
// (stdio/invalid-lines).
func TestInvalidLinesOfPrograms(t *testing.T) {
	s := &script{on: func(m *jsonrpc.Message, send func(...string)) bool {
		switch m.Method {
		case "initialize":
			send("", "\x1b[31mred\x1b[0m", initializeResponse)
		case "tools/call":
			if strings.Contains(string(m.Params), "noisy") {
				send("\xff\xfe", strings.Repeat("x", 100_000), helloResponse)
			} else {
				send("{\"jsonrpc\":\"2.0\",\"id\":ID,\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"\xe9\"}]}}")
			}
		}
		return true
	}}
	c := run(t, mcpclient.Options{Command: []string{"pipe"}, Revision: bridge.Rev20241105},
		func(c *mcpclient.Client) { c.Pipe(s.serve) })
	if got := call(t, c, "noisy", "{}"); got != "hello" {
		t.Errorf("got %q", got)
	}
	_, err := c.Handle(t.Context(), toolCall("bytes", "{}"), ignore)
	if e := bridge.AsError(err); e.Code != codes.Internal ||
		!strings.Contains(e.Message, "responded with invalid MCP") {
		t.Error(err)
	}
	if s.starts.Load() != 1 {
		t.Errorf("started %d times", s.starts.Load())
	}
}

// A program that prints 1,000 lines a minute that are not MCP remains in use. With one more line it is restarted: its
// calls end with outcome unknown, and one warning contains a fix.
func TestTooManyInvalidLinesOfPrograms(t *testing.T) {
	for name, tt := range map[string]struct {
		lines  int
		slowly bool // the last line comes a minute after the first
		starts int64
	}{
		"one below":       {999, false, 1},
		"as many":         {1000, false, 1},
		"one more":        {1001, false, 2},
		"far more":        {100_000, false, 2},
		"more, but later": {1001, true, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &script{on: func(m *jsonrpc.Message, send func(...string)) bool {
					switch {
					case m.Method == "initialize":
						send(initializeResponse)
					case m.Method == "tools/call" && strings.Contains(string(m.Params), "babble"):
						for n := range tt.lines {
							if n == tt.lines-1 && tt.slowly {
								time.Sleep(time.Minute) //nolint:forbidigo // by the bubble's clock
							}
							send("loading")
						}
						if tt.starts == 1 {
							send(helloResponse)
						}
					case m.Method == "tools/call":
						send(helloResponse)
					}
					return true
				}}
				var log bytes.Buffer
				c, end := startScript(t, mcpclient.Options{
					Revision: bridge.Rev20241105, HangTimeout: 2 * time.Minute,
					Log: zerolog.New(&log),
				}, s)
				_, err := c.Handle(t.Context(), toolCall("babble", "{}"), ignore)
				e, _ := errors.AsType[*bridge.Error](err)
				switch {
				case tt.starts == 1 && err != nil:
					t.Errorf("got %v", err)
				case tt.starts == 2 && (e == nil || e.Outcome != bridge.OutcomeUnknown ||
					e.Reason != "BACKEND_CRASHED"):
					t.Errorf("got %v, want BACKEND_CRASHED and outcome unknown", err)
				}
				if got := call(t, c, "t", "{}"); got != "hello" || s.starts.Load() != tt.starts {
					t.Errorf("got %q after %d starts, want %d", got, s.starts.Load(), tt.starts)
				}
				if err := end(); err != nil {
					t.Error(err)
				}
				if n := strings.Count(log.String(), "let it log to standard error"); int64(n) != tt.starts-1 {
					t.Errorf("%d warnings: %s", n, log.String())
				}
			})
		})
	}
}

// A program that has served a call is restarted at once, however often it exits; one that never has, with growing
// backoff.
func TestUsefulProgramIsRestartedAtOnce(t *testing.T) {
	for name, of := range map[string]bool{"of use": true, "of no use": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &script{on: func(m *jsonrpc.Message, send func(...string)) bool {
					switch {
					case m.Method == "initialize":
						send(initializeResponse)
					case m.Method == "tools/call" && of:
						send(helloResponse)
						time.Sleep(time.Second) //nolint:forbidigo // by the bubble's clock
						return false
					case m.Method == "tools/call":
						return false
					}
					return true
				}}
				c, end := startScript(t, mcpclient.Options{Revision: bridge.Rev20241105}, s)
				if err := c.Ready(t.Context()); err != nil {
					t.Fatal(err)
				}
				began := time.Now()
				for range 6 {
					_, _ = c.Handle(t.Context(), toolCall("t", "{}"), ignore) // its error is tested elsewhere
					time.Sleep(time.Second)                                   //nolint:forbidigo // by the bubble's clock
					if err := c.Ready(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				if took := time.Since(began) - 6*time.Second; took > 10*time.Millisecond == of {
					t.Errorf("6 exits took %v longer than the calls", took)
				}
				if err := end(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// The maximum length of a line is that of a message.
func TestLineLengthLimit(t *testing.T) {
	const most = 1 << 20
	for _, length := range []int{most - 1, most, most + 1} {
		s := &script{on: func(m *jsonrpc.Message, send func(...string)) bool {
			switch m.Method {
			case "initialize":
				send(initializeResponse)
			case "tools/call":
				answer := strings.Replace(helloResponse, "ID", string(m.ID), 1)
				send(answer + strings.Repeat(" ", length-len(answer)))
			}
			return true
		}}
		c := run(t, mcpclient.Options{
			Command: []string{"pipe"}, Revision: bridge.Rev20241105,
			Limits: limits.Limits{Message: most},
		}, func(c *mcpclient.Client) { c.Pipe(s.serve); c.Hasten() })
		_, err := c.Handle(t.Context(), toolCall("t", "{}"), ignore)
		if tooLong := err != nil && bridge.AsError(err).
			Reason == "RESPONSE_TOO_LARGE"; tooLong != (length > most) || err != nil && !tooLong {
			t.Errorf("%d bytes: %v", length, err)
		}
	}
}

// A line that is too long takes no more memory than the limit, and ends the program.
func TestLongLine(t *testing.T) {
	s := &script{on: func(m *jsonrpc.Message, send func(...string)) bool {
		switch {
		case m.Method == "initialize":
			send(initializeResponse)
		case m.Method == "tools/call" && strings.Contains(string(m.Params), "long"):
			send(strings.Repeat("x", 2<<20))
		case m.Method == "tools/call":
			send(helloResponse)
		}
		return true
	}}
	c := run(t, mcpclient.Options{
		Command: []string{"pipe"}, Revision: bridge.Rev20241105,
		Limits: limits.Limits{Message: 1 << 20},
	}, func(c *mcpclient.Client) { c.Pipe(s.serve); c.Hasten() })
	_, err := c.Handle(t.Context(), toolCall("long", "{}"), ignore)
	if e := bridge.AsError(err); e.Code != codes.ResourceExhausted || e.Reason != "RESPONSE_TOO_LARGE" {
		t.Errorf("got %v", err)
	}
	if got := call(t, c, "t", "{}"); got != "hello" || s.starts.Load() != 2 {
		t.Errorf("got %q after %d starts", got, s.starts.Load())
	}
}

// An input request that no caller can serve gets an error response, and a flood of them none.
func TestInputRequestWithoutACall(t *testing.T) {
	answered := make(chan string, 100)
	s := &script{on: func(m *jsonrpc.Message, send func(...string)) bool {
		switch {
		case m.Method == "initialize":
			send(initializeResponse)
		case m.Method == "tools/call":
			send(`{"jsonrpc":"2.0","id":"p","method":"ping"}`,
				`{"jsonrpc":"2.0","id":"r","method":"roots/list"}`,
				`{"jsonrpc":"2.0","id":"e","method":"elicitation/create","params":{"message":"?","requestedSchema":{"type":"object","properties":{}}}}`,
				`{"jsonrpc":"2.0","id":"x","method":"something/else","params":{}}`)
			for i := range 1000 {
				send(fmt.Sprintf(`{"jsonrpc":"2.0","id":"f%d","method":"sampling/createMessage","params":{"maxTokens":1,"messages":[]}}`, i))
			}
			send(helloResponse)
		case m.IsResponse():
			answered <- fmt.Sprintf("%s %d", m.ID, m.Error.GetCode())
		}
		return true
	}}
	c := run(t, mcpclient.Options{Command: []string{"pipe"}, Revision: bridge.Rev20241105},
		func(c *mcpclient.Client) { c.Pipe(s.serve) })
	if got := call(t, c, "t", "{}"); got != "hello" {
		t.Errorf("got %q", got)
	}
	for _, want := range []string{`"p" 0`, `"r" -32601`, `"e" -32601`, `"x" -32601`} {
		if got := <-answered; got != want {
			t.Errorf("responded %s, want %s", got, want)
		}
	}
	if got := call(t, c, "t", "{}"); got != "hello" {
		t.Errorf("got %q", got)
	}
	if n := len(answered); n > 30 { // 10 a second, over one or two boundaries of seconds
		t.Errorf("got %d responses to a flood", n)
	}
}

// If a server sends too many input requests at once, those above the limit get an error response; the others go to the
// caller.
func TestTooManyInputRequests(t *testing.T) {
	form := `"method":"elicitation/create","params":{"message":"` + strings.Repeat("m", 20<<10) +
		`","requestedSchema":{"type":"object","properties":{}}}`
	for what, tt := range map[string]struct {
		when, request string
		count, fit    int
	}{
		"too many in a call":             {"tools/call", `"method":"roots/list"`, 100, 32},
		"too many during initialization": {"notifications/initialized", `"method":"roots/list"`, 100, 32},
		"too long in a call":             {"tools/call", form, 10, 3},
		"too long during initialization": {
			"notifications/initialized",
			`"method":"roots/list","params":{"_meta":{"m":"` + strings.Repeat("m", 20<<10) + `"}}`, 10, 3,
		},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // all input requests arrive before the call is suspended
				answered := make(chan string, tt.count)
				c := startPrograms(t, mcpclient.Options{
					Revision: bridge.Rev20250618,
					Limits:   limits.Limits{Message: 64 << 10},
				}, func(me int64) func(*jsonrpc.Message, func(...string)) {
					return func(m *jsonrpc.Message, send func(...string)) {
						switch {
						case m.Method == tt.when && me > 1:
							for i := range tt.count {
								send(fmt.Sprintf(`{"jsonrpc":"2.0","id":"q%d",%s}`, i, tt.request))
							}
						case m.IsResponse():
							answered <- fmt.Sprintf("%s %d %s", m.ID, m.Error.GetCode(), m.Error.GetMessage())
						}
					}
				})
				n := requiredInput(t, c, callOf("t", `{}`, "a"))
				if got := len(n.GetInputRequests()); got != tt.fit {
					t.Fatalf("got %d input requests, want %d", got, tt.fit)
				}
				for i := tt.fit; i < tt.count; i++ {
					if got, want := <-answered, fmt.Sprintf(`"q%d" -32603 `, i); !strings.HasPrefix(got, want) ||
						!strings.Contains(got, "too many pending requests") {
						t.Fatalf("responded %s, want %s", got, want)
					}
				}
			})
		})
	}
}

// A program that cannot run twice at a time serves callers without input capabilities; other calls fail at once.
func TestProgramThatExitsAfterOneCall(t *testing.T) {
	var programs atomic.Int64
	s := &script{on: func(m *jsonrpc.Message, send func(...string)) bool {
		switch m.Method {
		case "initialize":
			if programs.Add(1) > 1 {
				return false
			}
			send(initializeResponse)
		case "tools/call":
			send(helloResponse)
		}
		return true
	}}
	c := run(t, mcpclient.Options{Command: []string{"pipe"}, Revision: bridge.Rev20250618},
		func(c *mcpclient.Client) { c.Pipe(s.serve) })
	_, err := c.Handle(t.Context(), callOf("t", `{}`, "a"), ignore)
	if e := bridge.AsError(err); e.Outcome != bridge.OutcomeNotExecuted ||
		!strings.Contains(e.Message, "without elicitation") {
		t.Errorf("got %v", err)
	}
	if got := call(t, c, "t", `{}`); got != "hello" || programs.Load() != 2 {
		t.Errorf("%q by %d programs", got, programs.Load())
	}
}

// An invalid command is reported at once, with the command and a fix.
func TestProgramsThatFailToStart(t *testing.T) {
	bridgetest.SkipIfShort(t)
	for name, tt := range map[string]struct {
		command []string
		probe   time.Duration
		want    []string
	}{
		"is not there": {
			[]string{"no-such-program"},
			0,
			[]string{`there is no program "no-such-program" in PATH`, "what to do: install it"},
		},
		"ends": {
			[]string{"sh", "-c", "echo cannot find it >&2; exit 3"},
			0,
			[]string{"exit status 3", "cannot find it", "command: sh -c"},
		},
		"is silent": {
			[]string{"sleep", "100"},
			3 * time.Second,
			[]string{"neither server/discover nor initialize was answered within 2s"},
		},
		"prints hello": {
			[]string{"sh", "-c", "echo hello; exec sleep 100"},
			100 * time.Millisecond,
			[]string{"answered within 2s", "stdout, where only MCP belongs:\n    hello"},
		},
		"is no server": {[]string{"cat"}, 100 * time.Millisecond, []string{"initialize"}},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := mcpclient.New(mcpclient.Options{
				Command: tt.command, StartTimeout: 2 * time.Second,
				ProbeTimeout: tt.probe, StopTimeout: time.Second, Log: zerolog.Nop(),
			})
			if err != nil {
				t.Fatal(err)
			}
			err = c.Run(t.Context())
			for _, want := range tt.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("got %v, want %q in it", err, want)
				}
			}
			if e := c.Ready(t.Context()); e == nil || e.Error() != err.Error() {
				t.Errorf("Ready: %v", e)
			}
			for _, call := range []*bridge.Call{
				{Method: bridge.ListTools, Request: &pb.ListToolsRequest{}},
				{Method: bridge.Listen, Request: &pb.ListenRequest{}},
			} {
				_, err := c.Handle(t.Context(), call, func(context.Context, bridge.Event) error { return nil })
				if want := "did not start; the call was not executed"; err == nil ||
					!strings.Contains(err.Error(), want) {
					t.Errorf("%v: got %v, want %q in it", call.Method, err, want)
				}
			}
		})
	}
}

// server/discover is sent again when its result has expired. If that fails, the old result remains in use.
func TestDiscoverIsRepeatedAfterAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var discovers atomic.Int64
		s := &script{on: func(m *jsonrpc.Message, send func(...string)) bool {
			if m.Method != "server/discover" {
				return true
			}
			switch n := discovers.Add(1); n {
			case 1, 2:
				send(strings.Replace(discoverResponse, `"capabilities"`,
					fmt.Sprintf(`"ttlMs":120000,"instructions":"%d","capabilities"`, n), 1))
			case 3:
				send(unknownMethodResponse)
			}
			return true
		}}
		c, end := startScript(t, mcpclient.Options{}, s)
		if err := c.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, tt := range []struct {
			after time.Duration
			want  string
		}{
			{0, "1"},
			{time.Minute, "1"},
			{time.Minute + time.Second, "2"},
			{3 * time.Minute, "2"},
			{0, "2"},
			{2 * time.Minute, "2"},
		} {
			time.Sleep(tt.after) //nolint:forbidigo // by the bubble's clock
			res, err := c.Handle(t.Context(), &bridge.Call{Method: bridge.Discover, Request: &pb.DiscoverRequest{}},
				ignore)
			if err != nil || res.Complete.(*pb.DiscoverResponse).GetInstructions() != tt.want {
				t.Errorf("after %v: %v %v", tt.after, res, err)
			}
		}
		if n := discovers.Load(); n != 4 {
			t.Errorf("got %d server/discover requests", n)
		}
		if err := end(); err != nil {
			t.Error(err)
		}
	})
}

// A result of server/discover is cached for its TTL and returned with the remaining TTL.
func TestDiscoverIsCachedForItsTTL(t *testing.T) {
	type look struct {
		after time.Duration
		want  string
		left  int64
	}
	for ttl, looks := range map[string][]look{
		`"ttlMs":0,`:  {{0, "2", 0}, {0, "3", 0}},
		`"ttlMs":-1,`: {{0, "2", -1}},
		`"ttlMs":1000,`: {
			{0, "1", 1000},
			{400 * time.Millisecond, "1", 600},
			{599 * time.Millisecond, "1", 1},
			{time.Millisecond, "2", 1000},
		},
		`"ttlMs":7200000,`: {{time.Hour - time.Millisecond, "1", 3600001}, {time.Millisecond, "2", 7200000}},
		"":                 {{time.Minute - time.Millisecond, "1", 0}, {time.Millisecond, "2", 0}},
	} {
		synctest.Test(t, func(t *testing.T) {
			discovers := 0
			s := &script{on: func(m *jsonrpc.Message, send func(...string)) bool {
				if m.Method == "server/discover" {
					discovers++
					send(strings.Replace(discoverResponse, `"capabilities"`,
						fmt.Sprintf(`%s"instructions":"%d","capabilities"`, ttl, discovers), 1))
				}
				return true
			}}
			ctx, cancel := context.WithCancel(t.Context())
			defer synctest.Wait()
			defer cancel()
			c, err := mcpclient.New(mcpclient.Options{Command: []string{"pipe"}})
			if err != nil {
				t.Fatal(err)
			}
			c.Pipe(s.serve)
			done := make(chan error, 1)
			go func() { done <- c.Run(ctx) }()
			if err := c.Ready(ctx); err != nil {
				t.Fatal(err)
			}
			for _, want := range looks {
				time.Sleep(want.after) //nolint:forbidigo // by the bubble's clock
				res, err := c.Handle(ctx, &bridge.Call{Method: bridge.Discover, Request: &pb.DiscoverRequest{}}, ignore)
				if err != nil {
					t.Fatal(err)
				}
				d := res.Complete.(*pb.DiscoverResponse)
				if got := (look{want.after, d.GetInstructions(), d.GetTtlMs()}); got != want {
					t.Errorf("%q: got %v, want %v", ttl, got, want)
				}
			}
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
}

// If a caller disconnects during a repeated server/discover, the lifetime of the old result is not extended.
func TestNextCallerRepeatsAFailedDiscover(t *testing.T) {
	discovers := 0
	serve := (&script{on: func(m *jsonrpc.Message, send func(...string)) bool {
		if m.Method == "server/discover" {
			if discovers++; discovers != 2 {
				send(strings.Replace(discoverResponse, `"capabilities"`,
					fmt.Sprintf(`"ttlMs":1000,"instructions":"%d","capabilities"`, discovers), 1))
			}
		}
		return true
	}}).serve
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer synctest.Wait()
		defer cancel()
		c, err := mcpclient.New(mcpclient.Options{Command: []string{"pipe"}})
		if err != nil {
			t.Fatal(err)
		}
		c.Pipe(serve)
		go func() { _ = c.Run(ctx) }()
		if err := c.Ready(ctx); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second) //nolint:forbidigo // by the bubble's clock
		for _, tt := range []struct {
			patience time.Duration
			want     string
		}{{time.Second, "1"}, {time.Minute, "3"}} {
			waits, leave := context.WithTimeout(ctx, tt.patience)
			res, err := c.Handle(waits, &bridge.Call{Method: bridge.Discover, Request: &pb.DiscoverRequest{}}, ignore)
			leave()
			if err != nil || res.Complete.(*pb.DiscoverResponse).GetInstructions() != tt.want {
				t.Errorf("within %v: %v %v", tt.patience, res, err)
			}
		}
	})
}

// A server that ignores every request does not keep the client from closing.
func TestCloseWithUnresponsiveServers(t *testing.T) {
	bridgetest.SkipIfShort(t)
	t.Run("program", func(t *testing.T) {
		c := run(t, mcpclient.Options{
			Command: []string{"sh", "-c", `trap "" TERM; read a; printf '%s\n' '` +
				strings.Replace(initializeResponse, "ID", "1", 1) + `'; while :; do sleep 1; done`},
			StopTimeout: 100 * time.Millisecond, Revision: bridge.Rev20241105,
		})
		// The timeout is long enough for the write to begin on a busy machine.
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		// The arguments exceed the pipe's buffer, so that the write blocks.
		_, err := c.Handle(ctx, toolCall("t", `{"a":"`+strings.Repeat("x", 1<<20)+`"}`), ignore)
		if e := bridge.AsError(err); e.Code != codes.DeadlineExceeded ||
			e.Outcome != bridge.OutcomeUnknown {
			t.Errorf("got %v", err)
		}
		ctx, cancel = context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		_, err = c.Handle(ctx, toolCall("t", `{}`), ignore)
		if e := bridge.AsError(err); e.Code != codes.DeadlineExceeded ||
			e.Outcome != bridge.OutcomeNotExecuted {
			t.Errorf("got %v %v", err, e.Outcome)
		}
	})
	t.Run("http", func(t *testing.T) {
		f := newFake(t, false, func(_ http.ResponseWriter, r *http.Request,
			_ *jsonrpc.Message,
		) {
			<-r.Context().Done()
		})
		inner := f.Config.Handler
		f.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodPost {
				<-r.Context().Done() // DELETE as well
				return
			}
			inner.ServeHTTP(w, r)
		})
		c := run(t, mcpclient.Options{URL: f.URL, StopTimeout: 100 * time.Millisecond})
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		_, err := c.Handle(ctx, toolCall("t", `{}`), ignore)
		if e := bridge.AsError(err); e.Code != codes.DeadlineExceeded {
			t.Errorf("got %v", err)
		}
	})
}

// A server's error message is returned and logged up to a limit.
func TestLongErrorsAreTruncated(t *testing.T) {
	s := &script{on: func(m *jsonrpc.Message, send func(...string)) bool {
		fails := `{"jsonrpc":"2.0","id":` + string(m.ID) + `,"error":{"code":-7,"data":[1],"message":"no` +
			strings.Repeat("\\r\\n", 1<<18) + `"}}`
		switch m.Method {
		case "initialize":
			send(strings.Replace(initializeResponse, `"capabilities":{`, `"capabilities":{"logging":{},`, 1))
		case "logging/setLevel", "tools/call":
			send(fails)
		}
		return true
	}}
	var log bytes.Buffer
	c, end := startScript(t, mcpclient.Options{Revision: bridge.Rev20241105, Log: zerolog.New(&log)}, s)
	r := toolCall("t", "{}")
	r.Request.(*pb.CallToolRequest).Context = &pb.CallContext{LogLevel: pb.LogLevel_LOG_LEVEL_DEBUG}
	_, err := c.Handle(t.Context(), r, ignore)
	if e := bridge.AsError(err).RPC; e.GetCode() != -7 || e.GetData() != "[1]" ||
		!strings.HasPrefix(e.GetMessage(), "no\r\n") || len(e.GetMessage()) > 8<<10 {
		t.Errorf("%d bytes: %.300v", len(e.GetMessage()), err)
	}
	if err := end(); err != nil {
		t.Error(err)
	}
	if !strings.Contains(log.String(), `no\r\n`) || log.Len() > 16<<10 {
		t.Errorf("logged %d bytes: %.300s", log.Len(), log.String())
	}
}
