package mcpclient_test

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"google.golang.org/protobuf/proto"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/bridgetest/transcript"
	"github.com/mcpbridge/mcpbridge/internal/mcpclient"
	"github.com/mcpbridge/mcpbridge/internal/mcpjson"
	"github.com/mcpbridge/mcpbridge/internal/rawjson"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// TestTranscripts runs the conversations in testdata/transcripts, whose README describes the format.
func TestTranscripts(t *testing.T) {
	transcript.Run(t, "<", func(t *testing.T, sections *transcript.Sections) transcript.Player {
		t.Helper()
		client := transcript.Settings(t, sections.Text("client"))
		c := &conversation{
			t: t, callers: map[string]*caller{},
			names:  transcript.NewNames(func(string, func(name, text string)) {}),
			server: newServer(t, transcript.Settings(t, sections.Text("server")), client["transport"] == "sse"),
		}
		c.names.Add("meta", `"io.modelcontextprotocol/protocolVersion":"2026-07-28",`+
			`"io.modelcontextprotocol/clientCapabilities":{},`+
			`"io.modelcontextprotocol/clientInfo":{"name":"mcpbridge","version":"1"}`)
		c.connect(client)
		return c
	})
}

// A conversation is the messages of a Client and a scripted server in a bubble of testing/synctest.
type conversation struct {
	t      *testing.T
	server *server
	client *mcpclient.Client
	names  *transcript.Names

	mu       sync.Mutex // guards the rest
	callers  map[string]*caller
	observed []string // by callers
}

// A caller is the origin of calls.
type caller struct {
	name    string
	context *pb.CallContext
	call    *bridge.Call       // the last one
	state   []byte             // of its input requests
	cancel  context.CancelFunc // cancels it
}

// connect starts a Client with the settings.
func (c *conversation) connect(settings map[string]string) {
	c.t.Helper()
	o := mcpclient.Options{Log: zerolog.New(warnings{c}).Level(zerolog.WarnLevel)}
	take := func(name string) string {
		value := settings[name]
		delete(settings, name)
		return value
	}
	o.Revision, _ = bridge.ParseRevision(take("revision"))
	transport := take("transport")
	for name, value := range settings {
		if strings.HasPrefix(value, "{") {
			delete(settings, name)
			c.callers[name] = c.newCaller(name, value)
		}
	}
	transcript.SetLimits(c.t, settings, &o.Limits, map[string]*time.Duration{
		"probeTimeout": &o.ProbeTimeout, "startTimeout": &o.StartTimeout, "sessionIdle": &o.SessionIdle,
	})
	switch transport {
	case "stdio":
		o.Command = []string{"program"}
	case "http", "sse":
		o.URL, o.Transport = "http://server/mcp", c.server.listen()
	default:
		c.t.Fatalf("unknown transport %q", transport)
	}
	var err error
	if c.client, err = mcpclient.New(o); err != nil {
		c.t.Fatal(err)
	}
	if transport == "stdio" {
		c.client.Pipe(c.server.program)
	}
	if c.server.revision != "" {
		c.start()
		if err := c.client.Ready(c.t.Context()); err != nil {
			c.t.Fatal(err)
		}
		synctest.Wait()
		c.Output() // the transcript omits it
	}
}

// Warnings add the lines of a log to what is observed.
type warnings struct{ c *conversation }

func (w warnings) Write(line []byte) (int, error) {
	w.c.observe("log", lived.ReplaceAllString(strings.TrimSpace(string(line)), ""))
	return len(line), nil
}

// lived is how long a connection lasted, which depends on random intervals.
var lived = regexp.MustCompile(`"lived":[^,]*,`)

// start starts the Client. It ends with the test.
func (c *conversation) start() {
	ctx, cancel := context.WithCancel(c.t.Context())
	done := make(chan error, 1)
	go func() { done <- c.client.Run(ctx) }()
	c.t.Cleanup(func() {
		for _, caller := range c.callers {
			if caller.cancel != nil {
				caller.cancel()
			}
		}
		cancel()
		if err := <-done; err != nil {
			c.t.Errorf("Run: %v", err)
		}
	})
}

