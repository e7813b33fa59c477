package mcpclient

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/jsonrpc"
	"github.com/mcpbridge/mcpbridge/internal/mcphttp"
	"github.com/mcpbridge/mcpbridge/internal/nonblock"
	"github.com/mcpbridge/mcpbridge/internal/rawjson"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// parseURL reads the URL of a server.
func parseURL(s string) (*url.URL, error) {
	u, err := url.Parse(s)
	switch {
	case err != nil:
		return nil, fmt.Errorf("url: %w", err)
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("url %q: it must begin with http:// or https://", s)
	case u.Host == "":
		return nil, fmt.Errorf("url %q: it has no host", s)
	case u.User != nil:
		return nil, fmt.Errorf("url of %s: it holds a name or password; send them by a header", u.Host)
	}
	u.Fragment = ""
	return u, nil
}

// maxRedirects is how many redirections are followed for a request.
const maxRedirects = 1

// newHTTPClient returns a client that keeps to the server it was told: credentials must not go anywhere else.
func newHTTPClient(t http.RoundTripper) *http.Client {
	if t == nil {
		t = &http.Transport{
			Proxy:                  http.ProxyFromEnvironment,
			DialContext:            nonblock.Dial((&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext),
			ForceAttemptHTTP2:      true,
			HTTP2:                  mcphttp.Pings(),
			MaxIdleConnsPerHost:    256,
			IdleConnTimeout:        90 * time.Second,
			TLSHandshakeTimeout:    10 * time.Second,
			DisableCompression:     true,
			MaxResponseHeaderBytes: 64 << 10,
		}
	}
	return &http.Client{Transport: t, CheckRedirect: func(req *http.Request, via []*http.Request) error {
		first := via[0]
		if len(via) > maxRedirects || !sameOrigin(req.URL, first.URL) || req.Method != first.Method {
			return http.ErrUseLastResponse
		}
		return nil
	}}
}

func sameOrigin(a, b *url.URL) bool { return a.Scheme == b.Scheme && strings.EqualFold(a.Host, b.Host) }

// A streamable is an endpoint of Streamable HTTP: every message of ours is a POST, and what comes of it is its response. In the
// legacy era it has a session, and the server can say more by a response to a GET.
type streamable struct {
	p   *peer
	out *outbox
	wg  sync.WaitGroup

	mu     sync.Mutex // guards closed, and what is added to wg before
	closed bool

	// ctx ends when the connection is closed.
	ctx    context.Context
	cancel context.CancelFunc
	// session is the session's id, set once by the answer to initialize.
	session string
	// heard is closed when the first GET is answered, in whatever way.
	heard chan struct{}
}

func (c *Client) newStreamable(p *peer) {
	w := &streamable{p: p, heard: make(chan struct{})}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	w.out = newOutbox(func(m outgoing) error { c.post(w.ctx, m, w.say); return nil }, nil, c.deaf)
	w.wg.Go(func() { p.keep(w.out.run) })
	p.wire = w
}

// tellTimeout is how long a server may take to accept a message that has no answer.
const tellTimeout = 10 * time.Second

// post posts a message that has no answer, by say, unless ctx ends. That it is not accepted ends nothing but the call that waits for it:
// the others learn by their own responses.
func (c *Client) post(ctx context.Context, m outgoing, say func(context.Context, []byte) error) {
	var left atomic.Bool
	limited, cancel := context.WithTimeout(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		WroteRequest: func(i httptrace.WroteRequestInfo) { left.Store(i.Err == nil) },
	}), tellTimeout)
	defer cancel()
	err := say(limited, m.msg)
	if err == nil || ctx.Err() != nil {
		return
	}
	c.log.Debug().Err(err).Msg("the server did not take a message")
	switch late := errors.Is(err, context.DeadlineExceeded); {
	case late && left.Load(): // it has it, and may be at work with it
	case late:
		m.failed(fmt.Errorf("it could not be reached within %s", tellTimeout))
	default:
		m.failed(err)
	}
}

func (w *streamable) tell(msg []byte) { w.out.tell(msg, nil) }

func (w *streamable) reply(x *exchange, msg []byte) { w.out.tell(msg, x) }

