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

// A stream is the response to a request, or what is left of it, as events.
type stream struct {
	w    *streamable
	x    *exchange
	body io.ReadCloser
	r    *eventReader
	last string // the id of the last event
	// retry is how long the server wants us to wait before we come back, as it said last; negative if it never did.
	retry time.Duration
	how   resumption
}

// resumption says how a stream ended.
type resumption struct {
	progress bool // something came
	fatal    bool // there is no use in resuming
}

// read takes the messages of a stream until the response has come, and goes on with one that was cut, where that is
// possible.
func (s *stream) read() {
	x := s.x
	err := s.messages()
	for tries, all := 0, 0; err != nil; {
		switch {
		case x.now().isAnswered() || x.ctx.Err() != nil:
			return
		case s.how.fatal || s.last == "" || s.w.p.rev().Modern() || tries >= maxResumes:
			x.fail(s.w.cut(err))
			return
		}
		if s.how.progress {
			tries = 0
		}
		tries++
		all++
		wait := s.retry
		if wait < 0 || tries > 1 { // one that is not there, or said nothing, may need longer
			wait = max(wait, min(time.Duration(tries)*100*time.Millisecond, time.Second))
		}
		wait = max(wait, min(time.Duration(all)*time.Millisecond, time.Second)) // one that wants us back at once, again and again
		if !sleep(x.ctx, wait) {
			return
		}
		err = s.resume()
	}
	s.drain()
}

// drain reads the end, which is near: a connection read to its end can be used again.
func (s *stream) drain() {
	t := time.AfterFunc(time.Second, s.x.cancel)
	defer t.Stop()
	_, _ = io.CopyN(io.Discard, s.r.r, 64<<10)
	s.body.Close()
}

// messages takes the messages of a connection until the response has come. The error says why it has not.
func (s *stream) messages() error {
	for {
		more, err := s.next()
		if err != nil {
			s.body.Close()
			return err
		}
		if !more {
			return nil
		}
	}
}

// maxResumes is how often in a row a stream is resumed on which nothing comes.
const maxResumes = 5

// next takes the next event. It reports false if the response has come, or with an error that says why there is none.
func (s *stream) next() (bool, error) {
	e, err := s.r.next()
	if s.r.retry >= 0 {
		s.retry = s.r.retry
	}
	if err != nil {
		s.how.fatal = errors.Is(err, errTooLarge)
		return false, err
	}
	s.how.progress = true
	if e.hasID {
		s.last = e.id
	}
	if len(e.data) == 0 || e.name != "" && e.name != "message" {
		return true, nil
	}
	if err := s.w.p.receive(e.data, s.x); err != nil {
		s.how.fatal = true
		return false, s.w.misbehaved("sent an event that is not MCP: %v", err)
	}
	return !s.x.now().isAnswered(), nil
}

// resume goes on after the last event (2025-11-25: basic/transports, resumability and redelivery). The error says why
// there is no response.
func (s *stream) resume() error {
	w, x := s.w, s.x
	s.how = resumption{}
	req, err := w.request(x.ctx, http.MethodGet, nil)
	if err != nil {
		s.how.fatal = true
		return err
	}
	req.Header.Set("Accept", mcphttp.EventStream)
	req.Header.Set(mcphttp.HeaderLastEvent, s.last)
	res, err := w.p.c.http.Do(req)
	if err != nil {
		return withoutURL(err)
	}
	if res.StatusCode != http.StatusOK || mediaOf(res) != mcphttp.EventStream {
		res.Body.Close()
		// One that has not noticed yet that the stream has ended may say 409.
		s.how.fatal = res.StatusCode < 500 && res.StatusCode != http.StatusConflict && res.StatusCode != http.StatusTooManyRequests
		return fmt.Errorf("the stream cannot be resumed: %s", res.Status)
	}
	s.body, s.r = res.Body, newEventReader(res.Body, w.p.c.o.Limits.Message)
	return s.messages()
}

// sleep waits for d. It reports false if ctx ended before.
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

// hearTimeout is how long a server may take to answer the GET by which it can say more.
const hearTimeout = time.Second