// newCaller returns a caller with an identity and capabilities, which may contain its revision.
func (c *conversation) newCaller(name, capabilities string) *caller {
	can := &pb.ClientCapabilities{}
	if err := mcpjson.Unmarshal([]byte(capabilities), can, bridge.Rev20260728); err != nil {
		c.t.Fatal(err)
	}
	return &caller{name: name, context: &pb.CallContext{
		ClientCapabilities: can,
		Verified:           bridge.Verified(bridge.Rev20260728, &pb.Principal{Subject: name, Issuer: "i"}, nil),
	}}
}

// Happen executes an incident.
func (c *conversation) Happen(line string) { incidents.Happen(c.t, c, line) }

var incidents = transcript.Incidents[*conversation]{
	`the client connects`:       func(c *conversation, _ string) { c.start() },
	`(\w+ cancels)`:             func(c *conversation, who string) { c.callers[strings.Fields(who)[0]].cancel() },
	`(\w+ answers \{.*)`:        (*conversation).answer,
	`(\w+: \w+/[\w/]+(?: .*)?)`: (*conversation).call,
}

var callLine = regexp.MustCompile(`^(\w+): (\S+) ?(\{.*\})?(?: within (\S+))?$`)

// call calls a method as a caller.
func (c *conversation) call(line string) {
	c.t.Helper()
	words := callLine.FindStringSubmatch(line)
	if words == nil || bridge.MethodByName(words[2]) == nil {
		c.t.Fatalf("invalid call %q", line)
	}
	name, params := words[1], []byte(words[3])
	if len(params) == 0 {
		params = []byte("{}")
	}
	who := c.callers[name]
	if who == nil { // without an identity and capabilities
		who = &caller{name: name, context: &pb.CallContext{Verified: bridge.Verified(bridge.Rev20260728, nil, nil)}}
		c.callers[name] = who
	}
	cc := proto.CloneOf(who.context)
	m := bridge.MethodByName(words[2])
	r := m.NewRequest(cc)
	if err := mcpjson.Unmarshal(params, r, bridge.Rev20260728); err != nil {
		c.t.Fatal(err)
	}
	meta := rawjson.Get(params, "_meta")
	cc.Meta = string(meta)
	cc.ProgressWanted = rawjson.Get(meta, "progressToken") != nil
	if info := rawjson.Get(meta, bridge.MetaClientInfo); info != nil {
		cc.ClientInfo = &pb.Implementation{}
		if err := mcpjson.Unmarshal(info, cc.GetClientInfo(), bridge.Rev20260728); err != nil {
			c.t.Fatal(err)
		}
	}
	if level, ok := rawjson.String(rawjson.Get(meta, bridge.MetaLogLevel)); ok {
		cc.LogLevel = pb.LogLevel(pb.LogLevel_value["LOG_LEVEL_"+strings.ToUpper(level)])
	}
	if rev, ok := rawjson.String(rawjson.Get(meta, bridge.MetaVersion)); ok {
		cc.Verified = proto.CloneOf(cc.GetVerified())
		cc.Verified.ProtocolVersion = rev
	}
	who.call = &bridge.Call{Method: m, Request: r}
	c.handle(who, words[4])
}

// handle executes the call of a caller, within a time if it is not empty.
func (c *conversation) handle(who *caller, within string) {
	c.t.Helper()
	ctx, cancel := context.WithCancel(c.t.Context())
	if within != "" {
		d, err := time.ParseDuration(within)
		if err != nil {
			c.t.Fatal(err)
		}
		ctx, cancel = context.WithTimeout(c.t.Context(), d)
	}
	who.cancel = cancel
	go func() {
		defer cancel()
		res, err := c.client.Handle(ctx, who.call, func(_ context.Context, e bridge.Event) error {
			c.observe(who.name, describeEvent(e))
			return nil
		})
		c.observe(who.name, describeResult(who, res, err))
	}()
}

