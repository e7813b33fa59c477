// Command faultplug is a backend that fails as it is told to, and keeps a journal of what it really did.
//
// The journal is the file that FAULTPLUG_JOURNAL names. Each line is one write to it, opened with O_APPEND: the kernel has the line
// when write returns, and keeps it however the process ends, so that nothing has to be synced. (A sync is for machines that lose
// power.) A write that SIGKILL cuts leaves a line without its mark at the end, which readers ignore: the process has not gone on to
// do what the line would have said.
//
// FAULTPLUG_SLOW is how long it takes to start, and FAULTPLUG_CRASHES how many starts fail before one does not: the journal counts
// them.
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/mcpbridge/mcpbridge/sdkgen/go"
	"github.com/mcpbridge/mcpbridge/survive/checker"
)

func main() { os.Exit(run()) }

func run() int {
	j, err := checker.OpenJournal(os.Getenv("FAULTPLUG_JOURNAL"))
	if err != nil {
		fmt.Fprintln(os.Stderr, "faultplug:", err)
		return 2
	}
	starts := j.Starts()
	f := &faults{journal: j}
	f.note(checker.Start, "-")
	if slow, _ := time.ParseDuration(os.Getenv("FAULTPLUG_SLOW")); slow > 0 {
		time.Sleep(slow)
	}
	if crashes, _ := strconv.Atoi(os.Getenv("FAULTPLUG_CRASHES")); starts < crashes {
		fmt.Fprintf(os.Stderr, "faultplug: this is start %d, and the first %d fail\n", starts+1, crashes)
		return 3
	}
	app := mcpbridge.New("faultplug", "1")
	mcpbridge.Tool(app, "work", "Do something that must not be done twice", f.work)
	mcpbridge.Tool(app, "hang", "Wait to be cancelled", f.hang)
	mcpbridge.Tool(app, "spoil", "Leak memory or print without end", f.spoil)
	return app.Run()
}

// faults are the tools.
type faults struct {
	journal *checker.Journal

	mu     sync.Mutex // guards leaked
	leaked [][]byte
}

// note adds an entry to the journal. Without one, nothing that is done here is worth anything.
func (f *faults) note(what, token string) {
	if err := f.journal.Write(what, token); err != nil {
		fmt.Fprintln(os.Stderr, "faultplug: the journal:", err)
		os.Exit(4)
	}
}

// Work says what to do, and where to die.
type Work struct {
	Token string `json:"token" jsonschema:"Names the call in the journal"`
	Ms    int    `json:"ms,omitempty" jsonschema:"How long it takes"`
	// Events is how often it tells progress, evenly spread over the time it takes.
	Events int `json:"events,omitempty" jsonschema:"How often to tell progress"`
	// Die is where the process kills itself: received, begun, done, or event.
	Die string `json:"die,omitempty" jsonschema:"Where to die: received, begun, event, done"`
	At  int    `json:"at,omitempty" jsonschema:"After which event"`
	Pad int    `json:"pad,omitempty" jsonschema:"Bytes of text with each event"`
}

// Done says who did what.
type Done struct {
	Token string `json:"token"`
	PID   int    `json:"pid"`
}

func (f *faults) work(ctx context.Context, w Work) (Done, error) {
	f.dieAt(w, "received")
	f.note(checker.Begin, w.Token)
	f.dieAt(w, "begun")
	step := time.Duration(w.Ms) * time.Millisecond / time.Duration(w.Events+1)
	pad := strings.Repeat("x", w.Pad)
	for n := range w.Events + 1 {
		if n > 0 {
			mcpbridge.Progress(ctx, float64(n), float64(w.Events), pad)
			if n == w.At {
				f.dieAt(w, "event")
			}
		}
		if !sleep(ctx, step) {
			f.note(checker.Cancel, w.Token)
			return Done{}, ctx.Err()
		}
	}
	f.note(checker.End, w.Token)
	f.dieAt(w, "done")
	return Done{w.Token, os.Getpid()}, nil
}

// sleep reports whether it slept as long as it was to, and was not cancelled.
func sleep(ctx context.Context, d time.Duration) bool {
	if d == 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// dieAt kills the process if the call says that it dies here.
func (f *faults) dieAt(w Work, point string) {
	if w.Die != point {
		return
	}
	f.note(checker.Die, w.Token)
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL) // one may always kill oneself
	select {}
}

// Hang names a call.
type Hang struct {
	Token string `json:"token" jsonschema:"Names the call in the journal"`
}

// hang tells progress once, so that the caller knows that it has begun, and waits until it is cancelled.
func (f *faults) hang(ctx context.Context, h Hang) (Done, error) {
	f.note(checker.Begin, h.Token)
	mcpbridge.Progress(ctx, 1, 0)
	<-ctx.Done()
	f.note(checker.Cancel, h.Token)
	return Done{}, ctx.Err()
}

// Spoil says what to waste.
type Spoil struct {
	Leak  int `json:"leak,omitempty" jsonschema:"MiB to take and never give back"`
	Print int `json:"print,omitempty" jsonschema:"MiB to print on standard error, in one line"`
}

func (f *faults) spoil(_ context.Context, s Spoil) (Done, error) {
	for range s.Leak {
		b := make([]byte, 1<<20)
		for i := 0; i < len(b); i += os.Getpagesize() {
			b[i] = 1
		}
		f.mu.Lock()
		f.leaked = append(f.leaked, b)
		f.mu.Unlock()
	}
	for range s.Print {
		fmt.Fprint(os.Stderr, strings.Repeat("x", 1<<20))
	}
	return Done{PID: os.Getpid()}, nil
}
