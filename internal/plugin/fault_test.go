package plugin

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/bridgetest"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

func TestStdoutBeforeTheHandshakeIsLogged(t *testing.T) {
	r := run(t, Options{Command: []string{rogue, "noise"}}).ready(t)
	for range 3 {
		if got := r.text(t, "echo", `{}`); got != `{}` {
			t.Errorf("echo: %s", got)
		}
	}
	r.log.wait(t, `"message":"library banner"`)
	r.log.wait(t, `"message":"1|2|3"`)
	r.log.wait(t, `"length":200000`)
	if err := r.stop(); err != nil { // the unterminated line ends with the process
		t.Fatal(err)
	}
	if text, _ := r.log.Read(); !strings.Contains(text, strings.Repeat("y", 8<<10)) ||
		strings.Contains(text, strings.Repeat("y", 8<<10+1)) {
		t.Error("the long unterminated line is not logged, or not truncated")
	}
}

// go-plugin captures stdout and stderr of a Go plugin, which blocks unless they are read.
func TestOutputOfStockPluginsIsLogged(t *testing.T) {
	r := run(t, Options{Command: []string{echo}}).ready(t)
	ctx, cancel := context.WithCancel(t.Context())
	_, err := r.Handle(ctx, tool("slow", `{"ms":60000}`),
		func(context.Context, bridge.Event) error { cancel(); return nil })
	if e := bridge.AsError(err); e.Code != codes.Canceled {
		t.Errorf("got %v", e)
	}
	r.log.wait(t, `"stream":"stderr","message":"slow: cancelled"`)
}

// Stock go-plugin passes its own stdin to the plugin, which could read MCP messages for the bridge.
func TestStdinIsOnlyALifeline(t *testing.T) {
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	defer write.Close()
	stdin := os.Stdin
	os.Stdin = read
	defer func() { os.Stdin = stdin }()
	if _, err := write.WriteString("{\"jsonrpc\":\"2.0\"}\n"); err != nil {
		t.Fatal(err)
	}
	r := run(t, Options{Command: []string{rogue}}).ready(t)
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 100)
	if n, err := read.Read(buf); err != nil || string(buf[:n]) != "{\"jsonrpc\":\"2.0\"}\n" {
		t.Errorf("the bridge's stdin has %q, %v", buf[:n], err)
	}
}

