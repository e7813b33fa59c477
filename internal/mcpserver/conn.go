package mcpserver

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/jsonrpc"
	"github.com/mcpbridge/mcpbridge/internal/limits"
	"github.com/mcpbridge/mcpbridge/internal/rawjson"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// A conn is one client on a connection that carries all its messages: stdio, or the event stream of HTTP+SSE. Its
// requests are handled concurrently. After initialize, the connection has one legacy session.
type conn struct {
	s *Server
	// write sends one message to the client. It may be called concurrently, and fails when the client has disconnected.
	write func(msg []byte) error
	// principal is the authenticated client, if any.
	principal *pb.Principal
	// allowsModern means that modern requests are allowed, too.
	allowsModern bool
	// slots limits the number of requests in flight.
	slots chan struct{}
	id    string // the bridge.Call.Session of modern calls
	calls sync.WaitGroup
	// changeSender is the goroutine that sends the session's changes. It is separate, so that a client that does not
	// read does not block other clients.
	changeSender sync.WaitGroup

	// ctx ends when the client has disconnected.
	ctx    context.Context
	cancel context.CancelCauseFunc

	mu       sync.Mutex
	errors   rate          // limits error responses without a request id
	session  *session      // legacy session, after initialize
	running  inFlight      // modern requests in flight
	onIdle   func()        // called when no call is in flight any more; nil without whenIdle
	closed   bool          // no further call starts
	expiry   time.Time     // when the client's access ends, by its latest token, or zero
	extended chan struct{} // has an element when expiry has become later
}

func (s *Server) newConn(write func(msg []byte) error, allowsModern bool) *conn {
	c := &conn{
		s: s, write: write, allowsModern: allowsModern, slots: make(chan struct{}, s.opts.Limits.SessionCalls),
		id:     rand.Text(),
		errors: rate{every: limits.ErrorInterval, burst: limits.ErrorBurst}, extended: make(chan struct{}, 1),
	}
	c.ctx, c.cancel = context.WithCancelCause(s.closing())
	return c
}

// close cancels every call of the client and waits for them.
func (c *conn) close(cause error) {
	c.cancel(cause)
	if ss := c.legacy(); ss != nil {
		ss.end(cause)
	}
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.calls.Wait()
	c.changeSender.Wait()
}

func (c *conn) legacy() *session {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.session
}

// receive handles data from the client: one message, or a batch if the revision allows it. It takes ownership of data,
// and does not wait for calls.
func (c *conn) receive(data []byte, from origin) {
	defer c.s.panics.Recover("a message", func(e *bridge.Error) {
		id := rawjson.Get(data, "id")
		if !jsonrpc.IsID(id, &c.s.opts.Limits) {
			id = nil
		}
		c.rejectMalformed(&jsonrpc.Error{ID: id, RPC: e.JSONRPC(bridge.LatestLegacy, nil)})
	})
	if !jsonrpc.IsBatch(data) {
		msg, err := jsonrpc.Parse(data, &c.s.opts.Limits)
		if err != nil {
			c.rejectMalformed(err)
			return
		}
		c.dispatch(&msg, c.allowsModern, from, connSink{c})
		return
	}
	ss := c.legacy()
	if ss == nil || !ss.rev.AllowsBatches() {
		c.rejectMalformed(errBatch)
		return
	}
	texts, err := jsonrpc.ParseBatch(data, &c.s.opts.Limits)
	if err != nil {
		c.rejectMalformed(err)
		return
	}
	b, err := c.s.sortBatch(texts, ss.rev)
	if err != nil {
		c.rejectMalformed(err)
		return
	}
	out := &connBatch{c: c, answers: b.refused, open: len(b.requests)}
	for _, msgs := range [][]jsonrpc.Message{b.responses, b.notifications, b.requests} {
		for i := range msgs {
			c.dispatch(&msgs[i], false, from, out) // no modern revision has batches
		}
	}
	if len(b.requests) == 0 && len(b.refused) > 0 {
		c.checkWrite(c.write(array(b.refused)))
	}
}

// A connBatch collects the responses to a batch, and sends them as one batch (JSON-RPC 2.0, 6). It sends other messages
// immediately.
type connBatch struct {
	c *conn

	mu      sync.Mutex
	answers [][]byte
	open    int
}

func (b *connBatch) send(msg []byte) error { return b.c.write(msg) }

func (b *connBatch) finish(_ head, msg []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if msg != nil {
		b.answers = append(b.answers, msg)
	}
	if b.open--; b.open == 0 && len(b.answers) > 0 {
		b.c.checkWrite(b.c.write(array(b.answers)))
	}
}

// errBatch is the error for an array where only a single message is allowed.
var errBatch = &jsonrpc.Error{
	RPC: invalidRequest("a JSON array of messages is only for revisions before 2025-06-18: send one message at a time"),
}

