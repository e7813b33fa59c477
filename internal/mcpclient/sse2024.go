package mcpclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/mcpbridge/mcpbridge/internal/limits"
	"github.com/mcpbridge/mcpbridge/internal/mcphttp"
	"github.com/mcpbridge/mcpbridge/internal/rawjson"
)

// An sse2024 is a wire to a server of HTTP+SSE: all its messages arrive on one event stream, whose first event is the
// URL to which messages are posted (2024-11-05: basic/transports, HTTP with SSE). The stream is the session.
type sse2024 struct {
	httpWire
	endpoint *url.URL
}

// dialSSE opens the event stream. It waits for the endpoint until ctx ends.
func (c *Client) dialSSE(ctx context.Context, p *peer) error {
	w := &sse2024{}
	w.attach(p, w.notify)
	stop := context.AfterFunc(ctx, w.cancel)
	events, body, err := w.connect()
	if !stop() && err == nil {
		_ = body.Close()
		err = ctx.Err()
	}
	if err != nil {
		w.cancel()
		return err
	}
	p.wire = w
	w.wg.Go(func() { p.keep(p.out.run) })
	w.wg.Go(func() {
		defer body.Close()
		p.keep(func() { p.lose(fmt.Errorf("the event stream ended: %w", p.receiveAll(events))) })
	})
	return nil
}

// connect opens the stream and reads its first event.
func (w *sse2024) connect() (*eventReader, io.Closer, error) {
	c := w.p.c
	req, err := c.request(w.ctx, http.MethodGet, c.url, nil,
		func(h http.Header) { h.Set("Accept", mcphttp.EventStream) })
	if err != nil {
		return nil, nil, err
	}
	res, err := c.http.Do(req)
	if err != nil {
		return nil, nil, withoutURL(err)
	}
	media := mediaOf(res)
	if res.StatusCode != http.StatusOK || media != mcphttp.EventStream {
		_ = res.Body.Close()
		return nil, nil, fmt.Errorf("GET returned %s and %q: HTTP+SSE begins with an event stream", res.Status,
			media)
	}
	events := newEventReader(res.Body, c.o.Limits.Message)
	first, err := events.next()
	if err == nil {
		w.endpoint, err = endpointOf(res.Request.URL, c.url, first)
	}
	if err != nil {
		_ = res.Body.Close()
		return nil, nil, err
	}
	return events, res.Body, nil
}

// maxEndpoint is the maximum length of an endpoint's URL.
const maxEndpoint = 8 << 10

// endpointOf returns the URL in the first event. It must have the server's origin, because messages carry credentials.
func endpointOf(base, server *url.URL, e event) (*url.URL, error) {
	if e.name != "endpoint" {
		return nil, fmt.Errorf("the event stream begins with %q: HTTP+SSE begins with endpoint",
			rawjson.ShortenTo(e.name, 40))
	}
	if len(e.data) > maxEndpoint {
		return nil, errors.New("the endpoint is too long to be a URL")
	}
	u, err := base.Parse(string(e.data))
	if err != nil {
		return nil, errors.New("the endpoint is not a URL")
	}
	if !sameOrigin(u, server) || u.User != nil {
		return nil, fmt.Errorf("the endpoint is at %s://%s: it must be where the event stream is",
			rawjson.ShortenTo(u.Scheme, 20), rawjson.ShortenTo(u.Host, 200))
	}
	return u, nil
}

func (w *sse2024) notify(ctx context.Context, msg []byte) error {
	_, err := w.post(ctx, msg, nil)
	return err
}

// post posts a message. If guard is not nil, it is called with the request. The status is 0 without a response.
func (w *sse2024) post(ctx context.Context, msg []byte, guard func(*http.Request)) (status int, err error) {
	c := w.p.c
	req, err := c.request(ctx, http.MethodPost, w.endpoint, msg, nil)
	if err != nil {
		return 0, err
	}
	if guard != nil {
		guard(req)
	}
	return c.send(req)
}

func (w *sse2024) start(x *exchange) {
	w.spawn(x, func() {
		// The MCP response may arrive before the HTTP response. Canceling the request then would close a connection
		// that net/http has already reused for another request, which would fail.
		ctx, cancel := context.WithCancel(w.ctx)
		defer cancel()
		ctx, guard := x.traced(ctx)
		defer context.AfterFunc(x.ctx, func() { time.AfterFunc(limits.NotifyTimeout, cancel) })()
		status, err := w.post(ctx, x.body, guard)
		if status != 0 {
			x.sent.end() // whatever the trace has reported
		}
		if x.currentState() == abandoned {
			w.p.out.post(cancelled(x), nil) // the cancellation that stop sent may have overtaken the request
		}
		switch {
		case err == nil || x.ctx.Err() != nil:
		case status == http.StatusNotFound || status == http.StatusGone:
			x.fail(&lostError{err: err, refused: true, unknownSession: status == http.StatusNotFound, reprobe: true})
			w.p.expire() // the stream may still have responses to other requests
		case status == 0:
			x.fail(sendError(err))
		default:
			x.fail(&lostError{err: err, answered: true, gateway: isGatewayStatus(status), refused: status >= 400 &&
				status < 500})
		}
	})
}

// stop also cancels a request that may not have been sent: a Transport may report only with the response that it was.
func (w *sse2024) stop(x *exchange) { w.p.out.post(cancelled(x), nil) }

func (w *sse2024) open(context.Context) {}

func (w *sse2024) close() {
	if !errors.Is(w.p.why(), errClosed) {
		w.cancel() // nothing is read any more
	}
	ctx, cancel := w.p.c.closeContext()
	defer context.AfterFunc(ctx, w.cancel)()
	w.wait() // a server must receive a request before its cancellation
	w.p.out.finish()
	cancel()
	w.cancel()
	w.wg.Wait()
}
