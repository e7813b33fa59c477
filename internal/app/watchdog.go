package app

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/mcpbridge/mcpbridge/internal/mcphttp"
)

// beats is how many beats are sent in the timeout of a watchdog: a late one does not end the process.
const beats = 4

// beat sends beats until ctx ends, each when every front has handled a request and no server hangs. A bridge that
// merely refuses requests is alive: to restart an overloaded one would make matters worse.
func (a *App) beat(ctx context.Context, fronts []front) {
	if a.Watchdog.Timeout == 0 {
		return
	}
	tick := time.NewTicker(a.Watchdog.Timeout / beats)
	defer tick.Stop()
	for {
		checked := make(chan struct{})
		go func() { // may hang
			defer close(checked)
			for _, f := range fronts {
				func() {
					defer a.panics.Recover("a check for the watchdog", nil)
					f.check()
				}()
			}
		}()
		select {
		case <-checked:
		case <-ctx.Done():
			return
		}
		if !a.hangs() {
			a.Watchdog.Beat()
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// check implements front: a client of stdio may send nothing for a long time, and then nothing is to be served.
func (f *stdioFront) check() {}

// check implements front. The request passes the locks that all requests need, and gets 404. It does not use a
// connection: an attack may use them all, and the process may be in a network namespace without the address.
func (f *httpFront) check() {
	r := &http.Request{
		Method: http.MethodDelete, URL: &url.URL{Path: f.path}, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{mcphttp.HeaderSession: {"watchdog"}}, Body: http.NoBody,
	}
	f.servers[f.path].ServeHTTP(discardResponse{}, r)
}

// check implements front.
func (f *grpcFront) check() { f.srv.Check() }

// A discardResponse is a http.ResponseWriter that discards the response.
type discardResponse struct{}

// Header implements http.ResponseWriter.
func (discardResponse) Header() http.Header { return http.Header{} }

// Write implements http.ResponseWriter.
func (discardResponse) Write(p []byte) (int, error) { return len(p), nil }

// WriteHeader implements http.ResponseWriter.
func (discardResponse) WriteHeader(int) {}
