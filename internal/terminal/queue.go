package terminal

import (
	"bytes"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
)

const (
	// maxQueued is the maximum number of waiting writes, each of which has a line or a few. Above it, the oldest are
	// dropped.
	maxQueued = 1024
	// flushTime is how long Close waits until everything is written.
	flushTime = time.Second
)

// A Queue is a writer that never blocks. If its destination blocks for long, the oldest writes are dropped, and their
// number is logged when there is room again. It is safe for concurrent use.
//
// zerolog's diode may lose the last write before it is closed, which is the line with the reason why the program exits.
type Queue struct {
	to  io.Writer
	log atomic.Pointer[zerolog.Logger] // writes to the destination; nil until ReportTo is called

	mu      sync.Mutex // guards the fields below, and writes to lines
	lines   chan []byte
	dropped int
	closed  bool

	done chan struct{} // closed when everything was written after Close
}

// NewQueue returns a queue that writes to to. The caller must close it.
func NewQueue(to io.Writer) *Queue {
	q := &Queue{to: to, lines: make(chan []byte, maxQueued), done: make(chan struct{})}
	go q.pass()
	return q
}

// Direct returns the writer that q writes to.
func (q *Queue) Direct() io.Writer { return q.to }

// ReportTo makes q log the number of dropped writes. log must write to Direct.
func (q *Queue) ReportTo(log zerolog.Logger) { q.log.Store(&log) }

// Write implements io.Writer. It never fails.
func (q *Queue) Write(p []byte) (int, error) {
	line := bytes.Clone(p)
	q.mu.Lock()
	defer q.mu.Unlock()
	for !q.closed {
		select {
		case q.lines <- line:
			return len(p), nil
		default:
		}
		select {
		case <-q.lines:
			q.dropped++
		default: // pass has taken it meanwhile
		}
	}
	return len(p), nil
}

// pass writes the queued lines until q is closed and empty.
func (q *Queue) pass() {
	defer close(q.done)
	for line := range q.lines {
		_, _ = q.to.Write(line) // a write error cannot be reported
		q.mu.Lock()
		dropped := q.dropped
		q.dropped = 0
		q.mu.Unlock()
		if log := q.log.Load(); dropped > 0 && log != nil {
			log.Warn().Int("lines", dropped).Msg("lines of the log were dropped: they were not read in time")
		}
	}
}

// Close waits until everything is written, for at most flushTime. Later writes are lost. If the destination blocks, a
// goroutine remains until the process exits.
func (q *Queue) Close() {
	q.mu.Lock()
	if !q.closed {
		q.closed = true
		close(q.lines)
	}
	q.mu.Unlock()
	select {
	case <-q.done:
	case <-time.After(flushTime):
	}
}
