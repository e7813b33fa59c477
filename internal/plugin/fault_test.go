package plugin

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
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

func TestNotServingBackendIsRestarted(t *testing.T) {
	bridgetest.SkipIfShort(t)
	wantRestart(t, "not-serving", func(int) error { return nil }, "it failed 3 health checks in a row")
}

// wantRestart checks that a backend with a defect is restarted, and that the log has the reason.
func wantRestart(t *testing.T, mode string, disturb func(pid int) error, reason string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "once")
	r := run(t, Options{Command: []string{rogue, mode}, Env: []string{"FILE=" + file}}, func(p *intervals) {
		p.health, p.idle, p.poll = 100*time.Millisecond, 100*time.Millisecond, 20*time.Millisecond
	}).ready(t)
	l := r.supervisor.Live()
	pid := r.pid(t)
	if err := disturb(pid); err != nil {
		t.Fatal(err)
	}
	select {
	case <-l.done:
	case <-time.After(10 * time.Second):
		t.Fatal("the connection is kept")
	}
	if r.pid(t) == pid {
		t.Error("the same process responded")
	}
	r.log.wait(t, reason)
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
