package mcpserver_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/protoadapt"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/limits"
	"github.com/mcpbridge/mcpbridge/internal/mcpserver"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

func TestModernCallIsAnsweredWithOneJSONBody(t *testing.T) {
	f := newFront(t, mcpserver.Options{})
	status, msgs := f.callModern("echo", `{"b":9007199254740993, "a":1e2}`, noCaps, "")
	if status != 200 || len(msgs) != 1 {
		t.Fatalf("%d %q", status, msgs)
	}
	if diff := cmp.Diff(`{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","content":[{"type":"text","text":"{\"b\":9007199254740993, \"a\":1e2}"}],`+
		`"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"bridgetest","title":"Bridge Test","version":"1"}}}}`, msgs[0]); diff != "" {
		t.Error(diff)
	}
}

func TestModernProgressAndLogsComeBeforeTheResult(t *testing.T) {
	f := newFront(t, mcpserver.Options{})
	_, msgs := f.callModern("count", "", noCaps+`,"progressToken":12345678901234567890,"io.modelcontextprotocol/logLevel":"info"`, "")
	if diff := cmp.Diff([]string{
		`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":12345678901234567890,"progress":0,"total":2,"message":"begin"}}`,
		`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":12345678901234567890,"progress":1,"total":2}}`,
		`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"warning","logger":"l","data":{"n":9007199254740993}}}`,
		`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":12345678901234567890,"progress":2,"total":2}}`,
	}, msgs[:len(msgs)-1]); diff != "" {
		t.Error(diff)
	}
	want(t, msgs[len(msgs)-1], "id", "1", "result.content.0.text", `"counted"`)
}

func TestModernCallThatWantsNoEventsGetsNone(t *testing.T) {
	f := newFront(t, mcpserver.Options{})
	if _, msgs := f.callModern("count", "", noCaps, ""); len(msgs) != 1 {
		t.Errorf("%q", msgs)
	}
}

// A server that does not declare logging sends no log messages, whatever its backend does (LG-1), and the backend is told that nobody
// wants any.
func TestUndeclaredLogsAreNotSent(t *testing.T) {
	f := newFrontOf(t, mcpserver.Options{}, func(next bridge.Handler) bridge.Handler {
		return bridge.HandlerFunc(func(ctx context.Context, call *bridge.Call, emit bridge.Emit) (*bridge.Result, error) {
			if level := call.Context().GetLogLevel(); level != pb.LogLevel_LOG_LEVEL_UNSPECIFIED {
				t.Errorf("%s wants logs: %s", call.Method.Name, level)
			}
			res, err := next.Handle(ctx, call, emit)
			if call.Method != bridge.Discover || err != nil {
				return res, err
			}
			d := proto.CloneOf(res.Complete.(*pb.DiscoverResponse))
			d.Capabilities.Logging = nil
			return &bridge.Result{Complete: d}, nil
		})
	})
	if _, msgs := f.callModern("count", "", noCaps+`,"io.modelcontextprotocol/logLevel":"debug"`, ""); len(msgs) != 1 {
		t.Errorf("modern: %q", msgs)
	}
	for _, rev := range legacyRevisions {
		if first := read(t, f.initialize(rev, "{}").send(call("1", "count", "{}", ""))).next(); get(t, first, "id") != "1" {
			t.Errorf("%s: %s", rev, first)
		}
	}
}