func TestStartErrorsAreComplete(t *testing.T) {
	bridgetest.SkipIfShort(t)
	dir := t.TempDir()
	script := filepath.Join(dir, "script")
	if err := os.WriteFile(script, []byte("#!/nowhere/python\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	plain := filepath.Join(dir, "plain")
	if err := os.WriteFile(plain, []byte("text"), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		command []string
		timeout time.Duration
		want    []string
	}{
		"exits": {
			[]string{rogue, "exit"},
			0,
			[]string{
				`backend "b" did not start: it ended with exit status 7` + "\n  command:", rogue + " exit",
				"directory: " + dir, "what to do: correct its last error: ", "config.yaml: no such file",
			},
		},
		"mute": {
			[]string{"sh", "-c", "exit 3"},
			0,
			[]string{"it ended with exit status 3\n", "its standard error is empty"},
		},
		"no serve": {
			[]string{"true"},
			0,
			[]string{
				"it ended with exit status 0, and it printed nothing on standard output, and so no handshake",
				"what to do: it ended without serving; it must call the SDK's run (Python app.run(), ",
			},
		},
		"no serve in Go": {
			[]string{rogue, "nothing"},
			0,
			[]string{
				"it ended with exit status 0",
				"what to do: it ended without serving; main of a Go program must end with os.Exit(app.Run())",
			},
		},
		"no serve in Python": {
			[]string{"python3", "-c", ""},
			0,
			[]string{"what to do: it ended without serving; a Python script must end with app.run()"},
		},
		"no serve in Java": {
			[]string{"sh", "-c", "", "app.jar"},
			0,
			[]string{"what to do: it ended without serving; main of a Java program must call app.run(args)"},
		},
		"not found": {
			[]string{"no-such-program", "a b"},
			0,
			[]string{`there is no program "no-such-program" in PATH=`, `command: no-such-program "a b"`, "install it"},
		},
		"no file": {
			[]string{"./server.py"},
			0,
			[]string{"there is no program " + filepath.Join(dir, "server.py"), "no such file"},
		},
		"not a prog": {[]string{plain}, 0, []string{"cannot be run: permission denied", "may be executed"}},
		"bad #!":     {[]string{script}, 0, []string{"cannot be run: no such file", "#! line"}},
		"talks": {
			[]string{rogue, "no-handshake"},
			300 * time.Millisecond,
			[]string{"2 lines on standard output, but no handshake within 300ms", "I am a server", "start timeout"},
		},
		"silent": {
			[]string{"sleep", "60"},
			100 * time.Millisecond,
			[]string{"nothing on standard output", "within 100ms"},
		},
		"no cert": {
			[]string{rogue, "no-cert"},
			0,
			[]string{"no certificate (field 6)", `printed: "1|1|unix|`},
		},
		"bad cert": {[]string{rogue, "bad-cert"}, 0, []string{"field 6) is not an X.509 certificate"}},
		"padded":   {[]string{rogue, "padded"}, 0, []string{"is padded with ="}},
		"foreign": {
			[]string{rogue, "foreign"},
			0,
			[]string{`listens at tcp "192.0.2.1:80"; it must be 127.0.0.1`},
		},
		"elsewhere": {
			[]string{rogue, "elsewhere"},
			0,
			[]string{`"/tmp/elsewhere.sock", which is not in the directory it was given`},
		},
		"version": {[]string{rogue, "version"}, 0, []string{"version 2 of the contract", "version 1 only"}},
		"untrusted-client": {
			[]string{rogue, "untrusted-client"},
			0,
			[]string{"it printed its handshake and does not answer at unix ", "PLUGIN_CLIENT_CERT"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := run(t, Options{Command: tc.command, Dir: dir, StartTimeout: tc.timeout})
			err := r.Ready(t.Context())
			if err == nil {
				t.Fatal("it started")
			}
			for _, want := range tc.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("missing in the error: %s", want)
				}
			}
			if t.Failed() || testing.Verbose() {
				t.Log(err)
			}
			if got := r.stop(); got == nil || got.Error() != err.Error() {
				t.Errorf("Run returned %v", got)
			}
			if _, err := r.Handle(t.Context(), tool("echo", "{}"), ignore); err == nil ||
				!strings.Contains(err.Error(), "did not start; the call was not executed") {
				t.Errorf("a call gets %v", err)
			}
		})
	}
}

// When a backend is killed, a call in flight fails at once with outcome unknown. Other calls get their own responses or
// the same error, and the next call succeeds.
func TestKilledMidCall(t *testing.T) {
	r := run(t, Options{Command: []string{rogue}}, func(p *intervals) {
		p.Backoff, p.settled = 100*time.Millisecond, time.Millisecond
	}).ready(t)
	var slowest, longest time.Duration
	for range 10 {
		pid := r.pid(t)
		var wg sync.WaitGroup
		var killed time.Time
		hanging, failed := make(chan struct{}), make(chan time.Time, 1)
		wg.Go(func() {
			_, err := r.Handle(t.Context(), tool("hang", ""),
				func(context.Context, bridge.Event) error { close(hanging); return nil })
			failed <- time.Now()
			wantFailure(t, err, codes.Unknown, bridge.OutcomeUnknown, "BACKEND_CRASHED")
		})
		for i := range 20 {
			wg.Go(func() {
				want := fmt.Sprintf(`{"i":%d}`, i)
				res, err := r.Handle(t.Context(), tool("nap", want), ignore)
				if err == nil && textOf(res) != want {
					t.Errorf("got another call's response: %s, want %s", textOf(res), want)
				}
				if err != nil {
					wantFailure(t, err, codes.Unknown, bridge.OutcomeUnknown, "BACKEND_CRASHED")
				}
			})
		}
		<-hanging
		killed = time.Now()
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		slowest = max(slowest, (<-failed).Sub(killed))
		wg.Wait()
		if got := r.text(t, "echo", `"next"`); got != `"next"` {
			t.Errorf("next call: %s", got)
		}
		longest = max(longest, time.Since(killed))
		if r.pid(t) == pid {
			t.Error("the same process responded")
		}
	}
	t.Logf("kill to error %v at worst, kill to the next answer %v at worst", slowest, longest)
	if slowest > 5*time.Second { // an upper bound; without a signal it would take three health checks
		t.Errorf("kill to error took %v", slowest)
	}
	r.log.wait(t, `"status":"killed by signal: killed"`)
}

