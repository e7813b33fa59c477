package mcpclient_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/jsonrpc"
	"github.com/mcpbridge/mcpbridge/internal/mcpclient"
	"github.com/mcpbridge/mcpbridge/internal/rawjson"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// The response to server/discover determines the era of an endpoint (2026-07-28: basic/versioning, backward
// compatibility).
func TestProbeOfEndpoints(t *testing.T) {
	refuse := func(status int, body string) func(w http.ResponseWriter, m *jsonrpc.Message) {
		return func(w http.ResponseWriter, m *jsonrpc.Message) {
			if body != "" {
				w.Header().Set("Content-Type", "application/json")
			}
			w.WriteHeader(status)
			_, _ = w.Write([]byte(strings.ReplaceAll(body, "ID", string(m.ID))))
		}
	}
	for name, tt := range map[string]struct {
		discover func(w http.ResponseWriter, m *jsonrpc.Message)
		legacy   bool
	}{
		"400 and nothing": {refuse(400, ""), true},
		"404 and nothing": {refuse(404, ""), true},
		"405 and nothing": {refuse(405, ""), true},
		"406 and nothing": {refuse(406, ""), true},
		"400 and a page":  {refuse(400, "<p>"), true},
		"400 and no session": {refuse(400,
			`{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"no session"}}`), true},
		"200 and no method": {refuse(200,
			`{"jsonrpc":"2.0","id":ID,"error":{"code":-32601,"message":"no method"}}`), true},
		"200 and something else": {refuse(200, `{"jsonrpc":"2.0","id":ID,"result":{"tools":[]}}`), true},
		"202":                    {refuse(202, ""), true},
		"400 and older revisions": {refuse(400,
			`{"jsonrpc":"2.0","id":ID,"error":{"code":-32022,"message":"","data":{"supported":["2025-11-25","2025-06-18"]}}}`), true},
		"silence": {func(http.ResponseWriter, *jsonrpc.Message) { time.Sleep(300 * time.Millisecond) }, true}, //nolint:forbidigo // a server that is silent
		"it":      {refuse(200, discoveredHTTP), false},
		"no method, and no initialize": {refuse(404,
			`{"jsonrpc":"2.0","id":ID,"error":{"code":-32601,"message":"no method"}}`), false},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t, !tt.legacy, func(w http.ResponseWriter, r *http.Request, m *jsonrpc.Message) {
				if got := r.Header.Get("Mcp-Method") == "tools/call"; got == tt.legacy {
					t.Errorf("called with %v", r.Header)
				}
				result(w, m, hello)
			})
			f.discover = tt.discover
			f.noInitialize = !tt.legacy
			c := run(t, mcpclient.Options{URL: f.URL, ProbeTimeout: 100 * time.Millisecond}, quick)
			if got := call(t, c, "t", "{}"); got != "hello" {
				t.Errorf("got %q", got)
			}
		})
	}
}

const discoveredHTTP = `{"jsonrpc":"2.0","id":ID,"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"private"}}`

// A server that does not support server/discover and fails to start a session is not classified as modern.
func TestFailedSessionDoesNotDetermineTheEra(t *testing.T) {
	for _, fails := range []string{`"method":"initialize"`, `"method":"notifications/initialized"`} {
		f := newFake(t, false, func(w http.ResponseWriter, r *http.Request, m *jsonrpc.Message) {
			if r.Header.Get("Mcp-Method") != "" {
				t.Errorf("%s failed: server called with %v", fails, r.Header)
			}
			result(w, m, hello)
		})
		f.discover = func(w http.ResponseWriter, m *jsonrpc.Message) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(strings.ReplaceAll(unknownMethodResponse, "ID", string(m.ID))))
		}
		var failed atomic.Bool
		busy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			if bytes.Contains(body, []byte(fails)) && !failed.Swap(true) {
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			r.Body = io.NopCloser(bytes.NewReader(body))
			f.ServeHTTP(w, r)
		}))
		defer busy.Close()
		c := run(t, mcpclient.Options{URL: busy.URL}, quick)
		if got := call(t, c, "t", "{}"); got != "hello" || !failed.Load() {
			t.Errorf("%s failed: %q", fails, got)
		}
	}
}

