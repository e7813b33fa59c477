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

// A session is what a legacy client expects us to remember: who it said it is, what it can do, which of its requests are
// being answered, what it was asked, and what it wants to be told.
type session struct {
	s *Server
	// id is what the client names the session by, over HTTP.
	id  string
	rev bridge.Revision
	// scope is the session of its calls, as in bridge.Call.
	scope string
	// tag is what the ids of its events begin with.
	tag string
	// caller is what the client said in initialize. It never changes (2025-11-25: basic/lifecycle).
	caller *pb.CallContext
	// network is where the client began the session, over HTTP.
	network netip.Prefix
	// is is what the handler was when the session began.
	is *known

	// ctx ends with the session, not with any request: in the legacy era a lost connection is no cancellation (2025-11-25:
	// basic/transports, sending messages to the server).
	ctx    context.Context
	cancel context.CancelCauseFunc
	calls  sync.WaitGroup

	// ready is closed when the client has said that it is: notifications/initialized.
	ready     chan struct{}
	readyOnce sync.Once

	// there ends when the client says nothing any more, though it may still read.
	there   context.Context
	silence context.CancelFunc

	// replay bounds what its logs keep.
	replay replay
	// streams bounds how many GETs are open.
	streams limit.Streams

	// sub is the session among those that want to know what changes.
	sub feed.Subscriber

	mu      sync.Mutex // guards what is below
	level   pb.LogLevel
	running running
	asked   map[string]chan<- jsonrpc.Message // by our request's id
	lastAsk int
	// logs are the streams of the session that a client can come back to, by id, and order has the ids, oldest first.
	logs    map[string]*eventLog
	order   []string
	lastLog int
	// push carries what belongs to no request. Without it, it is kept in unheard.
	push    func(msg []byte)
	plugs   int
	vacant  chan struct{} // closed when push is taken away; nil without push
	unheard *feed.Pending
	uris    []string // the resources it subscribed to
	awaited []string // the visits of web pages that it waits for, by id
	used    time.Time
	worked  bool // a request has been made in it
}

// maxLogs bounds how many streams of a session a client can come back to, besides those of calls that run.
const maxLogs = 64

// What a client may say of itself in initialize. It is kept for as long as its session.
const (
	// maxIntroduction bounds how many bytes of JSON it is.
	maxIntroduction = 64 << 10
	// maxIcons bounds how many icons there are, with the sizes they come in: one of ten bytes takes 130. Icons that are too many or too long
	// are left out: nobody is refused for a picture.
	maxIcons = 100
)

// initialize answers a client's first request (2024-11-05 to 2025-11-25: basic/lifecycle). It returns the session that
// begins, which nobody else knows of yet, and the result to answer with.
func (s *Server) initialize(ctx context.Context, msg *jsonrpc.Message, from origin) (*session, []byte, error) {
	asked, ok := rawjson.String(rawjson.Get(msg.Params, "protocolVersion"))
	if !ok {
		return nil, nil, bridge.Errorf(codes.InvalidArgument, "initialize: params.protocolVersion must be a string, such as %q", bridge.LatestLegacy)
	}
	// A revision that has no initialize, or that nobody knows, is answered with one that has.
	rev, ok := bridge.ParseRevision(asked)
	if !ok || rev.Modern() {
		rev = bridge.LatestLegacy
	}
	caller := &pb.CallContext{
		ProtocolVersion: rev.String(), ClientInfo: &pb.Implementation{}, ClientCapabilities: &pb.ClientCapabilities{},
		Principal: from.principal,
	}
	capabilities, info := rawjson.Get(msg.Params, "capabilities"), rawjson.Get(msg.Params, "clientInfo")
	if len(capabilities)+len(info) > maxIntroduction {
		info = rawjson.Without(info, "icons") // which can be whole pictures
	}
	if size := len(capabilities) + len(info); size > maxIntroduction {
		return nil, nil, bridge.Errorf(codes.InvalidArgument, "initialize: params.capabilities and params.clientInfo have %d bytes together, "+
			"and at most %d are allowed, icons apart: say less of the client", size, maxIntroduction)
	}
	for _, member := range []struct {
		name  string
		value []byte
		to    proto.Message
	}{{"capabilities", capabilities, caller.GetClientCapabilities()}, {"clientInfo", info, caller.GetClientInfo()}} {
		if !rawjson.IsObject(member.value) {
			return nil, nil, bridge.Errorf(codes.InvalidArgument, "initialize: params.%s must be an object", member.name)
		}
		// What is read has slices of the text, and is not to keep the whole message.
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
		s: s, rev: rev, tag: rand.Text()[:6] + ".", scope: rand.Text(), caller: caller, is: d, level: pb.LogLevel_LOG_LEVEL_INFO, used: time.Now(),
		asked: map[string]chan<- jsonrpc.Message{}, logs: map[string]*eventLog{},
		ready: make(chan struct{}), streams: limit.Streams{Max: s.opts.Limits.SessionStreams, PerPrincipal: s.opts.Limits.SessionStreams, Reason: bridge.ReasonTooMany}, replay: replay{most: s.opts.Limits.SessionReplay},
	}
	if d.GetCapabilities().GetLogging() == nil {
		ss.level = pb.LogLevel_LOG_LEVEL_UNSPECIFIED // a server that does not declare logging sends none
	}
	ss.ctx, ss.cancel = context.WithCancelCause(s.closing())
	ss.there, ss.silence = context.WithCancel(ss.ctx)
	ss.unheard = s.newPending(ss.wants)
	ss.sub.Want, ss.sub.Report = ss.wants, ss.tell
	return ss, result, nil
}

