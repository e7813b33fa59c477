package mcpserver

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strconv"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/mcpbridge/mcpbridge/internal/lifecycle"
	"github.com/mcpbridge/mcpbridge/internal/mcphttp"
)

// A sink is where the messages of one request go.
//
// Both methods take the message over. Neither is called after finish, and finish is called once.
type sink interface {
	// send passes on a notification, or a request of ours, that comes before the response. It fails when nobody will ever
	// read it.
	send(msg []byte) error
	// finish passes on the response. The head is what HTTP answers with, if it has not answered yet. No message means that the
	// client wants no response any more.
	finish(h head, msg []byte)
}

// A head is how HTTP answers, besides the message. The zero value is the usual way.
type head struct {
	// status is the response's. Zero: 200.
	status int
	// challenge tells a caller what it lacks, if the status says so: the value of WWW-Authenticate.
	challenge string
}

// A lastSink forgets a request before its response is sent: as soon as the client has it, the id is free again.
type lastSink struct {
	sink
	forget func()
}

func (l *lastSink) finish(h head, msg []byte) {
	l.forget()
	l.sink.finish(h, msg)
}

const (
	// keepaliveEvery is how long a stream may say nothing. Load balancers cut a stream after 60 s and more.
	keepaliveEvery = 15 * time.Second
	// primeAfter is how long a response that can be come back to may say nothing before it says where to come back to.
	primeAfter = time.Second
)

// A reply is the HTTP response to one POST. It is a plain JSON body unless something has to be said before the response;
// then it becomes a stream of events.
type reply struct {
	s *Server
	w http.ResponseWriter
	// log keeps what is said on the stream, for a client that loses it and may come back. Without one (the modern era), a
	// lost stream is the end of the request.
	log *eventLog
	// server is whose the connection is, if the response can have it to itself.
	server *http.Server
	// open makes a log when the stream begins, in the legacy era.
	open func() *eventLog
	// prime says that the stream begins with an event that has an id only, so that the client can always come back.
	prime bool

	// pollAfter is how long the response may stay open before the client has to come back for the rest. Zero: for ever.
	pollAfter time.Duration
	// polled is closed when it has.
	polled chan struct{}

	mu     sync.Mutex
	stream bool // the response is a stream
	done   bool // the response is complete, or has ended before: w must not be touched any more
	held   bool // the response goes on after ServeHTTP has returned
	broken error
	reader int
	alive  *time.Timer
	poll   *time.Timer // nil if the response may stay open
}

// start begins to keep the response alive. Whoever calls it calls stop before ServeHTTP returns.
func (r *reply) start() {
	r.mu.Lock()
	defer r.mu.Unlock()
	first := keepaliveEvery
	if r.prime {
		first = primeAfter
	}
	r.alive = time.AfterFunc(first, r.keepalive)
	if r.pollAfter > 0 {
		r.polled = make(chan struct{})
		r.poll = time.AfterFunc(r.pollAfter, r.leave)
	}
}

// untilPolled runs f, and returns when it has returned or the response has ended before.
func (r *reply) untilPolled(f func()) {
	answered := make(chan struct{})
	go func() { // ends with the call, for which the end of the session waits
		defer close(answered)
		f()
	}()
	select {
	case <-answered:
	case <-r.polled:
	}
}

// leave ends the response before it is complete. The client knows where to come back, and when, from the event that the
// stream began with (2025-11-25: basic/transports, sending messages to the server).
func (r *reply) leave() {
	defer r.s.panics.Recover("ending a response early", nil)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.done {
		return
	}
	r.begin()
	r.done = true
	close(r.polled)
}

// stop ends the response, unless it is held.
func (r *reply) stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.held {
		return
	}
	if r.stream {
		_ = expectReader(r.w, r.s.opts.Limits.WriteTime) // what ends the response is written, too
	}
	r.done = true
	r.alive.Stop()
	if r.poll != nil {
		r.poll.Stop()
	}
}

// keepalive turns a response that lets itself be waited for into a stream, so that nobody takes it for dead.
func (r *reply) keepalive() {
	defer r.s.panics.Recover("keeping a response alive", nil)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.done {
		return
	}
	r.begin()
	r.write([]byte(mcphttp.Comment))
	r.alive.Reset(keepaliveEvery)
}

// begin makes the response a stream. The caller holds mu.
func (r *reply) begin() {
	if r.stream {
		return
	}
	r.stream = true
	streamHeaders(r.w.Header())
	r.part()
	if r.open == nil {
		return
	}
	r.log = r.open()
	r.reader = r.log.take()
	if r.prime {
		r.write(primingEvent(r.log, r.log.append(nil, false)))
	}
}

// part says in the head of the response that its connection ends, if the server does: the client makes its next request somewhere
// else instead of being refused here.
func (r *reply) part() {
	if r.s.life.Phase() >= lifecycle.LameDuck {
		r.w.Header().Set("Connection", "close")
	}
}

// beginStream answers with a stream that has nothing to say yet.
func beginStream(w http.ResponseWriter, patience time.Duration) error {
	streamHeaders(w.Header())
	return writeStream(w, nil, patience)
}

func streamHeaders(h http.Header) {
	h.Set("Content-Type", mcphttp.EventStream)
	h.Set("Cache-Control", "no-cache, no-transform")
	h.Set("X-Accel-Buffering", "no")
}

// write sends bytes of the stream. The caller holds mu.
func (r *reply) write(data []byte) {
	if r.done || r.broken != nil || r.log != nil && !r.log.holds(r.reader) {
		return
	}
	r.broken = writeStream(r.w, data, r.s.opts.Limits.WriteTime)
}

