package mcpserver_test

import (
	"context"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/limits"
	"github.com/mcpbridge/mcpbridge/internal/mcpserver"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// byHeader authenticates every caller as the principal in a header.
func byHeader(r *http.Request) *pb.Principal {
	if who := r.Header.Get("X-Test-Who"); who != "" {
		return &pb.Principal{
			Issuer: "https://issuer.example.com", Subject: who,
			Scopes: r.Header.Values("X-Test-Scope"),
		}
	}
	return nil
}

// For another caller, a session gets exactly the response of an unknown one.
func TestSessionsAreIsolatedByPrincipal(t *testing.T) {
	f := newFront(t, mcpserver.Options{Principal: byHeader})
	as := func(who string, h header) header { return append(append(header{}, h...), "X-Test-Who", who) }
	begin := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`
	id := f.post(begin, as("ada", nil)).Header.Get("Mcp-Session-Id")
	own, unknown := header{"Mcp-Session-Id", id}, header{"Mcp-Session-Id", "nosuch"}
	f.post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`, as("ada", own))
	_, sse := f.openSSE(t.Context(), "X-Test-Who", "ada")
	same := func(name string, foreign, missing *http.Response) {
		t.Helper()
		a, errA := io.ReadAll(foreign.Body)
		b, errB := io.ReadAll(missing.Body)
		if errA != nil || errB != nil || foreign.StatusCode != http.StatusNotFound ||
			foreign.StatusCode != missing.StatusCode || string(a) != string(b) {
			t.Errorf("%s: got %s %s, and for an unknown session %s %s", name, foreign.Status, a, missing.Status, b)
		}
	}
	for _, method := range []string{http.MethodPost, http.MethodGet, http.MethodDelete} {
		body := ""
		if method == http.MethodPost {
			body = call("2", "echo", "{}", "")
		}
		same(method, f.do(t.Context(), method, f.url, body, as("bob", own)),
			f.do(t.Context(), method, f.url, body, as("bob", unknown)))
		same(method+" without a principal", f.do(t.Context(), method, f.url, body, own),
			f.do(t.Context(), method, f.url, body, unknown))
	}
	same("HTTP+SSE", f.do(t.Context(), http.MethodPost, sse, begin, header{"X-Test-Who", "bob"}),
		f.do(t.Context(), http.MethodPost, sse+"x", begin, header{"X-Test-Who", "bob"}))
	if res := f.post(call("3", "echo", `{"a":1}`, ""), as("ada", own)); res.StatusCode != 200 {
		t.Errorf("the owner: %s", res.Status)
	}
	if n := f.h.Calls.Of("echo"); n != 1 {
		t.Errorf("called %d times", n)
	}
}

// An event ID is valid for the principal that received it only.
func TestStreamsResumeOnlyForTheirPrincipal(t *testing.T) {
	f := newFront(t, mcpserver.Options{Principal: byHeader})
	callAs := func(who, more string) string {
		body, h := modern(1, "tools/call", `"name":"ask","arguments":{}`+more, allCaps, "Mcp-Name", "ask")
		return read(t, f.post(body, append(h, "X-Test-Who", who))).next()
	}
	answer := `,"inputResponses":{"name":{"action":"accept","content":{"name":"Ada"}}}`
	state := get(t, callAs("ada", answer), "result.requestState")
	more := `,"inputResponses":{"right":{"action":"accept","content":{"yes":"y"}}},"requestState":` + state
	want(t, callAs("bob", more), "error.code", "-32602")
	want(t, callAs("ada", more), "result.resultType", `"complete"`)
}

func TestSessionsPerPrincipalAreLimited(t *testing.T) {
	f := newFront(t, mcpserver.Options{
		Principal: byHeader,
		Sessions:  mcpserver.NewSessions(limits.Limits{SessionsPerCaller: 2}),
	})
	begin := func(who string) *http.Response {
		return f.post(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`,
			header{"X-Test-Who", who})
	}
	first := begin("ada").Header.Get("Mcp-Session-Id")
	for i, c := range []struct {
		who    string
		status int
	}{{"ada", 200}, {"ada", 429}, {"bob", 200}, {"", 200}, {"", 200}, {"", 200}} {
		if res := begin(c.who); res.StatusCode != c.status {
			t.Errorf("number %d, of %q: %s", i+2, c.who, res.Status)
		}
	}
	f.do(t.Context(), http.MethodDelete, f.url, "", header{"Mcp-Session-Id", first, "X-Test-Who", "ada"})
	if res := begin("ada"); res.StatusCode != 200 {
		t.Errorf("after the end of one: %s", res.Status)
	}
}

// A call of a tool without its scopes gets an HTTP error with the missing scopes, in both eras, and is not sent.
func TestMissingScopesAreReported(t *testing.T) {
	o := mcpserver.Options{
		Principal: byHeader,
		Challenge: func(scopes []string) string { return "Bearer scope=" + strings.Join(scopes, "+") },
	}
	f := newFrontOf(t, o, func(h bridge.Handler) bridge.Handler {
		return bridge.HandlerFunc(func(ctx context.Context, c *bridge.Call, emit bridge.Emit) (*bridge.Result, error) {
			scopes := c.Context().GetVerified().GetPrincipal().GetScopes()
			if c.Method == bridge.CallTool && !slices.Contains(scopes, "admin") {
				return nil, &bridge.Error{Code: codes.PermissionDenied, Message: "no", Scopes: []string{"mcp", "admin"}}
			}
			return h.Handle(ctx, c, emit)
		})
	})
	c := f.initialize("2025-11-25", clientCaps)
	body, h := modern(1, "tools/call", `"name":"echo","arguments":{}`, noCaps, "Mcp-Name", "echo")
	for name, res := range map[string]*http.Response{
		"modern": f.post(body, h),
		"legacy": c.send(call("1", "echo", "{}", "")),
	} {
		if got := res.Header.Get("WWW-Authenticate"); res.StatusCode != 403 || got != "Bearer scope=mcp+admin" {
			t.Errorf("%s: %s, %s", name, res.Status, got)
		}
		want(t, read(t, res).next(), "error.code", "-32603", "id", "1")
	}
	if n := f.h.Calls.Of("echo"); n != 0 {
		t.Errorf("called %d times", n)
	}
	if res := f.post(body, append(h, "X-Test-Who", "ada", "X-Test-Scope", "admin")); res.StatusCode != 200 {
		t.Errorf("a caller with the scope: %s", res.Status)
	}
}
