package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	grpcstatus "google.golang.org/grpc/status"

	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
	"github.com/mcpbridge/mcpbridge/test/survive/checker"
	"github.com/mcpbridge/mcpbridge/test/survive/loadgen"
)

// A panicPoint is a place in the source at which panics are tested, with their expected effect. In a copy of the
// source, file gets a failpoint before the line with the text line, or after it if after is set. The file has only one
// such line; or, if in is set, it is the first one below the line that begins with in.
type panicPoint struct {
	file, line, in string
	after          bool

	// If ends, each panic fails exactly one call with INTERNAL. Otherwise it fails at most one call.
	ends bool
	// kick makes the bridge reach the point, if calls alone do not.
	kick func(t *target) error
	// If rare, the point is tested only once or twice, because reaching it is expensive.
	rare bool
	// If last, the point is reached during the shutdown, which must complete despite the panic.
	last bool
}

// panicPoints are all points by the name of the failpoint, which begins with the package.
var panicPoints = map[string]panicPoint{
	"mcpserverReceive": {
		file: "internal/mcpserver/conn.go", line: "msg, err := jsonrpc.Parse(data, &c.s.opts.Limits)",
		ends: true,
	},
	"mcpserverDispatch": {
		file: "internal/mcpserver/conn.go", line: "ss := c.legacy()",
		in: "func (c *conn) dispatch(", ends: true,
	},
	"mcpserverPost": {file: "internal/mcpserver/http.go", line: "switch {", in: "func (s *Server) readBody("},
	"mcpserverInitialize": {
		file: "internal/mcpserver/http.go", line: "ss, result, err := s.initialize(r.Context(), msg, s.origin(r))",
	},
	"mcpserverSessionMethod": {file: "internal/mcpserver/legacy.go", line: "if err := f(ss, msg); err != nil {"},
	"mcpserverBegin": {
		file: "internal/mcpserver/exchange.go",
		line: "if token := rawjson.Get(msg.Meta, metaProgressToken); token != nil && !rawjson.IsNull(token) {",
	},
	"mcpserverModernCall": {
		file: "internal/mcpserver/modern.go", line: `if why := checkRepeated(from.header); why != "" {`,
	},
	"mcpserverDecode": {
		file: "internal/mcpserver/modern.go", line: "call := &bridge.Call{Method: m, Request: m.NewRequest(caller)}",
	},
	"mcpserverDiscover": {
		file: "internal/mcpserver/server.go",
		line: "now, was := time.Now(), s.declarations[era].Load()",
	},
	"mcpserverHandle": {file: "internal/mcpserver/server.go", line: "res, err = s.handler.Handle(ctx, call, emit)"},
	"mcpserverModernHandled": {
		file:  "internal/mcpserver/modern.go",
		line:  "res, err := s.opts.Tasks.HandlerOf(call, s.handler).Handle(ctx, call, x.emit(call))",
		in:    "func (s *Server) modern(",
		after: true,
	},
	"mcpserverLegacyHandled": {
		file: "internal/mcpserver/legacy.go", line: "result, err = t.next(ctx, res, handlerError(failed))",
		after: true, ends: true,
	},
	"mcpserverProgress": {
		file: "internal/mcpserver/exchange.go", line: "return x.reportProgress(e.Progress)",
		ends: true,
	},
	"mcpserverSendProgress": {
		file: "internal/mcpserver/exchange.go", line: "rest, err := x.s.encode(nil, p, x.rev, x.related...)",
		ends: true,
	},
	"mcpserverResult":       {file: "internal/mcpserver/exchange.go", line: "dst := newBuffer(res)"},
	"mcpserverBeforeAnswer": {file: "internal/mcpserver/exchange.go", line: "x.out.finish(h, msg)"},
	"mcpserverAfterAnswer":  {file: "internal/mcpserver/exchange.go", line: "x.ended = true", after: true},
	"mcpserverLogged": {
		file: "internal/mcpserver/reply.go", line: "id = r.log.eventID(r.log.append(msg, last))",
		after: true,
	},
	"mcpserverNotifyChange": {
		file: "internal/mcpserver/session.go", line: "push := ss.stream()",
		kick: (*target).killUpstream,
	},
	"grpcserverAnswer": {file: "internal/grpcserver/grpcserver.go", line: "h, err := s.handler(ctx)", ends: true},
	"grpcserverHandled": {
		file:  "internal/grpcserver/grpcserver.go",
		line:  "res, err := s.o.Tasks.HandlerOf(call, h).Handle(ctx, call, emit)",
		after: true, ends: true,
	},
	"routerRoute":   {file: "internal/router/router.go", line: "switch req := call.Request.(type) {"},
	"routerAsk":     {file: "internal/router/router.go", line: "return rt.Handler.Handle(ctx, call, emit)"},
	"catalogHandle": {file: "internal/catalog/catalog.go", line: "r, ok := call.Request.(*pb.CallToolRequest)"},
	"catalogCalled": {file: "internal/catalog/call.go", line: "out, ok := result.Complete.(*pb.CallToolResult)"},
	"limitTimed":    {file: "internal/limit/limit.go", line: "ctx, cut := context.WithCancelCause(ctx)"},
	"sealOpen":      {file: "internal/seal/seal.go", line: "sealed := bridge.State(call.Request)"},
	"jsonrpcParse": {
		file: "internal/jsonrpc/jsonrpc.go", line: "func Parse(data []byte, l *limits.Limits) (Message, error) {",
		after: true,
	},
	"mcpjsonDecode": {file: "internal/mcpjson/mcpjson.go", line: "d := decoder{rev: rev}"},
	"mcpjsonEncode": {file: "internal/mcpjson/mcpjson.go", line: "e := encoder{dst: dst, rev: rev, limits: l}"},
	"pluginAttempt": {file: "internal/plugin/handler.go", line: "if call.Method != bridge.Listen {"},
	"pluginFramesSent": {
		file: "internal/plugin/framedcall.go", line: "for {",
		in: "func (p *Plugin) attemptFrames(", ends: true,
	},
	"pluginFrameReceived": {file: "internal/plugin/framedcall.go", line: "case in := <-c.in:", after: true, ends: true},
	"pluginFrame":         {file: "internal/plugin/frames.go", line: "switch kind {"},
	"pluginWriteFrames":   {file: "internal/plugin/frames.go", line: "out = out[:0]"},
	"pluginWatch":         {file: "internal/plugin/health.go", line: "found, err := p.checkHealth(both, l, service)"},
	"pluginStream":        {file: "internal/plugin/handler.go", line: "m := call.Method", kick: (*target).killPlugin},
	"pluginStreamReceived": {
		file: "internal/plugin/handler.go", line: "event, result, ok := bridge.Split(msg)",
		kick: (*target).killPlugin,
	},
	"pluginLost": {
		file: "internal/plugin/supervise.go", line: "if !l.lost.drains.IsZero() {",
		kick: (*target).killPlugin, rare: true,
	},
	"pluginLaunch": {
		file: "internal/plugin/supervise.go", line: "config, err := p.makeKeys(r)",
		kick: (*target).killPlugin, rare: true,
	},
	"childRead":        {file: "internal/child/child.go", line: "read()", kick: (*target).killPlugin, rare: true},
	"mcpclientAttempt": {file: "internal/mcpclient/call.go", line: "p := l.peer"},
	"mcpclientPost": {
		file: "internal/mcpclient/http.go", line: "ctx, guard := x.traced(x.ctx)",
	},
	"mcpclientResponded": {
		file: "internal/mcpclient/http.go", line: "x.sent.end() // whatever the trace has reported",
	},
	"mcpclientReceived": {file: "internal/mcpclient/incoming.go", line: "if !jsonrpc.IsBatch(data) {"},
	"mcpclientRead":     {file: "internal/mcpclient/result.go", line: "m := call.Method"},
	"mcpclientEvent":    {file: "internal/mcpclient/call.go", line: "var e bridge.Event", ends: true},
	"mcpclientSend":     {file: "internal/mcpclient/outbox.go", line: "if err := o.send(m); err != nil {"},
	"mcpclientConnect": {
		file:  "internal/mcpclient/probe.go",
		line:  `defer c.panics.Recover("probing the server", func(e *bridge.Error) { l, err = nil, e })`,
		after: true, kick: (*target).killUpstream,
	},
	"lifecycleAdvance": {
		file: "internal/lifecycle/lifecycle.go", line: "func (l *Lifecycle) Advance(to Phase) {",
		after: true, last: true,
	},
	"lifecycleQuiet": {
		file: "internal/lifecycle/lifecycle.go", line: "var before uint64",
		last: true,
	},
}

