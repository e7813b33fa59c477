package mcpserver_test

import (
	"bufio"
	"context"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/bridgetest"
	"github.com/mcpbridge/mcpbridge/internal/limits"
	"github.com/mcpbridge/mcpbridge/internal/mcpserver"
	"github.com/mcpbridge/mcpbridge/internal/tasks"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// A starter is a handler whose calls wait until its backend has started. It has tools only and reports no changes.
type starter struct {
	*bridgetest.Handler
	up chan struct{}
}

func (s *starter) started(ctx context.Context, _ bridge.Era) error {
	select {
	case <-s.up:
	case <-ctx.Done():
	}
	select { // even if ctx is canceled
	case <-s.up:
		return nil
	default:
		return ctx.Err()
	}
}

func (s *starter) Handle(ctx context.Context, call *bridge.Call, emit bridge.Emit) (*bridge.Result, error) {
	if err := s.started(ctx, call.Era()); err != nil {
		return nil, err
	}
	switch call.Method {
	case bridge.Discover:
		return &bridge.Result{Complete: &pb.DiscoverResponse{
			ServerInfo: &pb.Implementation{Name: "slow", Version: "1"}, Instructions: proto.String("be kind"),
			Capabilities: &pb.ServerCapabilities{Tools: &pb.ToolsCapability{}},
		}}, nil
	case bridge.ListPrompts, bridge.Listen:
		return nil, bridge.Errorf(codes.Unimplemented, "there is no such method")
	}
	return s.Handler.Handle(ctx, call, emit)
}

// stdioOf returns a stdio client of a handler.
func stdioOf(t *testing.T, h bridge.Handler, o mcpserver.Options) (client *pipe, end func()) {
	t.Helper()
	p := &pipe{T: t, done: make(chan error, 1)}
	s := mcpserver.New(h, o)
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	p.in, p.out = inW, bufio.NewScanner(outR)
	go func() {
		p.done <- s.ServeStdio(context.WithoutCancel(t.Context()), inR, outW)
		outW.Close()
	}()
	return p, func() {
		inW.Close()
		for p.out.Scan() {
			continue
		}
		<-p.done
		s.Close()
	}
}

// However long a backend takes to start, initialize and server/discover get a response within two seconds, with the
// cached declaration or with all possible capabilities. Lists and calls wait for the backend, and lists of capabilities
// that it lacks are empty.
func TestInitializeIsAnsweredWhileTheBackendStarts(t *testing.T) {
	const init = `{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`
	for name, before := range map[string]*pb.DiscoverResponse{
		"the first time": nil,
		"once more": {
			ServerInfo: &pb.Implementation{Name: "slow", Version: "0"}, Instructions: proto.String("be quick"),
			TtlMs:        proto.Int64(60_000),
			Capabilities: &pb.ServerCapabilities{Tools: &pb.ToolsCapability{}, Prompts: &pb.PromptsCapability{}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := &starter{bridgetest.New(), make(chan struct{})}
				var mu sync.Mutex
				var declared [bridge.Eras][]string
				all, err := tasks.New(tasks.Options{})
				if err != nil {
					t.Fatal(err)
				}
				defer all.Close()
				p, end := stdioOf(t, h, mcpserver.Options{
					Started: h.started,
					Tasks:   all,
					Declarations: mcpserver.Declarations{
						Previous: [bridge.Eras]*pb.DiscoverResponse{before, before},
						Changed: func(era bridge.Era, d *pb.DiscoverResponse) {
							mu.Lock()
							defer mu.Unlock()
							declared[era] = append(declared[era], d.GetInstructions())
						},
					},
				})
				defer end()
				begin := time.Now()
				p.send(init)
				first := p.next()
				p.send(modernLine(1, "server/discover", "", noCaps))
				second := p.next()
				if took := time.Since(begin); took > 2*time.Second {
					t.Errorf("response after %v", took)
				}
				if before == nil {
					for _, kind := range []string{"tools", "prompts", "resources"} {
						want(t, first, "result.capabilities."+kind+".listChanged", "true")
						want(t, second, "result.capabilities."+kind+".listChanged", "true")
					}
					want(t, first, "result.capabilities.tasks.requests.tools.call", "{}")
					want(t, second, "result.capabilities.extensions", `{"io.modelcontextprotocol/tasks":{}}`)
				} else {
					want(t, first, "result.instructions", `"be quick"`, "result.serverInfo.version", `"0"`,
						"result.capabilities.resources", "null")
					want(t, second, "result.instructions", `"be quick"`, "result.capabilities.prompts", "{}")
				}
				want(t, second, "result.ttlMs", "0")
				p.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
				p.send(`{"jsonrpc":"2.0","id":2,"method":"tools/list"}`)
				p.send(call("3", "echo", "{}", ""))
				p.send(modernLine(4, "prompts/list", "", noCaps))
				p.send(`{"jsonrpc":"2.0","id":5,"method":"prompts/list"}`)
				p.send(`{"jsonrpc":"2.0","id":6,"method":"ping"}`)
				want(t, p.next(), "id", "6") // needs no backend
				<-time.After(30 * time.Second)
				begin = time.Now()
				close(h.up)
				answers := map[string]string{}
				for len(answers) < 4 {
					msg := p.next()
					if get(t, msg, "method") == "null" {
						answers[get(t, msg, "id")] = msg
					}
				}
				if took := time.Since(begin); took > 0 {
					t.Errorf("the backend is ready, and the response took %v", took)
				}
				if !strings.Contains(answers["2"], `"add"`) {
					t.Errorf("the tools: %s", answers["2"])
				}
				want(t, answers["3"], "error", "null")
				want(t, answers["4"], "result.prompts", "[]", "result.ttlMs", "0")
				want(t, answers["5"], "result.prompts", "[]")
				<-time.After(2 * time.Second)
				p.send(modernLine(7, "server/discover", "", noCaps))
				want(t, p.next(), "result.instructions", `"be kind"`, "result.capabilities.prompts", "null")
				// A client may still have the early declaration.
				p.send(modernLine(8, "prompts/list", "", noCaps))
				want(t, p.next(), "id", "8", "result.prompts", "[]")
				p.send(modernLine(9, "subscriptions/listen", `"notifications":{"promptsListChanged":true}`, noCaps))
				want(t, p.next(), "method", `"notifications/subscriptions/acknowledged"`,
					"params.notifications", "{}")
				mu.Lock()
				defer mu.Unlock()
				for era, received := range declared {
					if len(received) != 1 || received[0] != "be kind" {
						t.Errorf("era %d: declared %q", era, received)
					}
				}
			})
		})
	}
}

