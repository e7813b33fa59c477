//nolint:thelper,staticcheck // the stops are tests, not helpers; logging, sampling and roots are deprecated, and that they work is what we test
package interop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// revisions are the revisions of the clients.
var revisions = []struct {
	era, revision string
	structure     bool // results are structured, and tools have output schemas
}{
	{"legacy", "2024-11-05", false},
	{"legacy", "2025-03-26", false},
	{"legacy", "2025-06-18", true},
	{"legacy", "2025-11-25", true},
	{"modern", "2026-07-28", true},
}

// A stop is a feature and its test.
type stop struct {
	name  string
	visit func(*testing.T, *visitor)
}

// tour is what a client does with each backend, in this order on one connection.
var tour = map[string][]stop{"witness": tools, "conformance-go": everythingElse}

// tools are the features of the Python example.
var tools = []stop{
	{"lists the tools with their schemas", listsTools},
	{"calls a tool", callsATool},
	{"keeps every digit of a number", keepsDigits},
	{"gets a structured result and the same as text", getsStructuredResult},
	{"sees progress in order", seesProgress},
	{"answers a question", answersAQuestion},
	{"declines to answer", declinesToAnswer},
	{"keeps questions of calls that run together apart", keepsQuestionsApart},
	{"gets what the tool logs and the bridge what it prints", getsLogs},
	{"keeps calls that run together apart", keepsCallsApart},
	{"cancels a running call which ends at the backend", cancels},
	{"goes on after a cancelled call", goesOn},
	{"is notified of changed tools", toolsChange},
	{"receives the error of an unknown tool", unknownTool},
	{"receives the error of invalid arguments", invalidArguments},
}

func TestTour(t *testing.T) {
	for backend := range tour {
		t.Run(backend, func(t *testing.T) {
			// All revisions share one bridge at one URL.
			url, httpLog := startHTTP(t, backend)
			for _, r := range revisions {
				visit := func(t *testing.T, agreed string, transport mcp.Transport, log *lines) {
					v := connect(t, r.revision, transport)
					v.log, v.structure = log, r.structure
					takeTheTour(t, v, backend, agreed, transport)
				}
				t.Run(r.revision+"/http", func(t *testing.T) {
					visit(t, r.revision, &mcp.StreamableClientTransport{Endpoint: url}, httpLog)
				})
				t.Run(r.revision+"/stdio", func(t *testing.T) {
					log := newLines()
					cmd := bridgeCommand(t, backend, "--stdio")
					cmd.Stderr = log
					visit(t, r.revision, &mcp.CommandTransport{Command: cmd}, log)
					gone(t, []int{cmd.Process.Pid})
				})
				t.Run(r.revision+"/sse", func(t *testing.T) {
					agreed := r.revision
					if r.era == "modern" { // it probes with server/discover, and falls back
						agreed = "2025-11-25"
					}
					visit(t, agreed, &mcp.SSEClientTransport{Endpoint: url}, httpLog)
				})
			}
		})
	}
}

func takeTheTour(t *testing.T, v *visitor, backend, revision string, transport mcp.Transport) {
	if got := v.session.InitializeResult().ProtocolVersion; got != revision {
		t.Errorf("agreed upon %s, want %s", got, revision)
	}
	v.listens(t) // to the lists, from the start
	for _, s := range tour[backend] {
		t.Run(s.name, func(t *testing.T) { s.visit(t, v) })
	}

	var family []int
	if c, ok := transport.(*mcp.CommandTransport); ok {
		family = descendants(c.Command.Process.Pid)
	}
	if err := v.session.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	gone(t, family)
}

func listsTools(t *testing.T, v *visitor) {
	tools := map[string]*mcp.Tool{}
	for tool, err := range v.session.Tools(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		tools[tool.Name] = tool
	}
	for _, name := range []string{"add", "countdown", "forecast", "greet", "noisy"} {
		tool, ok := tools[name]
		if !ok {
			t.Fatalf("%s is not among %v", name, slices.Sorted(maps.Keys(tools)))
		}
		if tool.Description == "" {
			t.Errorf("%s has no description", name)
		}
		if s, ok := tool.InputSchema.(map[string]any); !ok || s["type"] != "object" {
			t.Errorf("%s: input schema %v, want an object's", name, tool.InputSchema)
		}
	}
	if got := fmt.Sprint(tools["add"].InputSchema.(map[string]any)["required"]); got != "[a b]" {
		t.Errorf("add requires %s, want [a b]", got)
	}
	if got := tools["forecast"].OutputSchema != nil; got != v.structure {
		t.Errorf("forecast has an output schema: %v, want %v", got, v.structure)
	}
}

