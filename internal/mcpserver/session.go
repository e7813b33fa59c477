package mcpserver

import (
	"bytes"
	"context"
	"crypto/rand"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/feed"
	"github.com/mcpbridge/mcpbridge/internal/jsonrpc"
	"github.com/mcpbridge/mcpbridge/internal/limit"
	"github.com/mcpbridge/mcpbridge/internal/mcpjson"
	"github.com/mcpbridge/mcpbridge/internal/rawjson"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// A session is the state of a legacy client: its client info and capabilities, its requests in flight, the requests of
// the server, and its subscriptions.
type session struct {
	s *Server
	// id is the session id in HTTP.
	id  string
	rev bridge.Revision
	// scope is the session of its calls, as in bridge.Call.
	scope string
	// tag is the prefix of its event ids.
	tag string
	// caller is from initialize. It is immutable (2025-11-25: basic/lifecycle).
	caller *pb.CallContext
	// network is the network from which the client initialized the session, in HTTP.
	network netip.Prefix
	// declaration is the declaration of the handler at the start of the session.
	declaration *declaration

	// ctx ends with the session, not with a request: in the legacy era a lost connection is no cancellation
	// (2025-11-25: basic/transports, sending messages to the server).
	ctx    context.Context
	cancel context.CancelCauseFunc
	calls  sync.WaitGroup

	// ready is closed by notifications/initialized.
	ready     chan struct{}
	readyOnce sync.Once

	// inbound ends when the client sends nothing any more, though it may still read.
	inbound    context.Context
	endInbound context.CancelFunc

	// replay limits the size of its logs.
	replay replayLimit
	// streams limits the number of open GETs.
	streams limit.Streams

	// sub is the session as a subscriber to changes.
	sub feed.Subscriber

	mu             sync.Mutex // guards what follows
	level          pb.LogLevel
	running        inFlight
	serverRequests map[string]chan<- jsonrpc.Message // by the id of the server's request
	lastRequest    int
	// logs are the streams of the session that can be resumed, by id, and order has the ids, oldest first.
	logs    map[string]*eventLog
	order   []string
	lastLog int
	// push sends messages without a request. If nil, they are kept in undelivered.
	push         func(msg []byte)
	attachments  int
	detached     chan struct{} // closed when push becomes nil; nil without push
	undelivered  *feed.Pending
	uris         []string // subscribed resources
	elicitations []string // ids of pending URL elicitations
	lastUse      time.Time
	hasRequested bool // the client has made a request
}

// maxLogs is the maximum number of streams of a session that can be resumed, besides those of calls in flight.
const maxLogs = 64

// The limits of what a client sends in initialize, which is kept with its session.
const (
	// maxInitializeSize is the maximum size in bytes of JSON.
	maxInitializeSize = 64 << 10
	// maxIcons is the maximum number of icons and their sizes together: a size of ten bytes takes 130 bytes of memory.
	// Above the limits, icons are dropped without an error.
	maxIcons = 100
)

// initialize handles a client's first request (2024-11-05 to 2025-11-25: basic/lifecycle). It returns the new session,
// which is not shared yet, and the result.
func (s *Server) initialize(ctx context.Context, msg *jsonrpc.Message, from origin) (*session, []byte, error) {
	asked, ok := rawjson.String(rawjson.Get(msg.Params, "protocolVersion"))
	if !ok {
		return nil, nil, bridge.Errorf(codes.InvalidArgument,
			"initialize: params.protocolVersion must be a string, such as %q", bridge.LatestLegacy)
	}
	// For an unknown revision, or one without initialize, the response has a supported one.
	rev, ok := bridge.ParseRevision(asked)
	if !ok || rev.Modern() {
		rev = bridge.LatestLegacy
	}
	caller := &pb.CallContext{
		ClientInfo: &pb.Implementation{}, ClientCapabilities: &pb.ClientCapabilities{},
		Verified: bridge.Verified(rev, from.principal, nil),
	}
	capabilities, info := rawjson.Get(msg.Params, "capabilities"), rawjson.Get(msg.Params, "clientInfo")
	if len(capabilities)+len(info) > maxInitializeSize {
		info = rawjson.Without(info, "icons") // they can be whole images
	}
	if size := len(capabilities) + len(info); size > maxInitializeSize {
		return nil, nil, bridge.Errorf(codes.InvalidArgument,
			"initialize: params.capabilities and params.clientInfo have %d bytes together, "+
				"and at most %d are allowed, without icons: shorten them", size, maxInitializeSize)
	}
	for _, member := range []struct {
		name  string
		value []byte
		to    proto.Message
	}{{"capabilities", capabilities, caller.GetClientCapabilities()}, {"clientInfo", info, caller.GetClientInfo()}} {
		if !rawjson.IsObject(member.value) {
			return nil, nil, bridge.Errorf(codes.InvalidArgument, "initialize: params.%s must be an object",
				member.name)
		}
		// Decoded values refer to the text, and must not retain the whole message.
		if err := mcpjson.Unmarshal(bytes.Clone(member.value), member.to, rev); err != nil {
			return nil, nil, bridge.Errorf(codes.InvalidArgument, "initialize: params.%s: %w", member.name, err)
		}
	}
	icons := 0
	for _, icon := range caller.GetClientInfo().GetIcons() {
		icons += 1 + len(icon.GetSizes())
	}
	if icons > maxIcons {
		caller.ClientInfo.Icons = nil
	}
	caller.ClientCapabilities = bridge.EffectiveCapabilities(caller.GetClientCapabilities(), rev)
	d, err := s.discover(ctx, bridge.LegacyEra)
	if err != nil {
		return nil, nil, err
	}
	result, err := s.initializeResult(d, rev)
	if err != nil {
		return nil, nil, err
	}
	ss := &session{
		s: s, rev: rev, tag: rand.Text()[:6] + ".", scope: rand.Text(), caller: caller, declaration: d,
		level: pb.LogLevel_LOG_LEVEL_INFO, lastUse: time.Now(),
		serverRequests: map[string]chan<- jsonrpc.Message{}, logs: map[string]*eventLog{},
		ready: make(chan struct{}),
		streams: limit.Streams{
			Max: s.opts.Limits.SessionStreams, PerPrincipal: s.opts.Limits.SessionStreams,
			Reason: bridge.ReasonTooMany,
		}, replay: replayLimit{max: s.opts.Limits.SessionReplay},
	}
	if d.GetCapabilities().GetLogging() == nil {
		ss.level = pb.LogLevel_LOG_LEVEL_UNSPECIFIED // a server without declared logging sends no log messages
	}
	ss.ctx, ss.cancel = context.WithCancelCause(s.closing())
	ss.inbound, ss.endInbound = context.WithCancel(ss.ctx)
	ss.undelivered = s.newPending(ss.filter)
	ss.sub.Want, ss.sub.Report = ss.filter, ss.notify
	return ss, result, nil
}

// initializeResult returns the result of initialize for a server with the declaration d.
func (s *Server) initializeResult(d *declaration, rev bridge.Revision) ([]byte, error) {
	out := []byte(`{"protocolVersion":"` + rev.String() + `","capabilities":`)
	caps := s.supportedCapabilities(d, rev)
	if caps == nil {
		caps = &pb.ServerCapabilities{}
	}
	out, err := s.encode(out, caps, rev)
	if err == nil {
		out, err = s.encode(append(out, `,"serverInfo":`...), info(d.DiscoverResponse), rev)
	}
	if err != nil {
		return nil, bridge.ProtocolViolation(bridge.OutcomeUnknown,
			"initialize: the backend's declaration cannot be encoded as MCP: %w", err)
	}
	if d.Instructions != nil {
		out = rawjson.AppendString(append(out, `,"instructions":`...), d.GetInstructions())
	}
	if meta := rawjson.AsBytes(d.GetMeta()); rawjson.CheckWithin(meta, &s.opts.Limits) == nil &&
		rawjson.IsObject(meta) {
		out = append(append(out, `,"_meta":`...), meta...)
	}
	return append(out, '}'), nil
}

// end ends the session, cancels its calls, and waits for them.
func (ss *session) end(cause error) {
	ss.mu.Lock()
	ss.cancel(cause) // no further call starts
	ss.mu.Unlock()
	ss.s.hub.Remove(&ss.sub)
	ss.calls.Wait()
	ss.mu.Lock()
	defer ss.mu.Unlock()
	for _, l := range ss.logs {
		l.drop()
	}
}

// use records activity of the client. It returns false if the session has ended.
func (ss *session) use(now time.Time) bool {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if ss.expiredLocked(now) {
		return false
	}
	ss.lastUse = now
	return true
}

// expired reports whether the session has expired, because the client was inactive for too long. A request or stream in
// progress is activity.
func (ss *session) expired(now time.Time) bool {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	return ss.expiredLocked(now)
}

// expiredLocked is expired for callers that hold mu.
func (ss *session) expiredLocked(now time.Time) bool {
	return ss.idleLocked() && now.Sub(ss.lastUse) > ss.s.opts.Limits.SessionIdle
}

// idleLocked reports whether the client has neither a request nor a stream in progress. The caller holds mu.
func (ss *session) idleLocked() bool { return len(ss.running.cancel) == 0 && ss.push == nil }

// readyGrace is the maximum time that a request waits for notifications/initialized, which may be in flight on another
// connection. It is shorter than primeAfter, so that the response can still have an error status.
const readyGrace = primeAfter / 2

// awaitReady returns an error if the client is not ready for a request of the method (2024-11-05 to 2025-11-25:
// basic/lifecycle, initialization).
func (ss *session) awaitReady(ctx context.Context, method string) error {
	select {
	case <-ss.ready:
		return nil
	default:
	}
	if method == "ping" || method == "initialize" { // ping is always allowed, and initialize never
		return nil
	}
	late := time.NewTimer(readyGrace)
	defer late.Stop()
	select {
	case <-ss.ready:
		return nil
	case <-ctx.Done():
	case <-late.C:
	}
	e := bridge.Errorf(codes.InvalidArgument, "%s: send notifications/initialized first", rawjson.Shorten(method))
	e.RPC = &pb.JsonRpcError{Code: codeInvalidRequest, Data: jsonrpc.NotExecuted}
	return e
}

// begin records a request in flight. Its handler must use the returned context and sink, and then call done.
func (ss *session) begin(msg *jsonrpc.Message, out sink) (ctx context.Context, to sink, done func(), err error) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if ss.ctx.Err() != nil {
		return nil, nil, nil, bridge.Failed(codes.Unavailable, bridge.OutcomeNotExecuted, "SESSION_ENDED",
			"the session has ended: send initialize again")
	}
	if most := ss.s.opts.Limits.SessionCalls; len(ss.running.cancel) >= most {
		return nil, nil, nil, overload(most)
	}
	ctx, cancel := context.WithCancelCause(ss.ctx)
	remove, err := ss.running.add(msg, &ss.s.opts.Limits, cancel)
	if err != nil {
		cancel(nil)
		return nil, nil, nil, err
	}
	ss.hasRequested = true
	ss.calls.Add(1)
	to = &lastSink{out, func() {
		ss.mu.Lock()
		defer ss.mu.Unlock()
		remove()
		ss.lastUse = time.Now()
	}}
	return ctx, to, func() {
		cancel(nil)
		ss.calls.Done()
	}, nil
}

