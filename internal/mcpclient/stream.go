package mcpclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/mcpbridge/mcpbridge/internal/mcphttp"
)

// A stream is the response to a request as server-sent events, in one HTTP response or several.
type stream struct {
	w    *streamable
	x    *exchange
	body io.ReadCloser
	r    *eventReader
	// fatal prevents a resumption, which would be useless.
	fatal bool
}

// from sets the HTTP response to read.
func (s *stream) from(res *http.Response) {
	before := s.r
	s.body, s.r = res.Body, newEventReader(res.Body, s.w.p.c.o.Limits.Message)
	if before != nil {
		s.r.last, s.r.retry = before.last, before.retry
	}
}

// read reads the messages of a stream up to the response. It resumes an interrupted stream if possible.
func (s *stream) read() {
	x := s.x
	err := s.messages()
	for tries, all := 0, 0; err != nil; {
		switch {
		case x.currentState().isAnswered() || x.ctx.Err() != nil:
			return
		case s.fatal || s.r.last == "" || s.w.p.rev().Modern() || tries >= maxResumes:
			x.fail(s.w.streamEnded(err))
			return
		}
		if s.r.hasEvent {
			tries = 0
		}
		tries++
		all++
		wait := s.r.retry
		if wait < 0 || tries > 1 { // a server that is unreachable, or sent nothing, may need longer
			wait = max(wait, min(time.Duration(tries)*100*time.Millisecond, time.Second))
		}
		// the server may repeatedly request an immediate reconnection
		wait = max(wait, min(time.Duration(all)*time.Millisecond, time.Second))
		if !sleep(x.ctx, wait) {
			return
		}
		err = s.resume()
	}
	s.drain()
}

// drain reads the end of a response, so that its connection can be reused.
func (s *stream) drain() {
	t := time.AfterFunc(time.Second, s.x.cancel)
	defer t.Stop()
	_, _ = io.CopyN(io.Discard, s.r.r, 64<<10)
	s.body.Close()
}

// messages reads the messages of a connection up to the response. The error reports why there is none.
func (s *stream) messages() error {
	for !s.x.currentState().isAnswered() {
		data, err := s.r.message()
		if err != nil {
			s.fatal = errors.Is(err, errTooLarge)
		} else if err = s.w.p.receive(data, s.x); err != nil {
			s.fatal = true
			err = s.w.protocolViolation("sent an event that is not MCP: %v", err)
		}
		if err != nil {
			s.body.Close()
			return err
		}
	}
	return nil
}

// maxResumes is the maximum number of consecutive resumptions without a message.
const maxResumes = 5

// resume continues after the last event (2025-11-25: basic/transports, resumability and redelivery). The error reports
// why there is no response.
func (s *stream) resume() error {
	s.fatal, s.r.hasEvent = false, false
	res, err := s.w.get(s.x.ctx, s.r.last)
	if err != nil {
		return withoutURL(err)
	}
	if res.StatusCode != http.StatusOK || mediaOf(res) != mcphttp.EventStream {
		res.Body.Close()
		// A server that has not noticed the end of the stream may respond with 409.
		s.fatal = res.StatusCode < 500 && res.StatusCode != http.StatusConflict &&
			res.StatusCode != http.StatusTooManyRequests
		return fmt.Errorf("the stream cannot be resumed: %s", res.Status)
	}
	s.from(res)
	return s.messages()
}

