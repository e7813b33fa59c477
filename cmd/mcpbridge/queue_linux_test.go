package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mcpbridge/mcpbridge/internal/bridgetest"
	"github.com/mcpbridge/mcpbridge/internal/problem"
)

// A stuckRun is an mcpbridge process that serves stdin and stdout, and whose stderr is blocked.
type stuckRun struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

// Limits of internal/terminal: the lines of log that it buffers, and the time that it waits at the end for a reader.
const (
	queued  = 1024
	flushed = time.Second
)

func startStuck(t *testing.T, stderr *os.File) *stuckRun {
	t.Helper()
	r := &stuckRun{cmd: exec.Command("mcpbridge", "run", "--log-level", "debug", "--log-format", "json", "--stdio",
		"--", echoGo(t))}
	r.cmd.Stderr = stderr
	var err error
	if r.in, err = r.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := r.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = r.cmd.Process.Kill() // it may have exited
		_ = r.cmd.Wait()
	})
	r.out = bufio.NewScanner(out)
	r.roundTrip(t, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}`, `"id":0`)
	if _, err := io.WriteString(r.in, `{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n"); err != nil {
		t.Fatal(err)
	}
	return r
}

// roundTrip sends a request and expects a text in its response within a timeout.
func (r *stuckRun) roundTrip(t *testing.T, request, want string) {
	t.Helper()
	late := time.AfterFunc(20*time.Second, func() { r.cmd.Process.Kill() })
	defer late.Stop()
	if _, err := io.WriteString(r.in, request+"\n"); err != nil {
		t.Fatal(err)
	}
	if !r.out.Scan() || !strings.Contains(r.out.Text(), want) {
		t.Fatalf("%s: got response %q, %v", request, r.out.Text(), r.out.Err())
	}
}

// askMany sends n requests that each log a line, and a call to a backend.
func (r *stuckRun) askMany(t *testing.T, n int) {
	t.Helper()
	for i := 1; i <= n; i++ {
		r.roundTrip(t, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"no/such"}`, i),
			fmt.Sprintf(`"id":%d,"error"`, i))
	}
	r.roundTrip(t, `{"jsonrpc":"2.0","id":"last","method":"tools/call","params":{"name":"echo","arguments":{"n":1}}}`,
		`"id":"last","result"`)
}

// end ends the process and expects success without a delay by the log.
func (r *stuckRun) end(t *testing.T) {
	t.Helper()
	if err := r.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	late := time.AfterFunc(20*time.Second, func() { r.cmd.Process.Kill() })
	defer late.Stop()
	if err := r.cmd.Wait(); err != nil {
		t.Errorf("exited with %v", err)
	}
}

// fullPipe returns a full pipe that nothing reads.
func fullPipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		r.Close()
		w.Close()
	})
	for piece := 4096; piece > 0; piece /= 2 {
		for err = error(nil); err == nil; {
			if err = w.SetWriteDeadline(time.Now().Add(10 * time.Millisecond)); err == nil {
				_, err = io.WriteString(w, strings.Repeat("\n", piece))
			}
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal(err)
		}
	}
	return r, w
}

// The bridge's log may have no reader.
func TestUnreadLogDoesNotBlockCalls(t *testing.T) {
	bridgetest.SkipIfShort(t)
	_, w := fullPipe(t)
	r := startStuck(t, w)
	r.askMany(t, queued+100)
	r.end(t)
}

func TestDroppedLogLinesAreCounted(t *testing.T) {
	bridgetest.SkipIfShort(t)
	pipe, w := fullPipe(t)
	r := startStuck(t, w)
	r.askMany(t, 3*queued)
	w.Close()
	lines := bufio.NewScanner(pipe)
	for !strings.Contains(lines.Text(), "lines of the log were dropped") {
		if !lines.Scan() {
			t.Fatal("the dropped lines are not reported")
		}
	}
	if text := lines.Text(); !strings.Contains(text, `"level":"warn"`) || !strings.Contains(text, `"lines":`) ||
		strings.Contains(text, `"lines":0`) {
		t.Errorf("got %s", text)
	}
	rest := make(chan string, 1)
	go func() {
		all, _ := io.ReadAll(pipe) // until the process has exited
		rest <- string(all)
	}()
	r.end(t)
	if all := <-rest; !strings.Contains(all, "draining") {
		t.Errorf("the last lines are missing:\n%s", all)
	}
}

func TestUnwritableLogDoesNotAffectCalls(t *testing.T) {
	bridgetest.SkipIfShort(t)
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	closedPipe, broken, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer broken.Close()
	closedPipe.Close()
	for name, stderr := range map[string]*os.File{"a full disk": full, "no reader": broken} {
		t.Run(name, func(t *testing.T) {
			r := startStuck(t, stderr)
			r.askMany(t, 100)
			r.end(t)
		})
	}
}

// The error that ends the program is written through the same buffer as the log.
func TestUnreadErrorDoesNotDelayExit(t *testing.T) {
	bridgetest.SkipIfShort(t)
	_, w := fullPipe(t)
	cmd := exec.Command("mcpbridge", "run", "--", "no-such-program")
	cmd.Stderr = w
	begin := time.Now()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	late := time.AfterFunc(20*time.Second, func() { cmd.Process.Kill() })
	defer late.Stop()
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != problem.ExitPlugin {
		t.Errorf("exited with %v", err)
	}
	if took := time.Since(begin); took < flushed {
		t.Errorf("it took %s", took)
	}
}