// handleNotification handles a notification of the client. Unknown ones are ignored (every revision: basic).
func (ss *session) handleNotification(msg *jsonrpc.Message) {
	switch msg.Method {
	case notifyCancelled:
		id := jsonrpc.Key(rawjson.Get(msg.Params, "requestId"))
		ss.mu.Lock()
		cancel := ss.running.cancel[string(id)]
		ss.mu.Unlock()
		if cancel != nil {
			cancel(errCancelled)
		}
	case notifyInitialized:
		ss.readyOnce.Do(func() { close(ss.ready) })
	case notifyProgress, notifyRootsChanged:
	default:
		ss.s.log.Debug().Str("method", msg.Method).Msg("ignored a notification")
	}
}

// handleResponse handles the client's response to a request of the server. It reports whether that request was pending.
func (ss *session) handleResponse(msg *jsonrpc.Message) bool {
	// Ids of the server are numbers, and a client may send back a number in another notation.
	id := string(bytes.Trim(msg.ID, `"`))
	ss.mu.Lock()
	waiting := ss.serverRequests[id]
	delete(ss.serverRequests, id)
	ss.mu.Unlock()
	if waiting == nil {
		return false
	}
	waiting <- *msg
	return true
}

// addRequest registers a request to the client, and returns its id and the channel of the response. The caller must
// call removeRequest.
func (ss *session) addRequest() (id string, answer <-chan jsonrpc.Message) {
	ch := make(chan jsonrpc.Message, 1)
	ss.mu.Lock()
	defer ss.mu.Unlock()
	ss.lastRequest++
	id = strconv.Itoa(ss.lastRequest)
	ss.serverRequests[id] = ch
	return id, ch
}

