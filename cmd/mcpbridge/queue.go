package main

import (
	"io"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	"github.com/rs/zerolog/diode"
)

const (
	// maxQueued is how many writes to stderr may wait to be read, each of a line or a few. Then the oldest are dropped.
	maxQueued = 1024
	// flushTime is how long the end of the program waits until stderr has taken what was written to it.
	flushTime = time.Second
)

// A queue is a writer that keeps nobody waiting, although nobody may read what is written. What is too much for it is dropped,
// and counted in a line of the log as soon as there is room again. It may be written to concurrently.
type queue struct {
	diode.Writer

	to  io.Writer
	log atomic.Pointer[zerolog.Logger] // to to itself; nil until somebody logs
}

// newQueue returns a queue that writes to to. Call close.
func newQueue(to io.Writer) *queue {
	q := &queue{to: to}
	open := struct{ io.Writer }{to} // a diode would close what can be closed
	q.Writer = diode.NewWriter(open, maxQueued, 0, func(missed int) {
		if log := q.log.Load(); log != nil {
			log.Warn().Int("lines", missed).Msg("lines of the log were dropped: nobody has read them in time")
		}
	})
	return q
}

// close waits until all that was written is passed on, but no longer than flushTime. Nothing is to be written afterwards. If
// nobody reads, a goroutine is left that waits for that as long as the process lives.
func (q *queue) close() {
	flushed := make(chan struct{})
	go func() {
		defer close(flushed)
		_ = q.Close() // what cannot be written can be told nobody
	}()
	select {
	case <-flushed:
	case <-time.After(flushTime):
	}
}
