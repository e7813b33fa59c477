// Package mcpserver serves a bridge.Handler to MCP clients over Streamable HTTP, HTTP+SSE and stdio, in every revision.
// It translates requests to bridge.Calls, and results and events back.
//
// A modern request (2026-07-28) is self-contained: modern.go. A legacy client has a session with its state, and
// receives requests of the server: legacy.go, session.go, roundtrip.go. The era is determined for each request, on the
// same endpoint. Transports (http.go, sse2024.go, stdio.go) receive messages, and provide a sink for the messages that
// belong to a request.
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
	"github.com/mcpbridge/mcpbridge/internal/tasks"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// Options configure a Server. The zero value is a server for clients on the same machine.
type Options struct {
	// Log receives the events of the server. The zero value logs nothing.
	Log zerolog.Logger
	// Panics counts panics. If nil, those of this package are counted separately.
	Panics *contain.Panics
	// Principal returns the authenticated principal of a request, or nil without authentication. If nil, no request has
	// a principal.
	Principal func(*http.Request) *pb.Principal
	// AccessExpiry returns the time at which a principal's access ends, or zero if it does not end. At that time,
	// streams of changes end, and calls in flight continue. If nil, access never ends.
	AccessExpiry func(*pb.Principal) time.Time
	// Challenge returns the value of WWW-Authenticate for missing scopes. If nil, there is none.
	Challenge func(scopes []string) string
	// PassHeaders names the HTTP headers that are forwarded to backends.
	PassHeaders []string
	// StateKeys are the keys that seal the request state of backends: the first key seals, and every key opens.
	// Replicas with the same keys can continue each other's calls. If empty, a random key is used.
	StateKeys [][32]byte
	// Limits are the limits of requests and responses. Defaults replace zero fields.
	Limits limits.Limits
	// PollAfter is the maximum duration of an HTTP response in revision 2025-11-25. Then the response is interrupted,
	// and the client resumes it. It is for networks that close long responses. If zero, the duration is not limited.
	PollAfter time.Duration
	// Lifecycle is the phase of the bridge and its calls in flight. If nil, the server has its own.
	Lifecycle *lifecycle.Lifecycle
	// Sessions limits the legacy sessions, including those of HTTP+SSE, and the memory of their logs. It may be shared.
	// If nil, the server has its own.
	Sessions *Sessions
	// Streams limits the streams of changes: those of GETs, of HTTP+SSE and of subscriptions/listen. It may be shared.
	// If nil, the server has its own, which uses Memory.
	Streams *limit.Streams
	// Started waits until no backend for clients of an era is starting, and returns nil. It returns an error if ctx
	// ends before that; if none is starting, it returns nil even if ctx has ended. While a backend starts, initialize
	// and server/discover use Declarations, and calls wait. If nil, no backend starts.
	Started func(ctx context.Context, era bridge.Era) error
	// Declarations are the declarations of the handler across runs of the bridge.
	Declarations Declarations
	// Tasks keeps the tasks of the handler. If nil, the handler has none.
	Tasks *tasks.Tasks
	// Memory is the available memory: while it is low, new sessions, streams, long bodies and calls are rejected. If
	// nil, it is not limited.
	Memory *limit.Memory
}

// Declarations keep the declarations of a handler across runs of the bridge.
type Declarations struct {
	// Previous has those to clients of each era in the previous run. For an era without one, all capabilities are
	// declared.
	Previous [bridge.Eras]*pb.DiscoverResponse
	// Changed is called when the declaration to clients of an era changes. It must not block for long. It may be nil.
	Changed func(bridge.Era, *pb.DiscoverResponse)
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
	lasting sync.WaitGroup // streams with hijacked connections, and other work that Close waits for

	// declarations are the handler's latest declarations to clients of each era, which may differ.
	declarations [bridge.Eras]atomic.Pointer[declaration]
	// early has the declarations while a backend starts, by era. sentEarly means that a client has received one of
	// them.
	early     [bridge.Eras]*declaration
	sentEarly atomic.Bool

	mu       sync.Mutex // guards what follows, all of which Sessions counts
	sessions map[string]*session
	conns    map[string]*conn // connections of HTTP+SSE, by the session id of their endpoint
}

// A declaration is a Discover response of the handler. It is immutable.
type declaration struct {
	*pb.DiscoverResponse
	at time.Time
	// info is the server_info in JSON.
	info []byte
	// early means that the declaration is not from the handler, because a backend is starting.
	early bool
}

const (
	// discoverInterval is the minimum interval between Discover calls: most requests use the latest declaration.
	discoverInterval = time.Second
	// earlyAfter is the maximum time that a client waits for the declaration while a backend starts. Clients give up,
	// or assume the other era, after a few seconds.
	earlyAfter = 1500 * time.Millisecond
)

// The causes of the end of a call's context, besides those of its transport.
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
		s.early[era] = s.earlyDeclaration(o.Declarations.Previous[era])
	}
	s.hub = feed.NewHub(bridge.HandlerFunc(s.handle), s.declares, o.Log)
	o.Sessions.add(s)
	return s
}