// A read-only call whose backend crashed is retried once.
func TestReadOnlyCallIsRetriedOnANewBackend(t *testing.T) {
	call := &bridge.Call{Method: bridge.ListTools, Request: &pb.ListToolsRequest{}}
	file := filepath.Join(t.TempDir(), "once")
	r := run(t, Options{Command: []string{rogue, "die-once"}, Env: []string{"FILE=" + file}}).ready(t)
	res, err := r.Handle(t.Context(), call, ignore)
	if err != nil || len(res.Complete.(*pb.ListToolsResponse).GetTools()) != 1 {
		t.Errorf("got %v, %v", res, err)
	}
	r = run(t, Options{Command: []string{rogue, "die"}}).ready(t)
	_, err = r.Handle(t.Context(), call, ignore)
	wantFailure(t, err, codes.Unknown, bridge.OutcomeUnknown, "BACKEND_CRASHED")
	// It is not retried if the retry budget is spent.
	r = run(t, Options{Command: []string{rogue, "die-once"}, Env: []string{"FILE=" + file + "2"}}).ready(t)
	for r.supervisor.Retries.Retry() {
	}
	_, err = r.Handle(t.Context(), call, ignore)
	wantFailure(t, err, codes.Unknown, bridge.OutcomeUnknown, "BACKEND_CRASHED")
	if _, err := r.Handle(t.Context(), call, ignore); err != nil {
		t.Error(err)
	}
}

// The exit of a plugin is detected even if a process of another session keeps its output open.
func TestExitIsDetectedDespiteOpenPipes(t *testing.T) {
	pids := filepath.Join(t.TempDir(), "pids")
	r := run(t, Options{Command: []string{rogue, "daemon"}, Env: []string{"PIDS=" + pids}}).ready(t)
	var child, daemon int
	b, err := os.ReadFile(pids)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Sscan(string(b), &child, &daemon); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Kill(daemon, syscall.SIGKILL) }()
	l := r.supervisor.Live()
	began := time.Now()
	if err := syscall.Kill(child, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-l.done
	took := time.Since(began)
	t.Logf("noticed after %v", took)
	if took > 5*time.Second { // the pipes stay open for longer; make survive measures the duration
		t.Errorf("noticed after %v", took)
	}
	r.text(t, "echo", "{}")
	b, err = os.ReadFile(pids)
	if err != nil {
		t.Fatal(err)
	}
	var second int
	if _, err := fmt.Sscan(string(b), &child, &second); err == nil {
		defer func() { _ = syscall.Kill(second, syscall.SIGKILL) }()
	}
}

func TestGrandchildrenAreKilledWithThePlugin(t *testing.T) {
	pids := filepath.Join(t.TempDir(), "pids")
	r := run(t, Options{Command: []string{rogue, "grandchild"}, Env: []string{"PIDS=" + pids}}).ready(t)
	child, grandchild := started(t, pids)
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	gone(t, child)
	gone(t, grandchild)
}

