package mcpclient_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/bridge/bridgetest"
	"github.com/mcpbridge/mcpbridge/bridge/mcpclient"
	"github.com/mcpbridge/mcpbridge/bridge/mcpserver"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// serveEnv makes the test's own program an MCP server on stdio.
const serveEnv = "MCPCLIENT_TEST_SERVER"

func TestMain(m *testing.M) {
	if os.Getenv(serveEnv) != "" {
		s := mcpserver.New(bridgetest.New(), mcpserver.Options{})
		err := s.ServeStdio(context.Background(), os.Stdin, os.Stdout)
		s.Close()
		if err != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// run keeps a client until the test ends.
func run(t *testing.T, o mcpclient.Options, prepare ...func(*mcpclient.Client)) *mcpclient.Client {
	t.Helper()
	o.Log = zerolog.New(zerolog.NewTestWriter(t)).Level(zerolog.WarnLevel)
	c, err := mcpclient.New(o)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range prepare {
		f(c)
	}
	done := make(chan error, 1)
	go func() { done <- c.Run(t.Context()) }()
	t.Cleanup(func() { // by now the test's context has ended
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	limited, cancelReady := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancelReady()
	if err := c.Ready(limited); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestLawsHTTP(t *testing.T) {
	for _, rev := range bridge.Revisions() {
		t.Run(rev.String(), func(t *testing.T) {
			bridgetest.MCPLaws(t, rev, func(t *testing.T, h bridge.Handler) bridge.Handler {
				t.Helper()
				s := mcpserver.New(h, mcpserver.Options{})
				srv := httptest.NewServer(http.Handler(s))
				t.Cleanup(func() { s.Close(); srv.Close() })
				return run(t, mcpclient.Options{URL: srv.URL + "/mcp", Revision: rev})
			})
		})
	}
}

// Programs that share what they serve, as programs with a database do.
func TestLawsStdio(t *testing.T) {
	for _, rev := range bridge.Revisions() {
		t.Run(rev.String(), func(t *testing.T) {
			bridgetest.MCPLaws(t, rev, func(t *testing.T, h bridge.Handler) bridge.Handler {
				t.Helper()
				return run(t, mcpclient.Options{Command: []string{"pipe"}, Revision: rev}, func(c *mcpclient.Client) {
					c.Pipe(func(ctx context.Context, in io.Reader, out io.Writer) {
						s := mcpserver.New(h, mcpserver.Options{})
						defer s.Close()
						_ = s.ServeStdio(ctx, in, out)
					})
				})
			})
		})
	}
}

// An endpoint that knows nothing but HTTP+SSE: messages go where its stream says. What is spoken there is the newest revision,
// if nobody says otherwise.
func TestLawsSSE(t *testing.T) {
	for told, spoken := range map[bridge.Revision]bridge.Revision{
		bridge.Rev20241105: bridge.Rev20241105, bridge.NoRevision: bridge.LatestLegacy,
	} {
		t.Run(spoken.String(), func(t *testing.T) {
			bridgetest.MCPLaws(t, spoken, func(t *testing.T, h bridge.Handler) bridge.Handler {
				t.Helper()
				s := mcpserver.New(h, mcpserver.Options{})
				srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if r.Method == http.MethodPost && r.URL.RawQuery == "" {
						w.WriteHeader(http.StatusMethodNotAllowed)
						return
					}
					s.ServeHTTP(w, r)
				}))
				t.Cleanup(func() { s.Close(); srv.Close() })
				return run(t, mcpclient.Options{URL: srv.URL + "/mcp", Revision: told})
			})
		})
	}
}

// A program of its own: what it serves is its own, and it ends when the client does.
func TestProgram(t *testing.T) {
	for _, rev := range []bridge.Revision{bridge.NoRevision, bridge.Rev20241105, bridge.Rev20251125} {
		t.Run(rev.String(), func(t *testing.T) {
			c := run(t, mcpclient.Options{Command: []string{os.Args[0]}, Env: []string{serveEnv + "=1"}, Revision: rev})
			if got := call(t, c, "echo", `{"a":[1e2]}`); got != `{"a":[1e2]}` {
				t.Errorf("echo says %s", got)
			}
		})
	}
}

// call calls a tool and returns the text that it says.
func call(t *testing.T, h bridge.Handler, name, args string) string {
	t.Helper()
	res, err := h.Handle(t.Context(), toolCall(name, args), func(bridge.Event) error { return nil })
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return res.Complete.(*pb.CallToolResult).GetContent()[0].GetText().GetText()
}

func toolCall(name, args string) *bridge.Call {
	return &bridge.Call{Method: bridge.CallTool, Request: &pb.CallToolRequest{Context: &pb.CallContext{}, Name: name, Arguments: []byte(args)}}
}