// A target is a bridge with failpoints and a backend of each kind.
type target struct {
	*Bridge
	failpoints failpointClient
	probes     string           // the address of its readiness endpoint
	mu         sync.Mutex       // guards pids and last
	pids       map[string]int   // the process that last answered a call, by tool
	last       map[string]int64 // when that call began, in nanoseconds since 1970, by tool
}

const (
	plugTool, stdioTool, httpTool = "plug_work", "up_work", "web_work"
)

// recordAnswer records which process answered a call.
func (t *target) recordAnswer(c *checker.Call) {
	if !c.OK() {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pids[c.Tool], t.last[c.Tool] = c.Answers[0].PID, c.Begin
}

func (t *target) kill(tool string) error {
	t.mu.Lock()
	pid := t.pids[tool]
	t.mu.Unlock()
	if pid == 0 {
		return nil
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return err
	}
	return nil
}

func (t *target) killPlugin() error   { return t.kill(plugTool) }
func (t *target) killUpstream() error { return t.kill(stdioTool) }

// awaitAnswers waits until every backend has answered a call that began after a point in time.
func (t *target) awaitAnswers(ctx context.Context, since time.Time) error {
	from := since.UnixNano()
	for until := time.Now().Add(40 * time.Second); time.Now().Before(until) &&
		ctx.Err() == nil; time.Sleep(5 * time.Millisecond) {
		t.mu.Lock()
		all := t.last[plugTool] > from && t.last[stdioTool] > from && t.last[httpTool] > from
		t.mu.Unlock()
		if all {
			return nil
		}
		select {
		case <-t.done:
			return fmt.Errorf("the bridge exited: %v", t.cmd.ProcessState)
		default:
		}
	}
	return errors.New("a backend did not answer within 40 s")
}

// A watched client records in t which processes answer its calls.
type watched struct {
	client
	t *target
}

func (w watched) Call(work loadgen.Work) checker.Call {
	c := w.client.Call(work)
	w.t.recordAnswer(&c)
	return c
}

// startTarget starts a bridge with failpoints, which serves either HTTP and gRPC, or stdio.
func (r *Rig) startTarget(ctx context.Context, program string, web *httpServer, journal string,
	stdio bool,
) (*target, error) {
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	probes, err := freeAddr()
	if err != nil {
		return nil, err
	}
	s := setup{bin: program, stdio: stdio, own: []string{"GOFAIL_HTTP=" + addr}, config: func(b *Bridge) string {
		config := fmt.Sprintf("version: 1\nbackends:\n"+
			"- {name: plug, launch: {command: [%q], env: {FAULTPLUG_JOURNAL: %q}}}\n"+
			"- {name: up, mcp: {command: [%q], env: {FAULTMCP_JOURNAL: %q, FAULTMCP_ERA: legacy}}}\n"+
			"- {name: web, mcp: {url: %q}}\n", r.plugin, journal, r.upstream, journal, web.URL)
		if !stdio {
			config += fmt.Sprintf("serve: {grpc: {addr: %q}, ops: {addr: %q}}\n",
				"unix://"+filepath.Join(b.Dir, "grpc"), probes)
		}
		return config
	}}
	b, err := r.start(ctx, s)
	if err != nil {
		return nil, err
	}
	b.Journal = journal
	return &target{
		Bridge: b, failpoints: failpointClient{addr, &http.Client{Timeout: 10 * time.Second}}, probes: probes,
		pids: map[string]int{}, last: map[string]int64{},
	}, nil
}

// freeAddr returns a free address. Other programs listen at and connect from 127.0.0.1, so its port stays free.
func freeAddr() (string, error) {
	ln, err := net.Listen("tcp", "127.0.0.15:0")
	if err != nil {
		return "", err
	}
	return ln.Addr().String(), ln.Close()
}

// ready reports whether the target is ready.
func (t *target) ready(ctx context.Context) (bool, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+t.probes+"/readyz", http.NoBody)
	if err != nil {
		return false, err
	}
	res, err := t.failpoints.client.Do(req)
	if err != nil {
		return false, err
	}
	return res.StatusCode == http.StatusOK, res.Body.Close()
}