// Probing is repeated for a server that first rejects its own revision, and for one that cannot be reached.
func TestProbeResumesAfterAFailure(t *testing.T) {
	n := 0
	f := newFake(t, true, func(w http.ResponseWriter, _ *http.Request, m *jsonrpc.Message) { result(w, m, hello) })
	f.discover = func(w http.ResponseWriter, m *jsonrpc.Message) {
		switch n++; n {
		case 1:
			w.WriteHeader(http.StatusBadGateway)
		case 2:
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32022,"message":"","data":{"supported":["2026-07-28"],"requested":"2026-07-28"}}}`, m.ID)
		default:
			fmt.Fprint(jsonBody(w), strings.Replace(discoveredHTTP, "ID", string(m.ID), 1))
		}
	}
	c := run(t, mcpclient.Options{URL: f.URL}, quick)
	if got := call(t, c, "t", "{}"); got != "hello" || f.count("initialize") != 0 {
		t.Errorf("got %q", got)
	}
}

func jsonBody(w http.ResponseWriter) http.ResponseWriter {
	w.Header().Set("Content-Type", "application/json")
	return w
}

// A request of the modern era contains its method, name and revision in headers and in the body, and its client in the
// body.
func TestModernRequests(t *testing.T) {
	var header http.Header
	var params []byte
	f := newFake(t, true, func(w http.ResponseWriter, r *http.Request, m *jsonrpc.Message) {
		header, params = r.Header, m.Params
		switch m.Method {
		case "resources/read":
			result(w, m, `{"contents":[]}`)
		case "prompts/get":
			result(w, m, `{"messages":[]}`)
		default:
			result(w, m, `{"resultType":"complete","content":[],"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"s","version":"1"},"k":[1]}}`)
		}
	})
	c := run(t, mcpclient.Options{URL: f.URL, Revision: bridge.Rev20260728}, quick)
	tool := &bridge.Call{Method: bridge.CallTool, Request: &pb.CallToolRequest{
		Context: &pb.CallContext{
			Verified: bridge.Verified(bridge.Rev20250618, nil, nil),
			LogLevel: pb.LogLevel_LOG_LEVEL_WARNING, ProgressWanted: true,
			ClientInfo: &pb.Implementation{Name: "who", Version: "2"},
			ClientCapabilities: &pb.ClientCapabilities{
				Sampling:   &pb.SamplingCapability{},
				Roots:      &pb.RootsCapability{ListChanged: proto.Bool(true)},
				Extensions: `{"io.modelcontextprotocol/tasks":{},"x/y":{}}`,
			},
			Meta: `{"progressToken":"theirs","io.modelcontextprotocol/clientCapabilities":{"elicitation":{}},"traceparent":"00-1"}`,
		},
		Name: "gr\u00fc\u00df", Arguments: []byte(`{"a":1e2}`), RequestState: []byte("st\u00e4te"),
		InputResponses: map[string]*pb.InputResponse{
			"k": {Response: &pb.InputResponse_Elicit{Elicit: &pb.ElicitResult{Action: "decline"}}},
		},
	}}
	res, err := c.Handle(t.Context(), tool, ignore)
	if err != nil {
		t.Fatal(err)
	}
	if got := res.Complete.(*pb.CallToolResult).GetMeta(); got != `{"k":[1]}` {
		t.Errorf("_meta is %s", got)
	}
	token := string(rawjson.Get(rawjson.Get(params, "_meta"), "progressToken"))
	want := `{"_meta":{"traceparent":"00-1","io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
		`"io.modelcontextprotocol/clientCapabilities":{"sampling":{},"roots":{},"extensions":{"x/y":{}}},` +
		`"io.modelcontextprotocol/clientInfo":{"name":"who","version":"2"},"io.modelcontextprotocol/logLevel":"warning","progressToken":` + token + `},` +
		"\"name\":\"gr\u00fc\u00df\",\"arguments\":{\"a\":1e2}," +
		"\"inputResponses\":{\"k\":{\"action\":\"decline\"}},\"requestState\":\"st\u00e4te\"}"
	if diff := cmp.Diff(want, string(params)); diff != "" {
		t.Error(diff)
	}
	got := map[string]string{}
	for name := range header {
		if strings.HasPrefix(name, "Mcp-") || name == "Accept" || name == "Content-Type" {
			got[name] = header.Get(name)
		}
	}
	if diff := cmp.Diff(map[string]string{
		"Accept": "application/json, text/event-stream", "Content-Type": "application/json",
		"Mcp-Protocol-Version": "2026-07-28",
		"Mcp-Method":           "tools/call", "Mcp-Name": "=?base64?Z3LDvMOf?=",
	}, got); diff != "" {
		t.Error(diff)
	}
	for _, tt := range []struct {
		call *bridge.Call
		name string
	}{
		{
			&bridge.Call{Method: bridge.ReadResource, Request: &pb.ReadResourceRequest{Uri: "file:///a b"}},
			"file:///a b",
		},
		{&bridge.Call{Method: bridge.GetPrompt, Request: &pb.GetPromptRequest{Name: " p"}}, "=?base64?IHA=?="},
	} {
		if _, err := c.Handle(t.Context(), tt.call, ignore); err != nil || header.Get("Mcp-Name") != tt.name ||
			header.Get("Mcp-Method") != tt.call.Method.Name {
			t.Errorf("%v: %v", header, err)
		}
	}
}

// Arguments that a tool's schema marks are repeated in headers. A server rejects a call without them; then the client
// lists the tools and retries. A tool with an invalid mark is dropped from the list.
func TestParamHeaders(t *testing.T) {
	calls, lists := 0, 0
	f := newFake(t, true, func(w http.ResponseWriter, r *http.Request, m *jsonrpc.Message) {
		switch m.Method {
		case "tools/list":
			lists++
			if rawjson.Get(m.Params, "cursor") == nil {
				result(w, m, `{"tools":[{"name":"bad","inputSchema":{"type":"object","properties":{"a":{"type":"number","x-mcp-header":"A"}}}},{"name":"plain","inputSchema":{"type":"object"}}],"nextCursor":""}`)
				return
			}
			result(w, m, `{"tools":[{"name":"t","inputSchema":{"type":"object","properties":{"s":{"type":"string","x-mcp-header":"S"},"n":{"type":"integer","x-mcp-header":"N"},"z":{"type":"boolean","x-mcp-header":"Z"}}}}]}`)
		case "tools/call":
			calls++
			if r.Header.Get("Mcp-Param-S") == "" {
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(http.StatusBadRequest)
				fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32020,"message":"no header"}}`, m.ID)
				return
			}
			result(w, m, `{"content":[{"type":"text","text":"`+
				strings.Join([]string{
					r.Header.Get("Mcp-Param-S"), r.Header.Get("Mcp-Param-N"),
					fmt.Sprint(r.Header["Mcp-Param-Z"]),
				}, " ")+`"}]}`)
		}
	})
	c := run(t, mcpclient.Options{URL: f.URL}, quick)
	if got := call(t, c, "t", `{"s":" \u00fc","n":4.2e1,"z":null}`); got != "=?base64?IMO8?= 42 []" || calls != 2 ||
		lists != 2 {
		t.Errorf("%q after %d calls, %d lists", got, calls, lists)
	}
	if got := call(t, c, "t", `{"s":"a","z":false}`); got != "a  [false]" || calls != 3 || lists != 2 {
		t.Errorf("%q after %d calls, %d lists", got, calls, lists)
	}
	res, err := c.Handle(t.Context(), &bridge.Call{Method: bridge.ListTools, Request: &pb.ListToolsRequest{}}, ignore)
	if err != nil {
		t.Fatal(err)
	}
	page := res.Complete.(*pb.ListToolsResponse)
	if len(page.GetTools()) != 1 || page.GetTools()[0].GetName() != "plain" || page.NextCursor == nil ||
		*page.NextCursor != "" {
		t.Errorf("got %v", page)
	}
	// If the headers are correct, the error goes to the caller.
	_, err = c.Handle(t.Context(), toolCall("t", `{}`), ignore)
	if e := bridge.AsError(err); e.RPC.GetCode() != -32020 || calls != 5 {
		t.Errorf("%v after %d calls", err, calls)
	}
}