func callsATool(t *testing.T, v *visitor) {
	result := v.call(t, "add", map[string]any{"a": 2, "b": 40})
	matches(t, `\b42\b`, resultText(result))
}

func keepsDigits(t *testing.T, v *visitor) {
	// 2^53 + 1 is the first integer that a float64 cannot hold.
	result := v.call(t, "add", json.RawMessage(`{"a":9007199254740993,"b":0}`))
	matches(t, `\b9007199254740993\b`, resultText(result))
}

func getsStructuredResult(t *testing.T, v *visitor) {
	result := v.call(t, "forecast", map[string]any{"city": "Oslo"})
	if !v.structure {
		if result.StructuredContent != nil {
			t.Errorf("structured content is %v, want none", result.StructuredContent)
		}
		matches(t, `^\{"city":"Oslo",.*\}$`, resultText(result))
		return
	}
	structured, ok := result.StructuredContent.(map[string]any)
	if !ok || structured["city"] != "Oslo" {
		t.Fatalf("structured content is %v, want an object about Oslo", result.StructuredContent)
	}
	var text map[string]any
	if err := json.Unmarshal([]byte(resultText(result)), &text); err != nil {
		t.Fatalf("text %q: %v", resultText(result), err)
	}
	if fmt.Sprint(text) != fmt.Sprint(structured) {
		t.Errorf("text %v and structured content %v differ", text, structured)
	}
}

func seesProgress(t *testing.T, v *visitor) {
	progress := v.progress(t.Name())
	params := &mcp.CallToolParams{Name: "countdown", Arguments: map[string]any{"steps": 3, "seconds": 0.02}}
	params.SetProgressToken(t.Name())
	if _, err := v.callParams(t.Context(), params); err != nil {
		t.Fatal(err)
	}
	// The SDK delivers notifications in order, but a result may overtake them: wait for them.
	for want := range 4 {
		select {
		case p := <-progress:
			if p.Progress != float64(want) || p.Total != 3 {
				t.Fatalf("progress %v of %v, want %d of 3", p.Progress, p.Total, want)
			}
		case <-time.After(30 * time.Second):
			t.Fatalf("progress %d did not come", want)
		}
	}
}

func answersAQuestion(t *testing.T, v *visitor) {
	asks := v.answer(&mcp.ElicitResult{Action: "accept", Content: map[string]any{"colour": "green"}})
	result := v.call(t, "greet", map[string]any{"name": "Ada"})
	matches(t, `Ada.*\bgreen\b`, resultText(result))
	if len(*asks) != 1 {
		t.Fatalf("asked %d times, want once", len(*asks))
	}
	ask := (*asks)[0]
	matches(t, `Ada`, ask.Message)
	schema, _ := ask.RequestedSchema.(map[string]any)
	properties, _ := schema["properties"].(map[string]any)
	colour, _ := properties["colour"].(map[string]any)
	if got := fmt.Sprint(colour["type"], colour["enum"]); got != "string[red green blue]" {
		t.Errorf("the colour is asked for as %s, want string[red green blue]", got)
	}
}

func declinesToAnswer(t *testing.T, v *visitor) {
	asks := v.answer(&mcp.ElicitResult{Action: "decline"})
	result := v.call(t, "greet", map[string]any{"name": "Ada"})
	matches(t, `to yourself`, resultText(result))
	if len(*asks) != 1 {
		t.Errorf("asked %d times, want once", len(*asks))
	}
}

func keepsQuestionsApart(t *testing.T, v *visitor) {
	colours := map[string]string{"Ada": "red", "Bob": "green", "Eve": "blue"}
	v.answerWith(func(ask *mcp.ElicitParams) *mcp.ElicitResult {
		name := regexp.MustCompile(`Hello (\w+)!`).FindStringSubmatch(ask.Message)
		if name == nil {
			return &mcp.ElicitResult{Action: "cancel"}
		}
		return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"colour": colours[name[1]]}}
	})
	var wg sync.WaitGroup
	for name, colour := range colours {
		wg.Go(func() {
			result, err := v.callParams(t.Context(),
				&mcp.CallToolParams{Name: "greet", Arguments: map[string]any{"name": name}})
			if err != nil {
				t.Error(err)
				return
			}
			matches(t, name+`.*`+colour, resultText(result))
		})
	}
	wg.Wait()
}