// initializeResult returns the answer to initialize by a server that is d.
func (s *Server) initializeResult(d *known, rev bridge.Revision) ([]byte, error) {
	out := []byte(`{"protocolVersion":"` + rev.String() + `","capabilities":`)
	caps := shown(d)
	if caps == nil {
		caps = &pb.ServerCapabilities{}
	}
	out, err := s.encode(out, caps, rev)
	if err == nil {
		out, err = s.encode(append(out, `,"serverInfo":`...), info(d.DiscoverResponse), rev)
	}
	if err != nil {
		return nil, bridge.ProtocolViolation(pb.CallFailure_OUTCOME_UNKNOWN, "initialize: what the backend is cannot be written as MCP: %w", err)
	}
	if d.Instructions != nil {
		out = rawjson.AppendString(append(out, `,"instructions":`...), d.GetInstructions())
	}
	if meta := rawjson.AsBytes(d.GetMeta()); rawjson.CheckWithin(meta, &s.opts.Limits) == nil && rawjson.IsObject(meta) {
		out = append(append(out, `,"_meta":`...), meta...)
	}
	return append(out, '}'), nil
}

// end ends the session and every call it made, and waits for them.
func (ss *session) end(cause error) {
	ss.mu.Lock()
	ss.cancel(cause) // no call begins any more
	ss.mu.Unlock()
	ss.s.hub.Remove(&ss.sub)
	ss.calls.Wait()
	ss.mu.Lock()
	defer ss.mu.Unlock()
	for _, l := range ss.logs {
		l.drop()
	}
}

// use notes that the client is there. It reports false if it comes too late.
func (ss *session) use(now time.Time) bool {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if ss.overLocked(now) {
		return false
	}
	ss.used = now
	return true
}

// over reports whether the client has not been there for longer than a session lasts. With a request or a stream open it is there.
func (ss *session) over(now time.Time) bool {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	return ss.overLocked(now)
}

// overLocked is over by somebody who holds mu.
func (ss *session) overLocked(now time.Time) bool {
	return ss.idleLocked() && now.Sub(ss.used) > ss.s.opts.Limits.SessionIdle
}

// idleLocked reports whether the client has neither a request nor a stream open. The caller holds mu.
func (ss *session) idleLocked() bool { return len(ss.running.cancel) == 0 && ss.push == nil }

// readyGrace is how long a request waits for the notification that the client is ready: it may be on its way on another
// connection. The response to it has not begun yet when that is over, so that its status can say so.
const readyGrace = primeAfter / 2