// Errors of the modern era map to the same codes as bridge.Error.
func TestModernErrors(t *testing.T) {
	var body string
	var status int
	f := newFake(t, true, func(w http.ResponseWriter, _ *http.Request, m *jsonrpc.Message) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":%s}`, m.ID, body)
	})
	c := run(t, mcpclient.Options{URL: f.URL}, quick)
	for _, tt := range []struct {
		status int
		body   string
		call   *bridge.Call
		code   codes.Code
		rpc    *pb.JsonRpcError
	}{
		{
			400, `{"code":-32021,"message":"m","data":{"requiredCapabilities":{"elicitation":{"url":{}}}}}`,
			toolCall("t", "{}"),
			codes.FailedPrecondition,
			&pb.JsonRpcError{
				Code: -32021, Message: "m",
				Data: `{"requiredCapabilities":{"elicitation":{"url":{}}}}`,
			},
		},
		{
			200, `{"code":-32602,"message":"m"}`,
			&bridge.Call{Method: bridge.ReadResource, Request: &pb.ReadResourceRequest{Uri: "a"}}, codes.NotFound, nil,
		},
		{
			200, `{"code":-32002,"message":"m"}`,
			&bridge.Call{Method: bridge.ReadResource, Request: &pb.ReadResourceRequest{Uri: "a"}}, codes.NotFound, nil,
		},
		{
			404, `{"code":-32601,"message":"m"}`, toolCall("t", "{}"), codes.Unimplemented,
			&pb.JsonRpcError{Code: -32601, Message: "m"},
		},
		{
			500, `{"code":-32603,"message":"m"}`, toolCall("t", "{}"), codes.Unknown,
			&pb.JsonRpcError{Code: -32603, Message: "m"},
		},
	} {
		status, body = tt.status, tt.body
		_, err := c.Handle(t.Context(), tt.call, ignore)
		if e := bridge.AsError(err); e.Code != tt.code || !proto.Equal(e.RPC, tt.rpc) {
			t.Errorf("%s: %v %v", tt.body, e.Code, e.RPC)
		}
	}
}

