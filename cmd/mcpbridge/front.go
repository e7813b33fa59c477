package main

import (
	"bytes"
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
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/net/http2"
	"golang.org/x/time/rate"

	"github.com/mcpbridge/mcpbridge/internal/auth"
	"github.com/mcpbridge/mcpbridge/internal/conns"
	"github.com/mcpbridge/mcpbridge/internal/mcphttp"
	"github.com/mcpbridge/mcpbridge/internal/mcpserver"
)

// A front is how clients reach the App. Its methods are called in this order, part and refuse perhaps not at all.
type front interface {
	// serve serves clients until end is called, they are gone for good, or something breaks.
	serve() error
	// part tells clients, and whoever sends them, that this is the end. Everything is still taken.
	part()
	// refuse takes no new clients and ends streams that only wait for changes. Calls that run go on.
	refuse()
	// answered waits until clients have taken what calls were answered that have ended, or ctx ends.
	answered(ctx context.Context)
	// end ends what is left, and returns when it has ended.
	end()
}

// newFronts returns the fronts that the configuration asks for. When now ends, they linger for nothing.
func (a *App) newFronts(now context.Context) ([]front, error) {
	var fronts []front
	if a.stdio {
		ctx, cancel := context.WithCancel(now)
		fronts = append(fronts, &stdioFront{ctx: ctx, cancel: cancel, mcp: a.endpoint.mcp, in: a.Stdin, out: a.Stdout})
	}
	if a.ln != nil {
		f, err := a.newHTTPFront(now)
		if err != nil {
			return nil, err
		}
		fronts = append(fronts, f)
	}
	if a.grpc != nil {
		f, err := a.newGRPCFront(now)
		if err != nil {
			return nil, err
		}
		fronts = append(fronts, f)
	}
	return fronts, nil
}

