// Command faultplug is a backend that fails on request, and writes a journal of its actions.
//
// The journal is the file FAULTPLUG_JOURNAL, opened with O_APPEND. Each line is one write. When write returns, the
// kernel has the line and keeps it after the process ends, so no sync is needed. A SIGKILL during a write leaves a line
// without the mark at its end. Readers ignore it, because the process did not execute what follows.
//
// FAULTPLUG_SLOW is the duration of a start, and FAULTPLUG_CRASHES the number of starts in the journal that fail first.
// With FAULTPLUG_DETACHED, it starts two processes in new sessions, one of which has no parent.
package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"github.com/mcpbridge/mcpbridge/sdkgen/go/mcpbridge"
	"github.com/mcpbridge/mcpbridge/test/survive/checker"
	"github.com/mcpbridge/mcpbridge/test/survive/fault"
)

func main() { os.Exit(run()) }

func run() int {
	w, err := fault.Open("FAULTPLUG_JOURNAL")
	if err != nil {
		fmt.Fprintln(os.Stderr, "faultplug:", err)
		return 2
	}
	crashes, _ := strconv.Atoi(os.Getenv("FAULTPLUG_CRASHES"))
	starts := crashes
	if crashes > 0 { // otherwise it need not parse the journal, which takes a second after 10,000 kills
		starts = w.Journal.Starts()
	}
	f := &faults{Worker: w}
	f.Note(checker.Start, "-")
	if slow, _ := time.ParseDuration(os.Getenv("FAULTPLUG_SLOW")); slow > 0 {
		time.Sleep(slow)
	}
	if starts < crashes {
		fmt.Fprintf(os.Stderr, "faultplug: start %d fails, as the first %d do\n", starts+1, crashes)
		return 3
	}
	if os.Getenv("FAULTPLUG_DETACHED") != "" {
		if err := f.detach(); err != nil {
			fmt.Fprintln(os.Stderr, "faultplug:", err)
			return 2
		}
	}
	app := mcpbridge.New("faultplug", "1")
	mcpbridge.Tool(app, "work", "Do work that must not be executed twice", f.work)
	mcpbridge.Tool(app, "question", "Ask for the token, and work", f.question)
	mcpbridge.Tool(app, "hang", "Wait until the call is canceled", f.hang)
	mcpbridge.Tool(app, "print", "Print a long line", f.print)
	mcpbridge.Tool(app, "block", "Block the whole process", f.block)
	return app.Run()
}

// faults are the tools.
type faults struct {
	*fault.Worker
}

// detach starts a child in a new session, and a process in another one whose parent has exited.
func (f *faults) detach() error {
	child := exec.Command("sleep", "1000")
	child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := child.Start(); err != nil {
		return err
	}
	pid, err := exec.Command("sh", "-c", "setsid sleep 1000 >/dev/null 2>&1 & echo $!").Output()
	if err != nil {
		return err
	}
	f.Note(checker.Detached, strconv.Itoa(child.Process.Pid))
	f.Note(checker.Detached, strings.TrimSpace(string(pid)))
	return nil
}

func (f *faults) work(ctx context.Context, w fault.Work) (fault.Done, error) {
	return f.Do(ctx, w, func(n, total int, pad string) { mcpbridge.Progress(ctx, float64(n), float64(total), pad) })
}

// question works once the client has answered with the token of the call.
func (f *faults) question(ctx context.Context, w fault.Work) (fault.Done, error) {
	answer, err := mcpbridge.Elicit[string](ctx, w.Token)
	if err != nil {
		return fault.Done{}, err
	}
	if answer.Data != w.Token {
		return fault.Done{}, fmt.Errorf("the answer of %s to %s", answer.Data, w.Token)
	}
	return f.work(ctx, w)
}

// Hang contains the arguments of hang.
type Hang struct {
	Token string `json:"token" jsonschema:"Names the call in the journal"`
}

func (f *faults) hang(ctx context.Context, h Hang) (fault.Done, error) {
	return f.Hang(ctx, h.Token, func() { mcpbridge.Progress(ctx, 1, 0) })
}

// Print contains the arguments of print.
type Print struct {
	Token string `json:"token" jsonschema:"Names the call in the journal"`
	Pad   int    `json:"pad,omitempty" jsonschema:"MiB to print on standard error, in one line"`
}

func (f *faults) print(_ context.Context, p Print) (fault.Done, error) {
	f.Note(checker.Begin, p.Token)
	for range p.Pad {
		fmt.Fprint(os.Stderr, strings.Repeat("x", 1<<20))
	}
	f.Note(checker.End, p.Token)
	return fault.Done{Token: p.Token, PID: os.Getpid()}, nil
}

// Block contains the arguments of block.
type Block struct {
	Token string `json:"token" jsonschema:"Names the call in the journal"`
	Ms    int    `json:"ms,omitempty" jsonschema:"Duration of the block"`
}

// block blocks the whole process, like a C function that holds the lock of an interpreter: no goroutine runs, and the
// process is not stopped (state T). RawSyscall does not release Go's only processor (GOMAXPROCS=1), and
// GODEBUG=asyncpreemptoff=1 prevents preemption.
func (f *faults) block(_ context.Context, b Block) (fault.Done, error) {
	f.Note(checker.Begin, b.Token)
	t := syscall.NsecToTimespec(int64(b.Ms) * int64(time.Millisecond))
	if _, _, errno := syscall.RawSyscall(syscall.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&t)), 0, 0); errno != 0 {
		return fault.Done{}, errno
	}
	f.Note(checker.End, b.Token)
	return fault.Done{Token: b.Token, PID: os.Getpid()}, nil
}