func TestModernClientComesBackWithAnswers(t *testing.T) {
	f := newFront(t, mcpserver.Options{})
	_, first := f.callModern("ask", `{"x": 1, "y": 2}`, allCaps, "")
	want(t, first[0], "result.resultType", `"input_required"`, "result.requestState", "null",
		"result.inputRequests.name.method", `"elicitation/create"`, "result.inputRequests.name.params.mode", `"form"`)
	_, second := f.callModern("ask", `{"x": 1, "y": 2}`, allCaps, `,"inputResponses":{"name":{"action":"accept","content":{"name":"Ada"}},"more":{"action":"cancel"}}`)
	state := get(t, second[0], "result.requestState")
	want(t, second[0], "result.resultType", `"input_required"`, "result.inputRequests.right.params.message", `"is that right?"`)
	if strings.Contains(state, "Ada") {
		t.Error("the state can be read by the client")
	}
	// The same arguments, though written in another way.
	_, third := f.callModern("ask", `{"y":2,"x":1}`, allCaps, `,"requestState":`+state+`,"inputResponses":{"right":{"action":"accept","content":{"yes":"y"}}}`)
	want(t, third[0], "result.resultType", `"complete"`, "result.content.0.text", `"name={\"name\":\"Ada\"} {\"yes\":\"y\"}"`)

	for name, c := range map[string]struct{ tool, args, state string }{
		"changed":         {"ask", `{"x":1,"y":2}`, state[:len(state)-3] + `AA"`},
		"of other args":   {"ask", `{"x":1,"y":3}`, state},
		"of another tool": {"echo", `{"x":1,"y":2}`, state},
		"empty":           {"ask", `{"x":1,"y":2}`, `""`},
		"nonsense":        {"ask", `{"x":1,"y":2}`, `"%%%"`},
	} {
		_, msgs := f.callModern(c.tool, c.args, allCaps, `,"requestState":`+c.state+`,"inputResponses":{"right":{"action":"accept"}}`)
		if get(t, msgs[0], "error.code") != "-32602" {
			t.Errorf("a state that is %s: %s", name, msgs[0])
		}
	}
}

func TestModernStateExpires(t *testing.T) {
	f := newFront(t, mcpserver.Options{Limits: limits.Limits{StateLife: -time.Minute}})
	_, msgs := f.callModern("ask", "", allCaps, `,"inputResponses":{"name":{"action":"accept","content":{}}}`)
	_, msgs = f.callModern("ask", "", allCaps, `,"requestState":`+get(t, msgs[0], "result.requestState"))
	want(t, msgs[0], "error.code", "-32602", "error.message", `"requestState has expired: make the call again without it"`)
}

func TestModernRoundsAreBounded(t *testing.T) {
	f := newFront(t, mcpserver.Options{})
	_, msgs := f.callModern("endless", "", allCaps, "")
	for range 9 {
		_, msgs = f.callModern("endless", "", allCaps, `,"requestState":`+get(t, msgs[0], "result.requestState"))
		want(t, msgs[0], "result.resultType", `"input_required"`)
	}
	_, msgs = f.callModern("endless", "", allCaps, `,"requestState":`+get(t, msgs[0], "result.requestState"))
	want(t, msgs[0], "error.code", "-32603")
}

func TestModernReplicasWithTheSameKeyShareState(t *testing.T) {
	key, other := [32]byte{1}, [32]byte{2}
	a := newFront(t, mcpserver.Options{StateKeys: [][32]byte{key}})
	b := newFront(t, mcpserver.Options{StateKeys: [][32]byte{other, key}})
	_, msgs := a.callModern("ask", "", allCaps, `,"inputResponses":{"name":{"action":"accept","content":{}}}`)
	_, msgs = b.callModern("ask", "", allCaps, `,"requestState":`+get(t, msgs[0], "result.requestState")+`,"inputResponses":{"right":{"action":"decline"}}`)
	want(t, msgs[0], "result.resultType", `"complete"`)
}

func TestModernClientIsNotAskedWhatItCannotAnswer(t *testing.T) {
	f := newFront(t, mcpserver.Options{})
	status, msgs := f.callModern("many", "", `,"io.modelcontextprotocol/clientCapabilities":{"elicitation":{},"roots":{}}`, "")
	if status != 400 {
		t.Errorf("status %d", status)
	}
	want(t, msgs[0], "error.code", "-32021", "error.data", `{"requiredCapabilities":{"sampling":{}}}`)
}

