package mcpclient_test

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/mcpclient"
)

// A program that exits is restarted. Calls in flight have an unknown outcome, and calls that wait for input are lost.
func TestProgramIsRestarted(t *testing.T) {
	c := run(t, mcpclient.Options{
		Command: []string{os.Args[0]}, Env: []string{serveEnv + "=" + ownHandler},
		Revision: bridge.Rev20251125,
	})
	waiting := callOf("ask", `{}`, "a")
	n := requiredInput(t, c, waiting)
	failed := make(chan error)
	go func() {
		_, err := c.Handle(t.Context(), toolCall("wait", `{}`), ignore)
		failed <- err
	}()
	if got := call(t, c, "started", `{}`); got != "started" {
		t.Errorf("got %q", got)
	}
	killChildren(t)
	if e := bridge.AsError(<-failed); e.Reason != "BACKEND_CRASHED" ||
		e.Outcome != bridge.OutcomeUnknown {
		t.Errorf("got %v", e)
	}
	_, err := c.Handle(t.Context(), waiting.Retry(answers(n, `{"name":"A"}`), n.RequestState), ignore)
	if e := bridge.AsError(err); e.Reason != "BACKEND_CRASHED" {
		t.Errorf("got %v", err)
	}
	if got := call(t, c, "echo", `{}`); got != "{}" {
		t.Errorf("got %q", got)
	}
	requiredInput(t, c, waiting)
}

// killChildren kills the child processes of this one.
func killChildren(t *testing.T) {
	t.Helper()
	signalChildren(t, syscall.SIGKILL)
}

// signalChildren sends a signal to the child processes of this one.
func signalChildren(t *testing.T, s syscall.Signal) {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", os.Getpid(), os.Getpid()))
	pids := strings.Fields(string(text))
	if tasks, _ := os.ReadDir("/proc/self/task"); err == nil {
		for _, task := range tasks {
			text, _ := os.ReadFile("/proc/self/task/" + task.Name() + "/children")
			pids = append(pids, strings.Fields(string(text))...)
		}
	}
	if len(pids) == 0 {
		t.Fatal("no child processes")
	}
	for _, p := range pids {
		var pid int
		_, _ = fmt.Sscan(p, &pid)
		_ = syscall.Kill(pid, s)
	}
}
