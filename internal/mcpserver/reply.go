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

// A sink receives the messages for one request.
//
// Both methods take ownership of the message. Neither is called after finish, and finish is called once.
type sink interface {
	// send sends a notification, or a request of the server, before the response. It returns an error if the client
	// will never read it.
	send(msg []byte) error
	// finish sends the response. The head applies to HTTP, unless it was sent already. Without a message, the client
	// expects no response.
	finish(h head, msg []byte)
}

// A head is the HTTP status and header of a response. The zero value is 200.
type head struct {
	// status is the HTTP status. If zero, 200 is used.
	status int
	// challenge is the value of WWW-Authenticate for a status that requires it.
	challenge string
}

// A lastSink unregisters a request before its response is sent: a client that has the response may reuse the request's
// id.
type lastSink struct {
	sink
	unregister func()
}

func (l *lastSink) finish(h head, msg []byte) {
	l.unregister()
	l.sink.finish(h, msg)
}

const (
	// keepaliveEvery is the maximum time without data on a stream. Load balancers close idle streams after 60 s and
	// more.
	keepaliveEvery = 15 * time.Second
	// primeAfter is the maximum time without data on a resumable response; then it becomes a stream with a priming
	// event.
	primeAfter = time.Second
)

// A reply is the HTTP response to one POST. It is a JSON body unless a message must be sent before the response; then
// it becomes an event stream.
type reply struct {
	s *Server
	w http.ResponseWriter
	// log has the events of the stream, so that the client can resume it. If nil (modern era), the end of the stream
	// cancels the request.
	log *eventLog
	// server is the server of the connection, if it can be hijacked.
	server *http.Server
	// open creates a log when the stream begins, in the legacy era.
	open func() *eventLog
	// prime means that the stream begins with a priming event, so that the client can always resume it.
	prime bool

	// pollAfter is the maximum duration of the response before the client has to resume the stream. If zero, it is not
	// limited.
	pollAfter time.Duration
	// interrupted is closed when the response is interrupted.
	interrupted chan struct{}

	mu             sync.Mutex
	stream         bool // the response is a stream
	done           bool // the response is complete, or interrupted: w must not be used any more
	detached       bool // the response continues after ServeHTTP has returned
	writeErr       error
	reader         int
	keepaliveTimer *time.Timer
	interruptTimer *time.Timer // nil without pollAfter
}

// start starts the keepalive of the response. The caller must call stop before ServeHTTP returns.
func (r *reply) start() {
	r.mu.Lock()
	defer r.mu.Unlock()
	first := keepaliveEvery
	if r.prime {
		first = primeAfter
	}
	r.keepaliveTimer = time.AfterFunc(first, r.keepalive)
	if r.pollAfter > 0 {
		r.interrupted = make(chan struct{})
		r.interruptTimer = time.AfterFunc(r.pollAfter, r.interrupt)
	}
}

// runUntilInterrupted runs f, and returns when f has returned or the response was interrupted.
func (r *reply) runUntilInterrupted(f func()) {
	answered := make(chan struct{})
	go func() { // ends with the call, for which the end of the session waits
		defer close(answered)
		f()
	}()
	select {
	case <-answered:
	case <-r.interrupted:
	}
}

// interrupt interrupts the response. The client resumes the stream after the time in its priming event (2025-11-25:
// basic/transports, sending messages to the server).
func (r *reply) interrupt() {
	defer r.s.panics.Recover("ending a response early", nil)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.done {
		return
	}
	r.begin()
	r.done = true
	close(r.interrupted)
}

// stop ends the response, unless it is held.
func (r *reply) stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.detached {
		return
	}
	if r.stream {
		_ = setWriteTimeout(r.w, r.s.opts.Limits.WriteTime) // also for the end of the response
	}
	r.done = true
	r.keepaliveTimer.Stop()
	if r.interruptTimer != nil {
		r.interruptTimer.Stop()
	}
}

// keepalive turns a slow response into a stream, so that intermediaries do not close it.
func (r *reply) keepalive() {
	defer r.s.panics.Recover("keeping a response alive", nil)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.done {
		return
	}
	r.begin()
	r.write([]byte(mcphttp.Comment))
	r.keepaliveTimer.Reset(keepaliveEvery)
}

// begin makes the response a stream. The caller holds mu.
func (r *reply) begin() {
	if r.stream {
		return
	}
	r.stream = true
	streamHeaders(r.w.Header())
	r.addConnectionClose()
	if r.open == nil {
		return
	}
	r.log = r.open()
	r.reader = r.log.claim()
	if r.prime {
		r.write(primingEvent(r.log, r.log.append(nil, false)))
	}
}

// addConnectionClose adds Connection: close during the shutdown, so that the client sends its next request elsewhere
// instead of being rejected here.
func (r *reply) addConnectionClose() {
	if r.s.life.Phase() >= lifecycle.LameDuck {
		r.w.Header().Set("Connection", "close")
	}
}

// beginStream begins a stream without data.
func beginStream(w http.ResponseWriter, writeTimeout time.Duration) error {
	streamHeaders(w.Header())
	return writeStream(w, nil, writeTimeout)
}