func (ss *session) removeRequest(id string) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	delete(ss.serverRequests, id)
}

// attach sets the function for messages without a request, and sends the pending ones. The returned function unsets it,
// unless it was replaced.
func (ss *session) attach(push func(msg []byte)) (detach func()) {
	ss.mu.Lock()
	return ss.attachLocked(push)
}

// attachIfFree is attach if no function is set, and pushes a priming event first. Otherwise it waits for a moment,
// because the previous stream may be about to end. If the function is still set then, it returns nil.
func (ss *session) attachIfFree(ctx context.Context, push func(msg []byte)) (detach func()) {
	ctx, cancel := context.WithTimeout(ctx, readyGrace)
	defer cancel()
	for {
		ss.mu.Lock()
		if ss.push == nil {
			if ss.rev.PrimesSSE() {
				push(nil)
			}
			return ss.attachLocked(push)
		}
		detached := ss.detached
		ss.mu.Unlock()
		select {
		case <-detached:
		case <-ctx.Done():
			return nil
		}
	}
}

// attachLocked is attach for callers that hold mu, which it releases.
func (ss *session) attachLocked(push func(msg []byte)) (detach func()) {
	ss.attachments++
	attachment := ss.attachments
	if ss.push == nil {
		ss.detached = make(chan struct{})
	}
	ss.push = push
	ss.mu.Unlock()
	ss.flush()
	return func() {
		ss.mu.Lock()
		defer ss.mu.Unlock()
		if ss.attachments == attachment {
			ss.push = nil
			close(ss.detached)
		}
		ss.lastUse = time.Now()
	}
}