// panicAtFailpoints is scenario R15: repeated panics at every failpoint under load. The process continues; only the
// call that reached the failpoint fails; if the goroutine of a connection to a backend panicked, the bridge connects
// again; no resource is leaked.
func panicAtFailpoints(ctx context.Context, r *Rig) error {
	program, err := buildFailing(ctx, root, filepath.Join(r.dir, "failing"))
	if err != nil {
		return err
	}
	if has, err := hasFailpoints(r.bin); err != nil {
		return err
	} else if has {
		return fmt.Errorf("%s must have no failpoints", r.bin)
	}
	journal := filepath.Join(r.dir, "panics.journal")
	web, err := r.serveUpstream(ctx, loadgen.Modern, "127.0.0.1:0", journal)
	if err != nil {
		return err
	}
	t, err := r.startTarget(ctx, program, web, journal, false)
	if err != nil {
		return err
	}
	piped, err := r.startTarget(ctx, program, web, journal, true)
	if err != nil {
		return err
	}
	pipe, err := loadgen.NewPipe(piped.In, piped.Out)
	if err != nil {
		return err
	}
	callers, clients, err := callersOf(t.URL, 8)
	if err != nil {
		return err
	}
	for _, c := range callers {
		c.Resumes = true
	}
	g, err := newGRPCCaller("unix://"+filepath.Join(t.Dir, "grpc"), 50)
	if err != nil {
		return err
	}
	clients = append(clients, g)
	for i := range clients {
		clients[i] = watched{clients[i], t}
	}
	pipeClients := []client{watched{pipeClient{pipe, 60}, piped}, watched{pipeClient{pipe, 61}, piped}}

	p := panicking{r: r, t: t, piped: piped, clients: clients, pipeClients: pipeClients, count: map[string]int{}}
	if err := p.awaitBackends(ctx); err != nil {
		return err
	}
	if ready, err := t.ready(ctx); err != nil {
		return err
	} else if !ready {
		return errors.New("the bridge is not ready before the first panic")
	}
	before := settled(t.Bridge)
	for _, point := range slices.Sorted(maps.Keys(panicPoints)) {
		at := p.at
		if panicPoints[point].last {
			at = func(ctx context.Context, name string) error { return p.atEnd(ctx, name, program, web) }
		}
		if err := at(ctx, point); err != nil {
			return fmt.Errorf("%s: %w; the log is in %s", point, err, t.Dir)
		}
		if r.long {
			fmt.Fprintf(os.Stderr, "R15: %s, %d panics, %d violations\n", point, p.panics, len(p.wrongs))
		}
	}
	if err := p.panicRepeatedly(ctx); err != nil {
		return err
	}
	if err := p.awaitBackends(ctx); err != nil {
		return err
	}
	for _, c := range callers {
		c.Close()
	}
	after := settled(t.Bridge)
	g.conn.Close()
	for _, c := range callers {
		c.End()
	}
	unmatched, err := pipe.Close()
	if err != nil {
		return err
	}
	<-piped.done
	took, err := t.stop()
	if err != nil {
		return err
	}
	if err := web.stop(); err != nil {
		return err
	}
	logged, err := panicsLogged(filepath.Join(t.Dir, "log"))
	if err != nil {
		return err
	}
	first := ""
	if len(p.wrongs) > 0 {
		first = fmt.Sprintf("; the first: %s %s", p.wrongs[0].Token, p.wrongs[0].Why)
	}
	// A few connections stay open and idle for a while, but there are no more processes than before.
	held := after.Children <= before.Children && after.FDs <= before.FDs+8 && after.Threads <= before.Threads+8
	r.report("R15", len(p.wrongs) == 0 && held && took < 10*time.Second && p.internal > 0 && logged.again == 0,
		fmt.Sprintf("%d failpoints: the process continues, each call has one response, which is INTERNAL if it "+
			"failed; 0 leaks; after three panics at one place the bridge is not ready", len(panicPoints)),
		"%d panics at %d points, %d calls and %d other requests, %d failed with INTERNAL: %d wrong %s%s; fds %d → %d, "+
			"children %d → %d, exited within %v; %d logged from %d places, %d with a missing or repeated stack%s",
		p.panics, len(panicPoints), p.calls, p.others.Load(), p.internal, len(p.wrongs), kinds(p.wrongs), first,
		before.FDs, after.FDs,
		before.Children, after.Children, took.Round(time.Millisecond), logged.lines, logged.places, logged.again,
		unmatchedNote(unmatched))
	return nil
}

