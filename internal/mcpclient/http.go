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
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/jsonrpc"
	"github.com/mcpbridge/mcpbridge/internal/limits"
	"github.com/mcpbridge/mcpbridge/internal/mcphttp"
	"github.com/mcpbridge/mcpbridge/internal/nonblock"
	"github.com/mcpbridge/mcpbridge/internal/rawjson"
)

// parseURL parses the URL of a server.
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

// maxRedirects is the maximum number of redirects per request.
const maxRedirects = 1

// newHTTPClient returns a client that follows no redirect to another origin, which must not receive the credentials.
func newHTTPClient(t http.RoundTripper) *http.Client {
	if t == nil {
		t = &http.Transport{
			Proxy: http.ProxyFromEnvironment,
			DialContext: nonblock.Dial((&net.Dialer{Timeout: limits.HTTPConnectTimeout, KeepAlive: 30 * time.Second}).
				DialContext),
			ForceAttemptHTTP2:      true,
			HTTP2:                  mcphttp.HTTP2Config(),
			MaxIdleConnsPerHost:    limits.UpstreamIdleConns,
			IdleConnTimeout:        90 * time.Second,
			TLSHandshakeTimeout:    limits.HTTPConnectTimeout,
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

// An httpWire is the common part of the HTTP transports.
type httpWire struct {
	p *peer
	// ctx ends when the connection is closed.
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup // background work of the connection

	mu     sync.Mutex // guards closed, and additions to posts before it is set
	closed bool
	posts  sync.WaitGroup // requests in progress
}

// attach makes w a wire of p. notify sends its messages without a response.
func (w *httpWire) attach(p *peer, notify func(context.Context, []byte) error) {
	w.p = p
	w.ctx, w.cancel = context.WithCancel(context.Background())
	p.out = newOutbox(func(m outgoing) error { p.c.post(w.ctx, m, notify); return nil }, nil, p.c.warnUnread)
}

// spawn runs f, which posts the request of x, unless the connection is closed. Then x has failed.
func (w *httpWire) spawn(x *exchange, f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return
	}
	w.posts.Go(func() {
		defer w.p.c.panics.Recover(x.method, func(e *bridge.Error) { x.fail(e) })
		f()
	})
}

// wait returns when all posts have ended. No post starts after that.
func (w *httpWire) wait() {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.posts.Wait()
}

// A streamable is an endpoint of Streamable HTTP: each message is a POST, and its response contains the result. In the
// legacy era the endpoint has a session, and sends further messages in the response to a GET.
type streamable struct {
	httpWire
	// session is the session's id, set once by the response to initialize.
	session string
	// received is closed after the first response to a GET, whatever its status.
	received chan struct{}
}

func (c *Client) newStreamable(p *peer) {
	w := &streamable{received: make(chan struct{})}
	w.attach(p, w.notify)
	w.wg.Go(func() { p.keep(p.out.run) })
	p.wire = w
}

// post posts a message without a response with notify, until ctx ends. A failure affects only the call that waits for
// the message: other calls have responses of their own.
func (c *Client) post(ctx context.Context, m outgoing, notify func(context.Context, []byte) error) {
	var left atomic.Bool
	limited, cancel := context.WithTimeout(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		WroteRequest: func(i httptrace.WroteRequestInfo) { left.Store(i.Err == nil) },
	}), limits.NotifyTimeout)
	defer cancel()
	err := notify(limited, m.msg)
	if err == nil || ctx.Err() != nil {
		return
	}
	c.log.Debug().Err(err).Msg("the server did not accept a message")
	switch late := errors.Is(err, context.DeadlineExceeded); {
	case late && left.Load(): // the server has it, and may be executing it
	case late:
		m.failed(fmt.Errorf("it could not be reached within %s", limits.NotifyTimeout))
	default:
		m.failed(err)
	}
}

func (w *streamable) notify(ctx context.Context, msg []byte) error {
	req, err := w.request(ctx, http.MethodPost, msg)
	if err != nil {
		return err
	}
	_, err = w.p.c.send(req)
	return err
}

// send sends a request that has no MCP message as its response. The status is 0 without a response.
func (c *Client) send(req *http.Request) (status int, err error) {
	res, err := c.http.Do(req) //nolint:gosec // the operator configures which server it is
	if err != nil {
		return 0, withoutURL(err)
	}
	defer res.Body.Close()
	text := textOf(res)
	_, _ = io.CopyN(io.Discard, res.Body, 4<<10) // so that the connection can be reused
	if res.StatusCode >= 300 {
		return res.StatusCode, statusError(res, text)
	}
	return res.StatusCode, nil
}