func (w *streamable) say(ctx context.Context, msg []byte) error {
	req, err := w.request(ctx, http.MethodPost, msg)
	if err != nil {
		return err
	}
	res, err := w.p.c.http.Do(req)
	if err != nil {
		return withoutURL(err)
	}
	defer res.Body.Close()
	text := textOf(res)
	_, _ = io.CopyN(io.Discard, res.Body, 4<<10) // so that the connection can be used again
	if res.StatusCode >= 300 {
		return statusError(res, text)
	}
	return nil
}

// request returns a request with the headers that all have.
func (w *streamable) request(ctx context.Context, method string, body []byte) (*http.Request, error) {
	return w.p.c.request(ctx, method, w.p.c.url, body, func(h http.Header) {
		if w.p.rev().SendsVersionHeader() {
			h.Set(mcphttp.HeaderVersion, w.p.rev().String())
		}
		if w.session != "" {
			h.Set(mcphttp.HeaderSession, w.session)
		}
	})
}

// request returns an HTTP request with the headers that all have.
func (c *Client) request(ctx context.Context, method string, to *url.URL, body []byte, more func(http.Header)) (*http.Request, error) {
	var r io.Reader
	if body != nil {
		r = bytes.NewReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, method, "", r)
	if err != nil {
		return nil, err
	}
	req.URL, req.Host = to, to.Host // which was parsed once
	maps.Copy(req.Header, c.o.Header)
	req.Header.Set("Accept", mcphttp.JSON+", "+mcphttp.EventStream)
	req.Header.Set("Accept-Encoding", "identity") // what is compressed can be of any size
	if body != nil {
		req.Header.Set("Content-Type", mcphttp.JSON)
	}
	if more != nil {
		more(req.Header)
	}
	return req, nil
}

func (w *streamable) start(x *exchange) { w.spawn(x, func() { w.post(x) }) }

// spawn runs f for x, which close waits for. When the connection is closed, f has nothing to wait for any more.
func (w *streamable) spawn(x *exchange, f func()) {
	run := func() {
		defer w.p.c.panics.Recover(x.method, func(e *bridge.Error) { x.fail(e) })
		f()
	}
	w.mu.Lock()
	if w.closed {
		defer run()
	} else {
		w.wg.Go(run)
	}
	w.mu.Unlock()
}

func (w *streamable) stop(x *exchange) {
	if !w.p.rev().Modern() {
		// A broken connection is no cancellation (2025-11-25: basic/utilities/cancellation). That the request was sent, a Transport may not
		// tell us before its response.
		w.tell(cancelled(x))
	}
	// In the modern era it is (2026-07-28: streamable-http, cancellation); whoever ends x cancels its context.
}

// post sends the request of x and takes what comes of it. It, or what it leaves behind, ends the context of x.
func (w *streamable) post(x *exchange) {
	draining := false
	defer func() {
		if !draining {
			x.cancel()
		}
	}()
	defer w.p.c.panics.Recover(x.method, func(e *bridge.Error) { x.fail(e) })

	ctx, guard := x.traced(x.ctx)
	req, err := w.request(ctx, http.MethodPost, x.body)
	if err != nil {
		x.fail(&lost{err: err, refused: true})
		return
	}
	guard(req)
	if w.p.rev().Modern() {
		req.Header.Set(mcphttp.HeaderMethod, x.method)
		for _, h := range x.header {
			req.Header.Set(h[0], h[1])
		}
	}
	res, err := w.p.c.http.Do(req)
	if err != nil {
		x.fail(unsent(err))
		return
	}

	x.sent.end() // whatever the trace has said until now
	draining = w.answer(x, res)
}

// traced returns ctx for the request of x over HTTP, which learns from it how far it has got. WroteRequest may be called after the server
// has executed it, and WroteHeaders is before any of the body has left. With an error, WroteRequest says that the end of the body has not.
// Guard makes the body of the request one that is not sent any more once somebody was told that it was not: net/http may have yet to write it
// when nobody waits for the answer.
func (x *exchange) traced(ctx context.Context) (traced context.Context, guard func(*http.Request)) {
	var unread *bytes.Reader // what of the body net/http has not read yet
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
			WroteHeaders: func() {
				if !x.sent.begin() {
					_, _ = unread.Seek(0, io.SeekEnd) // a body that is too short is not sent, and its connection ends
				}
			},
			WroteRequest: func(i httptrace.WroteRequestInfo) {
				if i.Err == nil {
					x.sent.end()
				} else {
					x.sent.takeBack()
				}
			},
		}), func(req *http.Request) {
			req.GetBody = func() (io.ReadCloser, error) {
				unread = bytes.NewReader(x.body)
				return io.NopCloser(unread), nil // net/http knows what is inside, and sends it together with the headers
			}
			req.Body, _ = req.GetBody()
		}
}

