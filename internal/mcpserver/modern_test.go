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
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/catalog"
	"github.com/mcpbridge/mcpbridge/internal/mcpserver"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// If the server does not declare logging, no log messages are sent, whatever the backend emits (LG-1), and the backend
// receives no log level.
func TestUndeclaredLogsAreNotSent(t *testing.T) {
	f := newFrontOf(t, mcpserver.Options{}, func(next bridge.Handler) bridge.Handler {
		return bridge.HandlerFunc(
			func(ctx context.Context, call *bridge.Call, emit bridge.Emit) (*bridge.Result, error) {
				if level := call.Context().GetLogLevel(); level != pb.LogLevel_LOG_LEVEL_UNSPECIFIED {
					t.Errorf("%s received a log level: %s", call.Method.Name, level)
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
		if first := read(t, f.initialize(rev, "{}").send(call("1", "count", "{}", ""))).
			next(); get(t, first, "id") != "1" {
			t.Errorf("%s: %s", rev, first)
		}
	}
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
	_, msgs = b.callModern("ask", "", allCaps,
		`,"requestState":`+get(t, msgs[0], "result.requestState")+`,"inputResponses":{"right":{"action":"decline"}}`)
	want(t, msgs[0], "result.resultType", `"complete"`)
}

// A name that is invalid in a header is rejected even if the body has the same one: an intermediary may have parsed
// another value.
func TestModernNamesThatDoNotFitAHeader(t *testing.T) {
	f := newFront(t, mcpserver.Options{})
	for received, code := range map[string]string{"test://\u00e9": "-32020", "=?base64?dGVzdDovL8Op?=": "-32602"} {
		body, h := modern(5, "resources/read", `"uri":"test://\u00e9"`, noCaps, "Mcp-Name", received)
		res := f.post(body, h)
		if msg := read(t, res).next(); get(t, msg, "error.code") != code {
			t.Errorf("%q: %s %s", received, res.Status, msg)
		}
	}
}

// A backend's error is about the call: it cannot use the codes of transport errors, and the HTTP status is 200.
func TestBackendsCannotSendTransportErrors(t *testing.T) {
	exactly := func(code int32) []protoadapt.MessageV1 {
		return []protoadapt.MessageV1{
			&pb.JsonRpcError{Code: code, Message: "mine", Data: `{"supported":["2024-11-05"]}`},
		}
	}
	busy := func(reason string) []protoadapt.MessageV1 {
		return []protoadapt.MessageV1{&errdetails.ErrorInfo{
			Reason: reason, Domain: bridge.ErrorDomain, Metadata: map[string]string{"outcome": "not_executed"},
		}, &errdetails.RetryInfo{RetryDelay: durationpb.New(7 * time.Millisecond)}}
	}
	const theirs, overloaded = `{"supported":["2024-11-05"]}`,
		`{"outcome":"not_executed","reason":"BACKEND_OVERLOADED","retryAfterMs":7}`
	for _, c := range []struct {
		text []protoadapt.MessageV1
		data string
	}{
		{exactly(-32700), theirs},
		{exactly(-32600), theirs},
		{exactly(-32020), theirs},
		{exactly(-32022), theirs},
		{exactly(-32042), theirs}, // it has no URL
		{busy(bridge.ReasonOverloaded), overloaded},
		{busy(bridge.ReasonTooMany), overloaded},
	} {
		answer, err := status.New(codes.Unknown, "mine").WithDetails(c.text...)
		if err != nil {
			t.Fatal(err)
		}
		fails := func(only *bridge.Method) *front {
			return newFrontOf(t, mcpserver.Options{}, func(h bridge.Handler) bridge.Handler {
				return bridge.HandlerFunc(
					func(ctx context.Context, call *bridge.Call, emit bridge.Emit) (*bridge.Result, error) {
						if call.Method == only {
							return nil, bridge.FromStatus(answer)
						}
						return h.Handle(ctx, call, emit)
					})
			})
		}
		f := fails(bridge.CallTool)
		received := func(who string, status int, msg string) {
			t.Helper()
			if want(t, msg, "error.code", "-32603", "error.message", `"mine"`, "error.data",
				c.data); status != http.StatusOK {
				t.Errorf("%v, %s: status %d", c.text, who, status)
			}
		}
		status, msgs := f.callModern("t", "", noCaps, "")
		received("modern", status, msgs[0])
		for _, rev := range legacyRevisions {
			res := f.initialize(rev, "{}").send(call("1", "t", "{}", ""))
			received(rev, res.StatusCode, read(t, res).next())
		}
		res := fails(bridge.Discover).
			post(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25",`+
				`"capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`, nil)
		received("initialize", res.StatusCode, read(t, res).next())
	}
}

// A backend's error code is sent in the revisions that do not reserve it (2026-07-28: basic/index, error codes).
func TestErrorCodesFollowTheRevision(t *testing.T) {
	for _, c := range []struct{ code, legacy, modern int32 }{
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
		e := &bridge.Error{
			Code: codes.Unknown,
			RPC:  &pb.JsonRpcError{Code: c.code, Message: "mine", Data: `[1]`},
		}
		f := newFrontOf(t, mcpserver.Options{}, func(h bridge.Handler) bridge.Handler {
			return bridge.HandlerFunc(
				func(ctx context.Context, call *bridge.Call, emit bridge.Emit) (*bridge.Result, error) {
					if call.Method == bridge.ReadResource {
						return nil, e
					}
					return h.Handle(ctx, call, emit)
				})
		})
		received := func(who, msg string, code int32) {
			t.Helper()
			if diff := cmp.Diff(fmt.Sprintf(`{"code":%d,"data":[1],"message":"mine"}`, code),
				get(t, msg, "error")); diff != "" {
				t.Errorf("%d, %s: %s", c.code, who, diff)
			}
		}
		body, h := modern(1, "resources/read", `"uri":"test://a"`, noCaps, "Mcp-Name", "test://a")
		received("modern", read(t, f.post(body, h)).next(), c.modern)
		for _, rev := range legacyRevisions {
			res := f.initialize(rev, "{}").
				send(`{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"test://a"}}`)
			received(rev, read(t, res).next(), c.legacy)
		}
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

// The list of tools defines the headers of a call. If the backend does not return it, calls with arguments that might
// need headers are rejected, and others are sent.
func TestModernHeadersWithoutAToolList(t *testing.T) {
	for _, c := range []struct {
		why   error
		known bool // the tools were listed before
		args  string
		h     header
		want  string // a substring of the response
	}{
		{
			errors.New("oh"), false, `{"region":"eu"}`,
			header{"Mcp-Param-Region", "us"},
			`"reason":"BACKEND_FAILED","outcome":"not_executed"`,
		},
		{
			errors.New("oh"), false, `{"region":"eu"}`,
			header{"mcp-param-region", "eu"},
			`because tools/list failed (internal error; see the bridge's log); the call was not executed`,
		},
		{errors.New("oh"), false, `{"region":"eu"}`, nil, `"text":"{\"region\":\"eu\"}"`},
		{errors.New("oh"), true, `{"region":"eu"}`, header{"Mcp-Param-Region", "eu"}, `"text":"{\"region\":\"eu\"}"`},
		{
			errors.New("oh"), true, `{"region":"eu"}`,
			header{"Mcp-Param-Region", "us"},
			`"reason":"BACKEND_FAILED","outcome":"not_executed"`,
		},
		{errors.New("oh"), true, `{"region":"eu"}`, nil, `"reason":"BACKEND_FAILED","outcome":"not_executed"`},
		{
			bridge.Failed(codes.DeadlineExceeded, bridge.OutcomeUnknown, "DEADLINE", "tools/list was cut"),
			false, `{"region":"eu"}`,
			header{"Mcp-Param-Region", "us"},
			`(tools/list was cut); the call was not executed","data":{"reason":"DEADLINE","outcome":"not_executed"}`,
		},
		{
			bridge.FromJSONRPC(&pb.JsonRpcError{Code: -32000, Message: "the tools are being moved"},
				bridge.Rev20260728, bridge.ListTools), false,
			`{"region":"eu"}`,
			header{"Mcp-Param-Region", "us"},
			`"outcome":"not_executed"`,
		},
		{
			bridge.Errorf(codes.Unimplemented, "no list"), false, `{"region":"eu"}`,
			header{"Mcp-Param-Region", "is not ours"},
			`"text":"{\"region\":\"eu\"}"`,
		},
	} {
		var fails atomic.Bool
		fails.Store(!c.known)
		f := newFrontOf(t, mcpserver.Options{}, func(next bridge.Handler) bridge.Handler {
			return catalog.New(bridge.HandlerFunc(
				func(ctx context.Context, call *bridge.Call, emit bridge.Emit) (*bridge.Result, error) {
					if call.Method == bridge.ListTools && fails.Load() {
						return nil, c.why
					}
					return next.Handle(ctx, call, emit)
				}), catalog.Options{})
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

// Headers are validated against the caller's own list of tools, which may depend on its scopes and capabilities, and
// not against an earlier caller's.
func TestModernHeadersUseTheCallersOwnTools(t *testing.T) {
	for name, more := range map[string]struct {
		sees func(*pb.CallContext) bool
		caps string
		h    header
	}{
		"scopes": {
			func(c *pb.CallContext) bool { return len(c.GetVerified().GetPrincipal().GetScopes()) > 0 }, noCaps,
			header{"X-Test-Scope", "wide"},
		},
		"capabilities": {
			func(c *pb.CallContext) bool { return c.GetClientCapabilities().GetElicitation() != nil },
			allCaps, nil,
		},
	} {
		f := newFrontOf(t, mcpserver.Options{Principal: byHeader}, func(next bridge.Handler) bridge.Handler {
			return catalog.New(bridge.HandlerFunc(
				func(ctx context.Context, call *bridge.Call, emit bridge.Emit) (*bridge.Result, error) {
					if call.Method == bridge.ListTools && !more.sees(call.Context()) {
						return &bridge.Result{Complete: &pb.ListToolsResponse{}}, nil
					}
					return next.Handle(ctx, call, emit)
				}), catalog.Options{})
		})
		body, h := modern(1, "tools/call", `"name":"who","arguments":{}`, noCaps, "Mcp-Name", "who", "X-Test-Who",
			"ada")
		if res := f.post(body, h); res.StatusCode != http.StatusOK {
			t.Fatal(res.Status)
		}
		calls := f.h.Calls.Of("tools/call")
		body, h = modern(2, "tools/call", `"name":"echo","arguments":{"region":"eu"}`, more.caps,
			"Mcp-Name", "echo", "Mcp-Param-Region", "us", "X-Test-Who", "ada")
		want(t, read(t, f.post(body, append(h, more.h...))).next(), "error.code", "-32020")
		if n := f.h.Calls.Of("tools/call"); n != calls {
			t.Errorf("%s: a call was sent whose header differs from its argument", name)
		}
	}
}

func TestToolCallSendsNoToolsList(t *testing.T) {
	f := newFront(t, mcpserver.Options{})
	for range 10 {
		f.callModern("who", "", noCaps, "")
	}
	if n := f.h.Calls.Of("tools/list"); n > 0 {
		t.Errorf("listed %d times", n)
	}
}

// A client's subscriptions do not affect another's.
func TestListenersAreIndependent(t *testing.T) {
	f := newFront(t, mcpserver.Options{})
	body, h := modern(1, "subscriptions/listen", `"notifications":{"toolsListChanged":true}`, noCaps)
	s := read(t, f.post(body, h))
	s.next()
	// If a backend rejects one subscription, subscribers of other things still receive changes.
	f.h.Refuse("test://refused")
	ctx, cancel := context.WithCancel(t.Context())
	body, h = modern(2, "subscriptions/listen", `"notifications":{"resourceSubscriptions":["test://refused"]}`, noCaps)
	read(t, f.do(ctx, http.MethodPost, f.url, body, h)).next()
	f.h.Add("new")
	want(t, s.next(), "method", `"notifications/tools/list_changed"`)
	cancel()
	// Subscriptions that exceed the size of a message to the backend are rejected.
	for _, uris := range []string{
		`"` + strings.Repeat("x", 8<<10+1) + `"`,
		strings.Repeat(`"`+strings.Repeat("x", 8<<10)+`",`, 8) + `"y"`,
	} {
		body, h = modern(3, "subscriptions/listen", `"notifications":{"resourceSubscriptions":[`+uris+`]}`, noCaps)
		if msg := read(t, f.post(body, h)).next(); get(t, msg, "error.code") == "null" {
			t.Errorf("%d bytes: %.100s", len(uris), msg)
		}
	}
	uris := strings.TrimSuffix(strings.Repeat(`"`+strings.Repeat("x", 8<<10)+`",`, 8), ",")
	body, h = modern(4, "subscriptions/listen", `"notifications":{"resourceSubscriptions":[`+uris+`]}`, noCaps)
	want(t, read(t, f.post(body, h)).next(), "method", `"notifications/subscriptions/acknowledged"`)
}

// Changes during a disconnect are unknown, so that every current subscriber receives a resync.
func TestEverySubscriberLearnsOfAReconnect(t *testing.T) {
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