func TestModernHeadersMustSayWhatTheBodySays(t *testing.T) {
	f := newFront(t, mcpserver.Options{})
	body, ok := modern(5, "tools/call", `"name":"echo"`, noCaps, "Mcp-Name", "echo")
	for _, c := range []struct {
		name   string
		h      header
		status int
		code   string
	}{
		{"right", ok, 200, "null"},
		{"padded", header{"MCP-Protocol-Version", "2026-07-28", "mcp-method", " tools/call ", "MCP-NAME", "echo  "}, 200, "null"},
		{"encoded", header{"MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "=?base64?ZWNobw==?="}, 200, "null"},
		{"badly encoded", header{"MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "=?base64?ZWNobw?="}, 400, "-32020"},
		{"no version", header{"Mcp-Method", "tools/call", "Mcp-Name", "echo"}, 400, "-32020"},
		{"other version", header{"MCP-Protocol-Version", "2025-11-25", "Mcp-Method", "tools/call", "Mcp-Name", "echo"}, 400, "-32020"},
		{"no method", header{"MCP-Protocol-Version", "2026-07-28", "Mcp-Name", "echo"}, 400, "-32020"},
		{"other method", header{"MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/list", "Mcp-Name", "echo"}, 400, "-32020"},
		{"method in capitals", header{"MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "TOOLS/CALL", "Mcp-Name", "echo"}, 400, "-32020"},
		{"no name", header{"MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call"}, 400, "-32020"},
		{"other name", header{"MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "count"}, 400, "-32020"},
		{"two names", header{"MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "echo", "Mcp-Name", "echo"}, 400, "-32020"},
		{"two of what the tool does not have", append(header{"Mcp-Param-X", "a", "Mcp-Param-X", "a"}, ok...), 400, "-32020"},
		{"two sessions", append(header{"Mcp-Session-Id", "a", "Mcp-Session-Id", "a"}, ok...), 400, "-32020"},
		{"a session", append(header{"Mcp-Session-Id", "of long ago"}, ok...), 200, "null"},
	} {
		res := f.post(body, c.h)
		msg := read(t, res).next()
		if res.StatusCode != c.status || get(t, msg, "error.code") != c.code || get(t, msg, "id") != "5" {
			t.Errorf("%s: %s %s", c.name, res.Status, msg)
		}
		if res.Header.Get("Mcp-Session-Id") != "" {
			t.Errorf("%s: got a session", c.name)
		}
	}
}

// What a header cannot have is refused although the body has it as well: another server on the way may have read something else.
func TestModernNamesThatNoHeaderCanSay(t *testing.T) {
	f := newFront(t, mcpserver.Options{})
	for said, code := range map[string]string{"test://\u00e9": "-32020", "=?base64?dGVzdDovL8Op?=": "-32602"} {
		body, h := modern(5, "resources/read", `"uri":"test://\u00e9"`, noCaps, "Mcp-Name", said)
		res := f.post(body, h)
		if msg := read(t, res).next(); get(t, msg, "error.code") != code {
			t.Errorf("%q: %s %s", said, res.Status, msg)
		}
	}
}

func TestModernRequestsThatCannotBeMeant(t *testing.T) {
	f := newFront(t, mcpserver.Options{})
	const version = `"io.modelcontextprotocol/protocolVersion":`
	for _, c := range []struct {
		name, body, method, version string
		status                      int
		code                        string
	}{
		{"no _meta", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, "tools/list", "2026-07-28", 400, "-32602"},
		{"no version", `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/clientCapabilities":{}}}}`, "tools/list", "2026-07-28", 400, "-32602"},
		{"no capabilities", `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{` + version + `"2026-07-28"}}}`, "tools/list", "2026-07-28", 400, "-32602"},
		{"unknown version", `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{` + version + `"1900-01-01"` + noCaps + `}}}`, "tools/list", "1900-01-01", 400, "-32022"},
		{"legacy version", `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{` + version + `"2025-11-25"` + noCaps + `}}}`, "tools/list", "2025-11-25", 400, "-32022"},
		{"unknown method", `{"jsonrpc":"2.0","id":1,"method":"tools/burn","params":{"_meta":{` + version + `"2026-07-28"` + noCaps + `}}}`, "tools/burn", "2026-07-28", 404, "-32601"},
		{"initialize", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"_meta":{` + version + `"2026-07-28"` + noCaps + `}}}`, "initialize", "2026-07-28", 404, "-32601"},
		{"ping", `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"_meta":{` + version + `"2026-07-28"` + noCaps + `}}}`, "ping", "2026-07-28", 404, "-32601"},
		{"unknown level", `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{` + version + `"2026-07-28"` + noCaps + `,"io.modelcontextprotocol/logLevel":"loud"}}}`, "tools/list", "2026-07-28", 400, "-32602"},
		{"unknown level that is known in capitals", `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{` + version + `"2026-07-28"` + noCaps + `,"io.modelcontextprotocol/logLevel":"\u0131nfo"}}}`, "tools/list", "2026-07-28", 400, "-32602"},
		{"token of an object", `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{` + version + `"2026-07-28"` + noCaps + `,"progressToken":{}}}}`, "tools/list", "2026-07-28", 400, "-32602"},
		{"bad cursor", `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":"x","_meta":{` + version + `"2026-07-28"` + noCaps + `}}}`, "tools/list", "2026-07-28", 200, "-32602"},
		{"a batch", `[{"jsonrpc":"2.0","id":1,"method":"tools/list"}]`, "tools/list", "2026-07-28", 400, "-32600"},
		{"a response", `{"jsonrpc":"2.0","id":1,"result":{}}`, "", "2026-07-28", 400, "-32600"},
		{"two messages", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}{}`, "tools/list", "2026-07-28", 400, "-32700"},
		{"a name twice", `{"jsonrpc":"2.0","id":1,"method":"tools/list","method":"tools/call"}`, "tools/list", "2026-07-28", 400, "-32600"},
		{"params of an array", `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":[]}`, "tools/list", "2026-07-28", 400, "-32602"},
		{"a call without an id", `{"jsonrpc":"2.0","method":"tools/call","params":{"name":"echo"}}`, "tools/call", "2026-07-28", 400, "-32600"},
	} {
		res := f.post(c.body, header{"MCP-Protocol-Version", c.version, "Mcp-Method", c.method})
		msg := read(t, res).next()
		if res.StatusCode != c.status || get(t, msg, "error.code") != c.code {
			t.Errorf("%s: %s %s", c.name, res.Status, msg)
		}
	}
}

func TestModernErrorsOfTheBackend(t *testing.T) {
	f := newFront(t, mcpserver.Options{})
	for _, c := range []struct {
		tool, path, want string
	}{
		{"nosuch", "error.code", "-32602"},
		{"nosuch", "error.message", `"there is no tool \"nosuch\""`},
		{"fail", "result.isError", "true"},
		{"broken", "error.code", "-32603"},
		{"broken", "error.message", `"internal error; the bridge's log says more"`},
		{"exact", "error", `{"code":-7,"data":{"n":[1]},"message":"no luck"}`},
		{"garbage", "error.code", "-32603"},
	} {
		status, msgs := f.callModern(c.tool, "", noCaps, "")
		if status != 200 {
			t.Errorf("%s: status %d", c.tool, status)
		}
		want(t, msgs[0], c.path, c.want)
	}
}

// What a backend answers is about the call: no code by which the transport speaks of the request, and no HTTP status but 200.
func TestBackendsDoNotSpeakAsTheTransport(t *testing.T) {
	exactly := func(code int64) proto.Message {
		return &pb.JsonRpcError{Code: code, Message: proto.String("mine"), Data: []byte(`{"supported":["2024-11-05"]}`)}
	}
	busy := func(reason string) proto.Message {
		return &pb.CallFailure{Outcome: pb.CallFailure_OUTCOME_NOT_EXECUTED, Reason: reason, RetryAfterMs: proto.Int64(7)}
	}
	const theirs, overloaded = `{"supported":["2024-11-05"]}`, `{"outcome":"not_executed","reason":"BACKEND_OVERLOADED","retryAfterMs":7}`
	for _, c := range []struct {
		says proto.Message
		data string
	}{
		{exactly(-32700), theirs},
		{exactly(-32600), theirs},
		{exactly(-32020), theirs},
		{exactly(-32022), theirs},
		{exactly(-32042), theirs}, // it names no web page
		{busy(bridge.ReasonOverloaded), overloaded},
		{busy(bridge.ReasonTooMany), overloaded},
	} {
		answer, err := status.New(codes.Unknown, "mine").WithDetails(protoadapt.MessageV1Of(c.says))
		if err != nil {
			t.Fatal(err)
		}
		fails := func(only *bridge.Method) *front {
			return newFrontOf(t, mcpserver.Options{}, func(h bridge.Handler) bridge.Handler {
				return bridge.HandlerFunc(func(ctx context.Context, call *bridge.Call, emit bridge.Emit) (*bridge.Result, error) {
					if call.Method == only {
						return nil, bridge.FromStatus(answer)
					}
					return h.Handle(ctx, call, emit)
				})
			})
		}
		f := fails(bridge.CallTool)
		told := func(who string, status int, msg string) {
			t.Helper()
			if want(t, msg, "error.code", "-32603", "error.message", `"mine"`, "error.data", c.data); status != http.StatusOK {
				t.Errorf("%v, %s: status %d", c.says, who, status)
			}
		}
		status, msgs := f.callModern("t", "", noCaps, "")
		told("modern", status, msgs[0])
		for _, rev := range legacyRevisions {
			res := f.initialize(rev, "{}").send(call("1", "t", "{}", ""))
			told(rev, res.StatusCode, read(t, res).next())
		}
		res := fails(bridge.Discover).post(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25",`+
			`"capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`, nil)
		told("initialize", res.StatusCode, read(t, res).next())
	}
}

// A code that a backend wants is told in the revisions that do not reserve it for something else, or for nothing yet (2026-07-28:
// basic/index, error codes).
func TestExactCodesAreThoseOfTheRevision(t *testing.T) {
	for _, c := range []struct{ code, legacy, modern int64 }{
		{-7, -7, -7},
		{-32000, -32000, -32000},
		{-32002, -32002, -32602},
		{-32019, -32019, -32019},
		{-32023, -32023, -32603},
		{-32041, -32041, -32603},
		{-32042, -32603, -32603},
		{-32099, -32099, -32603},
		{-32100, -32100, -32100},
		{-32601, -32601, -32601},
		{-32602, -32602, -32602},
	} {
		e := &bridge.Error{Code: codes.Unknown, RPC: &pb.JsonRpcError{Code: c.code, Message: proto.String("mine"), Data: []byte(`[1]`)}}
		f := newFrontOf(t, mcpserver.Options{}, func(h bridge.Handler) bridge.Handler {
			return bridge.HandlerFunc(func(ctx context.Context, call *bridge.Call, emit bridge.Emit) (*bridge.Result, error) {
				if call.Method == bridge.ReadResource {
					return nil, e
				}
				return h.Handle(ctx, call, emit)
			})
		})
		told := func(who, msg string, code int64) {
			t.Helper()
			if diff := cmp.Diff(fmt.Sprintf(`{"code":%d,"data":[1],"message":"mine"}`, code), get(t, msg, "error")); diff != "" {
				t.Errorf("%d, %s: %s", c.code, who, diff)
			}
		}
		body, h := modern(1, "resources/read", `"uri":"test://a"`, noCaps, "Mcp-Name", "test://a")
		told("modern", read(t, f.post(body, h)).next(), c.modern)
		for _, rev := range legacyRevisions {
			res := f.initialize(rev, "{}").send(`{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"test://a"}}`)
			told(rev, read(t, res).next(), c.legacy)
		}
	}
}

func TestModernDisconnectCancels(t *testing.T) {
	f := newFront(t, mcpserver.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	body, h := modern(1, "tools/call", `"name":"wait"`, noCaps, "Mcp-Name", "wait")
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, f.url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", "application/json, text/event-stream")
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(h); i += 2 {
		req.Header.Set(h[i], h[i+1])
	}
	failed := make(chan error)
	go func() {
		res, err := f.c.Do(req)
		if err == nil {
			res.Body.Close()
		}
		failed <- err
	}()
	<-f.h.Started
	cancel()
	if <-failed == nil {
		t.Error("answered")
	}
	<-f.h.Ended
}

func TestModernDiscover(t *testing.T) {
	f := newFront(t, mcpserver.Options{})
	body, h := modern(1, "server/discover", "", noCaps)
	want(t, read(t, f.post(body, h)).next(), "result.resultType", `"complete"`, "result.supportedVersions", `["2026-07-28"]`, "result.ttlMs", "0",
		"result.cacheScope", `"private"`, "result.instructions", `"call anything"`, "result.capabilities.tools.listChanged", "true",
		"result._meta.io·modelcontextprotocol/serverInfo.name", `"bridgetest"`)
}

func TestModernPagesAddUp(t *testing.T) {
	f := newFront(t, mcpserver.Options{})
	seen := map[string]bool{}
	cursor := ""
	for range 10 {
		params := ""
		if cursor != "" {
			params = `"cursor":` + cursor
		}
		body, h := modern(1, "tools/list", params, noCaps)
		msg := read(t, f.post(body, h)).next()
		want(t, msg, "result.ttlMs", "0")
		for i := 0; get(t, msg, "result.tools."+string(rune('0'+i))) != "null"; i++ {
			seen[get(t, msg, "result.tools."+string(rune('0'+i))+".name")] = true
		}
		if cursor = get(t, msg, "result.nextCursor"); cursor == "null" {
			break
		}
	}
	if len(seen) < 12 || !seen[`"echo"`] || !seen[`"wait"`] {
		t.Errorf("%v", seen)
	}
}

func TestModernListenTellsWhatIsAskedFor(t *testing.T) {
	f := newFront(t, mcpserver.Options{})
	body, h := modern(7, "subscriptions/listen", `"notifications":{"toolsListChanged":true,"promptsListChanged":true,"resourceSubscriptions":["test://a"]}`, noCaps)
	s := read(t, f.post(body, h))
	const id = "params._meta.io·modelcontextprotocol/subscriptionId"
	// The prompts of this server do not change, so that they are not acknowledged.
	want(t, s.next(), "method", `"notifications/subscriptions/acknowledged"`, id, "7",
		"params.notifications", `{"resourceSubscriptions":["test://a"],"toolsListChanged":true}`)
	f.h.Update("test://b")
	f.h.Update("test://a/part")
	want(t, s.next(), "method", `"notifications/resources/updated"`, "params.uri", `"test://a/part"`, id, "7")
	f.h.Add("new")
	want(t, s.next(), "method", `"notifications/tools/list_changed"`, id, "7")
	f.s.Drain()
	want(t, s.next(), "id", "7", "result.resultType", `"complete"`, "result._meta.io·modelcontextprotocol/subscriptionId", "7")
	if more := s.next(); more != "" {
		t.Error(more)
	}
}

func TestModernListenersShareOneListenOfTheBackend(t *testing.T) {
	f := newFront(t, mcpserver.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	var streams []*stream
	for i := range 3 {
		body, h := modern(i, "subscriptions/listen", `"notifications":{"toolsListChanged":true}`, noCaps)
		s := read(t, f.do(ctx, http.MethodPost, f.url, body, h))
		s.next()
		streams = append(streams, s)
	}
	if n := f.h.Listeners(); n != 1 {
		t.Errorf("%d listens", n)
	}
	f.h.Add("new")
	for _, s := range streams {
		want(t, s.next(), "method", `"notifications/tools/list_changed"`)
	}
	cancel()
}

func TestModernHasNoStreamsOrSessionsToOpen(t *testing.T) {
	f := newFront(t, mcpserver.Options{})
	for _, method := range []string{http.MethodGet, http.MethodDelete, http.MethodPut} {
		res := f.do(t.Context(), method, f.url, "", header{"MCP-Protocol-Version", "2026-07-28"})
		if res.StatusCode != 405 || res.Header.Get("Allow") == "" {
			t.Errorf("%s: %s", method, res.Status)
		}
	}
}

func TestModernHeadersSayWhatTheArgumentsSay(t *testing.T) {
	f := newFront(t, mcpserver.Options{})
	for _, c := range []struct {
		args   string
		h      header
		status int
	}{
		{`{"region":"eu"}`, header{"Mcp-Param-Region", "eu"}, 200},
		{`{"region":"eu"}`, header{"mcp-param-REGION", " =?base64?ZXU=?= "}, 200},
		{`{"region":"eu","in":{"n":42.0}}`, header{"Mcp-Param-Region", "eu", "Mcp-Param-Count", "42"}, 200},
		{`{"region":null}`, nil, 200},
		{`{}`, header{"Mcp-Param-Other", "is not ours"}, 200},
		{`{"region":"eu"}`, nil, 400},
		{`{"region":"eu"}`, header{"Mcp-Param-Region", "us"}, 400},
		{`{"region":"eu"}`, header{"Mcp-Param-Region", "=?base64?ZXU?="}, 400},
		{`{"region":"eu"}`, header{"Mcp-Param-Region", "eu", "Mcp-Param-Region", "eu"}, 400},
		{`{}`, header{"Mcp-Param-Region", "eu"}, 400},
		{`{"in":{"n":1}}`, header{"Mcp-Param-Count", "2"}, 400},
	} {
		body, h := modern(1, "tools/call", `"name":"echo","arguments":`+c.args, noCaps, "Mcp-Name", "echo")
		res := f.post(body, append(h, c.h...))
		msg := read(t, res).next()
		if res.StatusCode != c.status || c.status == 400 && get(t, msg, "error.code") != "-32020" {
			t.Errorf("%s %q: %s %s", c.args, c.h, res.Status, msg)
		}
	}
}

// What headers must say is in the list of tools. When the backend does not tell it, no call is made of which it is not known that its headers
// say what its arguments say, and the others are.
func TestModernHeadersWhenTheToolsAreNotListed(t *testing.T) {
	for _, c := range []struct {
		why   error
		known bool // the tools were listed before
		args  string
		h     header
		want  string // in the answer
	}{
		{errors.New("oh"), false, `{"region":"eu"}`, header{"Mcp-Param-Region", "us"}, `"reason":"BACKEND_FAILED","outcome":"not_executed"`},
		{errors.New("oh"), false, `{"region":"eu"}`, header{"mcp-param-region", "eu"}, `does not list them (internal error; the bridge's log says more); the call was not executed`},
		{errors.New("oh"), false, `{"region":"eu"}`, nil, `"text":"{\"region\":\"eu\"}"`},
		{errors.New("oh"), true, `{"region":"eu"}`, header{"Mcp-Param-Region", "eu"}, `"text":"{\"region\":\"eu\"}"`},
		{errors.New("oh"), true, `{"region":"eu"}`, header{"Mcp-Param-Region", "us"}, `"reason":"BACKEND_FAILED","outcome":"not_executed"`},
		{errors.New("oh"), true, `{"region":"eu"}`, nil, `"reason":"BACKEND_FAILED","outcome":"not_executed"`},
		{
			bridge.Failed(codes.DeadlineExceeded, pb.CallFailure_OUTCOME_UNKNOWN, "DEADLINE", "tools/list was cut"), false, `{"region":"eu"}`,
			header{"Mcp-Param-Region", "us"},
			`(tools/list was cut); the call was not executed","data":{"reason":"DEADLINE","outcome":"not_executed"}`,
		},
		{
			bridge.FromJSONRPC(&pb.JsonRpcError{Code: -32000, Message: proto.String("the tools are being moved")}, bridge.Rev20260728, bridge.ListTools), false,
			`{"region":"eu"}`,
			header{"Mcp-Param-Region", "us"},
			`"outcome":"not_executed"`,
		},
		{bridge.Errorf(codes.Unimplemented, "no list"), false, `{"region":"eu"}`, header{"Mcp-Param-Region", "is not ours"}, `"text":"{\"region\":\"eu\"}"`},
	} {
		var fails atomic.Bool
		fails.Store(!c.known)
		f := newFrontOf(t, mcpserver.Options{}, func(next bridge.Handler) bridge.Handler {
			return bridge.HandlerFunc(func(ctx context.Context, call *bridge.Call, emit bridge.Emit) (*bridge.Result, error) {
				if call.Method == bridge.ListTools && fails.Load() {
					return nil, c.why
				}
				return next.Handle(ctx, call, emit)
			})
		})
		if c.known {
			f.callModern("echo", `{}`, noCaps, "")
			fails.Store(true)
		}
		body, h := modern(1, "tools/call", `"name":"echo","arguments":`+c.args, noCaps, "Mcp-Name", "echo")
		if msg := read(t, f.post(body, append(h, c.h...))).next(); !strings.Contains(msg, c.want) {
			t.Errorf("%v, known %v, %s %q: %s", c.why, c.known, c.args, c.h, msg)
		}
	}
}

// What headers must say is in the list that the caller itself sees: one that may see more, or can do more, is another, whoever called
// a moment ago.
func TestModernHeadersAreThoseOfTheCallersOwnTools(t *testing.T) {
	for name, more := range map[string]struct {
		sees func(*pb.CallContext) bool
		caps string
		h    header
	}{
		"scopes":       {func(c *pb.CallContext) bool { return len(c.GetPrincipal().GetScopes()) > 0 }, noCaps, header{"X-Test-Scope", "wide"}},
		"capabilities": {func(c *pb.CallContext) bool { return c.GetClientCapabilities().GetElicitation() != nil }, allCaps, nil},
	} {
		f := newFrontOf(t, mcpserver.Options{Principal: byHeader}, func(next bridge.Handler) bridge.Handler {
			return bridge.HandlerFunc(func(ctx context.Context, call *bridge.Call, emit bridge.Emit) (*bridge.Result, error) {
				if call.Method == bridge.ListTools && !more.sees(call.Context()) {
					return &bridge.Result{Complete: &pb.ListToolsResponse{}}, nil
				}
				return next.Handle(ctx, call, emit)
			})
		})
		body, h := modern(1, "tools/call", `"name":"who","arguments":{}`, noCaps, "Mcp-Name", "who", "X-Test-Who", "ada")
		if res := f.post(body, h); res.StatusCode != http.StatusOK {
			t.Fatal(res.Status)
		}
		calls := f.h.Calls.Of("tools/call")
		body, h = modern(2, "tools/call", `"name":"echo","arguments":{"region":"eu"}`, more.caps,
			"Mcp-Name", "echo", "Mcp-Param-Region", "us", "X-Test-Who", "ada")
		want(t, read(t, f.post(body, append(h, more.h...))).next(), "error.code", "-32020")
		if n := f.h.Calls.Of("tools/call"); n != calls {
			t.Errorf("%s: a call is made whose header says another thing than its arguments", name)
		}
	}
}

func TestToolsAreNotListedForEveryCall(t *testing.T) {
	f := newFront(t, mcpserver.Options{})
	const calls = 100
	for range calls {
		f.callModern("who", "", noCaps, "")
	}
	if n := f.h.Calls.Of("tools/list"); n == 0 || n >= calls {
		t.Errorf("listed %d times", n)
	}
}

// One client's subscriptions must not cost another one its own.
func TestListenersAreApart(t *testing.T) {
	f := newFront(t, mcpserver.Options{})
	body, h := modern(1, "subscriptions/listen", `"notifications":{"toolsListChanged":true}`, noCaps)
	s := read(t, f.post(body, h))
	s.next()
	// A backend that cannot listen to something tells those who want something else all the same.
	f.h.Refuse("test://refused")
	ctx, cancel := context.WithCancel(t.Context())
	body, h = modern(2, "subscriptions/listen", `"notifications":{"resourceSubscriptions":["test://refused"]}`, noCaps)
	read(t, f.do(ctx, http.MethodPost, f.url, body, h)).next()
	f.h.Add("new")
	want(t, s.next(), "method", `"notifications/tools/list_changed"`)
	cancel()
	// What is too much for a message to the backend is refused to whom it comes from.
	for _, uris := range []string{`"` + strings.Repeat("x", 8<<10+1) + `"`, strings.Repeat(`"`+strings.Repeat("x", 8<<10)+`",`, 8) + `"y"`} {
		body, h = modern(3, "subscriptions/listen", `"notifications":{"resourceSubscriptions":[`+uris+`]}`, noCaps)
		if msg := read(t, f.post(body, h)).next(); get(t, msg, "error.code") == "null" {
			t.Errorf("%d bytes: %.100s", len(uris), msg)
		}
	}
	uris := strings.TrimSuffix(strings.Repeat(`"`+strings.Repeat("x", 8<<10)+`",`, 8), ",")
	body, h = modern(4, "subscriptions/listen", `"notifications":{"resourceSubscriptions":[`+uris+`]}`, noCaps)
	want(t, read(t, f.post(body, h)).next(), "method", `"notifications/subscriptions/acknowledged"`)
}

// What changed while the backend was away is not known, so that everybody is told, whoever listens by then.
func TestNobodyMissesTheReturnOfTheBackend(t *testing.T) {
	f := newFront(t, mcpserver.Options{})
	body, h := modern(1, "subscriptions/listen", `"notifications":{"toolsListChanged":true}`, noCaps)
	first := read(t, f.post(body, h))
	first.next()
	f.h.Drop()
	body, h = modern(2, "subscriptions/listen", `"notifications":{"resourcesListChanged":true}`, noCaps)
	second := read(t, f.post(body, h))
	second.next()
	want(t, first.next(), "method", `"notifications/tools/list_changed"`)
}
