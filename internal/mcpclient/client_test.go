package mcpclient_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/bridgetest"
	"github.com/mcpbridge/mcpbridge/internal/grpcserver"
	"github.com/mcpbridge/mcpbridge/internal/mcpclient"
	"github.com/mcpbridge/mcpbridge/internal/mcpserver"
	"github.com/mcpbridge/mcpbridge/internal/plugin"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// serveEnv makes the test binary an MCP server on stdio, with a handler of its own or with the one at the address in
// the variable.
const serveEnv = "MCPCLIENT_TEST_SERVER"

// ownHandler is the value of serveEnv for a handler of its own.
const ownHandler = "own"

func TestMain(m *testing.M) {
	if at := os.Getenv(serveEnv); at != "" {
		if err := program(at); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// program runs an MCP server on stdio.
func program(at string) error {
	h, end := bridge.Handler(bridgetest.New()), func() error { return nil }
	if at != ownHandler {
		p, err := plugin.New(plugin.Options{Name: "shared", Address: at})
		if err != nil {
			return err
		}
		ctx, cancel := context.WithCancel(context.Background())
		ran := make(chan error, 1)
		go func() { ran <- p.Run(ctx) }()
		h, end = p, func() error { cancel(); return <-ran }
	}
	s := mcpserver.New(h, mcpserver.Options{})
	err := s.ServeStdio(context.Background(), os.Stdin, os.Stdout)
	s.Close()
	return errors.Join(err, end())
}

// run starts a client and closes it at the end of the test.
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
	t.Cleanup(func() { // the test's context is canceled by now
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	readyCtx, cancelReady := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancelReady()
	if err := c.Ready(readyCtx); err != nil {
		t.Fatal(err)
	}
	return c
}

// startScript starts a client of a scripted program. Unlike run, it can be used in a synctest bubble, leaves the log to
// o, and does not wait for the program. The second result stops the client and returns its error.
func startScript(t *testing.T, o mcpclient.Options, s *script,
	prepare ...func(*mcpclient.Client),
) (*mcpclient.Client, func() error) {
	t.Helper()
	o.Command = []string{"pipe"}
	c, err := mcpclient.New(o)
	if err != nil {
		t.Fatal(err)
	}
	c.Pipe(s.serve)
	for _, f := range prepare {
		f(c)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	return c, func() error {
		cancel()
		return <-done
	}
}

// A chain connects a client to a Handler through an MCP server of one revision.
type chain struct {
	name string
	// negotiated maps the configured revision to the negotiated one. NoRevision makes the client detect it.
	negotiated map[bridge.Revision]bridge.Revision
	// server returns the options of a client of a server that serves h.
	server func(t *testing.T, h bridge.Handler) mcpclient.Options
}

var chains = []chain{
	{"Streamable HTTP", every(), func(t *testing.T, h bridge.Handler) mcpclient.Options {
		t.Helper()
		return atURL(t, h, func(*http.Request) bool { return true })
	}},
	// This endpoint supports HTTP+SSE only: the client posts messages to the address that the stream announces. Without
	// a configured revision, the newest one is negotiated.
	{"HTTP+SSE", map[bridge.Revision]bridge.Revision{
		bridge.Rev20241105: bridge.Rev20241105, bridge.NoRevision: bridge.LatestLegacy,
	}, func(t *testing.T, h bridge.Handler) mcpclient.Options {
		t.Helper()
		return atURL(t, h, func(r *http.Request) bool { return r.Method != http.MethodPost || r.URL.RawQuery != "" })
	}},
	// Programs that share their state, like programs with a database: each caller with input capabilities gets a
	// program of its own.
	{"stdio", every(), func(t *testing.T, h bridge.Handler) mcpclient.Options {
		t.Helper()
		return mcpclient.Options{Command: []string{os.Args[0]}, Env: []string{serveEnv + "=" + serveShared(t, h)}}
	}},
}

// every maps each revision to itself, for clients with a configured revision.
func every() map[bridge.Revision]bridge.Revision {
	all := map[bridge.Revision]bridge.Revision{}
	for _, rev := range bridge.Revisions() {
		all[rev] = rev
	}
	return all
}

// atURL serves h over HTTP. It rejects the requests for which takes is false with 405.
func atURL(t *testing.T, h bridge.Handler, accepts func(*http.Request) bool) mcpclient.Options {
	t.Helper()
	s := mcpserver.New(h, mcpserver.Options{})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !accepts(r) {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		s.ServeHTTP(w, r)
	}))
	t.Cleanup(func() { s.Close(); srv.Close() })
	return mcpclient.Options{URL: srv.URL + "/mcp"}
}

// serveShared serves h to programs and returns the address.
func serveShared(t *testing.T, h bridge.Handler) string {
	t.Helper()
	s, err := grpcserver.New(h, nil, grpcserver.Options{})
	if err != nil {
		t.Fatal(err)
	}
	at := "unix:" + filepath.Join(t.TempDir(), "s")
	ln, err := grpcserver.Listen(t.Context(), at, 0)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(ln) }()
	t.Cleanup(func() {
		s.Close()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return at
}

func TestLaws(t *testing.T) {
	bridgetest.SkipIfShort(t)
	for _, c := range chains {
		t.Run(c.name, func(t *testing.T) {
			for configured, negotiated := range c.negotiated {
				t.Run(negotiated.String(), func(t *testing.T) {
					bridgetest.MCPLaws(t, negotiated, func(t *testing.T, h bridge.Handler) bridge.Handler {
						t.Helper()
						o := c.server(t, h)
						o.Revision = configured
						return run(t, o)
					})
				})
			}
		})
	}
}

// A client calls a tool of a program that has a handler of its own.
func TestProgram(t *testing.T) {
	for _, rev := range []bridge.Revision{bridge.NoRevision, bridge.Rev20241105, bridge.Rev20251125} {
		t.Run(rev.String(), func(t *testing.T) {
			c := run(t, mcpclient.Options{
				Command: []string{os.Args[0]}, Env: []string{serveEnv + "=" + ownHandler},
				Revision: rev,
			})
			if got := call(t, c, "echo", `{"a":[1e2]}`); got != `{"a":[1e2]}` {
				t.Errorf("echo returned %s", got)
			}
		})
	}
}

// call calls a tool and returns the text of its result.
func call(t *testing.T, h bridge.Handler, name, args string) string {
	t.Helper()
	res, err := h.Handle(t.Context(), toolCall(name, args), func(context.Context, bridge.Event) error { return nil })
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return res.Complete.(*pb.CallToolResult).GetContent()[0].GetText().GetText()
}

func toolCall(name, args string) *bridge.Call {
	return &bridge.Call{
		Method:  bridge.CallTool,
		Request: &pb.CallToolRequest{Context: &pb.CallContext{}, Name: name, Arguments: []byte(args)},
	}
}