// With 401 and 403 too, an error that responds to the call is the server's, and the outcome is unknown. If the response
// requests credentials or has no such error, the call was not executed.
func TestOutcomeOfDeniedCalls(t *testing.T) {
	for _, modern := range []bool{false, true} {
		for status, reason := range map[int]string{401: "UPSTREAM_UNAUTHENTICATED", 403: "UPSTREAM_FORBIDDEN"} {
			var challenge, id string
			f := newFake(t, modern, func(w http.ResponseWriter, _ *http.Request, m *jsonrpc.Message) {
				if challenge != "" {
					w.Header().Set("WWW-Authenticate", challenge)
				}
				if id != "" {
					m.ID = []byte(id)
				}
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(status)
				fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32000,"message":"not this file"}}`, m.ID)
			})
			c := run(t, mcpclient.Options{URL: f.URL}, quick)
			for _, tt := range []struct{ challenge, id, reason string }{
				{"", "", ""},
				{`Bearer error="insufficient_scope"`, "", reason},
				{"", "null", reason},
				{"", "777", reason},
			} {
				challenge, id = tt.challenge, tt.id
				_, err := c.Handle(t.Context(), toolCall("t", "{}"), ignore)
				e := bridge.AsError(err)
				isServerError := e.RPC.GetCode() == -32000 && e.Message == "not this file"
				if e.Reason != tt.reason || isServerError != (tt.reason == "") {
					t.Errorf("modern %t: %d with %q and the id %q: %v %v", modern, status, tt.challenge, tt.id,
						e.Outcome, e)
				}
			}
		}
	}
}

// A server that requires credentials for server/discover is reported as that, whatever its response looks like.
func TestServerThatRequiresCredentials(t *testing.T) {
	f, requests := newFake(t, true, nil), make(chan struct{}, 100)
	f.discover = func(w http.ResponseWriter, m *jsonrpc.Message) {
		requests <- struct{}{}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusUnauthorized)
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32000,"message":"who are you?"}}`, m.ID)
	}
	c, err := mcpclient.New(mcpclient.Options{URL: f.URL})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	for range 2 { // the second time, the reason of the first failure is cached
		select {
		case <-requests:
		case <-time.After(10 * time.Second):
			t.Error("server/discover was not sent again")
		}
	}
	cancel()
	err = c.Ready(ctx)
	if e := bridge.AsError(err); e.Reason != "UPSTREAM_UNAUTHENTICATED" {
		t.Errorf("%v %v", e.Outcome, err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	if n := f.count("initialize"); n != 0 {
		t.Errorf("got initialize %d times", n)
	}
}

// If a server is replaced by one of the other era, the first rejected call makes the client probe again. The call is
// retried if it may be.
func TestEraIsProbedAgain(t *testing.T) {
	f := newFake(t, true, nil)
	f.answer = func(w http.ResponseWriter, r *http.Request, m *jsonrpc.Message) {
		if modern := r.Header.Get("Mcp-Method") != ""; modern != f.modern {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		result(w, m, `{"content":[{"type":"text","text":"hello"}],"prompts":[]}`)
	}
	c := run(t, mcpclient.Options{URL: f.URL}, quick)
	for _, f.modern = range []bool{true, false, true} {
		f.noInitialize = f.modern
		if _, err := c.Handle(t.Context(), &bridge.Call{Method: bridge.ListPrompts, Request: &pb.ListPromptsRequest{}},
			ignore); err != nil {
			t.Errorf("modern %v: %v", f.modern, err)
		}
		if got := call(t, c, "t", "{}"); got != "hello" {
			t.Errorf("modern %v: %q", f.modern, got)
		}
	}
}

// An interrupted subscription is opened again, and missed changes are reported.
func TestListenResumesAfterReconnecting(t *testing.T) {
	for _, modern := range []bool{true, false} {
		t.Run(strconv.FormatBool(modern), func(t *testing.T) {
			cut := make(chan struct{})
			f := newFake(t, modern, func(w http.ResponseWriter, r *http.Request, m *jsonrpc.Message) {
				if !modern {
					result(w, m, `{}`) // the response to resources/subscribe
					return
				}
				stream(w, `data: {"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":{"toolsListChanged":true,"resourceSubscriptions":["a://"]},"_meta":{"io.modelcontextprotocol/subscriptionId":`+string(m.ID)+`}}}`+"\n\n")
				select {
				case <-cut:
				case <-r.Context().Done():
				}
			})
			f.get = func(w http.ResponseWriter, r *http.Request) {
				stream(w, ": hello\n\n")
				select {
				case <-cut:
				case <-r.Context().Done():
				}
			}
			f.capabilities = `{"tools":{"listChanged":true},"resources":{"subscribe":true}}`
			c := run(t, mcpclient.Options{URL: f.URL}, quick)
			ctx, cancel := context.WithCancel(t.Context())
			changes := make(chan *pb.ListenResponse, 10)
			done := make(chan error)
			go func() {
				_, err := c.Handle(ctx, &bridge.Call{
					Method: bridge.Listen,
					Request: &pb.ListenRequest{Notifications: &pb.SubscriptionFilter{
						ToolsListChanged: proto.Bool(true), PromptsListChanged: proto.Bool(true),
						ResourceSubscriptions: []string{"a://"},
					}},
				}, func(_ context.Context, e bridge.Event) error {
					changes <- e.Change
					return nil
				})
				done <- err
			}()
			ack := (<-changes).GetAcknowledged().GetNotifications()
			if !ack.GetToolsListChanged() || ack.PromptsListChanged != nil || len(ack.GetResourceSubscriptions()) != 1 {
				t.Errorf("acknowledged %v", ack)
			}
			cut <- struct{}{}
			if got := <-changes; got.GetToolsListChanged() == nil {
				t.Errorf("received %v", got)
			}
			if got := <-changes; got.GetResourceUpdated().GetUri() != "a://" {
				t.Errorf("received %v", got)
			}
			cancel()
			if e := bridge.AsError(<-done); e.Code != codes.Canceled {
				t.Errorf("ended with %v", e)
			}
		})
	}
}

// A caller has no means to send a server of 2026-07-28 the reason why it has no input. The call ends with that reason
// as text.
func TestInputWithoutAnswer(t *testing.T) {
	var calls atomic.Int64
	f := newFake(t, true, func(w http.ResponseWriter, _ *http.Request, m *jsonrpc.Message) {
		calls.Add(1)
		result(w, m, hello)
	})
	c := run(t, mcpclient.Options{URL: f.URL, Revision: bridge.Rev20260728}, quick)
	none := map[string]*pb.InputResponse{"k": {Response: &pb.InputResponse_Error{Error: &pb.InputError{
		Reason: pb.InputError_REASON_UNSUPPORTED, Message: "this needs a form that cannot be shown",
	}}}}
	res, err := c.Handle(t.Context(), toolCall("t", "{}").Retry(none, []byte("s")), ignore)
	if err != nil {
		t.Fatal(err)
	}
	tool := res.Complete.(*pb.CallToolResult)
	if !tool.GetIsError() || tool.GetContent()[0].GetText().GetText() != "this needs a form that cannot be shown" {
		t.Errorf("a tool returns %v", tool)
	}
	prompt := &bridge.Call{
		Method:  bridge.GetPrompt,
		Request: &pb.GetPromptRequest{Context: &pb.CallContext{}, Name: "p"},
	}
	_, err = c.Handle(t.Context(), prompt.Retry(none, []byte("s")), ignore)
	if e := bridge.AsError(err); e.Code != codes.FailedPrecondition ||
		!strings.Contains(e.Message, "this needs a form") {
		t.Errorf("prompt failed with %v", err)
	}
	if n := calls.Load(); n != 0 {
		t.Errorf("the server received %d calls", n)
	}
}