// A backend that received SIGTERM from elsewhere accepts no connections, so that health checks fail. Its calls in
// flight may complete within the stop timeout.
func TestDrainingBackendCompletesItsCalls(t *testing.T) {
	for name, finishes := range map[string]bool{"in time": true, "too late": false} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "go")
			o := Options{Command: []string{rogue, "drain"}, Env: []string{"FILE=" + file}}
			if !finishes {
				o.StopTimeout = 100 * time.Millisecond
			}
			r := run(t, o, func(p *intervals) { p.health = 10 * time.Millisecond }).ready(t)
			pid := r.pid(t)
			began := make(chan struct{})
			var held *bridge.Result
			var err error
			var calls sync.WaitGroup
			calls.Go(func() {
				held, err = r.Handle(t.Context(), tool("hold", `{}`),
					func(context.Context, bridge.Event) error { close(began); return nil })
			})
			<-began
			if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			for s := r.supervisor.State(); s.Connection != nil; s = r.supervisor.State() {
				<-s.Changed
			}
			if finishes {
				if err := os.WriteFile(file, nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if got := r.text(t, "echo", `{"after":1}`); got != `{"after":1}` {
				t.Errorf("the next instance returned %s", got)
			}
			calls.Wait()
			switch {
			case !finishes:
				wantFailure(t, err, codes.Unknown, bridge.OutcomeUnknown, "BACKEND_CRASHED")
				r.log.wait(t, "does not end by itself and is killed")
			case err != nil:
				t.Errorf("call in flight: %v", err)
			case textOf(held) != `{}`:
				t.Errorf("call in flight: got %s", textOf(held))
			}
		})
	}
}

// A process that left the process group and ignores SIGTERM is killed with the plugin if cgroups are available.
// Otherwise it remains, which is logged.
func TestProcessOutsideTheGroupIsKilledWithThePlugin(t *testing.T) {
	pids := filepath.Join(t.TempDir(), "pids")
	r := run(t, Options{
		Command: []string{rogue, "ignore", "daemon"}, Env: []string{"PIDS=" + pids},
		StopTimeout: 300 * time.Millisecond,
	}).ready(t)
	child, daemon := started(t, pids)
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	gone(t, child)
	log, _ := r.log.Read()
	goneIfGathered(t, daemon, log)
}

// A start that fails for lack of file descriptors is not a crash: the backend starts as soon as some are free.
func TestBackendStartWithoutFreeDescriptors(t *testing.T) {
	bridgetest.SkipIfShort(t)
	r := run(t, Options{Command: []string{rogue}}, func(p *intervals) { p.Backoff, p.settled = time.Hour, 0 }).ready(t)
	r.text(t, "echo", "{}") // a useful backend's exit does not count as a crash
	pid := r.pid(t)
	var ours syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &ours); err != nil {
		t.Fatal(err)
	}
	restore := func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &ours); err != nil {
			t.Error(err)
		}
	}
	defer restore()
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 3, Max: ours.Max}); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	const attempts = 8 // above the threshold of a crash loop
	for {
		text, changed := r.log.Read()
		if strings.Count(text, "no file descriptors left") >= attempts {
			if n := strings.Count(text, `"level":"error","backend":"b","error"`); n != 1 {
				t.Errorf("logged %d errors", n)
			}
			break
		}
		select {
		case <-changed:
		case <-time.After(10 * time.Second):
			t.Fatalf("no further start\n%s", text)
		}
	}
	restore()
	if r.pid(t) == pid {
		t.Error("the same process runs")
	}
}

// started returns the process IDs that were written: of a plugin and its child process.
func started(t *testing.T, file string) (child, grandchild int) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Sscan(string(b), &child, &grandchild); err != nil {
		t.Fatal(err)
	}
	return child, grandchild
}

// goneIfGathered checks that a process that left the process group is gone, unless the log reports that no cgroup is
// available.
func goneIfGathered(t *testing.T, pid int, log string) {
	t.Helper()
	if !strings.Contains(log, "there is no control group for the backend") {
		gone(t, pid)
	} else if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Errorf("without a cgroup, the process is gone: %v", err)
	}
}