func getsLogs(t *testing.T, v *visitor) {
	mark := v.log.mark()
	params := &mcp.CallToolParams{Name: "noisy", Arguments: map[string]any{"lines": 2}}
	if v.modern() {
		// The modern era has no session: each request contains the level.
		params.Meta = mcp.Meta{mcp.MetaKeyLogLevel: "debug"}
	} else if err := v.session.SetLoggingLevel(t.Context(), &mcp.SetLoggingLevelParams{Level: "debug"}); err != nil {
		t.Fatal(err)
	}
	result, err := v.callParams(t.Context(), params)
	if err != nil {
		t.Fatal(err)
	}
	if result.IsError {
		t.Fatal(resultText(result))
	}
	for _, want := range []string{"info logged line 0", "info logged line 1", "warning map[lines:2]"} {
		select {
		case m := <-v.logs:
			if got := fmt.Sprint(m.Level, " ", m.Data); got != want {
				t.Errorf("log message %s, want %s", got, want)
			}
		case <-time.After(30 * time.Second):
			t.Fatalf("log message %s did not come", want)
		}
	}
	v.logged(t, `printed line 1`, mark)
	v.logged(t, `an error line 1`, mark)
}

func keepsCallsApart(t *testing.T, v *visitor) {
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			result, err := v.callParams(t.Context(),
				&mcp.CallToolParams{Name: "add", Arguments: map[string]any{"a": i, "b": 1000}})
			if err != nil {
				t.Error(err)
				return
			}
			matches(t, fmt.Sprintf(`\b%d\b`, 1000+i), resultText(result))
		})
	}
	wg.Wait()
}

func cancels(t *testing.T, v *visitor) {
	mark := v.log.mark()
	progress := v.progress(t.Name())
	params := &mcp.CallToolParams{Name: "linger"}
	params.SetProgressToken(t.Name())

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, err := v.callParams(ctx, params)
		ended <- err
	}()
	select {
	case <-progress:
	case err := <-ended:
		t.Fatalf("ended before it was cancelled: %v", err)
	case <-time.After(10 * time.Second):
		t.Fatal("the call did not start within 10 s")
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the call ended with %v, want %v", err, context.Canceled)
	}
	v.logged(t, `linger: cancelled`, mark)
}

func goesOn(t *testing.T, v *visitor) {
	for i := range 5 {
		matches(t, fmt.Sprintf(`\b%d\b`, i+1), resultText(v.call(t, "add", map[string]any{"a": i, "b": 1})))
	}
}

func toolsChange(t *testing.T, v *visitor) {
	for _, step := range []struct {
		tool string
		has  bool
	}{{"learn", true}, {"forget", false}} {
		v.call(t, step.tool, nil)
		for { // The first notifications can be of earlier changes, such as the start of a backend.
			soon(t, v.changes, "no notification that "+step.tool+" changed the tools")
			list, err := v.session.ListTools(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			if slices.ContainsFunc(list.Tools, func(tool *mcp.Tool) bool { return tool.Name == "trick" }) == step.has {
				break
			}
		}
	}
}

func unknownTool(t *testing.T, v *visitor) {
	_, err := v.callParams(t.Context(), &mcp.CallToolParams{Name: "no_such_tool"})
	fails(t, err, jsonrpc.CodeInvalidParams, `no_such_tool`)
}

func invalidArguments(t *testing.T, v *visitor) {
	// Since 2025-11-25 bad input is a result that the model can read and correct, not a protocol error (SEP-1303).
	result, err := v.callParams(t.Context(),
		&mcp.CallToolParams{Name: "add", Arguments: map[string]any{"a": "two", "b": 40}})
	if err != nil {
		t.Fatal(err)
	}
	if !result.IsError {
		t.Errorf("%q is not an error", resultText(result))
	}
	matches(t, `\ba\b`, resultText(result))
}

// A visitor is a connected client with the notifications that it receives.
type visitor struct {
	session   *mcp.ClientSession
	log       *lines
	structure bool // results are structured, and tools have output schemas
	logs      chan *mcp.LoggingMessageParams
	changes   chan struct{} // of the tools
	prompts   chan struct{} // changes of the prompts
	updates   chan string   // the URIs of resources that have changed
	acks      chan struct{} // the subscription is acknowledged (since 2026-07-28)

	mu    sync.Mutex // guards what follows
	reply func(*mcp.ElicitParams) *mcp.ElicitResult
	steps map[any]chan *mcp.ProgressNotificationParams // by progress token
}

func connect(t *testing.T, revision string, transport mcp.Transport) *visitor {
	t.Helper()
	v := &visitor{
		logs:    make(chan *mcp.LoggingMessageParams, 100),
		changes: make(chan struct{}, 100),
		prompts: make(chan struct{}, 100),
		updates: make(chan string, 100),
		acks:    make(chan struct{}, 100),
		steps:   map[any]chan *mcp.ProgressNotificationParams{},
	}
	client := mcp.NewClient(&mcp.Implementation{Name: "mcpbridge-interop", Version: "1.0.0"}, &mcp.ClientOptions{
		ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			v.mu.Lock()
			defer v.mu.Unlock()
			return v.reply(r.Params), nil
		},
		// In the modern era this starts subscriptions/listen.
		ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) {
			offer(v.changes, struct{}{})
		},
		PromptListChangedHandler: func(context.Context, *mcp.PromptListChangedRequest) {
			offer(v.prompts, struct{}{})
		},
		ResourceUpdatedHandler: func(_ context.Context, r *mcp.ResourceUpdatedNotificationRequest) {
			offer(v.updates, r.Params.URI)
		},
		CreateMessageHandler: func(_ context.Context, r *mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
			content, _ := r.Params.Messages[0].Content.(*mcp.TextContent)
			return &mcp.CreateMessageResult{
				Model: "ada-1", Role: "assistant", Content: &mcp.TextContent{Text: "You said: " + content.Text},
			}, nil
		},
		LoggingMessageHandler: func(_ context.Context, r *mcp.LoggingMessageRequest) {
			offer(v.logs, r.Params)
		},
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
			v.mu.Lock()
			defer v.mu.Unlock()
			if steps, ok := v.steps[r.Params.ProgressToken]; ok {
				offer(steps, r.Params)
			}
		},
	})
	// The SDK does not wait for the acknowledgment of a subscription, before which there are no notifications.
	client.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, r mcp.Request) (mcp.Result, error) {
			if method == "notifications/subscriptions/acknowledged" {
				offer(v.acks, struct{}{})
			}
			return next(ctx, method, r)
		}
	})
	client.AddRoots(&mcp.Root{URI: "file:///home/ada/songs"}, &mcp.Root{URI: "file:///home/ada/poems"})
	// The context of the connection is also that of an SSE stream.
	session, err := client.Connect(t.Context(), transport, &mcp.ClientSessionOptions{ProtocolVersion: revision})
	if err != nil {
		t.Fatal(err)
	}
	v.session = session
	return v
}

