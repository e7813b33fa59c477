// Package mcpserver is the front for MCP clients. It makes bridge.Calls of what they send, over Streamable HTTP, HTTP+SSE
// and stdio, in every revision, and tells them what the Handler answers.
//
// A request of the modern era (2026-07-28) is answered from what is in it and nothing else: modern.go. A client of the
// legacy era has a session, which remembers what it once said, and is asked by requests of ours: legacy.go, session.go,
// roundtrip.go. Which era a request is of is decided for each one by itself, on the same endpoint. Transports (http.go,
// sse2024.go, stdio.go) bring messages and carry the answers away, each through a sink.
package mcpserver

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/contain"
	"github.com/mcpbridge/mcpbridge/internal/feed"
	"github.com/mcpbridge/mcpbridge/internal/lifecycle"
	"github.com/mcpbridge/mcpbridge/internal/limit"
	"github.com/mcpbridge/mcpbridge/internal/limits"
	"github.com/mcpbridge/mcpbridge/internal/mcpjson"
	"github.com/mcpbridge/mcpbridge/internal/rawjson"
	"github.com/mcpbridge/mcpbridge/internal/seal"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// Options say how a Server behaves. The zero value is a server for clients on the same machine.
type Options struct {
	// Log is where the server tells what happens. The zero value tells nobody.
	Log zerolog.Logger
	// Panics counts the panics of the whole process. If nil, those of this package are counted alone.
	Panics *contain.Panics
	// Principal returns who makes a request, as checked by what the request has passed before it came here, or nil if nobody
	// was asked to say. Nil: nobody ever is.
	Principal func(*http.Request) *pb.Principal
	// Until returns until when a principal is let in, by what it has shown; zero: for ever. Streams that only tell what changes end then, and
	// calls do not. Nil: everybody is let in for ever.
	Until func(*pb.Principal) time.Time
	// Challenge returns the value of WWW-Authenticate for a caller who lacks scopes. Nil: callers are not told that way.
	Challenge func(scopes []string) string
	// PassHeaders names the HTTP headers that backends are told.
	PassHeaders []string
	// StateKeys are the keys that protect a backend's state on its way through the client: the first seals, all of them open.
	// Replicas that share them can continue one another's calls. Empty: a key of this process alone.
	StateKeys [][32]byte
	// Limits are the limits of what clients do. Zero fields are the defaults.
	Limits limits.Limits
	// PollAfter is how long the response to a request of 2025-11-25 may stay open; then it is cut, and the client comes back
	// for the rest. It is for networks that cut responses that last. Zero: for ever.
	PollAfter time.Duration
	// Lifecycle is the phase of the bridge and its calls in flight. If nil, the server has one of its own.
	Lifecycle *lifecycle.Lifecycle
	// Sessions bounds the legacy sessions, with those of HTTP+SSE, and what they keep together. Others may share it. Nil: it is of this
	// server alone.
	Sessions *Sessions
	// Streams bounds the streams that only tell what changes: those of GETs, of HTTP+SSE and of subscriptions/listen. Others may
	// share it. Nil: it is of this server alone, with the Memory.
	Streams *limit.Streams
	// Started waits while what serves clients of an era starts in the handler's backends, and returns nil when nothing
	// does, even if ctx has ended. It returns an error if ctx ends before. While a backend starts, initialize and
	// server/discover are answered with Earlier, and calls wait. Nil: no backend starts.
	Started func(ctx context.Context, era bridge.Era) error
	// Earlier is what the handler declared to clients of each era when the bridge ran before. If nil, everything that
	// it may have is declared.
	Earlier [bridge.Eras]*pb.DiscoverResponse
	// Declared is called with what the handler declares to clients of an era, each time that differs. It must not block
	// for long. Nil: it is not called.
	Declared func(bridge.Era, *pb.DiscoverResponse)
	// Memory is how much there is: while it is short, new sessions, streams, long bodies and calls are refused. Nil: there is
	// enough.
	Memory *limit.Memory
}

