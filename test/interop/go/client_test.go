package interop

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"google.golang.org/grpc/codes"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/mcpclient"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// serveEnv makes the test binary a server of the official SDK on stdio.
const serveEnv = "INTEROP_GO_SERVER"

func TestMain(m *testing.M) {
	if os.Getenv(serveEnv) != "" {
		if err := sdkServer().Run(context.Background(), &mcp.StdioTransport{}); err != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

type text struct {
	Text string `json:"text"`
}

// sdkServer returns a server of the official SDK with all features.
func sdkServer() *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "sdk", Version: "1"}, &mcp.ServerOptions{
		SubscribeHandler:   func(context.Context, *mcp.SubscribeRequest) error { return nil },
		UnsubscribeHandler: func(context.Context, *mcp.UnsubscribeRequest) error { return nil },
	})
	newResult := func(format string, args ...any) *mcp.CallToolResult {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprintf(format, args...)}}}
	}
	mcp.AddTool(s, &mcp.Tool{Name: "echo"},
		func(_ context.Context, _ *mcp.CallToolRequest, in text) (*mcp.CallToolResult, any, error) {
			return newResult("%s", in.Text), nil, nil
		})
	mcp.AddTool(s, &mcp.Tool{Name: "slow"},
		func(ctx context.Context, r *mcp.CallToolRequest, in text) (*mcp.CallToolResult, any, error) {
			for i := range 3 {
				if err := r.Session.NotifyProgress(ctx,
					&mcp.ProgressNotificationParams{
						ProgressToken: r.Params.GetProgressToken(), Progress: float64(i),
						Total: 3,
					}); err != nil {
					return nil, nil, err
				}
			}
			return newResult("done"), nil, nil
		})
	mcp.AddTool(s, &mcp.Tool{Name: "ask"},
		func(ctx context.Context, r *mcp.CallToolRequest, in text) (*mcp.CallToolResult, any, error) {
			res, err := r.Session.Elicit(ctx, &mcp.ElicitParams{Message: in.Text, RequestedSchema: map[string]any{
				"type": "object", "properties": map[string]any{"name": map[string]any{"type": "string"}},
			}})
			if err != nil {
				return nil, nil, err
			}
			return newResult("%s: %s %v", in.Text, res.Action, res.Content["name"]), nil, nil
		})
	mcp.AddTool(s, &mcp.Tool{Name: "grow"},
		func(_ context.Context, _ *mcp.CallToolRequest, in text) (*mcp.CallToolResult, any, error) {
			mcp.AddTool(s, &mcp.Tool{Name: in.Text},
				func(context.Context, *mcp.CallToolRequest, text) (*mcp.CallToolResult, any, error) {
					return newResult("new"), nil, nil
				})
			return newResult("grown"), nil, nil
		})
	s.AddResource(&mcp.Resource{URI: "test://a", Name: "a"},
		func(_ context.Context, r *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
			return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: r.Params.URI, Text: "A"}}}, nil
		})
	s.AddPrompt(&mcp.Prompt{Name: "p"}, func(_ context.Context, r *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{{
			Role:    "user",
			Content: &mcp.TextContent{Text: r.Params.Arguments["x"]},
		}}}, nil
	})
	return s
}

// The bridge's client works with the official SDK's server over every transport and in both eras.
func TestClientOfSDKServers(t *testing.T) {
	for name, o := range map[string]func(t *testing.T) mcpclient.Options{
		"stdio": func(*testing.T) mcpclient.Options {
			return mcpclient.Options{Command: []string{os.Args[0]}, Env: []string{serveEnv + "=1"}}
		},
		"http": func(t *testing.T) mcpclient.Options {
			t.Helper()
			s := sdkServer()
			return mcpclient.Options{URL: served(t,
				mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, nil))}
		},
		"http, one JSON each": func(t *testing.T) mcpclient.Options {
			t.Helper()
			s := sdkServer()
			return mcpclient.Options{URL: served(t,
				mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s },
					&mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true}))}
		},
		"http without sessions": func(t *testing.T) mcpclient.Options {
			t.Helper()
			s := sdkServer()
			return mcpclient.Options{URL: served(t,
				mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s },
					&mcp.StreamableHTTPOptions{Stateless: true}))}
		},
		"sse": func(t *testing.T) mcpclient.Options {
			t.Helper()
			s := sdkServer()
			return mcpclient.Options{URL: served(t,
				mcp.NewSSEHandler(func(*http.Request) *mcp.Server { return s }, nil))}
		},
	} {
		for _, rev := range []bridge.Revision{
			bridge.NoRevision, bridge.Rev20241105, bridge.Rev20250618,
			bridge.Rev20251125, bridge.Rev20260728,
		} {
			if rev.Modern() && (name == "http" || name == "sse") {
				continue // a handler with sessions refuses the modern era, and HTTP+SSE has none
			}
			t.Run(name+"/"+rev.String(), func(t *testing.T) {
				options := o(t)
				options.Revision = rev
				c := started(t, options)
				visit(t, c, rev, name != "http, one JSON each", !strings.HasPrefix(name, "http ") &&
					!strings.HasPrefix(name, "http,"))
			})
		}
	}
}

func served(tb testing.TB, h http.Handler) string {
	tb.Helper()
	srv := httptest.NewServer(h)
	tb.Cleanup(srv.Close)
	return srv.URL
}

func started(tb testing.TB, o mcpclient.Options) *mcpclient.Client {
	tb.Helper()
	c, err := mcpclient.New(o)
	if err != nil {
		tb.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := c.Run(tb.Context()); err != nil {
			tb.Errorf("Run: %v", err)
		}
	})
	tb.Cleanup(wg.Wait)
	ctx, cancel := context.WithTimeout(tb.Context(), 20*time.Second)
	defer cancel()
	if err := c.Ready(ctx); err != nil {
		tb.Fatal(err)
	}
	return c
}