// listen subscribes the session to changes, and returns the part of its filter that the handler supports. It can fail
// only if the session has subscribed to a further resource.
func (ss *session) listen() (supported *pb.SubscriptionFilter, err error) {
	ctx, cancel := context.WithCancel(ss.ctx)
	defer cancel()
	// do not wait for a starting backend: when it acknowledges, the session receives all changes
	if ss.declaration.early {
		cancel()
	}
	return ss.s.hub.Subscribe(ctx, &ss.sub)
}

// filter returns the session's filter: the lists, which a legacy client need not request, and the subscribed resources.
// It is nil once the session has ended.
func (ss *session) filter() *pb.SubscriptionFilter {
	yes := proto.Bool(true)
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if ss.ctx.Err() != nil {
		return nil
	}
	return feed.Supported(&pb.SubscriptionFilter{
		ToolsListChanged: yes, PromptsListChanged: yes, ResourcesListChanged: yes, ElicitationsCompleted: yes,
		ResourceSubscriptions: slices.Clone(ss.uris),
	}, ss.declaration.GetCapabilities(), len(ss.elicitations) > 0)
}

// stream returns the function that sends on the client's open stream, or nil.
func (ss *session) stream() func(msg []byte) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	return ss.push
}

// flush sends the pending messages, if the client has a stream open.
func (ss *session) flush() {
	if ss.stream() == nil {
		return
	}
	for _, c := range ss.undelivered.Take() {
		ss.deliver(c)
	}
}

// notify sends a change to the client, unless it is the completion of an elicitation that the session does not wait
// for.
func (ss *session) notify(change *pb.ListenResponse) {
	if done := change.GetElicitationCompleted(); done != nil && !ss.removeElicitation(done) {
		return
	}
	ss.deliver(change)
}

// deliver sends a change to the client, on exactly one stream: now, or when the client opens one.
func (ss *session) deliver(change *pb.ListenResponse) {
	defer ss.s.panics.Recover("a change", nil)

	push := ss.stream()
	if push == nil {
		ss.undelivered.Add(change)
		ss.flush() // the client may have opened a stream meanwhile
		return
	}
	change, ok := ss.s.opts.Tasks.Current(change, ss.caller)
	if !ok {
		return
	}
	msg, err := ss.s.notification(change, ss.rev)
	if err != nil {
		ss.s.log.Error().Err(err).Msg("a change notification cannot be encoded")
		return
	}
	push(msg)
}