func (o Options) withDefaults() Options {
	o.Limits = o.Limits.OrDefaults()
	if o.Lifecycle == nil {
		o.Lifecycle = lifecycle.New()
	}
	if o.Sessions == nil {
		o.Sessions = NewSessions(o.Limits)
	}
	if o.Streams == nil {
		o.Streams = limit.StreamsOf(o.Limits, o.Memory)
	}
	return o
}

// A Server serves one Handler to MCP clients. Its methods may be called concurrently.
type Server struct {
	handler bridge.Handler
	opts    Options
	log     zerolog.Logger
	panics  *contain.Panics
	seal    *seal.Sealer
	hub     *feed.Hub
	life    *lifecycle.Lifecycle
	lasting sync.WaitGroup // the streams whose connections are taken over

	// known is what the handler last declared to clients of each era: a server of both may have something else in each.
	known [bridge.Eras]atomic.Pointer[known]
	// early is what is declared while a backend starts, and promised says that it has been.
	early    [bridge.Eras]*known
	promised atomic.Bool

	mu       sync.Mutex // guards what is below, all of which Sessions counts
	sessions map[string]*session
	conns    map[string]*conn // the connections of HTTP+SSE, by the session id of their endpoint
}

// A known is what a handler was at some time. It is not changed.
type known struct {
	*pb.DiscoverResponse
	at time.Time
	// info is the server_info, as JSON.
	info []byte
	// early says that the handler has not said it: its backend starts.
	early bool
}

const (
	// knownFor is how long it is not asked again what the handler is, so that asking costs calls nothing.
	knownFor = time.Second
	// earlyAfter is how long a client waits for what the handler is while a backend starts. Clients give up, or take the server for one of
	// the other era, after a few seconds.
	earlyAfter = 1500 * time.Millisecond
)

// The causes for which a call's context ends, besides those of its transport.
var (
	errCancelled = errors.New("the client cancelled the request")
	errEnded     = errors.New("the client ended its session")
)

// New returns a Server for h.
func New(h bridge.Handler, o Options) *Server {
	o = o.withDefaults()
	s := &Server{
		handler: h, opts: o, log: o.Log, seal: seal.New(o.StateKeys, o.Limits.StateTTL, o.Limits.State),
		life: o.Lifecycle, sessions: map[string]*session{}, conns: map[string]*conn{},
	}
	s.panics = o.Panics.With(o.Log)
	for era := range bridge.Eras {
		s.early[era] = s.earlier(o.Earlier[era])
	}
	s.hub = feed.NewHub(bridge.HandlerFunc(s.handle), s.declares, o.Log)
	o.Sessions.add(s)
	return s
}

// Close begins the phase Closing, ends all sessions with their calls, and all streams of changes, and waits for them. It
// does not wait for modern calls over HTTP: they end with the contexts of their requests.
func (s *Server) Close() {
	s.life.Advance(lifecycle.Closing)
	s.mu.Lock()
	sessions := s.sessions
	s.sessions = map[string]*session{}
	s.mu.Unlock()
	s.opts.Sessions.remove(s)
	for _, ss := range sessions {
		s.opts.Sessions.leave(ss.caller.GetPrincipal())
		ss.end(lifecycle.ErrClosing)
	}
	s.hub.Close()
	s.lasting.Wait()
}

// closing returns the context of everything that outlives an HTTP request. It is canceled when the bridge closes.
func (s *Server) closing() context.Context { return s.life.Until(lifecycle.Closing) }

// handle has the handler answer a call that is no client's. A bug in it must not end the bridge.
func (s *Server) handle(ctx context.Context, call *bridge.Call, emit bridge.Emit) (res *bridge.Result, err error) {
	defer s.panics.Recover(call.Method.Name, func(e *bridge.Error) { res, err = nil, e })

	res, err = s.handler.Handle(ctx, call, emit)
	return res, ofHandler(err)
}

// declares reports whether the handler declares, to clients of any era, that it reports some of what a filter names.
func (s *Server) declares(f *pb.SubscriptionFilter) bool {
	for era := range s.known {
		if k := s.known[era].Load(); k != nil && !feed.IsEmpty(feed.Supported(f, k.GetCapabilities(), false)) {
			return true
		}
	}
	return false
}