// rejectMalformed responds to an invalid message.
func (c *conn) rejectMalformed(err error) {
	e := asParseError(err)
	if e.OfNotification() {
		c.s.log.Debug().Err(err).Msg("ignored an invalid notification")
		return
	}
	if e.ID == nil {
		c.mu.Lock()
		delay := c.errors.delay(time.Now())
		c.mu.Unlock()
		if delay > 0 {
			c.s.log.Debug().Err(err).Msg("ignored an invalid message: above the rate of error responses")
			return
		}
	}
	omitID := true
	if ss := c.legacy(); ss != nil {
		omitID = ss.rev.OmitsUnknownErrorID()
	}
	c.checkWrite(c.write(jsonrpc.AppendError(nil, e.ID, e.RPC, omitID)))
}

// checkWrite handles a write error: the client has disconnected.
func (c *conn) checkWrite(err error) {
	if err != nil {
		c.s.log.Debug().Err(err).Msg("cannot send a message; the client has disconnected")
		c.cancel(errDisconnected)
	}
}

// dispatch starts to handle a message of either era.
func (c *conn) dispatch(msg *jsonrpc.Message, modern bool, from origin, out sink) {
	defer c.s.panics.Recover(msg.Method, func(e *bridge.Error) {
		if msg.IsRequest() {
			c.s.newExchange(bridge.LatestLegacy, msg, out).fail(nil, e)
		}
	})

	ss := c.legacy()
	switch {
	case msg.IsRequest() && modern && rawjson.Get(msg.Meta, metaVersion) != nil:
		c.startModern(msg, out)
	case msg.IsRequest() && msg.Method == "initialize" && ss == nil:
		c.initialize(msg, out)
	case msg.IsNotification() && modern && c.cancelModern(msg):
	case ss == nil:
		c.rejectEarly(msg, out)
	case msg.IsResponse():
		if !ss.handleResponse(msg) {
			c.s.log.Debug().Bytes("id", msg.ID).Msg("ignored a response to no pending request")
		}
	case msg.IsNotification():
		ss.handleNotification(msg)
	default:
		c.startLegacy(ss, msg, from, out)
	}
}

// startModern starts to handle a modern request.
func (c *conn) startModern(msg *jsonrpc.Message, out sink) {
	ctx, cancel := context.WithCancelCause(c.ctx)
	c.mu.Lock()
	remove, err := c.running.add(msg, &c.s.opts.Limits, cancel)
	c.mu.Unlock()
	if err != nil {
		cancel(nil)
		c.s.refuse(bridge.Rev20260728, msg, out, err)
		return
	}
	to := &lastSink{out, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		remove()
	}}
	if !c.start(func() {
		defer cancel(nil)
		c.s.modern(ctx, msg, origin{session: c.id}, to)
	}) {
		c.rejectOverload(bridge.Rev20260728, msg, to)
		cancel(nil)
	}
}

// startLegacy starts to handle a request of the session.
func (c *conn) startLegacy(ss *session, msg *jsonrpc.Message, from origin, out sink) {
	ctx, to, done, err := ss.begin(msg, out)
	if err != nil {
		c.s.refuse(ss.rev, msg, out, err)
		return
	}
	if !c.start(func() {
		defer done()
		ss.request(ctx, msg, from, to)
	}) {
		c.rejectOverload(ss.rev, msg, to)
		done()
	}
}

// start runs f in a goroutine. It returns false if the connection is closed or no slot is free. It does not wait for a
// slot: the calls in flight may wait for the client's next message, which the caller has to read.
func (c *conn) start(f func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	select {
	case c.slots <- struct{}{}:
	default:
		return false
	}
	c.calls.Go(func() {
		defer c.releaseSlot()
		defer c.s.panics.Recover("a request", nil) // the handler of a request recovers its own panics
		f()
	})
	return true
}

// releaseSlot frees a slot, and calls onIdle if no call is in flight any more.
func (c *conn) releaseSlot() {
	c.mu.Lock()
	defer c.mu.Unlock()
	<-c.slots
	if c.onIdle != nil && len(c.slots) == 0 {
		c.onIdle()
	}
}

// whenIdle arranges for f to be called when the last call ends. It returns false if none is in flight.
func (c *conn) whenIdle(f func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.slots) == 0 {
		return false
	}
	c.onIdle = f
	return true
}

// idleContext returns a context that ends when no call is in flight, or the client has disconnected.
func (c *conn) idleContext() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(c.ctx)
	if !c.whenIdle(cancel) {
		cancel()
	}
	return ctx, cancel
}

// extendAccess extends the client's access to a time, or without limit if that is zero. It never shortens the access:
// the token that is valid for the longest time counts. It reports whether access had ended, so that the client has
// missed changes.
func (c *conn) extendAccess(until time.Time) (restored bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.expiry.IsZero() || !until.IsZero() && !until.After(c.expiry) {
		return false
	}
	restored = !time.Now().Before(c.expiry)
	c.expiry = until
	select {
	case c.extended <- struct{}{}:
	default:
	}
	return restored
}