// awaitReady returns an error if the client is not ready for a request of the method (2024-11-05 to 2025-11-25:
// basic/lifecycle, initialization).
func (ss *session) awaitReady(ctx context.Context, method string) error {
	select {
	case <-ss.ready:
		return nil
	default:
	}
	if method == "ping" || method == "initialize" { // one is allowed always, and the other never
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

// begin notes that a request is being answered. It is answered under the context and to the sink that begin returns, and done
// is called afterwards.
func (ss *session) begin(msg *jsonrpc.Message, out sink) (ctx context.Context, to sink, done func(), err error) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if ss.ctx.Err() != nil {
		return nil, nil, nil, bridge.Failed(codes.Unavailable, pb.CallFailure_OUTCOME_NOT_EXECUTED, "SESSION_ENDED", "the session has ended: send initialize again")
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
	ss.worked = true
	ss.calls.Add(1)
	to = &lastSink{out, func() {
		ss.mu.Lock()
		defer ss.mu.Unlock()
		remove()
		ss.used = time.Now()
	}}
	return ctx, to, func() {
		cancel(nil)
		ss.calls.Done()
	}, nil
}

// notified takes a notification of the client. What it does not know it ignores (every revision: basic).
func (ss *session) notified(msg *jsonrpc.Message) {
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

// answered takes the client's response to a request of ours. It reports whether anybody waits for it.
func (ss *session) answered(msg *jsonrpc.Message) bool {
	// We number our requests, and a client may send a number back as another one writes it.
	id := string(bytes.Trim(msg.ID, `"`))
	ss.mu.Lock()
	waiting := ss.asked[id]
	delete(ss.asked, id)
	ss.mu.Unlock()
	if waiting == nil {
		return false
	}
	waiting <- *msg
	return true
}

// ask notes that the client is asked something, and returns the id to ask by and where the answer comes. The caller calls
// forget when it no longer waits.
func (ss *session) ask() (id string, answer <-chan jsonrpc.Message) {
	ch := make(chan jsonrpc.Message, 1)
	ss.mu.Lock()
	defer ss.mu.Unlock()
	ss.lastAsk++
	id = strconv.Itoa(ss.lastAsk)
	ss.asked[id] = ch
	return id, ch
}

func (ss *session) forget(id string) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	delete(ss.asked, id)
}

// newLog begins a stream that the client can come back to.
func (ss *session) newLog() *eventLog {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	ss.lastLog++
	return ss.addLog(strconv.Itoa(ss.lastLog))
}

// addLog begins a stream with the given id. The caller holds mu.
func (ss *session) addLog(id string) *eventLog {
	l := newEventLog(id, &ss.replay, &ss.s.opts.Sessions.replay)
	l.tag = ss.tag
	ss.logs[id] = l
	ss.order = append(ss.order, id)
	for len(ss.order) > maxLogs {
		i := slices.IndexFunc(ss.order, func(id string) bool { return id != unrelated && ss.logs[id].ended() })
		if i < 0 {
			break // those still open have somebody to tell; there are no more than calls
		}
		ss.logs[ss.order[i]].drop()
		delete(ss.logs, ss.order[i])
		ss.order = slices.Delete(ss.order, i, i+1)
	}
	return l
}

// unrelated is the id of the stream of what belongs to no request: the one that a GET opens.
const unrelated = "0"

// unrelatedLog returns the stream of what belongs to no request.
func (ss *session) unrelatedLog() *eventLog {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if l := ss.logs[unrelated]; l != nil {
		return l
	}
	return ss.addLog(unrelated)
}

// plug says where what belongs to no request goes from now on, and passes on what has waited. What it returns takes that
// back, unless something else was plugged in since.
func (ss *session) plug(push func(msg []byte)) (unplug func()) {
	ss.mu.Lock()
	return ss.plugLocked(push)
}

// plugIfVacant is plug if nothing is plugged in, and says where to come back to first. Otherwise it waits for a moment, as the
// stream before may be about to end, and returns nil.
func (ss *session) plugIfVacant(ctx context.Context, push func(msg []byte)) (unplug func()) {
	ctx, cancel := context.WithTimeout(ctx, readyGrace)
	defer cancel()
	for {
		ss.mu.Lock()
		if ss.push == nil {
			if ss.rev.PrimesSSE() {
				push(nil)
			}
			return ss.plugLocked(push)
		}
		vacant := ss.vacant
		ss.mu.Unlock()
		select {
		case <-vacant:
		case <-ctx.Done():
			return nil
		}
	}
}

// plugLocked is plug by somebody who holds mu, which it releases.
func (ss *session) plugLocked(push func(msg []byte)) (unplug func()) {
	ss.plugs++
	mine := ss.plugs
	if ss.push == nil {
		ss.vacant = make(chan struct{})
	}
	ss.push = push
	ss.mu.Unlock()
	ss.hear()
	return func() {
		ss.mu.Lock()
		defer ss.mu.Unlock()
		if ss.plugs == mine {
			ss.push = nil
			close(ss.vacant)
		}
		ss.used = time.Now()
	}
}

// listen makes sure that the session is told what changes, and returns what of it the handler tells. It fails only if the session wants to
// know of a resource that it did not before.
func (ss *session) listen() (told *pb.SubscriptionFilter, err error) {
	ctx, cancel := context.WithCancel(ss.ctx)
	defer cancel()
	if ss.is.early { // the backend starts: once it acknowledges, the session receives all changes
		cancel()
	}
	return ss.s.hub.Subscribe(ctx, &ss.sub)
}

// wants returns what the client wants to know: the lists, which a legacy client need not ask for, and the resources that it subscribed to.
// It is nil once the session has ended.
func (ss *session) wants() *pb.SubscriptionFilter {
	yes := proto.Bool(true)
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if ss.ctx.Err() != nil {
		return nil
	}
	return feed.Supported(&pb.SubscriptionFilter{
		ToolsListChanged: yes, PromptsListChanged: yes, ResourcesListChanged: yes, ElicitationsCompleted: yes,
		ResourceSubscriptions: slices.Clone(ss.uris),
	}, ss.is.GetCapabilities(), len(ss.awaited) > 0)
}

// stream returns what says something on the stream that the client has open, or nil.
func (ss *session) stream() func(msg []byte) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	return ss.push
}

// hear tells the client what it was not told yet, if it has a stream open.
func (ss *session) hear() {
	if ss.stream() == nil {
		return
	}
	for _, c := range ss.unheard.Take() {
		ss.say(c)
	}
}

// tell tells the client a change, if it waits for it.
func (ss *session) tell(change *pb.ListenResponse) {
	if done := change.GetElicitationCompleted(); done != nil && !ss.awaits(done) {
		return
	}
	ss.say(change)
}

// say tells the client a change, on exactly one stream, now or when it opens one.
func (ss *session) say(change *pb.ListenResponse) {
	defer ss.s.panics.Recover("a change", nil)

	push := ss.stream()
	if push == nil {
		ss.unheard.Add(change)
		ss.hear() // the client may have opened a stream meanwhile
		return
	}
	msg, err := ss.s.notification(change, ss.rev)
	if err != nil {
		ss.s.log.Error().Err(err).Msg("a change cannot be told")
		return
	}
	push(msg)
}