// listens waits until the new subscription is acknowledged.
func (v *visitor) listens(t *testing.T) {
	t.Helper()
	if v.modern() {
		soon(t, v.acks, "nothing acknowledged what is listened to")
	}
}

func (v *visitor) modern() bool {
	return v.session.InitializeResult().ProtocolVersion == "2026-07-28"
}

// call calls a tool that must succeed.
func (v *visitor) call(t *testing.T, name string, args any) *mcp.CallToolResult {
	t.Helper()
	result, err := v.callParams(t.Context(), &mcp.CallToolParams{Name: name, Arguments: args})
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if result.IsError {
		t.Fatalf("%s: %s", name, resultText(result))
	}
	return result
}

func (v *visitor) callParams(ctx context.Context, params *mcp.CallToolParams) (*mcp.CallToolResult, error) {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	return v.session.CallTool(ctx, params)
}

// answer sets the answer to all further elicitations, and returns where they are recorded.
func (v *visitor) answer(reply *mcp.ElicitResult) *[]*mcp.ElicitParams {
	asks := new([]*mcp.ElicitParams)
	v.answerWith(func(ask *mcp.ElicitParams) *mcp.ElicitResult {
		*asks = append(*asks, ask)
		return reply
	})
	return asks
}

func (v *visitor) answerWith(reply func(*mcp.ElicitParams) *mcp.ElicitResult) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.reply = reply
}

// progress returns the channel of the progress notifications with a token.
func (v *visitor) progress(token any) <-chan *mcp.ProgressNotificationParams {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.steps[token] = make(chan *mcp.ProgressNotificationParams, 100)
	return v.steps[token]
}

// logged waits until the bridge has logged a matching line.
func (v *visitor) logged(t *testing.T, pattern string, mark int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if _, err := v.log.find(ctx, regexp.MustCompile(pattern), mark); err != nil {
		t.Error(err)
	}
}

// fails checks the error of a request.
func fails(t *testing.T, err error, code int64, message string) {
	t.Helper()
	var wire *jsonrpc.Error
	if !errors.As(err, &wire) || wire.Code != code {
		t.Fatalf("error %v, want one with code %d", err, code)
	}
	matches(t, message, wire.Message)
}

// soon waits for a value with a timeout.
func soon[T any](t *testing.T, c <-chan T, otherwise string) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(30 * time.Second):
		t.Fatal(otherwise)
	}
	return v
}

// offer sends a value without blocking the SDK.
func offer[T any](c chan T, v T) {
	select {
	case c <- v:
	default:
	}
}

func resultText(r *mcp.CallToolResult) string {
	var b strings.Builder
	for _, c := range r.Content {
		if text, ok := c.(*mcp.TextContent); ok {
			b.WriteString(text.Text)
		}
	}
	return b.String()
}

func matches(t *testing.T, pattern, text string) {
	t.Helper()
	if !regexp.MustCompile(pattern).MatchString(text) {
		t.Errorf("%q does not match %s", text, pattern)
	}
}