// get requests an event stream: the events after last, if that is not empty.
func (w *streamable) get(ctx context.Context, last string) (*http.Response, error) {
	req, err := w.request(ctx, http.MethodGet, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", mcphttp.EventStream)
	if last != "" {
		req.Header.Set(mcphttp.HeaderLastEvent, last)
	}
	return w.p.c.http.Do(req)
}

// sleep waits for d. It returns false if ctx ended before.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// getTimeout is the maximum time for a server to respond to the GET of its standalone stream.
const getTimeout = time.Second

// open implements wire. A server may send requests during a call on the standalone stream. Without that stream, many
// servers lose them and the call hangs; and some treat a late GET as a resumption of the call's stream.
func (w *streamable) open(ctx context.Context) {
	w.wg.Go(func() { w.p.keep(w.readStandalone) })
	timer := time.NewTimer(getTimeout)
	defer timer.Stop()
	select {
	case <-w.received:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// readStandalone reads the standalone stream, if the server has one (2025-03-26 to 2025-11-25: basic/transports,
// listening for messages). If it had one before, it is requested again with backoff, because subscribers rely on its
// changes.
func (w *streamable) readStandalone() {
	last, delay, retry, opened := "", 100*time.Millisecond, time.Duration(-1), false
	answered := sync.OnceFunc(func() { close(w.received) })
	defer answered()
	for times := 0; w.ctx.Err() == nil; times++ {
		began := time.Now()
		r, err := w.listen(last, opened, answered)
		if errors.Is(err, errEventUnknown) {
			last = ""
			continue
		}
		if err != nil {
			if w.ctx.Err() == nil {
				w.p.c.log.Debug().Err(err).Msg("the server has no standalone stream")
			}
			return
		}
		if r != nil {
			opened = true
			if r.last != "" {
				last = r.last
			}
			if time.Since(began) > time.Second {
				times = 0
			}
			if r.retry >= 0 {
				retry = r.retry
			}
		}
		if r != nil && retry >= 0 {
			// as in stream.read
			delay = max(10*time.Millisecond, min(time.Duration(times)*10*time.Millisecond, time.Second))
		} else {
			if time.Since(began) > 10*time.Second {
				delay = 100 * time.Millisecond
			}
			delay = min(2*delay, 30*time.Second)
		}
		sleep(w.ctx, max(delay, retry))
	}
}

// listen reads the response to one GET. It returns an error if the server has no such stream, or none after the event
// last, and neither a reader nor an error if it has none at present. again means that it had one before. listen calls
// answered when the server has responded, or the request has failed.
func (w *streamable) listen(last string, again bool, answered func()) (*eventReader, error) {
	res, err := w.get(w.ctx, last)
	answered()
	if err != nil {
		return nil, nil //nolint:nilnil // the caller tries again
	}
	defer res.Body.Close()
	media := mediaOf(res)
	switch {
	case res.StatusCode >= 500 || res.StatusCode == http.StatusTooManyRequests:
		return nil, nil //nolint:nilnil // the caller tries again
	case last != "" && slices.Contains([]int{http.StatusUnauthorized, http.StatusForbidden, http.StatusConflict},
		res.StatusCode):
		return nil, nil //nolint:nilnil // the event may exist: 409 means that the old stream is still open
	case last != "" && (res.StatusCode != http.StatusOK || media != mcphttp.EventStream):
		return nil, errEventUnknown // the session may still be known
	case w.session != "" && again && (res.StatusCode == http.StatusNotFound || res.StatusCode == http.StatusBadRequest):
		// Without again, the session has just begun, and many servers report with 404 that they have no standalone
		// stream.
		w.p.expire()
		return nil, errSessionEnded
	case again && (res.StatusCode != http.StatusOK || media != mcphttp.EventStream):
		return nil, nil //nolint:nilnil // it may have one later: the old one is still open, or a proxy rejected this
	case res.StatusCode != http.StatusOK || media != mcphttp.EventStream:
		return nil, fmt.Errorf("GET: %s", res.Status)
	}
	if again && last == "" {
		w.p.subs.reportAll() // nothing is replayed
	}
	events := newEventReader(res.Body, w.p.c.o.Limits.Message)
	_ = w.p.receiveAll(events) // the caller opens another one
	return events, nil
}

// errEventUnknown reports that the server cannot continue after an event.
var errEventUnknown = errors.New("the server cannot continue after the last event")
