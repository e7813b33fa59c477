//go:build unix

package plugin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/bridgetest"
)

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

// gone waits until a process has exited.
func gone(t *testing.T, pid int) {
	t.Helper()
	for range 5000 {
		if b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); err == nil && bytes.Contains(b, []byte(") Z ")) {
			return
		}
		if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			return
		}
		time.Sleep(2 * time.Millisecond) //nolint:forbidigo // no event: it is not a child process
	}
	t.Errorf("process %d still runs", pid)
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
