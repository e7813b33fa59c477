package mcpserver_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/limit"
	"github.com/mcpbridge/mcpbridge/internal/limits"
	"github.com/mcpbridge/mcpbridge/internal/mcpserver"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

var legacyRevisions = []string{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"}

const clientCaps = `{"elicitation":{},"sampling":{},"roots":{}}`

func call(id, tool, args, meta string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"` + tool + `","arguments":` + args + `,"_meta":{` + meta + `}}}`
}

func TestInitializeNegotiates(t *testing.T) {
	f := newFront(t, mcpserver.Options{})
	for asked, got := range map[string]string{
		"2024-11-05": "2024-11-05", "2025-03-26": "2025-03-26", "2025-06-18": "2025-06-18", "2025-11-25": "2025-11-25",
		// A revision without initialize is never negotiated by it.
		"2026-07-28": "2025-11-25", "1.0": "2025-11-25",
	} {
		res := f.post(`{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":"`+asked+`","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`, nil)
		msg := read(t, res).next()
		want(t, msg, "id", `"i"`, "result.protocolVersion", `"`+got+`"`, "result.serverInfo.name", `"bridgetest"`, "result.instructions", `"call anything"`,
			"result.resultType", "null", "result._meta", "null")
		if res.Header.Get("Mcp-Session-Id") == "" {
			t.Errorf("%s: no session", asked)
		}
		if has := get(t, msg, "result.capabilities.completions") != "null"; has != (got != "2024-11-05") {
			t.Errorf("%s: completions %v", got, has)
		}
		if has := get(t, msg, "result.serverInfo.title") != "null"; has != (got >= "2025-06-18") {
			t.Errorf("%s: title %v", got, has)
		}
	}
}

func TestInitializeThatCannotBeMeant(t *testing.T) {
	f := newFront(t, mcpserver.Options{})
	for _, params := range []string{
		`{}`, `{"protocolVersion":1,"capabilities":{},"clientInfo":{"name":"c","version":"1"}}`,
		`{"protocolVersion":"2025-11-25","clientInfo":{"name":"c","version":"1"}}`,
		`{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c"}}`,
		`{"protocolVersion":"2025-11-25","capabilities":[],"clientInfo":{"name":"c","version":"1"}}`,
	} {
		res := f.post(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":`+params+`}`, nil)
		want(t, read(t, res).next(), "error.code", "-32602")
		if res.Header.Get("Mcp-Session-Id") != "" {
			t.Errorf("%s: got a session", params)
		}
	}
}

func TestLegacyCallInEveryRevision(t *testing.T) {
	f := newFront(t, mcpserver.Options{})
	for _, rev := range legacyRevisions {
		c := f.initialize(rev, clientCaps)
		res := c.send(call(`"x"`, "echo", `{"a":9007199254740993}`, ""))
		if diff := cmp.Diff([]string{`{"jsonrpc":"2.0","id":"x","result":{"content":[{"type":"text","text":"{\"a\":9007199254740993}"}]}}`}, read(t, res).rest()); diff != "" {
			t.Errorf("%s: %s", rev, diff)
		}
		want(t, read(t, c.send(call("1", "who", "{}", `"progressToken":1`))).next(),
			"result.content.0.text", `"`+rev+` old progress=true log=LOG_LEVEL_INFO forms=true"`)
	}
}

func TestLegacyEventsComeOnTheStreamOfTheirRequest(t *testing.T) {
	f := newFront(t, mcpserver.Options{})
	for _, rev := range legacyRevisions {
		c := f.initialize(rev, clientCaps)
		for _, level := range []string{"loud", "DEBUG", "\\u0131nfo", "unspecified", ""} {
			want(t, read(t, c.send(`{"jsonrpc":"2.0","id":0,"method":"logging/setLevel","params":{"level":"`+level+`"}}`)).next(), "error.code", "-32602")
		}
		want(t, read(t, c.send(`{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"debug"}}`)).next(), "result", "{}")
		msgs := read(t, c.send(call("2", "count", "{}", `"progressToken":"t"`))).rest()
		message := `,"message":"begin"`
		if rev == "2024-11-05" {
			message = ""
		}
		if diff := cmp.Diff([]string{
			`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"t","progress":0,"total":2` + message + `}}`,
			`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"debug","data":"detail"}}`,
			`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"t","progress":1,"total":2}}`,
			`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"warning","logger":"l","data":{"n":9007199254740993}}}`,
			`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"t","progress":2,"total":2}}`,
			`{"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"counted"}]}}`,
		}, msgs); diff != "" {
			t.Errorf("%s: %s", rev, diff)
		}
	}
}

func TestLegacyClientIsAskedOnTheStreamOfItsRequest(t *testing.T) {
	f := newFront(t, mcpserver.Options{})
	for _, rev := range legacyRevisions { // of the first two, those that say that they can be asked
		c := f.initialize(rev, clientCaps)
		s := read(t, c.send(call("1", "ask", "{}", "")))
		for _, content := range []string{`{"name":"Ada"}`, `{"yes":"y"}`} {
			q := s.next()
			want(t, q, "method", `"elicitation/create"`, "params.requestedSchema.type", `"object"`)
			if has := get(t, q, "params.mode") != "null"; has != (rev == "2025-11-25") {
				t.Errorf("%s: mode in %s", rev, q)
			}
			if res := c.send(`{"jsonrpc":"2.0","id":` + get(t, q, "id") + `,"result":{"action":"accept","content":` + content + `}}`); res.StatusCode != 202 {
				t.Fatalf("%s: answer: %s", rev, res.Status)
			}
		}
		want(t, s.next(), "id", "1", "result.content.0.text", `"name={\"name\":\"Ada\"} {\"yes\":\"y\"}"`)
		if s.next() != "" {
			t.Errorf("%s: the stream goes on after the response", rev)
		}
	}
}

func TestLegacyClientIsAskedSeveralThingsAtOnce(t *testing.T) {
	f := newFront(t, mcpserver.Options{})
	c := f.initialize("2025-11-25", clientCaps)
	s := read(t, c.send(call("1", "many", "{}", "")))
	answers := map[string]string{
		`"elicitation/create"`:     `{"action":"accept","content":{"a":"b"}}`,
		`"sampling/createMessage"`: `{"role":"assistant","content":{"type":"text","text":"4"},"model":"m"}`,
		`"roots/list"`:             `{"roots":[{"uri":"file:///a"},{"uri":"file:///b"}]}`,
	}
	var asked []string
	for range 3 {
		asked = append(asked, s.next())
	}
	for i := range asked { // answered in another order than asked
		q := asked[len(asked)-1-i]
		c.send(`{"jsonrpc":"2.0","id":` + get(t, q, "id") + `,"result":` + answers[get(t, q, "method")] + `}`)
	}
	want(t, s.next(), "id", "1", "result.content.0.text", `"form={\"a\":\"b\"} model=4 roots=2"`)
}

func TestLegacyAnswersThatAreNone(t *testing.T) {
	f := newFront(t, mcpserver.Options{Limits: limits.Limits{AnswerTime: 50 * time.Millisecond}})
	c := f.initialize("2025-11-25", clientCaps)
	s := read(t, c.send(call("1", "why", "{}", "")))
	c.send(`{"jsonrpc":"2.0","id":` + get(t, s.next(), "id") + `,"error":{"code":-1,"message":"no"}}`)
	want(t, s.next(), "result.content.0.text", `"REASON_REFUSED -1 no"`)

	// Its capabilities said otherwise.
	s = read(t, c.send(call("3", "why", "{}", "")))
	c.send(`{"jsonrpc":"2.0","id":` + get(t, s.next(), "id") + `,"error":{"code":-32601,"message":"what?"}}`)
	want(t, s.next(), "result.content.0.text", `"REASON_UNSUPPORTED -32601 what?"`)

	s = read(t, c.send(call("2", "why", "{}", "")))
	q := s.next()
	want(t, s.next(), "method", `"notifications/cancelled"`, "params.requestId", get(t, q, "id"))
	want(t, s.next(), "result.content.0.text", `"REASON_NO_ANSWER 0 the client did not answer within 50ms"`)
	if res := c.send(`{"jsonrpc":"2.0","id":` + get(t, q, "id") + `,"result":{"action":"accept"}}`); res.StatusCode != 202 {
		t.Errorf("an answer that is too late: %s", res.Status)
	}
}

func TestLegacyClientIsNotAskedWhatItCannotAnswer(t *testing.T) {
	f := newFront(t, mcpserver.Options{})
	for rev, caps := range map[string]string{"2024-11-05": `{}`, "2025-03-26": `{"sampling":{}}`, "2025-06-18": `{}`, "2025-11-25": `{"elicitation":{"url":{}}}`} {
		c := f.initialize(rev, caps)
		msg := read(t, c.send(call("1", "ask", "{}", ""))).rest()
		want(t, msg[len(msg)-1], "id", "1", "result.isError", "true")
		if text := get(t, msg[len(msg)-1], "result.content.0.text"); !strings.Contains(text, "elicitation") {
			t.Errorf("%s: %s", rev, text)
		}
	}
}

// What says in the modern era that a client lacks something is a code that the legacy era does not know: its models are told in
// words. Clients of the modern era get it as it is.
func TestMissingCapabilityIsSaidInTheWordsOfTheEra(t *testing.T) {
	for data, needs := range map[string]string{
		`{"requiredCapabilities":{"elicitation":{"form":{}}}}`:           "an answer from the user (elicitation)",
		`{"requiredCapabilities":{"elicitation":{"url":{}},"roots":{}}}`: "a web page to be opened for the user (elicitation, url mode) and the client's folders (roots)",
		`{"requiredCapabilities":{"sampling":{"tools":{}}}}`:             "an answer from the model with tools (sampling.tools)",
		`{"requiredCapabilities":{"extensions":{"com.example/x":{}}}}`:   "the extension com.example/x",
		`{"requiredCapabilities":7}`:                                     "something unknown",
		`[]`:                                                             "something unknown",
	} {
		f := newFrontOf(t, mcpserver.Options{}, func(h bridge.Handler) bridge.Handler {
			return bridge.HandlerFunc(func(ctx context.Context, call *bridge.Call, emit bridge.Emit) (*bridge.Result, error) {
				if call.Method == bridge.Discover {
					return h.Handle(ctx, call, emit)
				}
				code, message := int64(bridge.CodeMissingCapability), "no"
				return nil, bridge.FromJSONRPC(&pb.JsonRpcError{Code: code, Message: &message, Data: []byte(data)}, bridge.Rev20260728, call.Method)
			})
		})
		says := "This needs " + needs + ", which this client does not support. Ask the user directly, or use another client."
		for _, rev := range legacyRevisions {
			c := f.initialize(rev, `{}`)
			want(t, read(t, c.send(call("1", "t", "{}", ""))).next(), "result.isError", "true", "result.content.0.text", `"`+says+`"`)
			want(t, read(t, c.send(`{"jsonrpc":"2.0","id":2,"method":"prompts/get","params":{"name":"p"}}`)).next(),
				"error.code", "-32603", "error.message", `"prompts/get: `+says+`"`, "error.data", "null")
			want(t, read(t, c.send(`{"jsonrpc":"2.0","id":3,"method":"tools/list"}`)).next(), "error.code", "-32603", "error.message", `"tools/list: `+says+`"`)
		}
		status, msgs := f.callModern("t", "", noCaps, "")
		if want(t, msgs[0], "error.code", "-32021", "error.message", `"no"`, "error.data", data); status != 400 {
			t.Errorf("status %d", status)
		}
	}
}

// The backend decides what becomes of the call; only one that asks again gets no further.
func TestBackendIsToldWhatALegacyClientCannotAnswer(t *testing.T) {
	f := newFront(t, mcpserver.Options{})
	c := f.initialize("2025-06-18", `{}`)
	msgs := read(t, c.send(call("1", "why", "{}", ""))).rest()
	want(t, msgs[len(msgs)-1], "result.content.0.text",
		`"REASON_UNSUPPORTED 0 this needs an answer from the user (elicitation), which this client does not support. Ask the user directly, or use another client."`)
	for _, msg := range msgs {
		if get(t, msg, "method") == `"elicitation/create"` {
			t.Errorf("it was asked: %s", msg)
		}
	}
}

func TestLegacyRoundsAreBounded(t *testing.T) {
	f := newFront(t, mcpserver.Options{})
	c := f.initialize("2025-11-25", clientCaps)
	s := read(t, c.send(call("1", "endless", "{}", "")))
	n := 0
	for m := s.next(); ; m = s.next() {
		if get(t, m, "method") == "null" {
			want(t, m, "error.code", "-32603")
			break
		}
		n++
		c.send(`{"jsonrpc":"2.0","id":` + get(t, m, "id") + `,"result":{"action":"decline"}}`)
	}
	if n != 10 {
		t.Errorf("asked %d times", n)
	}
}

func TestLegacyCallSurvivesDisconnect(t *testing.T) {
	f := newFront(t, mcpserver.Options{})
	c := f.initialize("2025-11-25", clientCaps)
	ctx, cancel := context.WithCancel(t.Context())
	s := read(t, c.do(ctx, http.MethodPost, c.url, call("1", "ask", "{}", ""), c.headers()))
	q := s.next()
	cancel() // the stream is lost while the user thinks
	if res := c.send(`{"jsonrpc":"2.0","id":` + get(t, q, "id") + `,"result":{"action":"decline"}}`); res.StatusCode != 202 {
		t.Fatalf("answer: %s", res.Status)
	}
	want(t, read(t, c.get(t.Context(), s.last)).next(), "id", "1", "result.content.0.text", `"the user said ELICIT_ACTION_DECLINE"`)
}

func TestLegacyCancellationIsANotification(t *testing.T) {
	f := newFront(t, mcpserver.Options{})
	c := f.initialize("2025-11-25", clientCaps)
	done := make(chan []string)
	go func() { done <- read(t, c.send(call(`"w"`, "wait", `{"n":1}`, ""))).rest() }()
	<-f.h.Started
	c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"other"}}`)
	c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"w","reason":"enough"}}`)
	<-f.h.Ended
	if msgs := <-done; len(msgs) != 0 {
		t.Errorf("a cancelled request was answered: %q", msgs)
	}
}

