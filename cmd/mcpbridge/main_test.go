package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"go.uber.org/goleak"
	"google.golang.org/grpc"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/app"
	"github.com/mcpbridge/mcpbridge/internal/bridgetest"
	"github.com/mcpbridge/mcpbridge/internal/clientcmd"
	"github.com/mcpbridge/mcpbridge/internal/problem"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

func TestMain(m *testing.M) {
	testscript.Main(cleaning{m}, map[string]func(){"mcpbridge": main, "sized": sized, "curious": curious})
}

// cleaning removes what the tests built, and reports processes that they left running.
type cleaning struct{ m *testing.M }

func (c cleaning) Run() int {
	defer func() {
		if built != "" {
			os.RemoveAll(built)
		}
	}()
	cache, err := os.MkdirTemp("", "mcpbridge-test")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(cache)
	if dir, err := os.UserCacheDir(); err == nil && os.Getenv("GOCACHE") == "" {
		os.Setenv("GOCACHE", filepath.Join(dir, "go-build")) // tests build backends
	}
	os.Setenv("XDG_CACHE_HOME", cache)
	code := c.m.Run()
	if err := goleak.Find(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return max(code, 1)
	}
	return code
}

// TestScripts runs the commands in testdata/script and compares their output.
func TestScripts(t *testing.T) {
	bridgetest.SkipIfShort(t)
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script", RequireExplicitExec: true, RequireUniqueNames: true,
		Setup: func(e *testscript.Env) error {
			e.Setenv("ECHO", echoGo(t))
			e.Setenv("XDG_CACHE_HOME", filepath.Join(e.WorkDir, ".cache"))
			return nil
		},
		UpdateScripts: os.Getenv("UPDATE_SCRIPTS") != "",
	})
}

// echoGo returns the path of a backend that is built once.
func echoGo(t *testing.T) string {
	t.Helper()
	bridgetest.SkipIfShort(t)
	path, err := buildEcho()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// built is the directory of built programs, which TestMain removes.
var built string

var buildEcho = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "mcpbridge-test")
	if err != nil {
		return "", err
	}
	built = dir
	path := filepath.Join(dir, "echo-go")
	out, err := exec.Command("go", "build", "-o", path, "../../examples/echo-go").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build echo-go: %w\n%s", err, out)
	}
	return path, nil
})

// A run is a Program that runs in this process.
type run struct {
	url    string
	app    *app.App
	called atomic.Int32 // the number of tool calls
	// defective makes the backends panic in every call of a tool.
	defective atomic.Bool
	stderr    *lockedBuffer
	drain     context.CancelFunc
	cut       context.CancelFunc
	exited    chan struct{}
	code      int // valid once exited is closed
}

// start runs the program until it is ready.
func start(t *testing.T, stdin io.Reader, stdout io.Writer, args ...string) *run {
	t.Helper()
	ctx, drain := context.WithCancel(t.Context())
	now, cut := context.WithCancel(t.Context())
	r := &run{stderr: &lockedBuffer{}, drain: drain, cut: cut, exited: make(chan struct{})}
	ready := make(chan struct{})
	p := &Program{
		Env: clientcmd.Env{
			Args: args, Stdin: stdin, Stdout: stdout, Stderr: r.stderr, Environ: os.Environ(), Abort: now,
			Wrap: func(backend bridge.Handler) bridge.Handler {
				return bridge.HandlerFunc(
					func(ctx context.Context, c *bridge.Call, emit bridge.Emit) (*bridge.Result, error) {
						if c.Method == bridge.CallTool {
							r.called.Add(1)
							if r.defective.Load() {
								panic("a bug")
							}
						}
						return backend.Handle(ctx, c, emit)
					})
			},
		},
		Started: func(a *app.App) {
			r.url, r.app = a.URL(), a
			close(ready)
		},
	}
	go func() {
		defer close(r.exited)
		r.code = p.Run(ctx)
	}()
	t.Cleanup(func() {
		cut()
		drain()
		<-r.exited
	})
	select {
	case <-ready:
	case <-r.exited:
		t.Fatalf("exit code %d before it was ready:\n%s", r.code, r.stderr)
	}
	return r
}

// wait waits until the program has exited and returns its exit code.
func (r *run) wait(t *testing.T) int {
	t.Helper()
	select {
	case <-r.exited:
		return r.code
	case <-time.After(20 * time.Second):
		t.Fatalf("the program did not exit:\n%s", r.stderr)
		return -1
	}
}

// call calls a tool as a client of 2026-07-28 and returns the text of the result.
func (r *run) call(t *testing.T, tool, arguments string) (string, error) {
	t.Helper()
	return r.callWith(t.Context(), new(http.Client), tool, arguments)
}