// writeAtOnce is how many bytes a client must take in the time that it has for one write.
const writeAtOnce = 256 << 10

// writeBody writes a whole body, or events. A client must take every piece of it in time; one that does not read would otherwise keep the
// memory, and the end of the bridge, waiting.
func writeBody(w http.ResponseWriter, body []byte, patience time.Duration) error {
	for {
		if err := expectReader(w, patience); err != nil {
			return err
		}
		part := body[:min(writeAtOnce, len(body))]
		if _, err := w.Write(part); err != nil {
			return err
		}
		if body = body[len(part):]; len(body) == 0 {
			return nil
		}
	}
}

// expectReader bounds how long the client may take to read what is written next.
func expectReader(w http.ResponseWriter, patience time.Duration) error {
	err := http.NewResponseController(w).SetWriteDeadline(time.Now().Add(patience))
	if errors.Is(err, http.ErrNotSupported) {
		return nil // there is no connection behind it
	}
	return err
}

// A multiplexed is a response over HTTP/2. There, a deadline for writing ends the response when it comes, although all that was written
// has been read by then.
type multiplexed struct{ http.ResponseWriter }

// Unwrap is for http.ResponseController.
func (m multiplexed) Unwrap() http.ResponseWriter { return m.ResponseWriter }

// FlushError returns when all is on its way, and takes the deadline back.
func (m multiplexed) FlushError() error {
	rc := http.NewResponseController(m.ResponseWriter)
	if err := rc.Flush(); err != nil {
		return err
	}
	return rc.SetWriteDeadline(time.Time{})
}

func writeStream(w http.ResponseWriter, data []byte, patience time.Duration) error {
	if err := writeBody(w, data, patience); err != nil {
		return err
	}
	return http.NewResponseController(w).Flush()
}

// send implements sink.
func (r *reply) send(msg []byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.begin()
	r.event(msg, false)
	if r.log != nil {
		return nil // whoever comes back finds it in the log
	}
	return r.broken
}

// hold sends a message, and then has f say the rest, for which it may wait for as long as the client wants to know. Where that needs
// less memory, f goes on after hold has returned. Its context ends when nobody wants the rest. If hold fails, f is not called.
func hold(ctx context.Context, out sink, msg []byte, f func(ctx context.Context)) error {
	var t *taken
	var err error
	r, ok := out.(*reply)
	if ok {
		t, err = r.sendAndTake(msg)
	} else {
		err = out.send(msg)
	}
	if err != nil {
		return err
	}
	if t == nil {
		f(ctx)
		return nil
	}
	t.serve(func(ctx context.Context) {
		defer func() {
			r.mu.Lock()
			r.held = false
			r.mu.Unlock()
			r.stop()
		}()
		f(ctx)
	})
	return nil
}

// sendAndTake is send, and takes over the connection if that can be done.
func (r *reply) sendAndTake(msg []byte) (*taken, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.begin()
	r.event(msg, false)
	if r.broken != nil {
		return nil, r.broken
	}
	t := r.s.takeOver(r.w, r.server)
	if t != nil {
		r.w, r.held = t, true
	}
	return t, nil
}

// event says a message on the stream. The caller holds mu.
func (r *reply) event(msg []byte, last bool) {
	id := ""
	if r.log != nil {
		if r.log.ended() {
			return // by an answer that could not be written, which the client comes back for: there is one only
		}
		id = r.log.eventID(r.log.append(msg, last))
	}
	r.write(mcphttp.AppendEvent(make([]byte, 0, len(msg)+len(id)+32), id, "", msg))
}

// finish implements sink.
func (r *reply) finish(h head, msg []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer func() { r.done = true }()
	switch {
	case r.stream && msg != nil:
		r.event(msg, true)
	case msg != nil:
		header := r.w.Header()
		header["Content-Type"] = contentTypeJSON
		header["Content-Length"] = []string{strconv.Itoa(len(msg))}
		r.part()
		if h.status == http.StatusServiceUnavailable || h.status == http.StatusTooManyRequests {
			header["Retry-After"] = []string{"1"}
		}
		if h.challenge != "" {
			header["Www-Authenticate"] = []string{h.challenge}
		}
		r.w.WriteHeader(cmp.Or(h.status, http.StatusOK))
		if r.broken = writeBody(r.w, msg, r.s.opts.Limits.WriteTime); r.broken == nil {
			reuse(msg)
		}
	default:
		// There is nothing to say and HTTP must answer: a stream without an event is the answer that says nothing.
		r.begin()
		if r.log != nil {
			r.log.close()
		}
	}
}

// rooms are where responses were that have been written.
var rooms sync.Pool // of *[]byte

// room returns an empty slice for a response with a result.
func room(res proto.Message) []byte {
	if b, ok := rooms.Get().(*[]byte); ok {
		return (*b)[:0]
	}
	return make([]byte, 0, 256+proto.Size(res)*9/8)
}

// reuse takes back a message that nobody reads any more: an http.ResponseWriter that has written it without an error has no
// use for it. Large ones are rare, and left to the garbage collector.
func reuse(msg []byte) {
	if cap(msg) <= 1<<20 {
		rooms.Put(&msg)
	}
}

var contentTypeJSON = []string{mcphttp.JSON}

// eventID names event n of the log. No other session has an event of that name.
func (l *eventLog) eventID(n int) string { return l.tag + l.id + "-" + strconv.Itoa(n) }

// primingEvent is an event that has an id and no data, and says how long to wait, in milliseconds, before coming back when
// the stream is lost or cut (2025-11-25: basic/transports, sending messages to the server).
func primingEvent(l *eventLog, n int) []byte {
	return []byte("id: " + l.eventID(n) + "\nretry: 1000\ndata: \n\n")
}