func TestLegacyIDsInUseAreRefused(t *testing.T) {
	f := newFront(t, mcpserver.Options{})
	c := f.initialize("2025-11-25", clientCaps)
	done := make(chan struct{})
	go func() { defer close(done); read(t, c.send(call("1", "wait", "{}", `"progressToken":"t"`))).rest() }()
	<-f.h.Started
	// Clients take an error with the id for the answer to the first.
	want(t, read(t, c.send(call("1", "echo", "{}", ""))).next(), "id", "null", "error.code", "-32600")
	want(t, read(t, c.send(call("2", "echo", "{}", `"progressToken":"t"`))).next(), "id", "2", "error.code", "-32602", "error.data.outcome", `"not_executed"`)
	want(t, read(t, c.send(call("2", "echo", "{}", `"progressToken":1`))).next(), "id", "2", "error", "null")
	want(t, read(t, c.send(call("2", "echo", "{}", `"progressToken":1`))).next(), "id", "2", "error", "null") // it is free again
	want(t, read(t, c.send(call(`"1"`, "echo", "{}", ""))).next(), "id", `"1"`, "error", "null")
	c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
	<-done
}

// sameIDs are ids that are the same in another text.
var sameIDs = [][2]string{{`"a"`, `"\u0061"`}, {`"\u00e9\/"`, `"é/"`}, {`"\u000A"`, `"\n"`}, {"0", "-0"}}