// callWith is like call, with a client.
func (r *run) callWith(ctx context.Context, client *http.Client, tool, arguments string) (string, error) {
	body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + tool + `","arguments":` + arguments +
		`,"_meta":{` +
		`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},` +
		`"io.modelcontextprotocol/clientInfo":{"name":"test","version":"1"}}}}`
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url, strings.NewReader(body))
	if err != nil {
		return "", err
	}
	for name, value := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": tool,
	} {
		req.Header.Set(name, value)
	}
	res, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return "", err
	}
	for line := range bytes.Lines(text) {
		text = bytes.TrimPrefix(line, []byte("data: ")) // of the last event, if it is a stream
		var answer struct {
			Result struct{ Content []struct{ Text string } }
			Error  *struct{ Message string }
		}
		switch err := json.Unmarshal(text, &answer); {
		case err != nil:
		case answer.Error != nil:
			return "", errors.New(answer.Error.Message)
		case len(answer.Result.Content) == 1:
			return answer.Result.Content[0].Text, nil
		}
	}
	return "", fmt.Errorf("%s: %s", res.Status, text)
}

func TestServesHTTP(t *testing.T) {
	r := start(t, nil, nil, "run", "--http", "127.0.0.1:0", "--path", "/tools", "--", echoGo(t))
	if !strings.HasSuffix(r.url, "/tools") {
		t.Errorf("it serves %s, not the configured path", r.url)
	}
	if text, err := r.call(t, "echo", `{"n":1}`); err != nil || text != `{"n":1}` {
		t.Errorf("echo returned %q, %v", text, err)
	}
	r.drain()
	if code := r.wait(t); code != problem.ExitOK {
		t.Errorf("exit code %d:\n%s", code, r.stderr)
	}
	if _, err := r.call(t, "echo", `{}`); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("after the exit: call got %v", err)
	}
}

func TestServesStdio(t *testing.T) {
	in, client := io.Pipe()
	out := &lockedBuffer{}
	r := start(t, in, out, "run", "--", echoGo(t))
	for _, m := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}`,
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
		`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"slow","arguments":{"ms":100}}}`,
	} {
		if _, err := io.WriteString(client, m+"\n"); err != nil {
			t.Fatal(err)
		}
	}
	client.Close()
	if code := r.wait(t); code != problem.ExitOK {
		t.Errorf("exit code %d:\n%s", code, r.stderr)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if last := lines[len(lines)-1]; len(lines) != 2 || !strings.Contains(last, `"id":2`) ||
		!strings.Contains(last, `"done"`) {
		t.Errorf("it wrote:\n%s", out)
	}
}

func TestDrainCompletesCallsAndStartsNone(t *testing.T) {
	bridgetest.SkipIfShort(t)
	r := start(t, nil, nil, "run", "--http", "127.0.0.1:0", "--", echoGo(t))
	type answer struct {
		text string
		err  error
	}
	answers := make(chan answer, 1)
	go func() {
		text, err := r.call(t, "slow", `{"ms":4000}`)
		answers <- answer{text, err}
	}()
	r.awaitCalls(t, 1)
	r.drain()
	r.awaitLog(t, "draining")
	// A load balancer may not have noticed yet.
	if _, err := r.call(t, "echo", `{}`); err != nil {
		t.Errorf("call in the lame duck phase: %v", err)
	}
	r.awaitLog(t, "refusing new calls")
	if _, err := r.call(t, "echo", `{}`); err == nil || !strings.Contains(err.Error(), "shutting down") {
		t.Errorf("new call: got %v", err)
	}
	if a := <-answers; a.err != nil || a.text != "done" {
		t.Errorf("call in flight: got %q, %v", a.text, a.err)
	}
	if code := r.wait(t); code != problem.ExitOK {
		t.Errorf("exit code %d:\n%s", code, r.stderr)
	}
}

// Some clients open a connection and never use it.
func TestSilentConnectionsDoNotDelayShutdown(t *testing.T) {
	r := start(t, nil, nil, "run", "--http", "127.0.0.1:0", "--", echoGo(t))
	addr, _, _ := strings.Cut(strings.TrimPrefix(r.url, "http://"), "/")
	silent, err := new(net.Dialer).DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	if _, err := r.call(t, "echo", `{}`); err != nil { // the previous connection has been accepted by now too
		t.Fatal(err)
	}
	begin := time.Now()
	r.drain()
	if code := r.wait(t); code != problem.ExitOK {
		t.Errorf("exit code %d:\n%s", code, r.stderr)
	}
	if d := time.Since(begin); d >= 2*time.Second {
		t.Errorf("it took %s", d)
	}
}

func TestDrainIsBounded(t *testing.T) {
	r := start(t, nil, nil, "run", "--http", "127.0.0.1:0", "--drain", "50ms", "--", echoGo(t))
	begin := time.Now()
	failed := make(chan error, 1)
	go func() {
		_, err := r.call(t, "slow", `{"ms":60000}`)
		failed <- err
	}()
	r.awaitCalls(t, 1)
	r.drain()
	if code := r.wait(t); code != problem.ExitOK {
		t.Errorf("exit code %d:\n%s", code, r.stderr)
	}
	if err := <-failed; err == nil ||
		!strings.Contains(err.Error(), "shutting down; whether it was executed is not known") {
		t.Errorf("call above the drain timeout: got %v", err)
	}
	if d := time.Since(begin); d > 30*time.Second { // the call takes 60
		t.Errorf("it took %s", d)
	}
}

// spawn starts cmd, a bridge that serves HTTP and logs JSON, as a process and waits until it is ready. The process is
// killed at the end of the test.
func spawn(t *testing.T, cmd *exec.Cmd) *run {
	t.Helper()
	r := &run{stderr: &lockedBuffer{}}
	cmd.Stderr = r.stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	r.awaitLog(t, `"message":"ready"`)
	_, rest, _ := strings.Cut(r.stderr.String(), `"url":"`)
	r.url, _, _ = strings.Cut(rest, `"`)
	return r
}