// mediaOf returns the media type of a response.
func mediaOf(res *http.Response) string {
	t := res.Header.Get("Content-Type")
	if t == mcphttp.JSON || t == mcphttp.EventStream {
		return t
	}
	media, _, _ := mime.ParseMediaType(t)
	return media
}

// unsent returns the error of a request that has no response. A Transport may know better than we that it was not executed:
// that the server wants credentials that there are not, for instance.
func unsent(err error) error {
	if e, ok := errors.AsType[*bridge.Error](err); ok {
		return e
	}
	return &lost{err: withoutURL(err)}
}

// withoutURL returns err without the URL, whose query may be a secret.
func withoutURL(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		return e.Err
	}
	return err
}

// answer takes the response to the request of x. It reports whether the end of a stream is still being read, which then ends the context of x.
func (w *streamable) answer(x *exchange, res *http.Response) (draining bool) {
	media := mediaOf(res)
	streams := res.StatusCode == http.StatusOK && media == mcphttp.EventStream
	encoding := res.Header.Get("Content-Encoding")
	if streams && (encoding == "" || encoding == "identity") {
		if x.method == methodInitialize {
			w.session = res.Header.Get(mcphttp.HeaderSession)
		}
		s := &stream{w: w, x: x, body: res.Body, r: newEventReader(res.Body, w.p.c.o.Limits.Message), retry: -1}
		return s.read()
	}
	defer res.Body.Close()
	switch {
	case encoding != "" && encoding != "identity":
		x.fail(w.misbehaved("answered with the encoding %q, which was not asked for", encoding))
	case media == mcphttp.JSON:
		data, err := readAll(res.Body, res.ContentLength, w.p.c.o.Limits.Message)
		if err != nil {
			x.fail(w.unread(err))
			return false
		}
		if x.method == methodInitialize && res.StatusCode == http.StatusOK {
			w.session = res.Header.Get(mcphttp.HeaderSession)
		}
		w.message(x, res, data)
	case res.StatusCode == http.StatusOK || res.StatusCode == http.StatusAccepted || res.StatusCode == http.StatusNoContent:
		x.fail(w.misbehaved("answered a request with %s and %q: it must be JSON or an event stream", res.Status, media))
	default:
		x.fail(w.status(res, textOf(res)))
	}
	return false
}

// message takes the only message of a response.
func (w *streamable) message(x *exchange, res *http.Response, data []byte) {
	if jsonrpc.IsBatch(data) && res.StatusCode == http.StatusOK {
		if err := w.p.receive(data, x); err != nil {
			x.fail(w.misbehaved("answered with what is not MCP: %v", err))
			return
		}
		if !x.now().isAnswered() {
			x.fail(w.misbehaved("answered without a response"))
		}
		return
	}
	msg, err := jsonrpc.Parse(data, &w.p.c.o.Limits)
	switch {
	case err != nil && res.StatusCode != http.StatusOK:
		x.fail(w.status(res, rawjson.ShortenTo(data, 500)))
	case err != nil:
		x.fail(w.misbehaved("answered with what is not MCP: %v", err))
	case !msg.IsResponse() || msg.Result != nil && string(msg.ID) != x.id:
		x.fail(w.misbehaved("answered the request %s with another message", x.id))
	case w.session != "" && x.method != methodInitialize && msg.Error != nil && string(msg.ID) != x.id &&
		(res.StatusCode == http.StatusNotFound || res.StatusCode == http.StatusBadRequest):
		// The session is not known any more. Some servers say so by 400, against the specification.
		x.fail(w.status(res, msg.Error.GetMessage()))
	case w.session != "" && res.StatusCode == http.StatusNotFound && msg.Error.GetCode() != codeMethodNotFound:
		x.fail(w.status(res, msg.Error.GetMessage()))
	case x.deniedBy(res, msg.ID) || res.StatusCode >= 500 && string(msg.ID) != x.id:
		x.fail(w.status(res, msg.Error.GetMessage()))
	default:
		x.putOwn(&msg)
	}
}