func streamHeaders(h http.Header) {
	h.Set("Content-Type", mcphttp.EventStream)
	h.Set("Cache-Control", "no-cache, no-transform")
	h.Set("X-Accel-Buffering", "no")
}

// write writes bytes of the stream. The caller holds mu.
func (r *reply) write(data []byte) {
	if r.done || r.writeErr != nil || r.log != nil && !r.log.isReader(r.reader) {
		return
	}
	r.writeErr = writeStream(r.w, data, r.s.opts.Limits.WriteTime)
}

// maxWrite is the number of bytes that a client must read within the write timeout.
const maxWrite = 256 << 10

// writeBody writes a body or events. A client must read each piece in time: a slow reader would hold memory, and delay
// the shutdown.
func writeBody(w http.ResponseWriter, body []byte, writeTimeout time.Duration) error {
	for {
		if err := setWriteTimeout(w, writeTimeout); err != nil {
			return err
		}
		part := body[:min(maxWrite, len(body))]
		if _, err := w.Write(part); err != nil {
			return err
		}
		if body = body[len(part):]; len(body) == 0 {
			return nil
		}
	}
}

// setWriteTimeout sets the write timeout for the next write.
func setWriteTimeout(w http.ResponseWriter, writeTimeout time.Duration) error {
	err := http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeTimeout))
	if errors.Is(err, http.ErrNotSupported) {
		return nil // there is no connection
	}
	return err
}

// An http2Writer is a response over HTTP/2. There, a write deadline ends the response when it passes, even if
// everything has been read by then.
type http2Writer struct{ http.ResponseWriter }

// Unwrap is for http.ResponseController.
func (m http2Writer) Unwrap() http.ResponseWriter { return m.ResponseWriter }

// FlushError waits until everything is written, and removes the deadline.
func (m http2Writer) FlushError() error {
	rc := http.NewResponseController(m.ResponseWriter)
	if err := rc.Flush(); err != nil {
		return err
	}
	return rc.SetWriteDeadline(time.Time{})
}

func writeStream(w http.ResponseWriter, data []byte, writeTimeout time.Duration) error {
	if err := writeBody(w, data, writeTimeout); err != nil {
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
		return nil // a client that resumes the stream receives it from the log
	}
	return r.writeErr
}

// sendThenServe sends a message, and then calls f, which sends the rest of the response for as long as the client is
// connected. If the connection can be hijacked, f runs after hold has returned, which saves memory. The context of f
// ends when the client has disconnected or the server closes. If hold returns an error, f is not called.
func sendThenServe(ctx context.Context, out sink, msg []byte, f func(ctx context.Context)) error {
	var t *hijackedConn
	var err error
	r, ok := out.(*reply)
	if ok {
		t, err = r.sendAndHijack(msg)
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
			r.detached = false
			r.mu.Unlock()
			r.stop()
		}()
		f(ctx)
	})
	return nil
}

// sendAndHijack is send, and hijacks the connection if possible.
func (r *reply) sendAndHijack(msg []byte) (*hijackedConn, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.begin()
	r.event(msg, false)
	if r.writeErr != nil {
		return nil, r.writeErr
	}
	t := r.s.hijack(r.w, r.server)
	if t != nil {
		r.w, r.detached = t, true
	}
	return t, nil
}

// event writes a message to the stream. The caller holds mu.
func (r *reply) event(msg []byte, last bool) {
	id := ""
	if r.log != nil {
		if r.log.ended() {
			return // it has a response already, or was dropped
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
		r.addConnectionClose()
		if h.status == http.StatusServiceUnavailable || h.status == http.StatusTooManyRequests {
			header["Retry-After"] = []string{"1"}
		}
		if h.challenge != "" {
			header["Www-Authenticate"] = []string{h.challenge}
		}
		r.w.WriteHeader(cmp.Or(h.status, http.StatusOK))
		if r.writeErr = writeBody(r.w, msg, r.s.opts.Limits.WriteTime); r.writeErr == nil {
			reuse(msg)
		}
	default:
		// HTTP requires a response: a stream without events contains no message.
		r.begin()
		if r.log != nil {
			r.log.close()
		}
	}
}

// buffers is the pool of buffers for responses.
var buffers sync.Pool // of *[]byte

// newBuffer returns an empty buffer for a response with a result.
func newBuffer(res proto.Message) []byte {
	if b, ok := buffers.Get().(*[]byte); ok {
		return (*b)[:0]
	}
	return make([]byte, 0, 256+proto.Size(res)*9/8)
}

// reuse returns the buffer of a written message to the pool: an http.ResponseWriter does not use it after a successful
// write. Large ones are rare, and left to the garbage collector.
func reuse(msg []byte) {
	if cap(msg) <= 1<<20 {
		buffers.Put(&msg)
	}
}

var contentTypeJSON = []string{mcphttp.JSON}

// eventID returns the id of event n of the log, which is unique across sessions.
func (l *eventLog) eventID(n int) string { return l.tag + l.id + "-" + strconv.Itoa(n) }

// primingEvent is an event with an id and no data, and the reconnection time in milliseconds (2025-11-25:
// basic/transports, sending messages to the server).
func primingEvent(l *eventLog, n int) []byte {
	return []byte("id: " + l.eventID(n) + "\nretry: 1000\ndata: \n\n")
}