func TestStubbornPluginIsKilled(t *testing.T) {
	r := run(t, Options{Command: []string{rogue, "ignore", "ignore-stdin"}, StopTimeout: 300 * time.Millisecond}).
		ready(t)
	pid := r.pid(t)
	began := time.Now()
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took < 300*time.Millisecond {
		t.Errorf("stopped after %v", took)
	}
	gone(t, pid)
	r.log.wait(t, `"after":300,`)
	r.log.wait(t, "does not stop and is killed")
}

// Stop interrupts a start that hangs: stock go-plugin's Kill waits for the start.
func TestStopDuringStart(t *testing.T) {
	r := run(t, Options{Command: []string{rogue, "no-handshake"}})
	r.log.wait(t, "I am a server")
	began := time.Now()
	if err := r.stop(); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took > 20*time.Second { // the start may take 30
		t.Errorf("stopped after %v", took)
	}
}

func TestEnvironmentIsAnAllowList(t *testing.T) {
	t.Setenv("AWS_SECRET", "s")
	t.Setenv("LC_TIME", "C")
	t.Setenv("MINE", "m")
	t.Setenv("API_ONE", "1")
	t.Setenv("TZ", "UTC")
	r := run(t, Options{
		Command: []string{rogue}, PassEnv: []string{"MINE", "API_*"},
		Env: []string{"ADDED=a", "TZ=CET", CookieKey + "=wrong"},
	}).ready(t)
	var env []string
	if err := json.Unmarshal([]byte(r.text(t, "env", "")), &env); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"LC_TIME=C", "MINE=m", "API_ONE=1", "ADDED=a", "TZ=CET",
		CookieKey + "=" + CookieValue, EnvLifeline + "=stdin", "PATH=" + os.Getenv("PATH"),
	} {
		if !slices.Contains(env, want) {
			t.Errorf("%q lacks %s", want, env)
		}
	}
	for _, kv := range env {
		if strings.HasPrefix(kv, "AWS_SECRET") || strings.HasPrefix(kv, "TZ=UTC") {
			t.Errorf("there is %s", kv)
		}
		name, file, _ := strings.Cut(kv, "=")
		if _, err := os.Stat(file); name == EnvKeyPair && !os.IsNotExist(err) {
			t.Errorf("the key pair is still in %s", file)
		}
		if name != "PLUGIN_UNIX_SOCKET_DIR" {
			continue
		}
		if dir, err := os.Stat(file); err != nil || dir.Mode().Perm() != 0o700 {
			t.Errorf("the socket's directory: %v, %v", dir, err)
		}
		defer func() {
			_ = r.stop()
			if _, err := os.Stat(file); !os.IsNotExist(err) {
				t.Errorf("the socket's directory %s is left: %v", file, err)
			}
		}()
	}
}