// visit uses every feature of the server. streams and asks are whether it can send progress, and request input.
func visit(t *testing.T, c *mcpclient.Client, rev bridge.Revision, streams, asks bool) {
	t.Helper()
	caller := &pb.CallContext{
		ProgressWanted:     true,
		ClientCapabilities: &pb.ClientCapabilities{Elicitation: &pb.ElicitationCapability{}},
	}
	var steps []float64
	emit := func(_ context.Context, e bridge.Event) error {
		if e.Progress != nil {
			steps = append(steps, e.Progress.GetProgress())
		}
		return nil
	}
	handle := func(m *bridge.Method, r bridge.Request) *bridge.Result {
		t.Helper()
		res, err := c.Handle(t.Context(), &bridge.Call{Method: m, Request: r}, emit)
		if err != nil {
			t.Fatalf("%s: %v", m.Name, err)
		}
		return res
	}
	tool := func(name, in string) *pb.CallToolRequest {
		return &pb.CallToolRequest{Context: caller, Name: name, Arguments: fmt.Appendf(nil, `{"text":%q}`, in)}
	}
	textOf := func(res *bridge.Result) string {
		r := res.Complete.(*pb.CallToolResult)
		if len(r.GetContent()) == 0 {
			return fmt.Sprint(r)
		}
		return r.GetContent()[0].GetText().GetText()
	}
	if d := handle(bridge.Discover, &pb.DiscoverRequest{}).Complete.(*pb.DiscoverResponse); d.GetServerInfo().
		GetName() != "sdk" || d.GetCapabilities().GetTools() == nil {
		t.Errorf("discovered %v", d)
	}
	if l := handle(bridge.ListTools, &pb.ListToolsRequest{Context: caller}).
		Complete.(*pb.ListToolsResponse); len(l.GetTools()) < 4 {
		t.Errorf("listed %v", l)
	}
	if got := textOf(handle(bridge.CallTool, tool("echo", "hello"))); got != "hello" {
		t.Errorf("echo: got %q", got)
	}
	if got := textOf(handle(bridge.CallTool, tool("slow", ""))); streams &&
		(got != "done" || fmt.Sprint(steps) != "[0 1 2]") {
		t.Errorf("slow: got %q after %v", got, steps)
	}
	if r := handle(bridge.ReadResource, &pb.ReadResourceRequest{Uri: "test://a"}).
		Complete.(*pb.ReadResourceResult); r.GetContents()[0].GetText() != "A" {
		t.Errorf("read %v", r)
	}
	if p := handle(bridge.GetPrompt, &pb.GetPromptRequest{Name: "p", Arguments: map[string]string{"x": "y"}}).
		Complete.(*pb.GetPromptResult); p.GetMessages()[0].GetContent().GetText().GetText() != "y" {
		t.Errorf("prompt %v", p)
	}
	// The SDK returns the code of 2026-07-28 in every revision.
	_, err := c.Handle(t.Context(),
		&bridge.Call{Method: bridge.ReadResource, Request: &pb.ReadResourceRequest{Uri: "test://z"}}, emit)
	if e := bridge.AsError(err); e.Code != codes.NotFound && e.RPC.GetCode() != -32602 {
		t.Errorf("what is not there: %v", err)
	}
	if asks {
		askAndListen(t, rev, c, handle, tool, textOf)
	}
}

func askAndListen(
	t *testing.T, rev bridge.Revision, c *mcpclient.Client, handle func(*bridge.Method, bridge.Request) *bridge.Result,
	tool func(name, in string) *pb.CallToolRequest, textOf func(*bridge.Result) string,
) {
	t.Helper()
	res := handle(bridge.CallTool, tool("ask", "who?"))
	if res.InputRequired == nil {
		if rev.Within(bridge.Rev20250618, bridge.Rev20260728) {
			t.Errorf("ask: got %s", textOf(res)) // else the revision has no elicitation, or the server cannot ask in it
		}
	} else {
		answers := map[string]*pb.InputResponse{}
		for _, q := range res.InputRequired.GetInputRequests() {
			answers[q.GetKey()] = &pb.InputResponse{Response: &pb.InputResponse_Elicit{Elicit: &pb.ElicitResult{
				Action: "accept", Content: `{"name":"Ada"}`,
			}}}
		}
		call := &bridge.Call{Method: bridge.CallTool, Request: tool("ask", "who?")}
		if got := textOf(handle(bridge.CallTool,
			call.Retry(answers, res.InputRequired.RequestState).Request)); got != "who?: accept Ada" {
			t.Errorf("ask: got %q", got)
		}
	}
	yes := true
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	changes := make(chan *pb.ListenResponse, 10)
	var wg sync.WaitGroup
	wg.Go(func() {
		_, _ = c.Handle(ctx, &bridge.Call{
			Method:  bridge.Listen,
			Request: &pb.ListenRequest{Notifications: &pb.SubscriptionFilter{ToolsListChanged: &yes}},
		},
			func(_ context.Context, e bridge.Event) error { changes <- e.Change; return nil })
	})
	if got := <-changes; got.GetAcknowledged() == nil {
		t.Errorf("the first is %v", got)
	}
	handle(bridge.CallTool, tool("grow", fmt.Sprint("t", time.Now().UnixNano())))
	select {
	case got := <-changes:
		if got.GetToolsListChanged() == nil {
			t.Errorf("got change %v", got)
		}
	case <-ctx.Done():
		t.Error("no notification of the changed list")
	}
	cancel()
	wg.Wait()
}
