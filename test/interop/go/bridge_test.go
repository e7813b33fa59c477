package interop

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// bridgeCommand returns the bridge with a backend: "witness", which is test/interop/witness.py, or "conformance-go".
func bridgeCommand(t *testing.T, backend string, front ...string) *exec.Cmd {
	t.Helper()
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	binary := fromEnv("MCPBRIDGE_BIN", filepath.Join(root, "bin", "mcpbridge"))
	python := fromEnv("MCPBRIDGE_PYTHON", filepath.Join(root, ".venv", "bin", "python"))
	command := map[string][]string{
		"witness":        {python, filepath.Join(root, "test", "interop", "witness.py")},
		"conformance-go": {filepath.Join(filepath.Dir(binary), "conformance-go")},
	}[backend]
	for _, file := range append([]string{binary}, command...) {
		if _, err := os.Stat(file); err != nil {
			t.Fatalf("%v: build it with make, or say where it is with MCPBRIDGE_BIN and MCPBRIDGE_PYTHON", err)
		}
	}
	return bridgeRun(t, append(append(front, "--"), command...)...)
}

// bridgeRun returns the bridge with arguments, in a process group that is killed with the test.
func bridgeRun(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(fromEnv("MCPBRIDGE_BIN", filepath.Join("..", "..", "..", "bin", "mcpbridge")),
		append([]string{"run"}, args...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	t.Cleanup(func() {
		if cmd.Process != nil {
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // it is gone already, unless a test failed
		}
	})
	return cmd
}

func fromEnv(name, otherwise string) string {
	if v := os.Getenv(name); v != "" {
		return v
	}
	return otherwise
}

// startHTTP starts the bridge with a backend on a free port, and returns its address and its log.
func startHTTP(t *testing.T, backend string) (string, *lines) {
	t.Helper()
	return listening(t, bridgeCommand(t, backend, "--http", "127.0.0.1:0"))
}

// listening starts the bridge, and returns its address and its log. At the end of the test it is stopped, and must
// leave no process.
func listening(t *testing.T, cmd *exec.Cmd) (string, *lines) {
	t.Helper()
	log := newLines()
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	exited := make(chan struct{})
	go func() {
		_ = cmd.Wait() // how it ends is not what is tested here
		log.end()
		close(exited)
	}()
	t.Cleanup(func() {
		family := append(descendants(cmd.Process.Pid), cmd.Process.Pid)
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-exited:
		case <-time.After(10 * time.Second):
			t.Error("the bridge did not stop within 10 s of SIGTERM")
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
			<-exited
		}
		gone(t, family)
	})

	address := regexp.MustCompile(`http://[^\s"]+/mcp`)
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
	defer cancel()
	line, err := log.find(ctx, address, 0)
	if err != nil {
		t.Fatal(err)
	}
	return address.FindString(line), log
}

// lines are the output of a process, for current and later readers.
type lines struct {
	mu      sync.Mutex // guards what follows
	all     []string
	rest    string
	ended   bool
	changed chan struct{} // closed and replaced at every change
}

func newLines() *lines { return &lines{changed: make(chan struct{})} }

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	parts := strings.Split(l.rest+string(p), "\n")
	l.rest = parts[len(parts)-1]
	l.all = append(l.all, parts[:len(parts)-1]...)
	l.wake()
	return len(p), nil
}

func (l *lines) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	l.wake()
}

func (l *lines) wake() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// mark returns a position for find.
func (l *lines) mark() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.all)
}

// find waits for the first matching line after a mark.
func (l *lines) find(ctx context.Context, pattern *regexp.Regexp, from int) (string, error) {
	for {
		l.mu.Lock()
		later, ended, changed := slices.Clone(l.all[from:]), l.ended, l.changed
		l.mu.Unlock()
		if i := slices.IndexFunc(later, pattern.MatchString); i >= 0 {
			return later[i], nil
		}
		if ended {
			return "", fmt.Errorf("the process ended before a line matched %v; it wrote:\n%s", pattern,
				strings.Join(later, "\n"))
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return "", fmt.Errorf("no line matches %v: %w; it wrote:\n%s", pattern, ctx.Err(),
				strings.Join(later, "\n"))
		}
	}
}

// descendants returns all processes below one, or none without /proc.
func descendants(of int) []int {
	children := map[int][]int{}
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			if parent, ok := parentOf(pid); ok {
				children[parent] = append(children[parent], pid)
			}
		}
	}
	var below []int
	for todo := children[of]; len(todo) > 0; todo = todo[1:] {
		below = append(below, todo[0])
		todo = append(todo, children[todo[0]]...)
	}
	return below
}

// gone waits until the processes have ended. It polls, because most are not children of the test.
func gone(t *testing.T, pids []int) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for ; ; time.Sleep(20 * time.Millisecond) { //nolint:forbidigo // no signal reports the end of such a process
		pids = slices.DeleteFunc(pids, func(pid int) bool {
			_, runs := parentOf(pid)
			return !runs
		})
		if len(pids) == 0 {
			return
		}
		if time.Now().After(deadline) {
			for _, pid := range pids {
				cmdline, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
				t.Errorf("still running: %d (%s)", pid, strings.ReplaceAll(string(cmdline), "\x00", " "))
			}
			return
		}
	}
}

// parentOf returns the parent of a running process. A zombie is not running.
func parentOf(pid int) (int, bool) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, false
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:])) // a name may hold blanks and parentheses
	if len(fields) < 2 || fields[0] == "Z" || fields[0] == "X" {
		return 0, false
	}
	parent, err := strconv.Atoi(fields[1])
	return parent, err == nil
}