// request returns a request with the headers of all requests of the connection.
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

// request returns an HTTP request with the headers of all requests.
func (c *Client) request(ctx context.Context, method string, to *url.URL, body []byte,
	more func(http.Header),
) (*http.Request, error) {
	var r io.Reader
	if body != nil {
		r = bytes.NewReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, method, "", r)
	if err != nil {
		return nil, err
	}
	req.URL, req.Host = to, to.Host // it was parsed once
	maps.Copy(req.Header, c.o.Header)
	req.Header.Set("Accept", mcphttp.JSON+", "+mcphttp.EventStream)
	req.Header.Set("Accept-Encoding", "identity") // a compressed body can expand to any size
	if body != nil {
		req.Header.Set("Content-Type", mcphttp.JSON)
	}
	if more != nil {
		more(req.Header)
	}
	return req, nil
}

func (w *streamable) start(x *exchange) {
	w.spawn(x, func() {
		defer x.cancel()
		w.post(x)
	})
}

func (w *streamable) stop(x *exchange) {
	if !w.p.rev().Modern() {
		// A broken connection is no cancellation (2025-11-25: basic/utilities/cancellation). A Transport may report
		// only with the response that the request was sent.
		w.p.out.post(cancelled(x), nil)
	}
	// In the modern era it is a cancellation (2026-07-28: streamable-http, cancellation), and the caller that ends x
	// cancels its context.
}

// post sends the request of x and reads the response.
func (w *streamable) post(x *exchange) {
	ctx, guard := x.traced(x.ctx)
	req, err := w.request(ctx, http.MethodPost, x.body)
	if err != nil {
		x.fail(&lostError{err: err, refused: true})
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
		x.fail(sendError(err))
		return
	}

	x.sent.end() // whatever the trace has reported
	w.answer(x, res)
}