// An id is its value, however it is written: nobody is answered twice by it, and whoever cancels it means it.
func TestIDsAreTheirValues(t *testing.T) {
	f := newFront(t, mcpserver.Options{})
	c := f.initialize("2025-03-26", clientCaps)
	for _, ids := range sameIDs {
		for _, ids := range [][2]string{ids, {ids[1], ids[0]}} {
			cancel := `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + ids[1] + `}}`
			batch := `[` + call(ids[0], "echo", "{}", "") + `,` + call(ids[1], "echo", "{}", "") + `]`
			done := make(chan []string)
			go func() { done <- read(t, c.send(call(ids[0], "wait", "{}", ""))).rest() }()
			<-f.h.Started
			again := read(t, c.send(call(ids[1], "echo", "{}", ""))).next()
			want(t, again, "id", "null", "error.code", "-32600")
			c.send(cancel)
			<-f.h.Ended
			if msgs := <-done; len(msgs) > 0 {
				t.Errorf("cancelled, and answered: %s", msgs)
			}
			want(t, read(t, c.send(batch)).next(), "error.code", "-32600")

			p := newPipe(t, mcpserver.Options{})
			p.initialize("2025-03-26")
			modern := strings.Replace(modernLine(7, "tools/call", `"name":"wait"`, noCaps), `"id":7`, `"id":`+ids[0], 1)
			for _, wait := range []string{call(ids[0], "wait", "{}", ""), modern} {
				p.say(wait)
				<-p.h.Started
				p.say(strings.Replace(wait, `"id":`+ids[0], `"id":`+ids[1], 1))
				want(t, p.next(), "id", "null", "error.code", "-32600")
				p.say(cancel)
				<-p.h.Ended
			}
			p.say(batch)
			want(t, p.next(), "error.code", "-32600")
		}
	}
}

func TestRequestsBeforeTheClientIsReady(t *testing.T) {
	f := newFront(t, mcpserver.Options{})
	begin := func(id string) string {
		return `{"jsonrpc":"2.0","id":` + id + `,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`
	}
	c := &client{f, "2025-11-25", f.post(begin("1"), nil).Header.Get("Mcp-Session-Id")}
	if res := c.send(`{"jsonrpc":"2.0","id":2,"method":"ping"}`); res.StatusCode != 200 {
		t.Errorf("ping: %s", res.Status)
	}
	for _, body := range []string{call("3", "echo", "{}", ""), begin("4")} {
		res := c.send(body)
		want(t, read(t, res).next(), "error.code", "-32600")
		if res.StatusCode != 400 {
			t.Errorf("%s: %s", body, res.Status)
		}
	}
	if n := f.h.Calls.Of("echo"); n != 0 {
		t.Errorf("called %d times", n)
	}
}

func TestSessionRules(t *testing.T) {
	f := newFront(t, mcpserver.Options{})
	c := f.initialize("2025-06-18", clientCaps)
	other := f.initialize("2025-03-26", clientCaps)
	const list = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
	for _, x := range []struct {
		name   string
		h      header
		status int
	}{
		{"its session", header{"Mcp-Session-Id", c.id, "MCP-Protocol-Version", "2025-06-18"}, 200},
		{"its session, no revision", header{"Mcp-Session-Id", c.id}, 200},
		{"another revision than negotiated", header{"Mcp-Session-Id", c.id, "MCP-Protocol-Version", "2025-11-25"}, 200},
		{"a revision that is none", header{"Mcp-Session-Id", c.id, "MCP-Protocol-Version", "newest"}, 400},
		{"a revision that is empty", header{"Mcp-Session-Id", c.id, "MCP-Protocol-Version", " "}, 400},
		{"two sessions", header{"Mcp-Session-Id", c.id, "Mcp-Session-Id", "x"}, 400},
		{"two revisions", header{"Mcp-Session-Id", c.id, "MCP-Protocol-Version", "2025-06-18", "MCP-Protocol-Version", "2025-11-25"}, 400},
		{"two names, which it does not need", header{"Mcp-Session-Id", c.id, "Mcp-Name", "a", "Mcp-Name", "a"}, 400},
		{"two of what nobody knows", header{"Mcp-Session-Id", c.id, "Mcp-Param-X", "a", "Mcp-Param-X", "b"}, 400},
		{"no session", header{"MCP-Protocol-Version", "2025-06-18"}, 400},
		{"no such session", header{"Mcp-Session-Id", "x" + c.id}, 404},
	} {
		if res := f.post(list, x.h); res.StatusCode != x.status {
			t.Errorf("%s: %s", x.name, res.Status)
		}
	}
	done := make(chan struct{})
	go func() { defer close(done); read(t, c.send(call("1", "wait", "{}", ""))).rest() }()
	<-f.h.Started
	if res := c.do(t.Context(), http.MethodDelete, c.url, "", c.headers()); res.StatusCode != 204 {
		t.Errorf("DELETE: %s", res.Status)
	}
	<-f.h.Ended // the calls of a session end with it
	<-done
	if res := c.send(list); res.StatusCode != 404 {
		t.Errorf("after DELETE: %s", res.Status)
	}
	if res := c.get(t.Context(), ""); res.StatusCode != 404 {
		t.Errorf("GET after DELETE: %s", res.Status)
	}
	if res := other.send(list); res.StatusCode != 200 {
		t.Errorf("another session: %s", res.Status)
	}
}

func TestSessionsAreBounded(t *testing.T) {
	f := newFront(t, mcpserver.Options{Sessions: mcpserver.NewSessions(limits.Limits{Sessions: 2})})
	first := f.initialize("2025-11-25", clientCaps)
	for _, c := range []*client{first, f.initialize("2025-11-25", clientCaps)} {
		c.send(`{"jsonrpc":"2.0","id":2,"method":"ping"}`) // one that is never used would make room
	}
	res := f.post(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`, nil)
	if res.StatusCode != 503 || res.Header.Get("Retry-After") == "" {
		t.Errorf("%s", res.Status)
	}
	first.do(t.Context(), http.MethodDelete, f.url, "", first.headers())
	f.initialize("2025-11-25", clientCaps)
}