// Closing the terminal does not interrupt calls.
func TestHangupDrains(t *testing.T) {
	bridgetest.SkipIfShort(t)
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP) // under nohup, the bridge would inherit the ignored signal
	defer signal.Stop(hangups)
	cmd := exec.Command("mcpbridge", "run", "--log-format", "json", "--http", "127.0.0.1:0", "--", echoGo(t))
	r := spawn(t, cmd)
	answered := make(chan error, 1)
	go func() {
		_, err := r.call(t, "slow", `{"ms":1000}`)
		answered <- err
	}()
	if _, err := r.call(t, "slow", `{"ms":100}`); err != nil { // the other one has begun by its end
		t.Error(err)
	}
	if err := cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	if err := <-answered; err != nil {
		t.Errorf("call: got %v", err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("exited with %v:\n%s", err, r.stderr)
	}
}

func TestSecondSignalExitsAtOnce(t *testing.T) {
	cmd := exec.Command("mcpbridge", "run", "--log-format", "json", "--http", "127.0.0.1:0", "--", echoGo(t))
	cmd.Env = append(os.Environ(), "MCPBRIDGE_SERVE__PREDRAIN=1m") // the signal ends this wait too
	r := spawn(t, cmd)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = r.call(t, "slow", `{"ms":60000}`) // interrupted
	}()
	if _, err := r.call(t, "slow", `{"ms":100}`); err != nil { // the other one has begun by its end
		t.Error(err)
	}
	signal := func() {
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
	}
	signal()
	r.awaitLog(t, "draining")
	begin := time.Now()
	signal()
	err := cmd.Wait()
	if cmd.ProcessState.ExitCode() != problem.ExitInterrupted {
		t.Errorf("exited with %v:\n%s", err, r.stderr)
	}
	if d := time.Since(begin); d > 20*time.Second { // the drain timeout is 30 s
		t.Errorf("it took %s", d)
	}
	<-ended
}

func TestBackendThatDoesNotStart(t *testing.T) {
	stderr := &lockedBuffer{}
	p := &Program{
		Env: clientcmd.Env{
			Args: []string{
				"--log-format", "text", "run", "--http", "127.0.0.1:0", "--", "sh", "-c",
				"echo no such module >&2; exit 4",
			},
			Stderr: stderr,
		},
	}
	if code := p.Run(t.Context()); code != problem.ExitPlugin {
		t.Errorf("exit code %d", code)
	}
	for _, want := range []string{`backend "sh" did not start`, "no such module", "exit status 4", "fix:"} {
		if !strings.Contains(stderr.String(), want) {
			t.Errorf("the output lacks %q:\n%s", want, stderr)
		}
	}
}