// Close begins the phase Closing, ends all sessions with their calls, and all streams of changes, and waits for them.
// It does not wait for modern calls over HTTP: they end with the contexts of their requests.
func (s *Server) Close() {
	s.life.Advance(lifecycle.Closing)
	s.mu.Lock()
	sessions := s.sessions
	s.sessions = map[string]*session{}
	s.mu.Unlock()
	s.opts.Sessions.remove(s)
	for _, ss := range sessions {
		s.opts.Sessions.release(ss.caller.GetVerified().GetPrincipal())
		ss.end(lifecycle.ErrClosing)
	}
	s.hub.Close()
	s.lasting.Wait()
}

// closing returns the context of everything that outlives an HTTP request. It is canceled when the bridge closes.
func (s *Server) closing() context.Context { return s.life.Until(lifecycle.Closing) }

// handle executes a call of the server itself. It recovers panics.
func (s *Server) handle(ctx context.Context, call *bridge.Call, emit bridge.Emit) (res *bridge.Result, err error) {
	defer s.panics.Recover(call.Method.Name, func(e *bridge.Error) { res, err = nil, e })

	res, err = s.handler.Handle(ctx, call, emit)
	return res, handlerError(err)
}

// declares reports whether the handler declares notifications of any change in f, to clients of any era.
func (s *Server) declares(f *pb.SubscriptionFilter) bool {
	for era := range s.declarations {
		if k := s.declarations[era].Load(); k != nil && !feed.IsEmpty(feed.Supported(f, k.GetCapabilities(), false)) {
			return true
		}
	}
	return false
}

// discover returns the handler's current declaration to clients of an era, or the latest one if the handler is
// overloaded.
func (s *Server) discover(ctx context.Context, era bridge.Era) (*declaration, error) {
	now, was := time.Now(), s.declarations[era].Load()
	if was != nil && now.Sub(was.at) < discoverInterval {
		return was, nil
	}
	limited, early := ctx, was == nil && s.starting()
	if early {
		if s.sentEarly.Load() {
			return s.early[era], nil
		}
		var cancel context.CancelFunc
		limited, cancel = context.WithTimeout(ctx, earlyAfter)
		defer cancel()
	}
	call := &bridge.Call{Method: bridge.Discover, Request: &pb.DiscoverRequest{
		Context: &pb.CallContext{
			ProtocolVersion: era.Latest().String(), Verified: bridge.Verified(era.Latest(), nil, nil),
		},
	}}
	res, err := s.handle(limited, call, nil)
	if err != nil {
		if early && limited.Err() != nil && ctx.Err() == nil {
			s.declareEarly(era)
			return s.early[era], nil
		}
		if was == nil || bridge.AsError(err).Reason != bridge.ReasonOverloaded {
			return nil, err
		}
		// The handler is overloaded: the latest declaration stays in use, and is refreshed later.
		k := was.asOf(now)
		s.declarations[era].CompareAndSwap(was, k)
		return k, nil
	}
	d, ok := res.Complete.(*pb.DiscoverResponse)
	if !ok {
		return nil, bridge.Errorf(codes.Internal, "server/discover: the handler returned %T", res.Complete)
	}
	k := &declaration{DiscoverResponse: d, at: now}
	if k.info, err = s.encode(nil, info(d), bridge.Rev20260728); err != nil {
		return nil, bridge.ProtocolViolation(bridge.OutcomeUnknown,
			"server/discover: server_info cannot be encoded as MCP: %w", err)
	}
	s.declarations[era].Store(k)
	if s.opts.Declarations.Changed != nil && (was == nil || !proto.Equal(was.DiscoverResponse, d)) {
		s.opts.Declarations.Changed(era, d)
	}
	return k, nil
}

// asOf returns the declaration with another time.
func (k *declaration) asOf(at time.Time) *declaration {
	return &declaration{DiscoverResponse: k.DiscoverResponse, info: k.info, at: at}
}

// declareEarly records that a client of an era has received the early declaration, and refreshes it once the backends
// have started.
func (s *Server) declareEarly(era bridge.Era) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing().Err() != nil || s.sentEarly.Swap(true) {
		return
	}
	s.lasting.Go(func() {
		if s.opts.Started(s.closing(), era) == nil {
			_, _ = s.discover(s.closing(), era) // the next caller receives the error
		}
	})
}

// starting reports whether a backend of the handler is starting. A backend that serves modern clients has started, even
// if its legacy part has not: legacy clients wait for its declaration to them.
func (s *Server) starting() bool {
	if s.opts.Started == nil {
		return false
	}
	now, cancel := context.WithCancel(s.closing())
	cancel()
	return s.opts.Started(now, bridge.ModernEra) != nil
}