// Streams beyond the most are refused, and one that ends makes room.
func TestStreamsAreBounded(t *testing.T) {
	f := newFront(t, mcpserver.Options{Streams: limit.StreamsOf(limits.Limits{Streams: 3}, nil)})
	c := f.initialize("2025-11-25", clientCaps)
	ctx, cancel := context.WithCancel(t.Context())
	read(t, c.get(ctx, "")).event()
	f.openSSE(t.Context())
	body, h := modern(7, "subscriptions/listen", `"notifications":{"toolsListChanged":true}`, noCaps)
	listen := func() *http.Response { return f.post(body, h) }
	want(t, read(t, listen()).next(), "method", `"notifications/subscriptions/acknowledged"`)
	if res := listen(); res.StatusCode != 503 || res.Header.Get("Retry-After") == "" {
		t.Errorf("one too many: %s", res.Status)
	}
	if res := c.get(t.Context(), ""); res.StatusCode != 503 || res.Header.Get("Retry-After") == "" {
		t.Errorf("one too many by GET: %s", res.Status)
	}
	cancel()
	for listen().StatusCode != 200 {
		runtime.Gosched() // the server notices soon that the stream is gone
	}
}

func TestStreamsOfASessionAreBounded(t *testing.T) {
	f := newFront(t, mcpserver.Options{})
	c := f.initialize("2025-11-25", clientCaps)
	statuses := make(chan int)
	const flood = 100
	for range flood {
		go func() { statuses <- c.get(t.Context(), "").StatusCode }()
	}
	got := map[int]int{}
	for range flood {
		got[<-statuses]++
	}
	if got[200] != 1 || got[429] == 0 || got[200]+got[409]+got[429] != flood {
		t.Errorf("%v", got)
	}
}

