// Command faultplug is a backend that fails as it is told to, and keeps a journal of what it really did.
//
// The journal is the file that FAULTPLUG_JOURNAL names. Each line is one write to it, opened with O_APPEND: the kernel has the line
// when write returns, and keeps it however the process ends, so that nothing has to be synced. (A sync is for machines that lose
// power.) A write that SIGKILL cuts leaves a line without its mark at the end, which readers ignore: the process has not gone on to
// do what the line would have said.
//
// FAULTPLUG_SLOW is how long it takes to start, and FAULTPLUG_CRASHES how many starts fail before one does not: the journal counts
// them. With FAULTPLUG_DETACHED it starts two processes in sessions of their own, and one of these has no parent.
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
	if crashes > 0 { // else a journal of 10,000 kills, whose end takes a second to find, is not read at every start
		starts = w.Journal.Starts()
	}
	f := &faults{Worker: w}
	f.Note(checker.Start, "-")
	if slow, _ := time.ParseDuration(os.Getenv("FAULTPLUG_SLOW")); slow > 0 {
		time.Sleep(slow)
	}
	if starts < crashes {
		fmt.Fprintf(os.Stderr, "faultplug: this is start %d, and the first %d fail\n", starts+1, crashes)
		return 3
	}
	if os.Getenv("FAULTPLUG_DETACHED") != "" {
		if err := f.detach(); err != nil {
			fmt.Fprintln(os.Stderr, "faultplug:", err)
			return 2
		}
	}
	app := mcpbridge.New("faultplug", "1")
	mcpbridge.Tool(app, "work", "Do something that must not be done twice", f.work)
	mcpbridge.Tool(app, "hang", "Wait to be cancelled", f.hang)
	mcpbridge.Tool(app, "babble", "Print without end", f.babble)
	mcpbridge.Tool(app, "block", "Block the whole process", f.block)
	return app.Run()
}

// faults are the tools.
type faults struct {
	*fault.Worker
}

// detach starts a child in a session of its own, and a process in another one whose parent has exited.
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

// Hang names a call.
type Hang struct {
	Token string `json:"token" jsonschema:"Names the call in the journal"`
}

func (f *faults) hang(ctx context.Context, h Hang) (fault.Done, error) {
	return f.Hang(ctx, h.Token, func() { mcpbridge.Progress(ctx, 1, 0) })
}

// Babble says how much to print.
type Babble struct {
	Token string `json:"token" jsonschema:"Names the call in the journal"`
	Pad   int    `json:"pad,omitempty" jsonschema:"MiB to print on standard error, in one line"`
}

func (f *faults) babble(_ context.Context, b Babble) (fault.Done, error) {
	f.Note(checker.Begin, b.Token)
	for range b.Pad {
		fmt.Fprint(os.Stderr, strings.Repeat("x", 1<<20))
	}
	f.Note(checker.End, b.Token)
	return fault.Done{Token: b.Token, PID: os.Getpid()}, nil
}

// Block says for how long to block.
type Block struct {
	Token string `json:"token" jsonschema:"Names the call in the journal"`
	Ms    int    `json:"ms,omitempty" jsonschema:"For how long"`
}

// block blocks the whole process, as a call into C that holds the lock of an interpreter does: no goroutine runs, and
// the state of the process is not T. RawSyscall keeps the only processor of Go, which takes GOMAXPROCS=1, and
// GODEBUG=asyncpreemptoff=1 keeps Go from interrupting it.
func (f *faults) block(_ context.Context, b Block) (fault.Done, error) {
	f.Note(checker.Begin, b.Token)
	t := syscall.NsecToTimespec(int64(b.Ms) * int64(time.Millisecond))
	if _, _, errno := syscall.RawSyscall(syscall.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&t)), 0, 0); errno != 0 {
		return fault.Done{}, errno
	}
	f.Note(checker.End, b.Token)
	return fault.Done{Token: b.Token, PID: os.Getpid()}, nil
}