// answer retries the last call of a caller with input responses.
func (c *conversation) answer(line string) {
	c.t.Helper()
	name, responses, _ := strings.Cut(line, " answers ")
	r := &pb.CallToolRequest{}
	if err := mcpjson.Unmarshal([]byte(`{"name":"t","inputResponses":`+responses+`}`), r, bridge.Rev20260728); err != nil {
		c.t.Fatal(err)
	}
	who := c.callers[name]
	who.call = who.call.Retry(r.GetInputResponses(), who.state)
	c.handle(who, "")
}

// observe adds a line of a caller or of the log.
func (c *conversation) observe(name, text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.observed = append(c.observed, "= "+name+": "+text)
}

func describeEvent(e bridge.Event) string {
	text := func(kind string, m proto.Message) string {
		out, err := mcpjson.Append(nil, m, bridge.Rev20260728)
		if err != nil {
			return err.Error()
		}
		return kind + " " + string(out)
	}
	switch {
	case e.Progress != nil:
		return text("progress", e.Progress)
	case e.Log != nil:
		return text("log", e.Log)
	case e.Change.GetAcknowledged() != nil:
		return text("acknowledged", e.Change.GetAcknowledged().GetNotifications())
	case e.Change.GetResourceUpdated() != nil:
		return "updated " + e.Change.GetResourceUpdated().GetUri()
	}
	return strings.TrimPrefix(fmt.Sprintf("%T", e.Change.GetEvent()), "*mcpbridgev1.ListenResponse_")
}

// describeResult returns the result of a caller as text, and keeps the state of its input requests.
func describeResult(who *caller, res *bridge.Result, err error) string {
	if err != nil {
		return describeError(bridge.AsError(err))
	}
	m := res.Complete
	switch {
	case res.InputRequired != nil:
		who.state = res.InputRequired.GetRequestState()
		needs := bridge.ShallowCopy(res.InputRequired)
		needs.RequestState = nil // it is random
		m = needs
	case res.Task != nil:
		m = res.Task
	}
	out, err := mcpjson.Append(nil, m, bridge.Rev20260728)
	if err != nil {
		return err.Error()
	}
	return string(out)
}

func describeError(e *bridge.Error) string {
	text := "error " + e.Code.String()
	if e.Reason != "" {
		text += fmt.Sprintf(" %s (%s)", e.Reason, e.Outcome)
	}
	if e.RetryAfter > 0 {
		text += fmt.Sprintf(" retry after %s", e.RetryAfter)
	}
	text += ": " + e.Message
	if e.RPC != nil {
		out, _ := mcpjson.Append(nil, e.RPC, bridge.Rev20260728)
		text += " " + string(out)
	}
	return strings.ReplaceAll(text, "\n", " ")
}

// Output returns the messages of the Client since the last call, those without a label first, and then what callers
// observed.
func (c *conversation) Output() []string {
	all := c.server.output()
	c.mu.Lock()
	defer c.mu.Unlock()
	slices.SortStableFunc(c.observed, func(a, b string) int {
		nameA, _, _ := strings.Cut(a, ":")
		nameB, _, _ := strings.Cut(b, ":")
		return strings.Compare(nameA, nameB)
	})
	all = append(all, c.observed...)
	c.observed = nil
	for i, line := range all {
		all[i] = c.names.Shorten(line)
	}
	return all
}

// Send sends lines of the server.
func (c *conversation) Send(label string, lines []string) { c.server.send(label, lines) }

// IsComplete reports whether the lines are a complete message of stdio, event, or response with its body. A status
// without a type has no body.
func (c *conversation) IsComplete(_ string, lines []string) bool {
	return c.server.client == nil || !isHead.MatchString(lines[len(lines)-1])
}

var (
	isStatus = regexp.MustCompile(`^[1-5]\d\d( |$)`)
	isHead   = regexp.MustCompile(`^([1-5]\d\d \S+$|[A-Z][A-Za-z-]+: |id: |event: |retry: )`)
)

// Expand replaces names by their texts.
func (c *conversation) Expand(line string) string { return c.names.Expand(line) }