func TestChangesGoToTheStreamThatAGetOpens(t *testing.T) {
	f := newFront(t, mcpserver.Options{})
	c := f.initialize("2025-11-25", clientCaps)
	want(t, read(t, c.send(`{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"test://a"}}`)).next(), "result", "{}")
	f.h.Update("test://a") // before there is a stream
	ctx, cut := context.WithCancel(t.Context())
	first := read(t, c.get(ctx, ""))
	want(t, first.next(), "method", `"notifications/resources/updated"`, "params", `{"uri":"test://a"}`)
	f.h.Add("new")
	want(t, first.next(), "method", `"notifications/tools/list_changed"`)
	if res := c.get(t.Context(), ""); res.StatusCode != 409 {
		t.Errorf("a second stream: %s", res.Status)
	}
	f.h.Add("newer")
	want(t, first.next(), "method", `"notifications/tools/list_changed"`)
	cut()
	second := read(t, c.get(t.Context(), ""))
	if e, ok := second.event(); !ok || e.data != "" || e.id == "" {
		t.Errorf("the stream does not begin with an event to come back to: %+v", e)
	}
	want(t, read(t, c.send(`{"jsonrpc":"2.0","id":2,"method":"resources/unsubscribe","params":{"uri":"test://a"}}`)).next(), "result", "{}")
	f.h.Update("test://a")
	f.h.Add("newest")
	want(t, second.next(), "method", `"notifications/tools/list_changed"`)
}

// A stream that is cut anywhere can be gone on with, and nothing is lost, repeated or foreign.
func TestResumeAtEveryCut(t *testing.T) {
	f := newFront(t, mcpserver.Options{})
	for _, rev := range []string{"2025-03-26", "2025-06-18", "2025-11-25"} {
		c := f.initialize(rev, clientCaps)
		s := read(t, c.send(call("1", "count", "{}", `"progressToken":"t"`)))
		var ids, all []string
		for e, ok := s.event(); ok; e, ok = s.event() {
			if primed := e.data == ""; primed != (rev == "2025-11-25" && len(ids) == 0) {
				t.Errorf("%s: event %d is %+v", rev, len(ids), e)
			}
			ids, all = append(ids, e.id), append(all, e.data)
		}
		read(t, c.send(call("2", "count", "{}", `"progressToken":"other"`))).rest()
		for i, id := range ids {
			if diff := cmp.Diff(all[i+1:], read(t, c.get(t.Context(), id)).rest(), cmpEmpty); diff != "" {
				t.Errorf("%s: after %s: %s", rev, id, diff)
			}
		}
	}
}