// traced returns ctx with a trace that records how much of the request of x was sent. WroteRequest may be called after
// the server has executed the request, and WroteHeaders before any of the body was sent. With an error, WroteRequest
// reports that the end of the body was not sent. Guard gives the request a body that is not sent once the request was
// reported as unsent: net/http may still write it after the caller has left.
func (x *exchange) traced(ctx context.Context) (traced context.Context, guard func(*http.Request)) {
	var unread *bytes.Reader // the part of the body that net/http has not read
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
			WroteHeaders: func() {
				if !x.sent.begin() {
					_, _ = unread.Seek(0, io.SeekEnd) // a body that is too short ends its connection
				}
			},
			WroteRequest: func(i httptrace.WroteRequestInfo) {
				if i.Err == nil {
					x.sent.end()
				} else {
					x.sent.markUnsent()
				}
			},
		}), func(req *http.Request) {
			req.GetBody = func() (io.ReadCloser, error) {
				unread = bytes.NewReader(x.body)
				return io.NopCloser(unread), nil // net/http detects the type, and sends it together with the headers
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

// answer reads the response to the request of x.
func (w *streamable) answer(x *exchange, res *http.Response) {
	media := mediaOf(res)
	streams := res.StatusCode == http.StatusOK && media == mcphttp.EventStream
	encoding := res.Header.Get("Content-Encoding")
	if streams && (encoding == "" || encoding == "identity") {
		if x.method == methodInitialize {
			w.session = res.Header.Get(mcphttp.HeaderSession)
		}
		s := stream{w: w, x: x}
		s.from(res)
		s.read()
		return
	}
	defer res.Body.Close()
	switch {
	case encoding != "" && encoding != "identity":
		x.fail(w.protocolViolation("responded with the encoding %q, which was not requested", encoding))
	case media == mcphttp.JSON:
		data, err := readAll(res.Body, res.ContentLength, w.p.c.o.Limits.Message)
		if err != nil {
			x.fail(w.readError(err))
			return
		}
		if x.method == methodInitialize && res.StatusCode == http.StatusOK {
			w.session = res.Header.Get(mcphttp.HeaderSession)
		}
		w.message(x, res, data)
	case res.StatusCode == http.StatusOK || res.StatusCode == http.StatusAccepted ||
		res.StatusCode == http.StatusNoContent:
		x.fail(w.protocolViolation("answered a request with %s and %q: it must be JSON or an event stream", res.Status,
			media))
	default:
		x.fail(w.status(res, textOf(res)))
	}
}

// message reads the only message of a response.
func (w *streamable) message(x *exchange, res *http.Response, data []byte) {
	if jsonrpc.IsBatch(data) && res.StatusCode == http.StatusOK {
		if err := w.p.receive(data, x); err != nil {
			x.fail(w.protocolViolation("responded with invalid MCP: %v", err))
			return
		}
		if !x.currentState().isAnswered() {
			x.fail(w.protocolViolation("answered without a response"))
		}
		return
	}
	msg, err := jsonrpc.Parse(data, &w.p.c.o.Limits)
	switch {
	case err != nil && res.StatusCode != http.StatusOK:
		x.fail(w.status(res, rawjson.ShortenTo(data, 500)))
	case err != nil:
		x.fail(w.protocolViolation("responded with invalid MCP: %v", err))
	case !msg.IsResponse() || msg.Result != nil && string(msg.ID) != x.id:
		x.fail(w.protocolViolation("answered the request %s with another message", x.id))
	case w.session != "" && x.method != methodInitialize && msg.Error != nil && string(msg.ID) != x.id &&
		(res.StatusCode == http.StatusNotFound || res.StatusCode == http.StatusBadRequest):
		// The session is unknown. Some servers report this with 400, in violation of the specification.
		x.fail(w.status(res, msg.Error.GetMessage()))
	case w.session != "" && res.StatusCode == http.StatusNotFound && msg.Error.GetCode() != codeMethodNotFound:
		x.fail(w.status(res, msg.Error.GetMessage()))
	case x.isDenied(res, msg.ID) || res.StatusCode >= 500 && string(msg.ID) != x.id:
		x.fail(w.status(res, msg.Error.GetMessage()))
	default:
		x.putOwn(&msg)
	}
}

// isDenied reports whether a response with an error denies access, which a server decides before execution. If an error
// has the id of a call, and the response requires no credentials, the server may have begun to execute the call.
func (x *exchange) isDenied(res *http.Response, id []byte) bool {
	if res.StatusCode != http.StatusUnauthorized && res.StatusCode != http.StatusForbidden {
		return false
	}
	call := x.each != nil
	return !call || string(id) != x.id || res.Header.Get("Www-Authenticate") != ""
}

// closeContext returns a context for the last messages of a connection, such as the cancellation of a call.
func (c *Client) closeContext() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), min(2*time.Second, c.o.StopTimeout))
}

// close ends the session.
func (w *streamable) close() {
	ctx, cancel := w.p.c.closeContext()
	defer context.AfterFunc(ctx, w.cancel)()
	w.p.out.finish()
	if w.session != "" {
		if req, err := w.request(ctx, http.MethodDelete, nil); err == nil {
			if res, err := w.p.c.http.Do(req); err == nil {
				_ = res.Body.Close() // the server may not allow it, or the session may be unknown
			}
		}
	}
	cancel()
	w.cancel()
	w.wait()
	w.wg.Wait()
}

// readAll reads a body of at most most bytes. A Content-Length is not trusted beyond that. The body is read into a
// pooled buffer and then copied: growing a new buffer allocates four times the size of the body, and allocation is the
// main cost of reading one.
func readAll(r io.Reader, announced int64, most int) ([]byte, error) {
	if announced > int64(most) {
		return nil, fmt.Errorf("%w: %d bytes, and the limit is %d", errTooLarge, announced, most)
	}
	buffer, _ := buffers.Get().(*bytes.Buffer)
	if buffer == nil {
		buffer = new(bytes.Buffer)
	}
	n, err := buffer.ReadFrom(io.LimitReader(r, int64(most)+1))
	data := buffer.Bytes()
	if buffer.Cap() <= maxBuffer {
		data = bytes.Clone(data)
		buffer.Reset()
		buffers.Put(buffer)
	}
	if err != nil {
		return nil, err
	}
	if n > int64(most) {
		return nil, fmt.Errorf("%w: the limit is %d bytes", errTooLarge, most)
	}
	return data, nil
}

// maxBuffer is the maximum capacity of a pooled buffer.
const maxBuffer = 1 << 20

// buffers is the pool of these buffers.
var buffers sync.Pool // of *bytes.Buffer