func unmatchedNote(unmatched []string) string {
	if len(unmatched) == 0 {
		return ""
	}
	return fmt.Sprintf("; %d unmatched lines on stdio, such as responses without an id", len(unmatched))
}

// panicking is the state of scenario R15.
type panicking struct {
	r                    *Rig
	t, piped             *target
	clients, pipeClients []client
	panics, calls        int
	internal             int
	others               atomic.Int64
	wrongs               []checker.Wrong
	count                map[string]int
}

// at triggers one failpoint repeatedly under load, and checks the history.
func (p *panicking) at(ctx context.Context, name string) error {
	point := panicPoints[name]
	times := p.r.cycles(2, 250)
	if point.rare {
		times = p.r.cycles(1, 2)
	}
	t, clients := p.t, p.clients
	if name == "mcpserverReceive" || name == "mcpserverDispatch" {
		t, clients = p.piped, p.pipeClients // only stdio clients reach these points
	}
	from := t.journalSize()
	group := startGroup(ctx, clients, work)
	idle, err := p.sendOtherRequests(ctx)
	if err != nil {
		return err
	}
	for n := 0; n < times && err == nil; n++ {
		if err = t.awaitAnswers(ctx, time.Now()); err != nil {
			break
		}
		// A backend that has run for longer is restarted without backoff.
		if err = t.awaitAnswers(ctx, time.Now().Add(settle)); err != nil {
			break
		}
		kick := func() error { return nil }
		if point.kick != nil {
			kick = func() error { return point.kick(t) }
		}
		err = t.failpoints.panicOnce(name, kick)
		p.panics++
	}
	if err == nil {
		err = t.awaitAnswers(ctx, time.Now())
	}
	history := group.end()
	err = errors.Join(err, idle())
	if err != nil {
		return err
	}
	journal, err := t.journal(from)
	if err != nil {
		return err
	}
	wrongs := p.judge(name, history, journal)
	failed := 0
	for i := range history {
		if isInternal(&history[i]) {
			failed++
		}
	}
	p.internal += failed
	p.calls += len(history)
	if point.ends && failed != times {
		wrongs = append(wrongs, checker.Wrong{
			Kind: "missing-internal-error", Token: name,
			Why: fmt.Sprintf("%d panics, and %d calls failed with INTERNAL", times, failed),
		})
	}
	if !point.ends && failed > times {
		wrongs = append(wrongs, checker.Wrong{
			Kind: "extra-internal-error", Token: name,
			Why: fmt.Sprintf("%d panics, and %d calls failed with INTERNAL", times, failed),
		})
	}
	if len(wrongs) > 0 {
		fmt.Fprintf(os.Stderr, "R15: %s: ", name)
		if err := p.r.keepHistory(t.Bridge, history, wrongs); err != nil {
			return err
		}
	}
	p.wrongs = append(p.wrongs, wrongs...)
	return nil
}