var cmpEmpty = cmp.Transformer("", func(s []string) []string {
	if len(s) == 0 {
		return nil
	}
	return s
})

func TestResumeOfWhatIsNotThere(t *testing.T) {
	f := newFront(t, mcpserver.Options{})
	c := f.initialize("2025-11-25", clientCaps)
	s := read(t, c.send(call("1", "count", "{}", `"progressToken":"t"`)))
	s.rest()
	other := f.initialize("2025-11-25", clientCaps)
	read(t, other.send(call("1", "count", "{}", `"progressToken":"t"`))).rest() // so that it has streams with the same numbers
	if res := other.get(t.Context(), s.last); res.StatusCode != 400 {
		t.Errorf("another session's event: %s", res.Status)
	}
	for _, id := range []string{"nonsense", "1-999", "9-0", "1--1", "1-01", "-", "1-0x"} {
		if res := c.get(t.Context(), id); res.StatusCode != 400 {
			t.Errorf("%q: %s", id, res.Status)
		}
	}
	for _, session := range []*client{c, other} { // which clients would begin anew after 404
		if res := session.send(`{"jsonrpc":"2.0","id":2,"method":"ping"}`); res.StatusCode != 200 {
			t.Errorf("the session afterwards: %s", res.Status)
		}
	}
	if res := f.do(t.Context(), "GET", f.url, "", append(c.headers(), "Last-Event-ID", "1-1", "Last-Event-ID", "1-2")); res.StatusCode != 400 {
		t.Errorf("two events: %s", res.Status)
	}
}

func TestBatches(t *testing.T) {
	f := newFront(t, mcpserver.Options{})
	const batch = `[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","method":"notifications/x"},{"jsonrpc":"2.0","id":"2","method":"tools/list"},` +
		`{"jsonrpc":"2.0","id":3,"method":"nosuch"},{"jsonrpc":"1.0","id":4,"method":"ping"}]`
	for _, rev := range legacyRevisions {
		c := f.initialize(rev, clientCaps)
		res := c.send(batch)
		if rev != "2024-11-05" && rev != "2025-03-26" {
			if res.StatusCode != 400 {
				t.Errorf("%s: %s", rev, res.Status)
			}
			continue
		}
		msgs := read(t, res).next()
		seen := map[string]bool{}
		for i := range 4 {
			p := fmt.Sprint(i, ".")
			seen[get(t, msgs, p+"id")+" "+get(t, msgs, p+"error.code")] = true
		}
		if diff := cmp.Diff(map[string]bool{"1 null": true, `"2" null`: true, "3 -32601": true, "4 -32600": true}, seen); diff != "" {
			t.Errorf("%s in %s", diff, msgs)
		}
		if res := c.send(`[{"jsonrpc":"2.0","method":"notifications/x"}]`); res.StatusCode != 202 {
			t.Errorf("notifications alone: %s", res.Status)
		}
		for _, bad := range []string{
			`[]`, `[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":1,"method":"ping"}]`,
			`[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":9,"result":{}}]`,
		} {
			if res := c.send(bad); res.StatusCode != 400 {
				t.Errorf("%s: %s", bad, res.Status)
			}
		}
		// With something to say before the answers, they come as events.
		ids := map[string]bool{}
		for _, m := range read(t, c.send(`[`+call("1", "count", "{}", `"progressToken":"t"`)+`,`+call("2", "echo", "{}", "")+`]`)).rest() {
			if get(t, m, "method") == "null" {
				ids[get(t, m, "id")] = true
			}
		}
		if !ids["1"] || !ids["2"] {
			t.Errorf("answered %v", ids)
		}
	}
}

