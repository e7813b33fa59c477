package plugin

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"
	"google.golang.org/grpc/codes"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/bridgetest"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// echo and rogue are the paths of the plugins that the tests launch.
var echo, rogue string

func TestMain(m *testing.M) {
	if spec := os.Getenv("PLUGIN_TEST_BRIDGE"); spec != "" {
		beBridge(spec)
		return
	}
	flag.Parse()
	if flag.Lookup("test.fuzz").Value.String() != "" { // fuzzing runs this in many processes, and launches no plugins
		os.Exit(m.Run())
	}
	dir, err := os.MkdirTemp("", "plugins")
	if err != nil {
		panic(err)
	}
	echo, rogue = filepath.Join(dir, "echo"), filepath.Join(dir, "rogue")
	for out, src := range map[string]string{echo: "../../examples/echo-go", rogue: "./testdata/rogue"} {
		if testing.Short() {
			break // tests that need them are skipped
		}
		if msg, err := exec.Command("go", "build", "-o", out, src).CombinedOutput(); err != nil {
			panic(fmt.Sprintf("%v\n%s", err, msg))
		}
	}
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

type record struct{ bridgetest.Log }

// wait returns once the log contains want.
func (r *record) wait(t *testing.T, want string) {
	t.Helper()
	r.Wait(t, 10*time.Second, want)
}

// A running is a Plugin with Run in progress.
type running struct {
	*Plugin
	log  *record
	stop func() error // ends Run and returns its error
}

// run runs the plugin that o describes until the end of the test, and checks that it leaves no goroutines and no open
// files behind. The functions in set change its intervals.
func run(t *testing.T, o Options, set ...func(*intervals)) *running {
	t.Helper()
	if len(o.Command) > 0 {
		bridgetest.SkipIfShort(t)
	}
	before := goleak.IgnoreCurrent()
	if backends.Add(1) == 1 {
		opened = files(t)
	}
	r := &running{log: &record{}}
	if o.Name == "" {
		o.Name = "b"
	}
	o.Log = zerolog.New(r.log)
	p, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	p.intervals.Backoff = 20 * time.Millisecond
	for _, f := range set {
		f(&p.intervals)
	}
	r.Plugin = p
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	r.stop = sync.OnceValue(func() error {
		cancel()
		return <-done
	})
	t.Cleanup(func() {
		_ = r.stop()
		goleak.VerifyNone(t, before)
		if backends.Add(-1) == 0 {
			checkFiles(t, opened)
		}
		if t.Failed() {
			text, _ := r.log.Read()
			t.Log(text)
		}
	})
	return r
}

// backends counts the running backends, and opened counts the files that this process had open before the first one
// started. Health checks and new connections open and close files, so they are compared when no backend is running.
var (
	backends atomic.Int32
	opened   map[string]int
)

// checkFiles checks that no more files of any kind are open than before.
func checkFiles(t *testing.T, before map[string]int) {
	t.Helper()
	for file, n := range files(t) {
		if n > before[file] {
			t.Errorf("%d of %s are open, %d before", n, file, before[file])
		}
	}
}

// files returns the number of open files by path, and by kind for those without a path, such as sockets and pipes.
func files(t *testing.T) map[string]int {
	t.Helper()
	list, _ := os.ReadDir("/proc/self/fd") // not every system has /proc
	open := map[string]int{}
	for _, entry := range list {
		file, err := os.Readlink("/proc/self/fd/" + entry.Name())
		if err != nil {
			continue // the descriptor of the list itself
		}
		if kind, _, ok := strings.Cut(file, ":["); ok {
			file = kind
		}
		open[file]++
	}
	return open
}

func (r *running) ready(t *testing.T) *running {
	t.Helper()
	if err := r.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	return r
}

// pid returns the process ID of the backend, which it reports as its version.
func (r *running) pid(t *testing.T) int {
	t.Helper()
	res, err := r.Handle(t.Context(), &bridge.Call{Method: bridge.Discover, Request: &pb.DiscoverRequest{}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var pid int
	if _, err := fmt.Sscan(res.Complete.(*pb.DiscoverResponse).GetServerInfo().GetVersion(), &pid); err != nil {
		t.Fatal(err)
	}
	return pid
}

func tool(name, args string) *bridge.Call {
	return &bridge.Call{Method: bridge.CallTool, Request: &pb.CallToolRequest{Name: name, Arguments: []byte(args)}}
}

func ignore(context.Context, bridge.Event) error { return nil }

// text calls a tool and returns its text.
func (r *running) text(t *testing.T, name, args string) string {
	t.Helper()
	res, err := r.Handle(t.Context(), tool(name, args), ignore)
	if err != nil {
		t.Fatal(err)
	}
	return textOf(res)
}

func textOf(res *bridge.Result) string {
	return res.Complete.(*pb.CallToolResult).GetContent()[0].GetText().GetText()
}

// wantFailure checks the code, outcome and reason of err.
func wantFailure(t *testing.T, err error, code codes.Code, outcome bridge.Outcome,
	reason string,
) *bridge.Error {
	t.Helper()
	e, ok := errors.AsType[*bridge.Error](err)
	if !ok {
		t.Fatalf("got %v, want %v %s", err, code, reason)
	}
	if e.Code != code || e.Reason != reason || e.Outcome != outcome {
		t.Errorf("got %v %v: %v\nwant %v %v %v", e.Code, e.Outcome, e, code, reason, outcome)
	}
	return e
}

func TestStockPlugin(t *testing.T) {
	began := time.Now()
	r := run(t, Options{Command: []string{echo}}).ready(t)
	t.Logf("ready after %v", time.Since(began))
	if got := r.text(t, "echo", `{"a": 1.0, "a2":9007199254740993}`); got != `{"a": 1.0, "a2":9007199254740993}` {
		t.Errorf("echo: %s", got)
	}
	var progress int
	res, err := r.Handle(t.Context(), tool("slow", `{"ms":50}`), func(_ context.Context, e bridge.Event) error {
		if e.Progress != nil {
			progress++
		}
		return nil
	})
	if err != nil || textOf(res) != "done" || progress == 0 { // the number of events depends on the machine's load
		t.Errorf("slow: %v, %v after %d steps", res, err, progress)
	}
	call := tool("ask", `{}`)
	res, err = r.Handle(t.Context(), call, ignore)
	if err != nil || res.InputRequired == nil {
		t.Fatalf("ask: %v, %v", res, err)
	}
	answer := &pb.InputResponse{Response: &pb.InputResponse_Elicit{Elicit: &pb.ElicitResult{
		Action: "accept", Content: `{"name":"Ada"}`,
	}}}
	res, err = r.Handle(t.Context(),
		call.Retry(map[string]*pb.InputResponse{"name": answer}, res.InputRequired.GetRequestState()), ignore)
	if err != nil || textOf(res) != "Hello, Ada!" {
		t.Errorf("ask, answered: %v, %v", res, err)
	}
	began = time.Now()
	if err := r.stop(); err != nil {
		t.Error(err)
	}
	t.Logf("stopped after %v", time.Since(began))
	_, err = r.Handle(t.Context(), call, ignore)
	wantFailure(t, err, codes.Unavailable, bridge.OutcomeNotExecuted, "BACKEND_UNAVAILABLE")
	if err := r.Ready(t.Context()); err == nil || !strings.Contains(err.Error(), "has been stopped") {
		t.Errorf("Ready after Run: %v", err)
	}
}

func TestProvidedKeyPair(t *testing.T) {
	began := time.Now()
	r := run(t, Options{Command: []string{rogue}}).ready(t)
	t.Logf("ready after %v", time.Since(began))
	if got := r.text(t, "echo", `{}`); got != `{}` {
		t.Errorf("echo: %s", got)
	}
	if strings.Contains(r.text(t, "env", ""), "PRIVATE") {
		t.Error("the environment has a private key")
	}
}