// A client of each era receives the handler's declaration for that era, even with little time between them.
func TestEachEraReceivesItsDeclaration(t *testing.T) {
	declares := map[bridge.Era]*pb.ServerCapabilities{
		bridge.ModernEra: {Tools: &pb.ToolsCapability{ListChanged: proto.Bool(true)}, Prompts: &pb.PromptsCapability{}},
		bridge.LegacyEra: {
			Tools:     &pb.ToolsCapability{},
			Resources: &pb.ResourcesCapability{Subscribe: proto.Bool(true)},
		},
	}
	h := bridge.HandlerFunc(func(_ context.Context, call *bridge.Call, _ bridge.Emit) (*bridge.Result, error) {
		return &bridge.Result{Complete: &pb.DiscoverResponse{Capabilities: declares[call.Era()]}}, nil
	})
	const (
		modern = `{"prompts":{},"tools":{"listChanged":true}}`
		legacy = `{"resources":{"subscribe":true},"tools":{}}`
	)
	synctest.Test(t, func(t *testing.T) {
		p, end := stdioOf(t, h, mcpserver.Options{})
		defer end()
		p.send(modernLine(1, "server/discover", "", noCaps))
		first := p.next()
		p.send(`{"jsonrpc":"2.0","id":2,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`)
		second := p.next()
		p.send(modernLine(3, "server/discover", "", noCaps))
		for msg, capabilities := range map[string]string{first: modern, second: legacy, p.next(): modern} {
			want(t, msg, "result.capabilities", capabilities)
		}
	})
}