func TestLegacyMethodsThatAreNotThere(t *testing.T) {
	f := newFront(t, mcpserver.Options{})
	c := f.initialize("2025-11-25", clientCaps)
	for _, method := range []string{"server/discover", "subscriptions/listen", "tasks/list", "nosuch"} {
		res := c.send(`{"jsonrpc":"2.0","id":1,"method":"` + method + `"}`)
		if res.StatusCode != 200 {
			t.Errorf("%s: %s", method, res.Status)
		}
		want(t, read(t, res).next(), "error.code", "-32601")
	}
	want(t, read(t, f.post(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}`, nil)).next(), "error.code", "-32602")
}

func TestResourceNotFoundHasTheCodeOfItsRevisionAndTheURI(t *testing.T) {
	f := newFront(t, mcpserver.Options{})
	const message, data = `"there is no resource \"test://z\""`, `{"uri":"test://z"}`
	c := f.initialize("2025-11-25", clientCaps)
	want(t, read(t, c.send(`{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"test://z"}}`)).next(),
		"error.code", "-32002", "error.message", message, "error.data", data)
	body, h := modern(1, "resources/read", `"uri":"test://z"`, noCaps, "Mcp-Name", "test://z")
	want(t, read(t, f.post(body, h)).next(), "error.code", "-32602", "error.message", message, "error.data", data)
}

// A response that may not last is cut, and the client comes back for the rest.
func TestLongResponsesArePolled(t *testing.T) {
	f := newFront(t, mcpserver.Options{PollAfter: time.Millisecond})
	for _, tool := range []string{"wait", "ask"} { // one says nothing, one asks
		c := f.initialize("2025-11-25", clientCaps)
		s := read(t, c.send(call("1", tool, "{}", "")))
		first, _ := s.event()
		if first.id == "" || first.data != "" || first.retry == "" {
			t.Fatalf("%s: the stream begins with %+v", tool, first)
		}
		for m := s.next(); m != ""; m = s.next() {
			want(t, m, "id", `"1"`) // at most the question
		}
		back := read(t, c.get(t.Context(), first.id))
		if tool == "wait" {
			<-f.h.Started
			c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
			<-f.h.Ended
		} else {
			c.send(`{"jsonrpc":"2.0","id":` + get(t, back.next(), "id") + `,"result":{"action":"decline"}}`)
			want(t, back.next(), "id", "1", "result.content.0.text", `"the user said ELICIT_ACTION_DECLINE"`)
		}
		if m := back.next(); m != "" {
			t.Errorf("%s: after the end: %s", tool, m)
		}
	}
	old := f.initialize("2025-06-18", clientCaps) // knows nothing of it
	s := read(t, old.send(call("1", "ask", "{}", "")))
	old.send(`{"jsonrpc":"2.0","id":` + get(t, s.next(), "id") + `,"result":{"action":"decline"}}`)
	want(t, s.next(), "id", "1")
}

func TestPanicEndsTheCallOnly(t *testing.T) {
	f := newFront(t, mcpserver.Options{})
	status, msgs := f.callModern("panic", "", noCaps, "")
	if status != 200 {
		t.Errorf("status %d", status)
	}
	want(t, msgs[0], "error.code", "-32603", "error.data.outcome", `"unknown"`)
}

const urlCaps = `{"elicitation":{"form":{},"url":{}}}`

func TestWebPagesAreVisitedInEveryRevisionThatHasThem(t *testing.T) {
	f := newFront(t, mcpserver.Options{})
	for _, tool := range []string{"visit", "mustvisit"} {
		_, msgs := f.callModern(tool, "", `,"io.modelcontextprotocol/clientCapabilities":`+urlCaps, "")
		key := map[string]string{"visit": "page", "mustvisit": "e1"}[tool]
		want(t, msgs[0], "result.resultType", `"input_required"`, "result.inputRequests."+key+".params",
			`{"message":"sign in","mode":"url","url":"https://example.com/in"}`)
		_, msgs = f.callModern(tool, "", `,"io.modelcontextprotocol/clientCapabilities":`+urlCaps, `,"inputResponses":{"`+key+`":{"action":"accept"}}`)
		want(t, msgs[0], "result.content.0.text", `"visited: ELICIT_ACTION_ACCEPT"`)
		status, msgs := f.callModern(tool, "", `,"io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}`, "")
		if status != 400 {
			t.Errorf("%s: status %d", tool, status)
		}
		want(t, msgs[0], "error.code", "-32021", "error.data", `{"requiredCapabilities":{"elicitation":{"url":{}}}}`)

		for rev, caps := range map[string]string{"2025-06-18": urlCaps, "2025-11-25": `{"elicitation":{}}`} {
			msgs := read(t, f.initialize(rev, caps).send(call("1", tool, "{}", ""))).rest()
			want(t, msgs[len(msgs)-1], "result.isError", "true")
		}
	}
	c := f.initialize("2025-11-25", urlCaps)
	s := read(t, c.send(call("1", "visit", "{}", "")))
	q := s.next()
	want(t, q, "params.mode", `"url"`)
	id := get(t, q, "params.elicitationId")
	if id == "null" {
		t.Error("the visit has no id")
	}
	c.send(`{"jsonrpc":"2.0","id":` + get(t, q, "id") + `,"result":{"action":"accept"}}`)
	want(t, s.next(), "method", `"notifications/elicitation/complete"`, "params", `{"elicitationId":`+id+`}`)
	want(t, s.next(), "result.content.0.text", `"visited: ELICIT_ACTION_ACCEPT"`)
}

func TestErrorThatNamesWebPages(t *testing.T) {
	f := newFront(t, mcpserver.Options{})
	c, other := f.initialize("2025-11-25", urlCaps), f.initialize("2025-11-25", urlCaps)
	want(t, read(t, c.send(call("1", "mustvisit", "{}", ""))).next(), "error.code", "-32042", "error.data.elicitations.0.elicitationId", `"e1"`)
	s, o := read(t, c.get(t.Context(), "")), read(t, other.get(t.Context(), ""))
	for range 2 { // only the first is news
		f.h.Tell(&pb.ListenResponse{Event: &pb.ListenResponse_ElicitationCompleted{ElicitationCompleted: &pb.ElicitationCompleted{ElicitationId: "e1"}}})
	}
	f.h.Add("new")
	want(t, s.next(), "method", `"notifications/elicitation/complete"`, "params", `{"elicitationId":"e1"}`)
	want(t, s.next(), "method", `"notifications/tools/list_changed"`)
	want(t, o.next(), "method", `"notifications/tools/list_changed"`)
}