// In a crash loop, a backend is started at intervals, and calls fail without waiting. Calls succeed once it runs again.
func TestCrashLoop(t *testing.T) {
	bridgetest.SkipIfShort(t)
	file := filepath.Join(t.TempDir(), "once")
	r := run(t, Options{Command: []string{rogue, "exit-later"}, Env: []string{"FILE=" + file}},
		func(p *intervals) { p.Backoff, p.MaxBackoff = time.Millisecond, 3*time.Second }).ready(t)
	if err := syscall.Kill(r.pid(t), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for s := r.supervisor.State(); !s.CrashLoop; s = r.supervisor.State() {
		select {
		case <-s.Changed:
		case <-time.After(10 * time.Second):
			t.Fatal("no crash loop")
		}
	}
	began := time.Now()
	_, err := r.Handle(t.Context(), tool("echo", "{}"), ignore)
	if took := time.Since(began); took > 2*time.Second { // the next start is 3 s away
		t.Errorf("failed after %v", took)
	}
	e := wantFailure(t, err, codes.Unavailable, bridge.OutcomeNotExecuted, "BACKEND_UNAVAILABLE")
	if e.RetryAfter < time.Second || !strings.Contains(e.Message, "is in a crash loop") {
		t.Errorf("%s, retry after %v", e.Message, e.RetryAfter)
	}
	r.log.wait(t, "exit status 7")
	if text, _ := r.log.Read(); strings.Count(text, "the backend did not start") != 4 {
		t.Errorf("want four starts after the first crash:\n%s", text)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if err := r.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Handle(t.Context(), tool("echo", "{}"), ignore); err != nil {
		t.Errorf("when it runs again: %v", err)
	}
}

// A backend that has served a call is restarted at once.
func TestLostBackendIsRestartedAtOnce(t *testing.T) {
	r := run(t, Options{Command: []string{rogue}}, func(p *intervals) { p.Backoff, p.settled = time.Hour, 0 }).ready(t)
	for range 3 {
		if _, err := r.Handle(t.Context(), tool("echo", "{}"), ignore); err != nil {
			t.Fatal(err)
		}
		gone := r.supervisor.State().Connection.done
		if err := syscall.Kill(r.pid(t), syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		<-gone
		if err := r.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

func TestUnhealthyBackendIsRestarted(t *testing.T) {
	bridgetest.SkipIfShort(t)
	for how, why := range map[string]string{
		"not-serving": "it failed 3 health checks in a row",
		"stopped":     "its process is stopped (SIGSTOP)",
	} {
		t.Run(how, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "once")
			r := run(t, Options{Command: []string{rogue, how}, Env: []string{"FILE=" + file}},
				func(p *intervals) {
					p.health, p.idle, p.poll = 100*time.Millisecond, 100*time.Millisecond, 20*time.Millisecond
				}).ready(t)
			l := r.supervisor.Live()
			pid := r.pid(t)
			if how == "stopped" {
				if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
					t.Fatal(err)
				}
			}
			select {
			case <-l.done:
			case <-time.After(10 * time.Second):
				t.Fatal("the connection is kept")
			}
			if r.pid(t) == pid {
				t.Error("the same process responded")
			}
			r.log.wait(t, why)
		})
	}
}

// A plugin may take some time to become ready after its handshake.
func TestNotServingBackendIsAwaited(t *testing.T) {
	bridgetest.SkipIfShort(t)
	t.Parallel()
	file := filepath.Join(t.TempDir(), "once")
	o := Options{Command: []string{rogue, "late"}, Env: []string{"FILE=" + file}}
	run(t, o).ready(t)
	// One attempt has to succeed within the timeout. How long that takes depends on the machine.
	for o.StartTimeout = time.Second; ; o.StartTimeout *= 2 {
		err := run(t, o).Ready(t.Context())
		if err != nil && strings.Contains(err.Error(), "health service responds NOT_SERVING") {
			return
		}
		if err == nil || o.StartTimeout > time.Minute {
			t.Fatalf("plugin that is never ready, within %v: %v", o.StartTimeout, err)
		}
	}
}

// The start timeout covers the whole start: on a busy machine, a JVM takes long between its handshake and its first
// response.
func TestTheStartTimeoutEndsWithTheFirstAnswer(t *testing.T) {
	bridgetest.SkipIfShort(t)
	file := filepath.Join(t.TempDir(), "once")
	o := Options{Command: []string{rogue, "serve-late"}, Env: []string{"FILE=" + file}}
	if got := run(t, o).ready(t).text(t, "echo", "1"); got != "1" {
		t.Errorf("got %q", got)
	}
	o.StartTimeout = 300 * time.Millisecond
	err := run(t, o).Ready(t.Context())
	if err == nil || !strings.Contains(err.Error(), "did not answer at unix ") ||
		!strings.Contains(err.Error(), "within the start timeout of 300ms") ||
		!strings.Contains(err.Error(), "raise the start timeout") {
		t.Errorf("plugin that never responds: %v", err)
	}
}

func TestHealthServiceIsOptional(t *testing.T) {
	r := run(t, Options{Command: []string{rogue, "no-health", "tcp"}},
		func(p *intervals) { p.idle = 10 * time.Millisecond }).ready(t)
	l := r.supervisor.Live()
	select {
	case <-l.done:
		t.Error("the plugin was lost")
	case <-time.After(100 * time.Millisecond):
	}
}