// newHTTPFront serves all backends at the path that the configuration says, and each of them at its name below.
func (a *App) newHTTPFront(now context.Context) (*httpFront, error) {
	ctx, cancel := context.WithCancel(now)
	f := &httpFront{
		now: now, cancel: cancel, auth: a.auth, path: a.cfg.Serve.HTTP.Path, servers: map[string]*mcpserver.Server{},
		calls: a.calls, silent: map[net.Conn]struct{}{},
		port: conns.Port{Name: "HTTP", MaxConns: maxHTTPConns(a.cfg.Limits.OrDefaults().Streams), Log: a.log},
	}
	f.ln = f.port.Listener(a.ln)
	for _, e := range a.endpoints() {
		f.servers[path.Join(a.cfg.Serve.HTTP.Path, e.name)] = e.mcp
	}
	l := a.cfg.Limits.OrDefaults()
	f.guard = mcphttp.Guard{
		Hosts: a.cfg.Serve.HTTP.AllowedHosts, Origins: a.cfg.Serve.HTTP.AllowedOrigins, Limits: l, Log: a.log,
	}
	f.srv = &http.Server{
		Handler: f, ReadHeaderTimeout: l.HeaderTime, IdleTimeout: l.ConnectionIdle,
		MaxHeaderBytes: l.Header - headerExtra, DisableGeneralOptionsHandler: true,
		BaseContext: func(net.Listener) context.Context { return ctx },
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, connKey{}, conns.Of(c))
		},
		ConnState: f.track,
		ErrorLog:  log.New(&handshakeLog{debug: debugLog{a.log}, pace: rate.Sometimes{Interval: time.Second}}, "", 0),
	}
	if a.tls != nil {
		f.ln = tls.NewListener(f.ln, a.tls)
		if err := countFrames(f.srv); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// maxHTTPConns returns the maximum number of connections of HTTP if there may be so many streams: one address may have
// all of them.
func maxHTTPConns(streams int) int {
	return conns.MaxConns + streams + streams/3
}

// connKey is the key of a request's context that has its *conns.Conn.
type connKey struct{}

// countFrames has a server count the frames of its HTTP/2 connections.
func countFrames(srv *http.Server) error {
	h2 := &http2.Server{}                                  //nolint:staticcheck // http.Server, which replaces it, does not show frames
	if err := http2.ConfigureServer(srv, h2); err != nil { //nolint:staticcheck // as above
		return err
	}
	srv.TLSNextProto[http2.NextProtoTLS] = func(srv *http.Server, c *tls.Conn, h http.Handler) {
		o := &http2.ServeConnOpts{Handler: h, BaseConfig: srv}              //nolint:staticcheck // as above
		if base, ok := h.(interface{ BaseContext() context.Context }); ok { // that of the connection
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

// ConnectionState returns what requests show of TLS.
func (c h2Conn) ConnectionState() tls.ConnectionState { return c.tls.ConnectionState() }

// A stdioFront serves the one client at the other end of stdin and stdout.
type stdioFront struct {
	ctx    context.Context //nolint:containedctx // it is the life of the front, between serve and end
	cancel context.CancelFunc
	mcp    *mcpserver.Server
	in     io.Reader
	out    io.Writer
}

func (f *stdioFront) serve() error {
	err := f.mcp.ServeStdio(f.ctx, f.in, f.out)
	if f.ctx.Err() != nil || errors.Is(err, io.EOF) {
		return nil //nolint:nilerr // it was told to end, or the client has closed stdin: neither is an error
	}
	return err
}

func (f *stdioFront) part() {}

func (f *stdioFront) refuse() { f.mcp.Drain() }

func (f *stdioFront) answered(context.Context) {}

func (f *stdioFront) end() {
	f.cancel()
	f.mcp.Close()
}

// An httpFront serves clients over HTTP.
type httpFront struct {
	now     context.Context //nolint:containedctx // it hurries end, which has no context of its own
	cancel  context.CancelFunc
	guard   mcphttp.Guard
	auth    *auth.Auth                   // nil if callers need not authenticate
	path    string                       // of the endpoint of all backends
	servers map[string]*mcpserver.Server // by the paths of their endpoints
	calls   *calls
	port    conns.Port
	ln      net.Listener
	srv     *http.Server
	// parting says that connections are not to be used again.
	parting atomic.Bool

	mu     sync.Mutex
	silent map[net.Conn]struct{} // connections on which no request has come yet
}

// track keeps silent, and notes which connections are taken over. Shutdown would wait for silent ones, which some
// clients open and never use.
func (f *httpFront) track(c net.Conn, state http.ConnState) {
	if of := conns.Of(c); of != nil {
		switch state {
		case http.StateNew:
			of.Release()
		case http.StateHijacked:
			of.Hijack()
		default:
		}
		c = of // net/http has TLS over it, and HTTP/2 has more
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if state == http.StateNew {
		f.silent[c] = struct{}{}
		return
	}
	delete(f.silent, c)
}

// closeSilent closes them, once they have had a moment: a request may have come that is not read yet.
func (f *httpFront) closeSilent() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for c := range f.silent {
		_ = c.SetReadDeadline(time.Now().Add(silentTime)) // an error says that it is closed already
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
// authentication admit it. Requests are also served while the front drains, because a client answers a question with a
// request; the MCP server and calls refuse what is new.
func (f *httpFront) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !f.guard.Admit(w, r) {
		return
	}
	if f.auth != nil {
		if r = f.auth.Admit(w, r); r == nil {
			return
		}
	}
	// A http.ServeMux would redirect from paths such as //mcp and /x/../mcp, which a proxy before us may have read differently.
	mcp := f.servers[r.URL.Path]
	if mcp == nil || strings.Contains(strings.ToLower(r.URL.RawPath), "%2f") {
		mcphttp.Refuse(w, http.StatusNotFound, "there is nothing here: the MCP endpoint is at "+f.path)
		return
	}
	if f.parting.Load() {
		w.Header().Set("Connection", "close")
	}
	if c, _ := r.Context().Value(connKey{}).(*conns.Conn); c != nil {
		c.Begin(auth.Principal(r) != nil || r.TLS != nil && len(r.TLS.VerifiedChains) > 0)
		defer c.End()
	}
	if r.Method == http.MethodPost {
		// A call of a legacy client is also under way while its user thinks about a question, and nothing handles it.
		f.calls.begin()
		defer f.calls.end()
	}
	mcp.ServeHTTP(w, r)
}

func (f *httpFront) part() {
	f.parting.Store(true)
	for _, s := range f.servers {
		s.Part()
	}
}

func (f *httpFront) refuse() {
	f.parting.Store(true)
	for _, s := range f.servers {
		s.Drain()
	}
}

// answered has nothing to wait for: a call lasts until its answer is written.
func (f *httpFront) answered(context.Context) {}

// end ends sessions and streams, lets answers that are complete be written, and closes what is left.
func (f *httpFront) end() {
	f.refuse()
	f.cancel()   // calls that have not ended are cut, and answered with that
	f.ln.Close() // it may be closed already
	f.srv.SetKeepAlivesEnabled(false)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(f.now), finishTime)
	defer cancel()
	defer context.AfterFunc(f.now, func() { time.AfterFunc(lastWord, cancel) })()
	closed := make(chan struct{})
	go func() { // ends at the latest with the connections, below, or, for streams, when nobody has read them for as long as one may
		for _, s := range f.servers {
			s.Close()
		}
		close(closed)
	}()
	select {
	case <-closed:
	case <-ctx.Done(): // somebody does not read what is said
	}
	f.closeSilent()
	if err := f.srv.Shutdown(ctx); err != nil {
		f.srv.Close() // it only repeats why the listener cannot be closed again
	}
}

// A debugLog takes what net/http says of connections that went wrong: the fault of a client, and nothing to do about it.
type debugLog struct{ log zerolog.Logger }

func (d debugLog) Write(line []byte) (int, error) {
	d.log.Debug().Msg(string(bytes.TrimSpace(line)))
	return len(line), nil
}

// A handshakeLog is a debugLog, and warns of clients that were refused in the TLS handshake, as for a certificate, once a second at most.
// Whoever only looks whether the port is open leaves before it.
type handshakeLog struct {
	debug debugLog
	pace  rate.Sometimes
}

func (h *handshakeLog) Write(line []byte) (int, error) {
	refused, ok := bytes.CutPrefix(bytes.TrimSpace(line), []byte("http: TLS handshake error from "))
	left := bytes.HasSuffix(refused, []byte(": EOF")) || bytes.HasSuffix(refused, []byte("timeout")) || bytes.HasSuffix(refused, []byte("reset by peer"))
	if !ok || left {
		return h.debug.Write(line)
	}
	remote, why, _ := bytes.Cut(refused, []byte(": "))
	h.pace.Do(func() {
		h.debug.log.Warn().Bytes("remote", remote).Bytes("error", why).
			Msg("refused an HTTP client: its TLS handshake failed; serve.http.tls says which certificates are accepted")
	})
	return len(line), nil
}