// A visit may be completed before the client opens the stream on which it is told.
func TestTheCompletionOfAVisitWaitsForAStream(t *testing.T) {
	f := newFront(t, mcpserver.Options{})
	c, other := f.initialize("2025-11-25", urlCaps), f.initialize("2025-11-25", urlCaps)
	read(t, c.send(call("1", "mustvisit", "{}", ""))).rest()
	o := read(t, other.get(t.Context(), ""))
	for _, id := range []string{"e1", "e1", "e2"} { // of which it waits for the first
		f.h.Tell(&pb.ListenResponse{Event: &pb.ListenResponse_ElicitationCompleted{ElicitationCompleted: &pb.ElicitationCompleted{ElicitationId: id}}})
	}
	f.h.Add("new")
	want(t, o.next(), "method", `"notifications/tools/list_changed"`) // then everybody has been told what came before
	s := read(t, c.get(t.Context(), ""))
	want(t, s.next(), "method", `"notifications/elicitation/complete"`, "params", `{"elicitationId":"e1"}`)
	f.h.Remove("new")
	want(t, s.next(), "method", `"notifications/tools/list_changed"`)
}

// A long stream that is cut between events, or inside one, can be gone on with from the last event that came whole.
func TestResumeAtEveryBoundaryAndInsideEvents(t *testing.T) {
	const events = 64
	f := newFront(t, mcpserver.Options{})
	c := f.initialize("2025-11-25", clientCaps)
	res := c.send(call("1", "steps", fmt.Sprintf(`{"n":%d}`, events-1), `"progressToken":"t"`))
	whole, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	all := messages(t, string(whole))
	if len(all) != events {
		t.Fatalf("%d events", len(all))
	}
	read(t, c.send(call("2", "steps", `{"n":3}`, `"progressToken":"other"`))).rest()
	// Every cut between events, and every byte of the event in the middle.
	cuts := map[int]bool{}
	at := 0
	for i, part := range strings.SplitAfter(string(whole), "\n\n") {
		cuts[at] = true
		for k := range part {
			if i == events/2 || k%37 == 0 {
				cuts[at+k] = true
			}
		}
		at += len(part)
	}
	for cut := range cuts {
		got := string(whole[:cut])
		got = got[:strings.LastIndex("\n\n"+got, "\n\n")]
		last := ""
		for line := range strings.Lines(got) {
			if id, ok := strings.CutPrefix(line, "id: "); ok {
				last = strings.TrimSpace(id)
			}
		}
		if last == "" {
			continue // cut before it could be known where to go on
		}
		resumed := append(messages(t, got), read(t, c.get(t.Context(), last)).rest()...)
		if diff := cmp.Diff(all, resumed); diff != "" {
			t.Fatalf("cut at byte %d, gone on after %s: %s", cut, last, diff)
		}
	}
}

// messages returns the messages of a stream of whole events.
func messages(t *testing.T, text string) []string {
	t.Helper()
	return read(t, &http.Response{Body: io.NopCloser(strings.NewReader(text))}).rest()
}

func TestRootsAreAskedForAnew(t *testing.T) {
	f := newFront(t, mcpserver.Options{})
	c := f.initialize("2025-11-25", `{"elicitation":{},"sampling":{},"roots":{"listChanged":true}}`)
	for n, roots := range []string{`[]`, `[{"uri":"file:///a"}]`} {
		s := read(t, c.send(call("1", "many", "{}", "")))
		for range 3 {
			q := s.next()
			c.send(`{"jsonrpc":"2.0","id":` + get(t, q, "id") + `,"result":` + map[string]string{
				`"elicitation/create"`: `{"action":"accept","content":{}}`, `"roots/list"`: `{"roots":` + roots + `}`,
				`"sampling/createMessage"`: `{"role":"assistant","content":{"type":"text","text":"4"},"model":"m"}`,
			}[get(t, q, "method")] + `}`)
		}
		want(t, s.next(), "result.content.0.text", fmt.Sprintf(`"form={} model=4 roots=%d"`, n))
		if res := c.send(`{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`); res.StatusCode != 202 {
			t.Errorf("roots changed: %s", res.Status)
		}
	}
}

func TestChangesBeforeThereIsAStreamAreKept(t *testing.T) {
	f := newFront(t, mcpserver.Options{})
	c := f.initialize("2025-11-25", clientCaps)
	f.h.Add("new")
	want(t, read(t, c.get(t.Context(), "")).next(), "method", `"notifications/tools/list_changed"`)
}

// A call that has nothing to say can be come back to all the same.
func TestSilentCallsCanBeResumed(t *testing.T) {
	f := newFront(t, mcpserver.Options{})
	c := f.initialize("2025-11-25", clientCaps)
	ctx, cancel := context.WithCancel(t.Context())
	s := read(t, c.do(ctx, http.MethodPost, c.url, call("1", "wait", "{}", ""), c.headers()))
	<-f.h.Started
	first, ok := s.event()
	if !ok || first.id == "" || first.data != "" {
		t.Fatalf("the stream begins with %+v", first)
	}
	cancel()
	back := read(t, c.get(t.Context(), first.id))
	c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
	<-f.h.Ended
	if m := back.next(); m != "" {
		t.Error(m)
	}
}
