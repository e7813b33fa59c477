package clientcmd

import (
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/mcpbridge/mcpbridge/internal/app"
	"github.com/mcpbridge/mcpbridge/internal/problem"
)

// A backendLog receives the log of the backends of a client command. It writes the records of the command's level to
// the command's log, and keeps what explains a failed call: the exception of its handler, how its process exited, and
// its last lines. Only the user of the command sees that.
type backendLog struct {
	next  io.Writer     // the command's log
	level zerolog.Level // the lowest level for the command's log

	mu      sync.Mutex // guards the rest
	calling bool       // the backends have started; later records are about calls
	failure *logRecord // the last exception
	ended   string     // how the process of a backend ended
	exited  chan struct{}
	stderr  []string // the last lines of text
}

// maxStderr is how many lines of standard error are kept for the error of a call, and maxTrace how many of a trace are
// shown.
const (
	maxStderr = 20
	maxTrace  = 60
)

// A logRecord has the members of a record in a backend's log that are displayed.
type logRecord struct {
	Level   string          `json:"level"`
	Stream  string          `json:"stream"`
	Message string          `json:"message"`
	Ended   string          `json:"ended"`  // how a process ended
	Lived   json.RawMessage `json:"lived"`  // how long a lost backend had run
	Misses  json.RawMessage `json:"misses"` // how many health checks it has failed
	Record  json.RawMessage `json:"record"` // what the backend wrote

	raw []byte
}

// logger returns the logger for the backends.
func (b *backendLog) logger() zerolog.Logger {
	return zerolog.New(b).Level(min(b.level, zerolog.DebugLevel)).With().Timestamp().Logger()
}

// Write implements io.Writer. Each call has one record.
func (b *backendLog) Write(p []byte) (int, error) {
	var r logRecord
	if err := json.Unmarshal(p, &r); err != nil {
		return b.next.Write(p)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case !b.calling && b.level > zerolog.InfoLevel:
		return len(p), nil // a failed start is the error of the command
	case !b.calling:
	case (r.Lived != nil || r.Misses != nil) && b.level > zerolog.InfoLevel:
		return len(p), nil // that is, or becomes, the error of the call
	case r.Ended != "" && b.ended == "":
		b.ended = r.Ended
		close(b.exited)
	case r.Stream != "" && r.Record != nil && (recordTrace(r.Record) != "" || failedAt.MatchString(r.Message)):
		last := b.failure
		r.raw = slices.Clone(p)
		if b.failure = &r; last != nil {
			b.pass(last)
		}
		return len(p), nil
	case r.Stream == "stderr" && r.Record == nil:
		if len(b.stderr) == maxStderr {
			b.stderr = slices.Delete(b.stderr, 0, 1)
		}
		b.stderr = append(b.stderr, r.Message)
		if b.level > zerolog.InfoLevel {
			return len(p), nil // one of several lines is not helpful
		}
	}
	r.raw = p
	b.pass(&r)
	return len(p), nil
}

// pass writes a record to the command's log, if it has the level.
func (b *backendLog) pass(r *logRecord) {
	if level, err := zerolog.ParseLevel(r.Level); err == nil && level >= b.level {
		_, _ = b.next.Write(r.raw) // if stderr is closed, nothing can be reported
	}
}

// begin is called when the backends have started.
func (b *backendLog) begin() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.calling = true
}

// endWait is how long the error of a lost call waits for the exit status of the process.
const endWait = 2 * time.Second

// await waits until the exit status of the process is known after a call was lost.
func (b *backendLog) await() {
	t := time.NewTimer(endWait)
	defer t.Stop()
	select {
	case <-b.exited:
	case <-t.C:
	}
}

// explain adds what the backends have logged about a failed call to the error of the command. It is called when the
// backends have stopped. An exception that is not part of the error is logged.
func (b *backendLog) explain(err error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	p, ok := errors.AsType[*problem.Error](err)
	switch {
	case !ok || p.Exit != problem.ExitTool && p.Exit != problem.ExitCrashed:
		if b.failure != nil {
			b.pass(b.failure)
		}
		return err
	case p.Exit == problem.ExitCrashed && b.ended != "":
		p.Why = "its process ended: " + b.ended
	}
	p.Stderr = strings.Join(b.stderr, "\n")
	if b.failure == nil {
		return p
	}
	p.Trace = firstLines(recordTrace(b.failure.Record), maxTrace)
	if at := failedAt.FindStringSubmatch(b.failure.Message); at != nil {
		p.Where, p.Why = cmp.Or(at[1], at[2]), at[3]
	} else {
		p.Trace = b.failure.Message + "\n" + p.Trace
	}
	return p
}

// failedAt matches what the SDKs log of a handler that failed: tool "parse" failed at tools.py:12: ValueError: ..., or,
// in Go, main.go:12: tool "parse" failed: ...
var failedAt = regexp.MustCompile(`(?s)^(?:\S+ ".*?" failed at (\S+?:\d+)|(\S+?:\d+): \S+ ".*?" failed): (.*)$`)

// recordTrace returns the trace in a record of a backend's log, or "".
func recordTrace(record json.RawMessage) string {
	var members map[string]any
	if len(record) == 0 || json.Unmarshal(record, &members) != nil {
		return ""
	}
	return app.Trace(members)
}

// firstLines returns the first lines of a text, with an ellipsis if there are more.
func firstLines(text string, most int) string {
	lines := strings.SplitN(text, "\n", most+1)
	if len(lines) <= most {
		return text
	}
	return strings.Join(lines[:most], "\n") + "\n…"
}
