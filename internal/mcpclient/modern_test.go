package mcpclient_test

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/jsonrpc"
	"github.com/mcpbridge/mcpbridge/internal/mcpclient"
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