// discover returns what the handler is to clients of an era, or was a moment ago; or, if it is overloaded, whatever it
// was.
func (s *Server) discover(ctx context.Context, era bridge.Era) (*known, error) {
	now, was := time.Now(), s.known[era].Load()
	if was != nil && now.Sub(was.at) < knownFor {
		return was, nil
	}
	limited, early := ctx, was == nil && s.starting()
	if early {
		if s.promised.Load() {
			return s.early[era], nil
		}
		var cancel context.CancelFunc
		limited, cancel = context.WithTimeout(ctx, earlyAfter)
		defer cancel()
	}
	call := &bridge.Call{Method: bridge.Discover, Request: &pb.DiscoverRequest{
		Context: &pb.CallContext{ProtocolVersion: era.Latest().String()},
	}}
	res, err := s.handle(limited, call, nil)
	if err != nil {
		if early && limited.Err() != nil && ctx.Err() == nil {
			s.declareEarly(era)
			return s.early[era], nil
		}
		if was == nil || bridge.AsError(err).Failure.GetReason() != bridge.ReasonOverloaded {
			return nil, err
		}
		// It has no time to say what it is. It is what it was; and not to be asked again at once.
		k := &known{DiscoverResponse: was.DiscoverResponse, info: was.info, at: now}
		s.known[era].CompareAndSwap(was, k)
		return k, nil
	}
	d, ok := res.Complete.(*pb.DiscoverResponse)
	if !ok {
		return nil, bridge.Errorf(codes.Internal, "server/discover: answered with %T", res.Complete)
	}
	k := &known{DiscoverResponse: d, at: now}
	if k.info, err = s.encode(nil, info(d), bridge.Rev20260728); err != nil {
		return nil, bridge.ProtocolViolation(pb.CallFailure_OUTCOME_UNKNOWN, "server/discover: server_info cannot be written as MCP: %w", err)
	}
	s.known[era].Store(k)
	if s.opts.Declared != nil && (was == nil || !proto.Equal(was.DiscoverResponse, d)) {
		s.opts.Declared(era, d)
	}
	return k, nil
}

// declareEarly notes that a client of an era is answered with early, and finds out what the handler is once its
// backends have started.
func (s *Server) declareEarly(era bridge.Era) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing().Err() != nil || s.promised.Swap(true) {
		return
	}
	s.lasting.Go(func() {
		if s.opts.Started(s.closing(), era) == nil {
			_, _ = s.discover(s.closing(), era) // whoever asks next is told why not
		}
	})
}

// starting reports whether a backend of the handler starts. One that answers clients of the modern era has started:
// what it starts for those of the other era is waited for, so that they get what it declares to them.
func (s *Server) starting() bool {
	if s.opts.Started == nil {
		return false
	}
	now, cancel := context.WithCancel(s.closing())
	cancel()
	return s.opts.Started(now, bridge.ModernEra) != nil
}

// earlier returns what is declared while a backend starts that declared d before, if that is not nil. It is to be asked for again at once.
func (s *Server) earlier(d *pb.DiscoverResponse) *known {
	if d == nil {
		d = &pb.DiscoverResponse{Capabilities: bridge.AllCapabilities()}
	}
	d = proto.CloneOf(d)
	d.TtlMs, d.CacheScope = proto.Int64(0), "private"
	k := &known{DiscoverResponse: d, early: true}
	var err error
	if k.info, err = s.encode(nil, info(d), bridge.Rev20260728); err != nil {
		return s.earlier(nil)
	}
	return k
}

// empty returns the page that a list is whose method the handler does not have, although that was declared while it started; or nil.
func (s *Server) empty(m *bridge.Method, err error) proto.Message {
	if bridge.AsError(err).Code != codes.Unimplemented || !s.promised.Load() {
		return nil
	}
	switch m {
	case bridge.ListTools, bridge.ListPrompts, bridge.ListResources, bridge.ListResourceTemplates:
		page := m.NewResult()
		*bridge.PageOf(page).TTL = proto.Int64(0)
		return page
	}
	return nil
}

// serverInfo returns the member of `_meta` that says who answers (2026-07-28: basic/index, _meta).
func (k *known) serverInfo() mcpjson.Member {
	return mcpjson.Member{Name: metaServerInfo, Value: k.info}
}

