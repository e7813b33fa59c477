package mcpserver

import (
	"cmp"
	"context"
	"crypto/rand"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/mcpbridge/mcpbridge/internal/jsonrpc"
	"github.com/mcpbridge/mcpbridge/internal/lifecycle"
	"github.com/mcpbridge/mcpbridge/internal/limit"
	"github.com/mcpbridge/mcpbridge/internal/mcphttp"
)

const (
	// sseParam is the query parameter that identifies the connection of a message, in HTTP+SSE.
	sseParam = "sessionId"
	// sseGrace is the maximum time that calls continue after their stream has ended.
	sseGrace = time.Minute
)

// isSSEPost reports whether a POST is a message of an HTTP+SSE connection.
func isSSEPost(r *http.Request) bool { return r.URL.RawQuery != "" && r.URL.Query().Has(sseParam) }

// An eventWriter writes messages to the event stream of HTTP+SSE.
type eventWriter struct {
	writeTimeout time.Duration

	mu   sync.Mutex
	w    http.ResponseWriter
	done bool // w must not be used any more
}

func (e *eventWriter) event(name string, data []byte) error {
	return e.raw(mcphttp.AppendEvent(make([]byte, 0, len(data)+32), "", name, data))
}

func (e *eventWriter) raw(data []byte) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.done {
		return errDisconnected
	}
	return writeStream(e.w, data, e.writeTimeout)
}

func (e *eventWriter) open(w http.ResponseWriter) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.w = w
}

func (e *eventWriter) close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.done = true
}

// serveSSE opens the event stream of HTTP+SSE (2024-11-05: basic/transports). The stream is the session: it begins with
// the endpoint for messages, carries all messages of the server, and cannot be resumed.
func (s *Server) serveSSE(w http.ResponseWriter, r *http.Request, end *cleanup) {
	out := &eventWriter{writeTimeout: s.opts.Limits.WriteTime}
	var c *conn
	c = s.newConn(func(msg []byte) error {
		c.checkWrite(out.event("message", msg))
		return nil // a call continues without a reader
	}, false)
	c.principal = s.origin(r).principal
	c.expiry = s.accessExpiry(c.principal)
	id := rand.Text()
	err := s.opts.Memory.Admit(limit.NewSessions)
	if err == nil {
		err = s.admit(c.principal, networkOf(r), func() { s.conns[id] = c })
	}
	if err != nil {
		c.cancel(err)
		refuseFull(w, err)
		return
	}
	end.add(func() { s.streamEnded(id, c) })
	end.add(out.close)
	endpoint := r.URL.Path + "?" + url.Values{sseParam: {id}}.Encode()
	s.respondStream(w, r, end, func(ctx context.Context, w http.ResponseWriter) {
		out.open(w)
		s.keepSSE(ctx, c, out, endpoint)
	})
}

// keepSSE keeps the event stream of a connection open until the client, the connection or the server ends it, or the
// client's access ends. After the end of access, no changes are sent, and requests in flight still receive their
// responses. As the stream is the session, a client with a new token need not reopen it: a message with that token
// extends the access while the stream is open.
func (s *Server) keepSSE(ctx context.Context, c *conn, out *eventWriter, endpoint string) {
	if out.event("endpoint", []byte(endpoint)) != nil {
		return
	}
	alive := time.NewTicker(keepaliveEvery)
	defer alive.Stop()
	keep := func(until, or <-chan struct{}) (open bool) {
		for {
			select {
			case <-alive.C:
				if out.raw([]byte(mcphttp.Comment)) != nil {
					return false
				}
			case <-until:
				return c.ctx.Err() == nil
			case <-or:
				return c.ctx.Err() == nil
			case <-ctx.Done():
				return false
			case <-c.ctx.Done():
				return false
			}
		}
	}
	for open := true; open; {
		expired, stop := s.accessContext(c.accessExpiry())
		open = keep(expired.Done(), nil)
		stop()
		if !open || c.hasAccess() && s.life.Phase() < lifecycle.Draining {
			continue
		}
		idleCtx, stop := c.idleContext()
		open = keep(idleCtx.Done(), c.extended)
		idle := idleCtx.Err() != nil
		stop()
		open = open && (!idle || c.hasAccess() && s.life.Phase() < lifecycle.Draining)
	}
}

// streamEnded ends a connection of HTTP+SSE whose stream has ended. That cancels no call, as everywhere in the legacy
// era, but the stream cannot be resumed: further messages are dropped. The connection ends with its last call, and at
// the latest after sseGrace. Until then it counts as a session, and calls can be canceled.
func (s *Server) streamEnded(id string, c *conn) {
	c.cancel(errDisconnected)
	if ss := c.legacy(); ss != nil {
		ss.endInbound() // the client cannot receive requests any more
		s.hub.Remove(&ss.sub)
	}
	end := func() {
		s.mu.Lock()
		delete(s.conns, id)
		s.opts.Sessions.release(c.principal)
		s.mu.Unlock()
		// the shutdown of the bridge may arrive here before the calls end
		c.close(cmp.Or(context.Cause(s.closing()), errDisconnected))
	}
	grace, cancel := context.WithTimeout(s.closing(), sseGrace)
	s.mu.Lock()
	delayed := s.closing().Err() == nil && c.whenIdle(cancel)
	if delayed {
		s.lasting.Add(1)
	}
	s.mu.Unlock()
	if !delayed {
		cancel()
		end()
		return
	}
	context.AfterFunc(grace, func() {
		defer s.lasting.Done()
		defer s.panics.Recover("the end of a session", nil)
		end()
	})
}

// postSSE handles a message of an HTTP+SSE client. The response goes to its event stream; after the end of the stream
// it is dropped.
func (s *Server) postSSE(w http.ResponseWriter, r *http.Request, body []byte) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if ids := query[sseParam]; err != nil || len(ids) != 1 {
		refuse(w, http.StatusBadRequest, "the query must be well-formed, and have one "+sseParam+
			": use the endpoint that the event stream began with")
		return
	}
	s.mu.Lock()
	c := s.conns[query.Get(sseParam)]
	s.mu.Unlock()
	from := s.origin(r)
	if c == nil || !samePrincipal(c.principal, from.principal) || c.ctx.Err() != nil && s.expectsResponse(body) {
		refuse(w, http.StatusNotFound, "there is no such session: its event stream has ended; open a new one")
		return
	}
	if ss := c.legacy(); c.extendAccess(s.accessExpiry(from.principal)) && ss != nil {
		s.hub.ReportAll(&ss.sub)
	}
	w.WriteHeader(http.StatusAccepted)
	c.receive(body, from)
}

// expectsResponse reports whether a message of a client requires a response.
func (s *Server) expectsResponse(body []byte) bool {
	msg, err := jsonrpc.Parse(body, &s.opts.Limits)
	return err != nil || msg.IsRequest()
}