// Calls get responses after the client closes its side, even if the connection of their era has yet to be established.
func TestCallsWaitingForAnErasConnectionAreAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up, slow := make(chan struct{}), make(chan struct{})
		close(up)
		modern, legacy := &starter{bridgetest.New(), up}, &starter{bridgetest.New(), slow}
		h := bridge.HandlerFunc(func(ctx context.Context, call *bridge.Call, emit bridge.Emit) (*bridge.Result, error) {
			if call.Method != bridge.Discover && call.Era() == bridge.LegacyEra {
				return legacy.Handle(ctx, call, emit)
			}
			return modern.Handle(ctx, call, emit)
		})
		p, end := stdioOf(t, h, mcpserver.Options{Started: func(ctx context.Context, era bridge.Era) error {
			return [bridge.Eras]*starter{modern, legacy}[era].started(ctx, era)
		}})
		p.send(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`)
		p.next()
		p.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		p.send(`{"jsonrpc":"2.0","id":2,"method":"tools/list"}`)
		time.AfterFunc(20*time.Second, func() { close(slow) })
		p.in.Close()
		want(t, p.next(), "id", "2", "error", "null")
		end()
	})
}

// A client that does not read does not block the shutdown, even if the goroutine that reads is writing to it.
func TestStdioEndsDuringConcurrentWrites(t *testing.T) {
	for name, line := range map[string]string{
		"not a message":     "{",
		"a long line":       strings.Repeat("x", 200),
		"one call too many": call("1", "wait", "{}", "") + "\n" + call("2", "wait", "{}", ""),
		"initialize":        `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := mcpserver.New(bridgetest.New(),
					mcpserver.Options{Limits: limits.Limits{Line: 150, SessionCalls: 1}})
				inR, inW := io.Pipe()
				outR, outW := io.Pipe() // nothing reads from it
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan error, 1)
				go func() { done <- s.ServeStdio(ctx, inR, outW) }()
				if name == "one call too many" {
					_, _ = io.WriteString(inW,
						`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"x","capabilities":{}}}`+"\n")
				}
				go func() { _, _ = io.WriteString(inW, line+"\n") }()
				synctest.Wait()
				cancel()
				begin := time.Now()
				if err := <-done; err != nil || time.Since(begin) > 2*time.Second {
					t.Errorf("ended after %v with %v", time.Since(begin), err)
				}
				inR.Close()
				outR.Close()
				s.Close()
			})
		})
	}
}

// A malformed request, or one above the limit, gets an error with outcome not_executed.
func TestMalformedRequestsReportNotExecuted(t *testing.T) {
	f := newFront(t, mcpserver.Options{Limits: limits.Limits{Body: 1000}})
	for body, status := range map[string]int{
		"{": 400, `[]`: 400, `{"jsonrpc":"1.0","id":1,"method":"ping"}`: 400,
		strings.Repeat(" ", 1001): 413,
	} {
		res := f.post(body, nil)
		text, err := io.ReadAll(res.Body)
		if err != nil || res.StatusCode != status {
			t.Errorf("%.20q: %s, %v", body, res.Status, err)
		}
		want(t, string(text), "error.data.outcome", `"not_executed"`)
	}
	p := newPipe(t, mcpserver.Options{Limits: limits.Limits{Line: 100}})
	for _, line := range []string{"{", strings.Repeat("x", 101), `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`} {
		p.send(line)
		want(t, p.next(), "error.data.outcome", `"not_executed"`)
	}
}