// earlyDeclaration returns the declaration for the time while a backend starts, based on d, the declaration in the
// previous run, if any. Its TTL is zero, so that clients request it again.
func (s *Server) earlyDeclaration(d *pb.DiscoverResponse) *declaration {
	if d == nil {
		d = &pb.DiscoverResponse{Capabilities: bridge.AllCapabilities()}
	}
	d = proto.CloneOf(d)
	d.TtlMs, d.CacheScope = proto.Int64(0), "private"
	k := &declaration{DiscoverResponse: d, early: true}
	var err error
	if k.info, err = s.encode(nil, info(d), bridge.Rev20260728); err != nil {
		return s.earlyDeclaration(nil)
	}
	return k
}

// emptyPage returns an empty page if m lists what the early declaration has and the handler does not support.
// Otherwise it returns nil.
func (s *Server) emptyPage(m *bridge.Method, err error) proto.Message {
	if bridge.AsError(err).Code != codes.Unimplemented || !s.sentEarly.Load() {
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

// serverInfo returns the member of `_meta` with the server info (2026-07-28: basic/index, _meta).
func (k *declaration) serverInfo() mcpjson.Member {
	return mcpjson.Member{Name: metaServerInfo, Value: k.info}
}

// checkSupported returns an error if a server with the declaration d does not support the method (2026-07-28: schema,
// MethodNotFoundError).
func checkSupported(d *declaration, m *bridge.Method) error {
	if m.SupportedBy(d.GetCapabilities()) {
		return nil
	}
	return bridge.Errorf(codes.Unimplemented,
		"%s: this server does not support it; server/discover or initialize returns its capabilities", m.Name)
}

// info returns the server info of d, with a default name.
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

// taskCapability is the capability of 2025-11-25 for tasks.
const taskCapability = `{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}`

// supportedCapabilities returns the capabilities of d in a revision. Tasks are a capability of their own in 2025-11-25,
// and an extension since 2026-07-28: a client must not see those of the other one.
func (s *Server) supportedCapabilities(d *declaration, rev bridge.Revision) *pb.ServerCapabilities {
	c := d.GetCapabilities()
	declared := bridge.ServesTasks(c)
	if c.GetTasks() == "" && (!declared || s.opts.Tasks != nil && rev.Modern()) {
		return c
	}
	c = proto.CloneOf(c)
	c.Tasks = ""
	if declared && s.opts.Tasks != nil && rev.HasTaskMetadata() {
		c.Tasks = taskCapability
	}
	if declared && (s.opts.Tasks == nil || !rev.Modern()) {
		c.Extensions = rawjson.AsString(rawjson.Without(rawjson.AsBytes(c.GetExtensions()), bridge.TasksExtension))
	}
	return c
}

// newSession adds a session. It returns an error above the limit.
func (s *Server) newSession(ss *session) error {
	ss.id = rand.Text()
	return s.admit(ss.caller.GetVerified().GetPrincipal(), ss.network, func() { s.sessions[ss.id] = ss })
}

// admit counts a session of p from a network, and calls add with mu held. It returns an error above the limit, or when
// the server is closing.
func (s *Server) admit(p *pb.Principal, from netip.Prefix, add func()) error {
	if s.life.Phase() >= lifecycle.Draining {
		return errDraining
	}
	if err := s.opts.Sessions.begin(p, from); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.life.Phase() >= lifecycle.Draining { // it may have begun meanwhile
		s.opts.Sessions.release(p)
		return errDraining
	}
	add()
	return nil
}

var errDraining = bridge.Failed(codes.Unavailable, bridge.OutcomeNotExecuted, "SHUTTING_DOWN",
	"%w: begin the session elsewhere, or later", lifecycle.ErrClosing)

// endIdle ends the expired sessions.
func (s *Server) endIdle(now time.Time) {
	var idle []*session
	var subs []*feed.Subscriber
	s.mu.Lock()
	for id, ss := range s.sessions {
		if ss.expired(now) {
			delete(s.sessions, id)
			s.opts.Sessions.release(ss.caller.GetVerified().GetPrincipal())
			idle, subs = append(idle, ss), append(subs, &ss.sub)
		}
	}
	s.mu.Unlock()
	s.hub.Remove(subs...) // in one call, so that the hub subscribes again only once
	for _, ss := range idle {
		ss.end(errEnded)
	}
}

// session returns the session with the given id, or nil. It returns nil for a session of another principal. It ends an
// expired session.
func (s *Server) session(id string, from origin) *session {
	s.mu.Lock()
	ss := s.sessions[id]
	s.mu.Unlock()
	if ss == nil || !samePrincipal(ss.caller.GetVerified().GetPrincipal(), from.principal) {
		return nil
	}
	if !ss.use(time.Now()) {
		s.endSession(id)
		return nil
	}
	return ss
}

// endSession removes a session, if it exists, and ends its calls.
func (s *Server) endSession(id string) {
	s.mu.Lock()
	ss := s.sessions[id]
	if ss != nil {
		delete(s.sessions, id)
		s.opts.Sessions.release(ss.caller.GetVerified().GetPrincipal())
	}
	s.mu.Unlock()
	if ss != nil {
		ss.end(errEnded)
	}
}
