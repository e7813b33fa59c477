// Package fault implements the work and the faults of faultplug and faultmcp.
package fault

import (
	"context"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/mcpbridge/mcpbridge/test/survive/checker"
)

// Work describes the work of a call, and where the process kills itself.
type Work struct {
	Token string `json:"token" jsonschema:"Names the call in the journal"`
	Ms    int    `json:"ms,omitempty" jsonschema:"Duration of the work"`
	// Events is the number of progress notifications, evenly distributed.
	Events int `json:"events,omitempty" jsonschema:"Number of progress notifications"`
	// Die is where the process kills itself: received, begun, done, or event.
	Die string `json:"die,omitempty" jsonschema:"Where the process kills itself: received, begun, event, done"`
	At  int    `json:"at,omitempty" jsonschema:"Number of the event after which it does"`
	Pad int    `json:"pad,omitempty" jsonschema:"Bytes of text with each event"`
}

// Done is the result of Work.
type Done struct {
	Token string `json:"token"`
	PID   int    `json:"pid"`
}

// A Worker does work and writes a journal. It may be used concurrently.
type Worker struct{ Journal *checker.Journal }

// Open returns a Worker with the journal that the environment variable names.
func Open(variable string) (*Worker, error) {
	j, err := checker.OpenJournal(os.Getenv(variable))
	if err != nil {
		return nil, err
	}
	return &Worker{j}, nil
}

// Note adds an entry to the journal. It panics if that fails, because the tests depend on the journal.
func (k *Worker) Note(what, token string) {
	if err := k.Journal.Write(what, token); err != nil {
		panic(fmt.Errorf("the journal: %w", err))
	}
}

// Do does w and sends progress. It returns an error if it was canceled.
func (k *Worker) Do(ctx context.Context, w Work, progress func(n, total int, pad string)) (Done, error) {
	k.dieAt(w, "received")
	k.Note(checker.Begin, w.Token)
	k.dieAt(w, "begun")
	step := time.Duration(w.Ms) * time.Millisecond / time.Duration(w.Events+1)
	pad := strings.Repeat("x", w.Pad)
	for n := range w.Events + 1 {
		if n > 0 {
			progress(n, w.Events, pad)
			if n == w.At {
				k.dieAt(w, "event")
			}
		}
		if !sleep(ctx, step) {
			k.Note(checker.Cancel, w.Token)
			return Done{}, ctx.Err()
		}
	}
	k.Note(checker.End, w.Token)
	k.dieAt(w, "done")
	return Done{w.Token, os.Getpid()}, nil
}

// Hang sends progress once, to report the start of the work, and waits until the call is canceled.
func (k *Worker) Hang(ctx context.Context, token string, progress func()) (Done, error) {
	k.Note(checker.Begin, token)
	progress()
	<-ctx.Done()
	k.Note(checker.Cancel, token)
	return Done{}, ctx.Err()
}

// sleep reports whether ctx was active until the end of d.
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

// dieAt kills the process if w.Die is this point.
func (k *Worker) dieAt(w Work, point string) {
	if w.Die != point {
		return
	}
	k.Note(checker.Die, w.Token)
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL) // always permitted
	select {}
}