// atEnd triggers a failpoint during the drain of a new bridge. The bridge still answers its calls and exits normally.
func (p *panicking) atEnd(ctx context.Context, name, program string, web *httpServer) error {
	t, err := p.r.startTarget(ctx, program, web, filepath.Join(p.r.dir, name+".journal"), false)
	if err != nil {
		return err
	}
	callers, clients, err := callersOf(t.URL, 8)
	if err != nil {
		return err
	}
	for _, c := range clients {
		if call := c.Call(loadgen.Work{Tool: plugTool}); !call.OK() {
			return fmt.Errorf("the first call failed: %+v", call)
		}
	}
	if _, err := t.failpoints.do(http.MethodPut, name, "1*panic"); err != nil {
		return err
	}
	begun, history := make(chan struct{}, len(clients)), make([]checker.Call, len(clients))
	var wg sync.WaitGroup
	for i, c := range clients {
		wg.Go(func() {
			once := sync.OnceFunc(func() { begun <- struct{}{} })
			history[i] = c.Call(loadgen.Work{Tool: plugTool, Ms: 1000, Events: 10, OnEvent: func(*checker.Call) bool {
				once()
				return true
			}})
		})
	}
	for range clients {
		select {
		case <-begun:
		case <-time.After(20 * time.Second):
			return errors.New("calls did not start within 20 s")
		}
	}
	_, err = t.stop()
	wg.Wait()
	for _, c := range callers {
		c.Close()
	}
	if err != nil {
		return err
	}
	p.panics++
	p.calls += len(history)
	for i := range history {
		if !history[i].OK() {
			p.wrongs = append(p.wrongs,
				checker.Wrong{
					Kind: "lost", Token: history[i].Token,
					Why: fmt.Sprintf("%s: %+v", name, history[i].Answers),
				})
		}
	}
	logged, err := panicsLogged(filepath.Join(t.Dir, "log"))
	if err == nil && logged.lines != 1 {
		err = fmt.Errorf("got %d logged panics, want 1", logged.lines)
	}
	return err
}

