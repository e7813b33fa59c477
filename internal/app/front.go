package app

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/time/rate"

	"github.com/mcpbridge/mcpbridge/internal/auth"
	"github.com/mcpbridge/mcpbridge/internal/conns"
	"github.com/mcpbridge/mcpbridge/internal/lifecycle"
	"github.com/mcpbridge/mcpbridge/internal/limits"
	"github.com/mcpbridge/mcpbridge/internal/mcphttp"
	"github.com/mcpbridge/mcpbridge/internal/mcpserver"
)

const (
	// finishTime is how long a complete response may take to be written after the last call has ended.
	finishTime = 2 * time.Second
	// abortFinishTime replaces finishTime after a second signal: clients still receive the outcome of their calls.
	abortFinishTime = 200 * time.Millisecond
	// newConnTime is how long a connection without a request stays open at the end.
	newConnTime = 100 * time.Millisecond
)

// A front serves clients of the App in the phases of its Lifecycle. Its methods are called in this order.
type front interface {
	// serve serves clients until end is called, they have disconnected for good, or an error occurs.
	serve() error
	// flush waits until clients have read the responses of calls that have ended, or ctx is done.
	flush(ctx context.Context)
	// check handles a request that needs no backend. It returns unless the front hangs. It may be called at any time.
	check()
	// end begins the phase Closing and waits until everything has ended. When now is done, it waits for no client.
	end(abort context.Context)
}

// newFronts returns the fronts of the configuration.
func (a *App) newFronts() ([]front, error) {
	var fronts []front
	if a.stdio {
		fronts = append(fronts, &stdioFront{lifecycle: a.lifecycle, mcp: a.endpoint.mcp, in: a.Stdin, out: a.Stdout})
	}
	if a.http != nil {
		f, err := a.newHTTPFront()
		if err != nil {
			return nil, err
		}
		fronts = append(fronts, f)
	}
	if a.grpc != nil {
		f, err := a.newGRPCFront()
		if err != nil {
			return nil, err
		}
		fronts = append(fronts, f)
	}
	return fronts, nil
}