// deniedBy reports whether a response with an error of the id says that we may not ask that, which is decided before anything is done.
// What answers a call, and asks for no credentials, the server may have said when it had begun.
func (x *exchange) deniedBy(res *http.Response, id []byte) bool {
	if res.StatusCode != http.StatusUnauthorized && res.StatusCode != http.StatusForbidden {
		return false
	}
	call := x.each != nil
	return !call || string(id) != x.id || res.Header.Get("Www-Authenticate") != ""
}

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

// read takes the messages of a stream until the response has come, and goes on with one that was cut, where that is possible. It reports
// whether the end of the stream is still being read.
func (s *stream) read() (draining bool) {
	x := s.x
	err := s.messages()
	for tries, all := 0, 0; err != nil; {
		switch {
		case x.now().isAnswered() || x.ctx.Err() != nil:
			return false
		case s.how.fatal || s.last == "" || s.w.p.rev().Modern() || tries >= maxResumes:
			x.fail(s.w.cut(err))
			return false
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
			return false
		}
		err = s.resume()
	}
	if !x.direct {
		s.drain()
		return false
	}
	s.w.spawn(x, func() {
		defer x.cancel()
		s.drain()
	})
	return true
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

// resume goes on after the last event (2025-11-25: basic/transports, resumability and redelivery). The error says why there is no
// response.
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

// open implements wire. Servers that ask in the middle of a call may do so on the stream of what is no answer, and what they ask
// or tell before there is that stream gets lost in many of them, and the call hangs; or a server takes the GET that comes late
// for one that resumes the call's stream.
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

// unrelated reads the stream of what is no answer to anything, if the server has one (2025-03-26 to 2025-11-25: basic/transports, listening
// for messages). Once there was one, it is asked for again and again, ever more slowly: whoever listens was told that changes are.
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

// listen reads one response to a GET. The error says that there is no such stream, or none after last; nil and nil that there is none now.
// Again says that there was one before; answered is called when the server has answered, or cannot.
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
		// Without again, it is more likely that there is nothing to GET: many servers say so by 404, and the session has just begun.
		w.p.expire()
		return nil, errSessionEnded
	case again && (res.StatusCode != http.StatusOK || media != mcphttp.EventStream):
		return nil, nil //nolint:nilnil // it may have one again: it has not noticed yet that the old one ended, or what is before it refuses us
	case res.StatusCode != http.StatusOK || media != mcphttp.EventStream:
		return nil, fmt.Errorf("GET: %s", res.Status)
	}
	if again && last == "" {
		w.p.hub.missed() // nothing is replayed
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

var errSessionEnded = errors.New("the server does not know the session any more")

// farewell returns a context for what is still to be said when a connection is closed: that a call is cancelled, for instance.
func (c *Client) farewell() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), min(2*time.Second, c.o.StopTimeout))
}

// close ends the session.
func (w *streamable) close() {
	ctx, cancel := w.p.c.farewell()
	defer context.AfterFunc(ctx, w.cancel)()
	w.out.finish()
	if w.session != "" {
		if req, err := w.request(ctx, http.MethodDelete, nil); err == nil {
			if res, err := w.p.c.http.Do(req); err == nil {
				_ = res.Body.Close() // it may not allow that, or have forgotten it, which is fine
			}
		}
	}
	cancel()
	w.cancel()
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.wg.Wait()
}

// readAll reads a body of at most so many bytes. What it announces is not believed further than it goes. It is read where others were
// read before and then copied: memory that grows with a body is four times as much, and new memory is what reading one spends most on.
func readAll(r io.Reader, announced int64, most int) ([]byte, error) {
	if announced > int64(most) {
		return nil, fmt.Errorf("%w: %d bytes, and the limit is %d", errTooLarge, announced, most)
	}
	room, _ := rooms.Get().(*bytes.Buffer)
	if room == nil {
		room = new(bytes.Buffer)
	}
	n, err := room.ReadFrom(io.LimitReader(r, int64(most)+1))
	data := room.Bytes()
	if room.Cap() <= maxRoom {
		data = bytes.Clone(data)
		room.Reset()
		rooms.Put(room)
	}
	if err != nil {
		return nil, err
	}
	if n > int64(most) {
		return nil, fmt.Errorf("%w: the limit is %d bytes", errTooLarge, most)
	}
	return data, nil
}

// maxRoom is how long a buffer may be that the next body is read into.
const maxRoom = 1 << 20

// rooms are buffers that bodies were read into.
var rooms sync.Pool // of *bytes.Buffer