// hasAccess reports whether the client is connected and has access.
func (c *conn) hasAccess() bool {
	expiry := c.accessExpiry()
	return c.ctx.Err() == nil && (expiry.IsZero() || time.Now().Before(expiry))
}

func (c *conn) accessExpiry() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.expiry
}

// rejectOverload responds to a request without a free slot.
func (c *conn) rejectOverload(rev bridge.Revision, msg *jsonrpc.Message, out sink) {
	x := &exchange{s: c.s, rev: rev, id: msg.ID, out: out}
	x.refuse(nil, overload(cap(c.slots)))
}

// overload returns the error of a request above the limit of requests in flight.
func overload(most int) error {
	e := bridge.Failed(codes.ResourceExhausted, bridge.OutcomeNotExecuted, bridge.ReasonOverloaded,
		"%d requests are in flight, which is the limit: wait for one of them", most)
	e.RetryAfter = 100 * time.Millisecond
	return e
}

// cancelModern handles a notification that cancels a modern request. It reports whether msg is one.
func (c *conn) cancelModern(msg *jsonrpc.Message) bool {
	if msg.Method != notifyCancelled {
		return false
	}
	id := jsonrpc.Key(rawjson.Get(msg.Params, "requestId"))
	c.mu.Lock()
	cancel := c.running.cancel[string(id)]
	c.mu.Unlock()
	if cancel != nil {
		cancel(errCancelled)
	}
	return cancel != nil
}

// initialize starts the legacy session of the connection. The response precedes all other messages of the session.
func (c *conn) initialize(msg *jsonrpc.Message, out sink) {
	ss, result, err := c.s.initialize(c.ctx, msg, origin{principal: c.principal})
	if err != nil {
		x := &exchange{s: c.s, rev: bridge.LatestLegacy, id: msg.ID, out: out}
		x.refuse(nil, err)
		return
	}
	changes := ss.s.newPending(ss.filter)
	ss.sub.Report = changes.Add
	c.mu.Lock()
	first := c.session == nil
	if first {
		c.session = ss
	}
	c.mu.Unlock()
	if !first {
		ss.cancel(errEnded)
		c.refuse(msg, out, "initialize: the connection has a session already")
		return
	}
	out.finish(head{}, jsonrpc.AppendResult(nil, msg.ID, result))
	c.changeSender.Go(func() {
		for {
			select {
			case <-changes.Ready():
				for _, change := range changes.Take() {
					if c.hasAccess() {
						ss.notify(change)
					}
				}
			case <-c.ctx.Done():
				return
			}
		}
	})
	ss.attach(func(msg []byte) { c.checkWrite(c.write(msg)) })
	_, _ = ss.listen()
	if c.ctx.Err() != nil { // the client has disconnected, perhaps before the session was set
		ss.end(context.Cause(c.ctx))
	}
}

// rejectEarly responds to a message before initialize.
func (c *conn) rejectEarly(msg *jsonrpc.Message, out sink) {
	switch {
	case !msg.IsRequest():
		c.s.log.Debug().Str("method", msg.Method).Msg("ignored a message that came before initialize")
	case msg.Method == "ping":
		out.finish(head{}, jsonrpc.AppendResult(nil, msg.ID, []byte("{}")))
	case bridge.MethodByName(msg.Method) == bridge.Discover && !c.allowsModern: // as a server of 2024-11-05 responds
		x := &exchange{s: c.s, rev: bridge.LatestLegacy, id: msg.ID, out: out}
		x.refuse(nil, bridge.Errorf(codes.Unimplemented, "HTTP+SSE has no %s: send initialize", msg.Method))
	case bridge.MethodByName(msg.Method) == bridge.Discover:
		x := &exchange{s: c.s, rev: bridge.Rev20260728, id: msg.ID, out: out}
		x.refuse(bridge.Discover,
			invalidMeta("params._meta has no %q: each request must name its revision", metaVersion))
	default:
		c.refuse(msg, out, "send initialize first, or name the revision in params._meta: "+metaVersion)
	}
}

// refuse responds to a request that cannot start.
func (c *conn) refuse(msg *jsonrpc.Message, out sink, why string) {
	x := &exchange{s: c.s, rev: bridge.LatestLegacy, id: msg.ID, out: out}
	e := bridge.Errorf(codes.InvalidArgument, "%s", why)
	e.RPC = invalidRequest(why)
	x.refuse(nil, e)
}

// connSink sends the messages for a request directly to the client.
type connSink struct{ c *conn }

func (o connSink) send(msg []byte) error { return o.c.write(msg) }

func (o connSink) finish(_ head, msg []byte) {
	if msg != nil {
		o.c.checkWrite(o.c.write(msg))
	}
}

// errDisconnected is the cause of the end of calls whose client has disconnected.
var errDisconnected = errors.New("the client has disconnected")