// newHTTPFront serves all backends at the configured path, and each backend at a path below it.
func (a *App) newHTTPFront() (*httpFront, error) {
	f := &httpFront{
		lifecycle: a.lifecycle, auth: a.auth, path: a.cfg.Serve.HTTP.Path, servers: map[string]*mcpserver.Server{},
		newConns: map[net.Conn]struct{}{},
		port:     conns.Port{Name: "HTTP", MaxConns: maxHTTPConns(a.cfg.Limits.OrDefaults().Streams), Log: a.Log},
	}
	f.ln = f.port.Listener(a.http)
	for _, e := range a.endpoints() {
		f.servers[path.Join(a.cfg.Serve.HTTP.Path, e.name)] = e.mcp
	}
	l := a.cfg.Limits.OrDefaults()
	f.guard = mcphttp.Guard{
		Hosts: a.cfg.Serve.HTTP.AllowedHosts, Origins: a.cfg.Serve.HTTP.AllowedOrigins, Limits: l, Log: a.Log,
	}
	f.srv = &http.Server{
		Handler: f, ReadHeaderTimeout: l.HeaderTime, IdleTimeout: l.ConnectionIdle,
		MaxHeaderBytes: l.Header - headerExtra, DisableGeneralOptionsHandler: true,
		BaseContext: func(net.Listener) context.Context { return a.lifecycle.Until(lifecycle.Closing) },
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, connKey{}, conns.Of(c))
		},
		ConnState: f.track,
		ErrorLog: log.New(&handshakeLog{debug: debugLog{a.Log}, limiter: rate.Sometimes{Interval: time.Second}}, "",
			0),
	}
	if a.tls != nil {
		f.ln = tls.NewListener(f.ln, a.tls)
		if err := countFrames(f.srv); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// maxHTTPConns returns the maximum number of HTTP connections for a maximum number of streams. One address may open all
// of them.
func maxHTTPConns(streams int) int {
	return limits.Connections + streams + streams/3
}

// connKey is the key of a request's context that has its *conns.Conn.
type connKey struct{}

// countFrames makes a server count the frames of its HTTP/2 connections.
func countFrames(srv *http.Server) error {
	h2 := &http2.Server{}                                  //nolint:staticcheck // http.Server does not count frames
	if err := http2.ConfigureServer(srv, h2); err != nil { //nolint:staticcheck // as above
		return err
	}
	srv.TLSNextProto[http2.NextProtoTLS] = func(srv *http.Server, c *tls.Conn, h http.Handler) {
		o := &http2.ServeConnOpts{Handler: h, BaseConfig: srv}              //nolint:staticcheck // as above
		if base, ok := h.(interface{ BaseContext() context.Context }); ok { // the context of the connection
			o.Context = base.BaseContext()
		}
		h2.ServeConn(h2Conn{conns.Of(c).Framed(c), c}, o) //nolint:staticcheck // as above
	}
	return nil
}

// An h2Conn is a connection of HTTP/2 over TLS.
type h2Conn struct {
	*conns.FramedConn
	tls *tls.Conn
}

// ConnectionState returns the TLS state that http.Request.TLS holds.
func (c h2Conn) ConnectionState() tls.ConnectionState { return c.tls.ConnectionState() }

// A stdioFront serves the one client at the other end of stdin and stdout.
type stdioFront struct {
	lifecycle *lifecycle.Lifecycle
	mcp       *mcpserver.Server
	in        io.Reader
	out       io.Writer
}

func (f *stdioFront) serve() error {
	closing := f.lifecycle.Until(lifecycle.Closing)
	err := f.mcp.ServeStdio(closing, f.in, f.out)
	if closing.Err() != nil || errors.Is(err, io.EOF) {
		return nil //nolint:nilerr // a shutdown, or the client has closed stdin: neither is an error
	}
	return err
}

func (f *stdioFront) flush(context.Context) {}

func (f *stdioFront) end(context.Context) { f.mcp.Close() }

// An httpFront serves clients over HTTP.
type httpFront struct {
	lifecycle *lifecycle.Lifecycle
	guard     mcphttp.Guard
	auth      *auth.Auth                   // nil if callers need not authenticate
	path      string                       // of the endpoint of all backends
	servers   map[string]*mcpserver.Server // by the paths of their endpoints
	port      conns.Port
	ln        net.Listener
	srv       *http.Server

	mu       sync.Mutex
	newConns map[net.Conn]struct{} // connections on which no request has come yet
}

// track keeps the set of new connections, and marks hijacked ones. Shutdown would wait for new connections, which
// some clients open and never use.
func (f *httpFront) track(c net.Conn, state http.ConnState) {
	if conn := conns.Of(c); conn != nil {
		switch state {
		case http.StateNew:
			conn.Release()
		case http.StateHijacked:
			conn.Hijack()
		default:
		}
		c = conn // the connection below TLS and HTTP/2
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if state == http.StateNew {
		f.newConns[c] = struct{}{}
		return
	}
	delete(f.newConns, c)
}

// closeNewConns closes new connections after newConnTime: a request may have arrived that has not been read yet.
func (f *httpFront) closeNewConns() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for c := range f.newConns {
		_ = c.SetReadDeadline(time.Now().Add(newConnTime)) // an error means that it is closed already
	}
}

func (f *httpFront) serve() error {
	err := f.srv.Serve(f.ln)
	if errors.Is(err, http.ErrServerClosed) || errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// ServeHTTP implements http.Handler: it passes a request to the MCP server of its endpoint, if the guard and the
// authentication admit it. Requests are also served while the bridge drains, because clients respond to the server's
// requests in requests of their own; the MCP server refuses new sessions and calls.
func (f *httpFront) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !f.guard.Admit(w, r) {
		return
	}
	if f.auth != nil {
		if r = f.auth.Admit(w, r); r == nil {
			return
		}
	}
	// A http.ServeMux would redirect from paths such as //mcp and /x/../mcp, which a proxy in front of the bridge may
	// have interpreted differently.
	mcp := f.servers[r.URL.Path]
	if mcp == nil || strings.Contains(strings.ToLower(r.URL.RawPath), "%2f") {
		mcphttp.Refuse(w, http.StatusNotFound, "no endpoint at this path: the MCP endpoint is at "+f.path)
		return
	}
	if f.lifecycle.Phase() >= lifecycle.LameDuck {
		w.Header().Set("Connection", "close")
	}
	if c, _ := r.Context().Value(connKey{}).(*conns.Conn); c != nil {
		c.Begin(auth.Principal(r) != nil || r.TLS != nil && len(r.TLS.VerifiedChains) > 0)
		defer c.End()
	}
	mcp.ServeHTTP(w, r)
}

// flush has nothing to wait for: a call is in flight until its response is written.
func (f *httpFront) flush(context.Context) {}

// end ends sessions and streams, waits until complete responses are written, and closes the remaining connections.
func (f *httpFront) end(abort context.Context) {
	f.lifecycle.Advance(lifecycle.Closing) // cancels calls in flight, which then get a response
	f.ln.Close()                           // it may be closed already
	f.srv.SetKeepAlivesEnabled(false)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(abort), finishTime)
	defer cancel()
	defer context.AfterFunc(abort, func() { time.AfterFunc(abortFinishTime, cancel) })()
	closed := make(chan struct{})
	go func() { // ends when the connections are closed below, or after the write timeout
		for _, s := range f.servers {
			s.Close()
		}
		close(closed)
	}()
	select {
	case <-closed:
	case <-ctx.Done(): // a client does not read
	}
	f.closeNewConns()
	if err := f.srv.Shutdown(ctx); err != nil {
		f.srv.Close() // the error is that the listener is already closed
	}
}