// unread is why an answer could not be read.
func (w *streamable) unread(err error) error {
	if errors.Is(err, errTooLarge) {
		return w.p.c.tooLarge(err)
	}
	if e, ok := errors.AsType[*bridge.Error](err); ok {
		return e // it was read, and is none
	}
	return &lost{err: err}
}

// cut is why a stream ended without a response.
func (w *streamable) cut(err error) error {
	if errors.Is(err, io.EOF) {
		err = errors.New("the server ended the stream without a response")
	}
	return w.unread(err)
}

// misbehaved is the error of an answer that no correct server gives.
func (w *streamable) misbehaved(format string, args ...any) error {
	return w.p.c.misbehaved(format, args...)
}

// status is the error of a response that is no answer.
func (w *streamable) status(res *http.Response, text string) error {
	c := w.p.c
	err := statusError(res, text)
	switch code := res.StatusCode; {
	case code == http.StatusUnauthorized:
		return bridge.Failed(codes.Unauthenticated, pb.CallFailure_OUTCOME_NOT_EXECUTED, "UPSTREAM_UNAUTHENTICATED",
			"server %q does not know who we are (%s); the call was not executed. Give it credentials", c.o.Name, res.Status)
	case code == http.StatusForbidden:
		return bridge.Failed(codes.PermissionDenied, pb.CallFailure_OUTCOME_NOT_EXECUTED, "UPSTREAM_FORBIDDEN",
			"server %q does not let us do that (%s); the call was not executed", c.o.Name, res.Status)
	case code == http.StatusNotFound && w.session != "":
		return &lost{err: fmt.Errorf("%w (%s)", errSessionEnded, res.Status), refused: true, forgot: true, renew: true}
	case code >= 300 && code < 400:
		outcome := pb.CallFailure_OUTCOME_UNKNOWN // a POST that was executed may be answered so, mostly by 303, and by 301 and 302 before (RFC 9110, 15.4)
		if code == http.StatusTemporaryRedirect || code == http.StatusPermanentRedirect {
			outcome = pb.CallFailure_OUTCOME_NOT_EXECUTED // the same request is to be sent elsewhere
		}
		return bridge.Failed(codes.FailedPrecondition, outcome, "UPSTREAM_REDIRECTS",
			"server %q: it redirects to %s, which is not followed; if that is right, make it the server's url", c.o.Name, locationOf(res))
	case slices.Contains([]int{http.StatusBadRequest, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotAcceptable, http.StatusGone, http.StatusUnsupportedMediaType}, code):
		return &lost{err: err, refused: true, renew: true}
	case code == http.StatusRequestEntityTooLarge:
		return bridge.Failed(codes.ResourceExhausted, pb.CallFailure_OUTCOME_NOT_EXECUTED, "REQUEST_TOO_LARGE",
			"server %q: the request is too large for it (%s); the call was not executed", c.o.Name, res.Status)
	case code == http.StatusTooManyRequests:
		e := bridge.Failed(codes.ResourceExhausted, pb.CallFailure_OUTCOME_NOT_EXECUTED, "UPSTREAM_OVERLOADED",
			"server %q has too much to do (%s); the call was not executed", c.o.Name, res.Status)
		if after, err := strconv.ParseUint(res.Header.Get("Retry-After"), 10, 31); err == nil { // a date is of another clock
			e.Failure.RetryAfterMs = proto.Int64(int64(after) * 1_000)
		}
		return e
	}
	return &lost{err: err, answered: true, gateway: isGateways(res.StatusCode)}
}

// isGateways reports whether a status says that a gateway has no answer of the server behind it.
func isGateways(status int) bool {
	return status == http.StatusBadGateway || status == http.StatusGatewayTimeout
}

// textOf returns the beginning of a response's body.
func textOf(res *http.Response) string {
	text, _ := io.ReadAll(io.LimitReader(res.Body, 500))
	return strings.TrimSpace(string(text))
}

// statusError says what a server has answered by a status and a text.
func statusError(res *http.Response, text string) error {
	if text != "" {
		text = ": " + rawjson.ShortenTo(text, 300)
	}
	return fmt.Errorf("the server answered with %s%s", res.Status, text)
}

// locationOf says where a redirection leads, without what may be secret in it.
func locationOf(res *http.Response) string {
	u, err := res.Location()
	if err != nil {
		return "nowhere"
	}
	return u.Scheme + "://" + u.Host + u.Path
}