// open implements wire. Servers that ask in the middle of a call may do so on the stream of what is no answer, and what
// they ask or tell before there is that stream gets lost in many of them, and the call hangs; or a server takes the GET
// that comes late for one that resumes the call's stream.
func (w *streamable) open(ctx context.Context) {
	w.wg.Go(func() { w.p.keep(w.unrelated) })
	timer := time.NewTimer(hearTimeout)
	defer timer.Stop()
	select {
	case <-w.heard:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// unrelated reads the stream of what is no answer to anything, if the server has one (2025-03-26 to 2025-11-25:
// basic/transports, listening for messages). Once there was one, it is asked for again and again, ever more slowly:
// whoever listens was told that changes are.
func (w *streamable) unrelated() {
	last, delay, retry, opened := "", 100*time.Millisecond, time.Duration(-1), false
	answered := sync.OnceFunc(func() { close(w.heard) })
	defer answered()
	for times := 0; w.ctx.Err() == nil; times++ {
		began := time.Now()
		r, err := w.listen(last, opened, answered)
		if errors.Is(err, errEventForgotten) {
			last = ""
			continue
		}
		if err != nil {
			if w.ctx.Err() == nil {
				w.p.c.log.Debug().Err(err).Msg("the server has no stream for what is no answer")
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
			delay = max(10*time.Millisecond, min(time.Duration(times)*10*time.Millisecond, time.Second)) // as in mend
		} else {
			if time.Since(began) > 10*time.Second {
				delay = 100 * time.Millisecond
			}
			delay = min(2*delay, 30*time.Second)
		}
		sleep(w.ctx, max(delay, retry))
	}
}

// A heard is how far a stream was read that is no answer.
type heard struct {
	last  string
	retry time.Duration
}

// listen reads one response to a GET. The error says that there is no such stream, or none after last; nil and nil that
// there is none now. Again says that there was one before; answered is called when the server has answered, or cannot.
func (w *streamable) listen(last string, again bool, answered func()) (*heard, error) {
	req, err := w.request(w.ctx, http.MethodGet, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", mcphttp.EventStream)
	if last != "" {
		req.Header.Set(mcphttp.HeaderLastEvent, last)
	}
	res, err := w.p.c.http.Do(req)
	answered()
	if err != nil {
		return nil, nil //nolint:nilnil // the caller tries again
	}
	defer res.Body.Close()
	media := mediaOf(res)
	switch {
	case res.StatusCode >= 500 || res.StatusCode == http.StatusTooManyRequests:
		return nil, nil //nolint:nilnil // the caller tries again
	case last != "" && slices.Contains([]int{http.StatusUnauthorized, http.StatusForbidden, http.StatusConflict}, res.StatusCode):
		return nil, nil //nolint:nilnil // nothing is said of the event: servers answer 409 while they take the old stream for open
	case last != "" && (res.StatusCode != http.StatusOK || media != mcphttp.EventStream):
		return nil, errEventForgotten // the session may be known all the same
	case w.session != "" && again && (res.StatusCode == http.StatusNotFound || res.StatusCode == http.StatusBadRequest):
		// Without again, it is more likely that there is nothing to GET: many servers say so by 404, and the session
		// has just begun.
		w.p.expire()
		return nil, errSessionEnded
	case again && (res.StatusCode != http.StatusOK || media != mcphttp.EventStream):
		return nil, nil //nolint:nilnil // it may have one again: it has not noticed yet that the old one ended, or what is before it refuses us
	case res.StatusCode != http.StatusOK || media != mcphttp.EventStream:
		return nil, fmt.Errorf("GET: %s", res.Status)
	}
	if again && last == "" {
		w.p.subs.reportAll() // nothing is replayed
	}
	h := &heard{retry: -1}
	events := newEventReader(res.Body, w.p.c.o.Limits.Message)
	for {
		e, err := events.next()
		h.retry = events.retry
		if err != nil {
			return h, nil
		}
		if e.hasID {
			h.last = e.id
		}
		if len(e.data) > 0 && (e.name == "" || e.name == "message") {
			if err := w.p.receive(e.data, nil); err != nil {
				w.p.c.log.Debug().Err(err).Msg("ignored an event that is not MCP")
			}
		}
	}
}

// errEventForgotten is that the server does not go on after an event.
var errEventForgotten = errors.New("the server does not go on after the last event")
