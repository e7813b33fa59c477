package main

import (
	"bytes"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
)

const (
	// maxQueued is how many writes to stderr may wait to be read, each of a line or a few. Then the oldest are dropped.
	maxQueued = 1024
	// flushTime is how long the end of the program waits until stderr has taken what was written to it.
	flushTime = time.Second
)

// A queue is a writer that keeps nobody waiting, although nobody may read what is written. What is too much for it is dropped,
// and counted in a line of the log as soon as there is room again. It may be written to concurrently.
//
// It is ours because zerolog's diode may lose what was written last before it was closed: the line that says why the program
// ends.
type queue struct {
	to  io.Writer
	log atomic.Pointer[zerolog.Logger] // to to itself; nil until somebody logs

	mu      sync.Mutex // guards what follows, and who writes to lines
	lines   chan []byte
	dropped int
	closed  bool

	done chan struct{} // closed when all has been passed on after close
}

// newQueue returns a queue that writes to to. Call close.
func newQueue(to io.Writer) *queue {
	q := &queue{to: to, lines: make(chan []byte, maxQueued), done: make(chan struct{})}
	go q.pass()
	return q
}

// direct returns the writer that q writes to.
func (q *queue) direct() io.Writer { return q.to }

// report has q log how many writes it has dropped. Log writes to direct.
func (q *queue) report(log zerolog.Logger) { q.log.Store(&log) }

// Write implements io.Writer. It never fails.
func (q *queue) Write(p []byte) (int, error) {
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
		default: // it has been passed on meanwhile
		}
	}
	return len(p), nil
}

// pass passes on what is written, until q is closed and there is no more.
func (q *queue) pass() {
	defer close(q.done)
	for line := range q.lines {
		_, _ = q.to.Write(line) // what cannot be written can be told nobody
		q.mu.Lock()
		dropped := q.dropped
		q.dropped = 0
		q.mu.Unlock()
		if log := q.log.Load(); dropped > 0 && log != nil {
			log.Warn().Int("lines", dropped).Msg("lines of the log were dropped: nobody has read them in time")
		}
	}
}

// close waits until all that was written is passed on, but no longer than flushTime. What is written afterwards is lost. If
// nobody reads, a goroutine is left that waits for that as long as the process lives.
func (q *queue) close() {
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