// panicRepeatedly triggers at least three panics at one place within a minute, after which the bridge must
// not be ready.
func (p *panicking) panicRepeatedly(ctx context.Context) error {
	for n := 0; n < 3; n += p.r.cycles(2, 250) { // the number of panics that at triggers
		if err := p.at(ctx, "mcpserverPost"); err != nil {
			return err
		}
	}
	ready, err := p.t.ready(ctx)
	if err == nil && ready {
		err = errors.New("the bridge is ready after three panics at one place within a minute")
	}
	return err
}

func isInternal(c *checker.Call) bool {
	return len(c.Answers) == 1 && c.Answers[0].Code == -32603 && c.Answers[0].Reason == "INTERNAL" &&
		c.Answers[0].Outcome == "unknown"
}

// judge returns the violations in a history. A backend's work for a call that failed by a panic may be canceled,
// although the caller did not cancel the call.
func (p *panicking) judge(name string, history []checker.Call, journal []checker.Entry) []checker.Wrong {
	byToken := map[string]*checker.Call{}
	for i := range history {
		byToken[history[i].Token] = &history[i]
	}
	wrongs := slices.DeleteFunc(checker.Rule{}.Judge(history, journal), func(w checker.Wrong) bool {
		c := byToken[w.Token]
		return w.Kind == checker.UnrequestedCancel && len(c.Answers) == 1 && c.Answers[0].Outcome == "unknown"
	})
	for i := range wrongs {
		wrongs[i].Why = name + ": " + wrongs[i].Why
	}
	return wrongs
}

// work returns a random call of a random backend.
func work() loadgen.Work {
	w := loadgen.Work{Tool: []string{plugTool, stdioTool, httpTool}[rand.IntN(3)], Ms: rand.IntN(8)}
	if rand.IntN(3) == 0 {
		w.Events = 1 + rand.IntN(5)
	}
	return w
}

// awaitBackends waits until every backend has answered a new call through each bridge.
func (p *panicking) awaitBackends(ctx context.Context) error {
	for _, part := range []struct {
		t       *target
		clients []client
	}{{p.t, p.clients}, {p.piped, p.pipeClients}} {
		group := startGroup(ctx, part.clients, work)
		err := part.t.awaitAnswers(ctx, time.Now())
		group.end()
		if err != nil {
			return err
		}
	}
	return nil
}

// sendOtherRequests starts and ends sessions, requests lists, and pings, until the returned function is called.
func (p *panicking) sendOtherRequests(ctx context.Context) (end func() error, err error) {
	conn, err := loadgen.NewConn(p.t.URL)
	if err != nil {
		return nil, err
	}
	c, err := loadgen.NewCaller(p.t.URL, loadgen.Legacy, 70)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- p.sendOthers(ctx, conn, c) }()
	return func() error {
		stop()
		err := <-done
		conn.Close()
		c.End()
		return err
	}, nil
}