// offered returns an error if a server that is d does not have the method (2026-07-28: schema, MethodNotFoundError).
func offered(d *known, m *bridge.Method) error {
	if m.SupportedBy(d.GetCapabilities()) {
		return nil
	}
	return bridge.Errorf(codes.Unimplemented, "%s: this server does not have it; server/discover or initialize tells its capabilities", m.Name)
}

// info returns what d says of the server's program. Every server has a name.
func info(d *pb.DiscoverResponse) *pb.Implementation {
	i := d.GetServerInfo()
	if i.GetName() != "" {
		return i
	}
	return &pb.Implementation{Name: "mcpbridge"}
}

// encode appends a message of a backend as JSON within the limits.
func (s *Server) encode(dst []byte, m proto.Message, rev bridge.Revision, meta ...mcpjson.Member) ([]byte, error) {
	return mcpjson.AppendWithin(dst, m, rev, &s.opts.Limits, meta...)
}

// shown returns the capabilities of d that this server can serve. Tasks need a store, which it does not have.
func shown(d *known) *pb.ServerCapabilities {
	c := d.GetCapabilities()
	extensions := rawjson.AsBytes(c.GetExtensions())
	tasks := rawjson.Check(extensions) == nil && rawjson.Get(extensions, bridge.TasksExtension) != nil
	if c.GetTasks() == "" && !tasks {
		return c
	}
	c = proto.CloneOf(c)
	c.Tasks = ""
	if tasks {
		c.Extensions = rawjson.AsString(rawjson.Without(extensions, bridge.TasksExtension))
	}
	return c
}

// newSession remembers a session. It returns an error when there are too many.
func (s *Server) newSession(ss *session) error {
	ss.id = rand.Text()
	return s.admit(ss.caller.GetPrincipal(), ss.network, func() { s.sessions[ss.id] = ss })
}

// admit has one session more of p's from a network, which add remembers while mu is held, unless there are too many or
// the server is about to end.
func (s *Server) admit(p *pb.Principal, from netip.Prefix, add func()) error {
	if s.life.Phase() >= lifecycle.Draining {
		return errDraining
	}
	if err := s.opts.Sessions.begin(p, from); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.life.Phase() >= lifecycle.Draining { // since then
		s.opts.Sessions.leave(p)
		return errDraining
	}
	add()
	return nil
}

var errDraining = bridge.Failed(codes.Unavailable, pb.CallFailure_OUTCOME_NOT_EXECUTED, "SHUTTING_DOWN", "%w: begin the session elsewhere, or later", lifecycle.ErrClosing)

// endIdle ends the sessions that are over.
func (s *Server) endIdle(now time.Time) {
	var idle []*session
	var subs []*feed.Subscriber
	s.mu.Lock()
	for id, ss := range s.sessions {
		if ss.over(now) {
			delete(s.sessions, id)
			s.opts.Sessions.leave(ss.caller.GetPrincipal())
			idle, subs = append(idle, ss), append(subs, &ss.sub)
		}
	}
	s.mu.Unlock()
	s.hub.Remove(subs...) // at once: the hub listens anew only once
	for _, ss := range idle {
		ss.end(errEnded)
	}
}

// session returns the session with the given id, or nil. One of somebody else is as good as none, and one that was idle for too long
// ends.
func (s *Server) session(id string, from origin) *session {
	s.mu.Lock()
	ss := s.sessions[id]
	s.mu.Unlock()
	if ss == nil || !samePrincipal(ss.caller.GetPrincipal(), from.principal) {
		return nil
	}
	if !ss.use(time.Now()) {
		s.endSession(id)
		return nil
	}
	return ss
}

// endSession forgets a session and ends its calls, if there is one.
func (s *Server) endSession(id string) {
	s.mu.Lock()
	ss := s.sessions[id]
	if ss != nil {
		delete(s.sessions, id)
		s.opts.Sessions.leave(ss.caller.GetPrincipal())
	}
	s.mu.Unlock()
	if ss != nil {
		ss.end(errEnded)
	}
}