// The bridge may be started before a backend that it dials.
func TestServesHTTPBeforeADialedBackendIsReachable(t *testing.T) {
	bridgetest.SkipIfShort(t)
	socket := filepath.Join(t.TempDir(), "s.sock")
	r := start(t, nil, nil, "run", "--http", "127.0.0.1:0", "unix://"+socket)
	r.awaitLog(t, "there is no such file: "+socket)
	type answer struct {
		text string
		err  error
	}
	answers := make(chan answer, 1)
	go func() {
		text, err := r.call(t, "echo", `{"n":1}`)
		answers <- answer{text, err}
	}()
	ln, err := new(net.ListenConfig).Listen(t.Context(), "unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	backend := grpc.NewServer()
	pb.RegisterMcpServiceServer(backend, textBackend{})
	var wg sync.WaitGroup
	defer wg.Wait()
	defer backend.Stop()
	wg.Go(func() {
		if err := backend.Serve(ln); err != nil {
			t.Error(err)
		}
	})
	if a := <-answers; a.err != nil || a.text != "here now" {
		t.Errorf("call before the backend was reachable: got %q, %v", a.text, a.err)
	}
}

// A textBackend is a backend whose tools all return the same text.
type textBackend struct {
	pb.UnimplementedMcpServiceServer
}

func (textBackend) Discover(context.Context, *pb.DiscoverRequest) (*pb.DiscoverResponse, error) {
	return &pb.DiscoverResponse{
		ContractVersion: bridge.ContractVersion,
		ServerInfo:      &pb.Implementation{Name: "text-backend", Version: "1"},
		Capabilities:    &pb.ServerCapabilities{Tools: &pb.ToolsCapability{}},
	}, nil
}

func (textBackend) CallTool(_ *pb.CallToolRequest, stream grpc.ServerStreamingServer[pb.CallToolResponse]) error {
	block := &pb.ContentBlock{Block: &pb.ContentBlock_Text{Text: &pb.TextContent{Text: "here now"}}}
	result := &pb.CallToolResult{Content: []*pb.ContentBlock{block}}
	return stream.Send(&pb.CallToolResponse{Event: &pb.CallToolResponse_Result{Result: result}})
}

func TestExitCodes(t *testing.T) {
	for args, want := range map[string]int{
		"version":                             problem.ExitOK,
		"run --help":                          problem.ExitOK,
		"rum":                                 problem.ExitUsage,
		"run":                                 problem.ExitConfig,
		"run --stdio --http :1 -- x":          problem.ExitUsage,
		"run -c testdata/nowhere.yaml":        problem.ExitConfig,
		"run --drain soon -- x":               problem.ExitUsage,
		"version 1":                           problem.ExitUsage,
		"run -- no-such-program":              problem.ExitPlugin,
		"run --dir nowhere -- cat":            problem.ExitPlugin,
		"run --start-timeout 50ms -- sleep 9": problem.ExitPlugin,
	} {
		p := &Program{Env: clientcmd.Env{Args: strings.Fields(args), Stdout: io.Discard, Stderr: io.Discard}}
		if code := p.Run(t.Context()); code != want {
			t.Errorf("mcpbridge %s: got exit code %d, want %d", args, code, want)
		}
	}
}

func TestServesThePythonExample(t *testing.T) {
	bridgetest.SkipIfShort(t)
	python, err := filepath.Abs("../../.venv/bin/python")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(python); err != nil {
		t.Fatalf("%v: run make setup", err)
	}
	r := start(t, nil, nil, "run", "--http", "127.0.0.1:0", "--dir", "../../examples/python-tools", "--", python,
		"tools.py")
	if text, err := r.call(t, "add", `{"a":20,"b":22}`); err != nil || text != "42" {
		t.Errorf("add returned %q, %v", text, err)
	}
	if text, err := r.call(t, "noisy", `{"lines":2}`); err != nil || text != "Nothing broke." {
		t.Errorf("noisy returned %q, %v", text, err)
	}
	r.awaitLog(t, "printed line 1")
	r.drain()
	if code := r.wait(t); code != problem.ExitOK {
		t.Errorf("exit code %d:\n%s", code, r.stderr)
	}
}

// await polls for a condition that has no event.
func (r *run) await(t *testing.T, what string, happened func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !happened(); {
		if time.Now().After(end) {
			t.Fatalf("timeout: %s:\n%s", what, r.stderr)
		}
		time.Sleep(time.Millisecond) //nolint:forbidigo // processes are outside of synctest
	}
}

// awaitLog waits until the log contains a text.
func (r *run) awaitLog(t *testing.T, text string) {
	t.Helper()
	r.await(t, "it logs "+text, func() bool { return strings.Contains(r.stderr.String(), text) })
}

// awaitCalls waits until the backends have received n calls.
func (r *run) awaitCalls(t *testing.T, n int32) {
	t.Helper()
	r.await(t, "tools are called", func() bool { return r.called.Load() >= n })
}

// A lockedBuffer is a buffer for concurrent reads and writes.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