// sendOthers sends the requests of meanwhile until ctx ends. Each must be answered, with a result or with INTERNAL.
func (p *panicking) sendOthers(ctx context.Context, conn *loadgen.Conn, c *loadgen.Caller) error {
	const modern = "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/list\r\n"
	for ctx.Err() == nil {
		_, body, err := conn.Do(http.MethodPost, modern,
			[]byte(`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`))
		if err == nil && !answered(body) {
			err = fmt.Errorf("tools/list: %.300q", body)
		}
		if err != nil {
			return err
		}
		p.others.Add(1)
		if err := c.Open(); err != nil {
			if !strings.Contains(err.Error(), `"INTERNAL"`) {
				return err
			}
			c.Leave()
			continue
		}
		_, body, err = c.Do(http.MethodPost, c.Headers(""), []byte(`{"jsonrpc":"2.0","id":2,"method":"ping"}`))
		if err == nil && !answered(body) {
			err = fmt.Errorf("ping: %.300q", body)
		}
		if err != nil {
			return err
		}
		p.others.Add(2)
		c.End()
	}
	return nil
}

// answered reports whether a message is a result or INTERNAL.
func answered(body []byte) bool {
	return bytes.Contains(body, []byte(`"result"`)) || bytes.Contains(body, []byte(`"reason":"INTERNAL"`))
}

// loggedPanics counts the panics in a log.
type loggedPanics struct {
	lines, places int
	again         int // lines with a stack that are not the first of their place, and first lines without one
}

// panicsLogged counts the recovered panics in the log file of a bridge.
func panicsLogged(name string) (l loggedPanics, err error) {
	f, err := os.Open(name)
	if err != nil {
		return l, err
	}
	defer f.Close()
	places := map[string]bool{}
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var line struct {
			Place, Stack, Message string
			Count                 int
		}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil ||
			!strings.HasPrefix(line.Message, "recovered panic") {
			continue
		}
		l.lines++
		places[line.Place] = true
		if (line.Count == 1) != (line.Stack != "") {
			l.again++
		}
	}
	l.places = len(places)
	return l, lines.Err()
}

// A grpcCaller is a gRPC client.
type grpcCaller struct {
	conn   *grpc.ClientConn
	number int
}

func newGRPCCaller(target string, number int) (*grpcCaller, error) {
	conn, err := grpc.NewClient(target, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, err
	}
	return &grpcCaller{conn, number}, nil
}

// Call makes a call and returns its history.
func (g *grpcCaller) Call(w loadgen.Work) checker.Call {
	w.Token, w.Tool = loadgen.NewToken(), cmp.Or(w.Tool, "work")
	arguments, _ := json.Marshal(w) //nolint:errchkjson // JSON can represent all its values
	c := checker.Call{Token: w.Token, Caller: g.number, Era: "grpc", Tool: w.Tool, Begin: time.Now().UnixNano()}
	a, err := g.call(&c, &pb.CallToolRequest{
		Context: &pb.CallContext{ProgressWanted: true}, Name: w.Tool,
		Arguments: arguments,
	})
	c.End = time.Now().UnixNano()
	if err != nil {
		a = checker.Answer{Failed: true, Code: -32603, Text: err.Error()}
		for _, d := range grpcstatus.Convert(err).Details() {
			if info, ok := d.(*errdetails.ErrorInfo); ok {
				a.Reason, a.Outcome = info.GetReason(), info.GetMetadata()["outcome"]
			}
		}
	}
	c.Answers = []checker.Answer{a} // a stream has one result
	return c
}

func (g *grpcCaller) call(c *checker.Call, req *pb.CallToolRequest) (a checker.Answer, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	stream, err := pb.NewMcpServiceClient(g.conn).CallTool(ctx, req)
	if err != nil {
		return a, err
	}
	for {
		m, err := stream.Recv()
		if err != nil {
			return a, err
		}
		if p := m.GetProgress(); p != nil {
			c.Events = append(c.Events, int(p.GetProgress()))
			continue
		}
		var done struct {
			Token string `json:"token"`
			PID   int    `json:"pid"`
		}
		res := m.GetResult()
		if err := json.Unmarshal(res.GetStructuredContent(), &done); err != nil {
			return a, err
		}
		return checker.Answer{Token: done.Token, PID: done.PID, Failed: res.GetIsError()}, nil
	}
}
