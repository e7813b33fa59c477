package mcpclient

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/feed"
	"github.com/mcpbridge/mcpbridge/internal/jsonrpc"
	"github.com/mcpbridge/mcpbridge/internal/limits"
	"github.com/mcpbridge/mcpbridge/internal/mcpjson"
	"github.com/mcpbridge/mcpbridge/internal/rawjson"
	"github.com/mcpbridge/mcpbridge/internal/supervise"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// A subscription is one call of subscriptions/listen, across the connections that it uses.
type subscription struct {
	c         *Client
	call      *bridge.Call
	requested *pb.SubscriptionFilter
	// own has the changes of the Client's own connection, and legacy those of the legacy Client, if any.
	own, legacy *feed.Source
	ack         *pb.SubscriptionsAcknowledged // the server's first acknowledgment
	acked       bool                          // acknowledged on this connection
}

// listen reports changes until ctx ends. After the server was lost and reconnected, it reports that everything may have
// changed.
func (c *Client) listen(ctx context.Context, call *bridge.Call, emit bridge.Emit) (*bridge.Result, error) {
	if n := c.listening.Add(1); n > int64(c.o.MaxCalls) {
		c.listening.Add(-1)
		return nil, c.overloaded("%d subscriptions are open, which is the limit", c.o.MaxCalls)
	}
	defer c.listening.Add(-1)
	s := &subscription{c: c, call: call, requested: call.Request.(*pb.ListenRequest).GetNotifications()}
	stream := feed.NewStream(func() *pb.SubscriptionFilter { return s.requested })
	s.own = stream.Source(nil)
	if c.o.Revision == bridge.NoRevision {
		s.legacy = stream.Source(nil)
	}
	return stream.Answer(ctx, nil, emit, s.acknowledgment, s.listen)
}

// listen reports changes, across connections, until ctx ends or the server ends the subscription.
func (s *subscription) listen(ctx context.Context) (res *bridge.Result, err error) {
	c := s.c
	defer c.panics.Recover(bridge.Listen.Name, func(e *bridge.Error) { res, err = nil, e })
	ctx, cancel := context.WithCancel(ctx)
	var legacy sync.WaitGroup
	defer legacy.Wait()
	defer cancel()
	if s.legacy != nil {
		legacy.Go(func() {
			defer c.panics.Recover("listening to the connection of the legacy era", nil)
			s.listenToLegacyClient(ctx)
		})
	}
	err = feed.Follow(ctx, func(reset func()) error {
		began := time.Now()
		var err error
		res, err = s.once(ctx)
		if time.Since(began) > c.intervals.stableAfter {
			reset()
		}
		return err
	}, func(err error, _ time.Duration) bool {
		_, isLost := errors.AsType[*lostError](err)
		return err == nil || c.super.State().Ended ||
			!isLost && (s.ack == nil || bridge.AsError(err).Code != codes.Unavailable)
	})
	switch {
	case err == nil:
		return res, nil
	case ctx.Err() != nil:
		return nil, bridge.Canceled(ctx, s.ack != nil)
	case c.super.State().Ended:
		var w supervise.Wait
		_, err = c.super.Await(ctx, &w)
	}
	return nil, err
}

// once reports changes until the connection is lost, ctx ends, or the server ends the subscription.
func (s *subscription) once(ctx context.Context) (*bridge.Result, error) {
	var w supervise.Wait
	l, err := s.c.super.Await(ctx, &w)
	if err != nil {
		return nil, err
	}
	s.acked = false
	if !l.peer.rev().Modern() {
		return nil, s.listenToSession(ctx, l)
	}
	res, err := s.modern(ctx, l)
	if t, _ := s.c.currentLegacyClient(); t != nil && isUnimplemented(err) {
		return nil, s.listenToLegacyClientOnly(ctx, l)
	}
	return res, err
}

// acknowledge records what the server reports from now on.
func (s *subscription) acknowledge(ack *pb.SubscriptionsAcknowledged) {
	if s.acked {
		return
	}
	s.acked = true
	if s.ack == nil {
		s.ack = ack
	}
	s.own.Acknowledge(ack.GetNotifications())
}

// acknowledgment returns the event with what the server, or the server and its legacy Client, acknowledged.
func (s *subscription) acknowledgment(together *pb.SubscriptionFilter) *pb.ListenResponse {
	ack := s.ack
	if s.legacy != nil && s.legacy.Acknowledged() != nil {
		together.Extra = ack.GetNotifications().GetExtra()
		ack = bridge.ShallowCopy(ack)
		ack.Notifications = together
	}
	return &pb.ListenResponse{Event: &pb.ListenResponse_Acknowledged{Acknowledged: ack}}
}

// modern reports the changes of a modern server (2026-07-28: basic/patterns/subscriptions).
func (s *subscription) modern(ctx context.Context, l *connection) (*bridge.Result, error) {
	p := l.peer
	x, err := p.beginRequest(bridge.Listen, s.call.Request, purpose{listens: true})
	if err != nil {
		return nil, err
	}
	defer p.end(x)
	x.each = func(m *jsonrpc.Message) error {
		if m.Method == notifyCancelled {
			return &lostError{err: errors.New("the server ended the subscription")}
		}
		return s.take(m, p.rev())
	}
	p.start(x)
	msg, err := x.await(ctx)
	if err != nil {
		return nil, err
	}
	if msg.Error != nil {
		return nil, bridge.FromJSONRPC(msg.Error, p.rev(), bridge.Listen)
	}
	// some servers end the subscription before the acknowledgment
	s.acknowledge(&pb.SubscriptionsAcknowledged{Notifications: &pb.SubscriptionFilter{}})
	out := &pb.ListenResult{}
	if err := mcpjson.Unmarshal(msg.Result, out, p.rev()); err != nil {
		return nil, s.c.protocolViolation("responded to %s with an invalid result: %v", bridge.Listen.Name, err)
	}
	clean(out)
	return &bridge.Result{Complete: out}, nil
}

// take handles a notification.
func (s *subscription) take(m *jsonrpc.Message, rev bridge.Revision) error {
	event, err := eventOf(m, rev)
	switch ack := event.GetAcknowledged(); {
	case err != nil && m.Method == feed.NotifyAcknowledged:
		return s.c.protocolViolation("sent an invalid acknowledgment of a subscription: %v", err)
	case ack != nil:
		s.acknowledge(ack)
	case event != nil:
		s.own.Report(event)
	}
	return nil
}

// eventOf returns the event of a notification, or nil if it is not a change.
func eventOf(m *jsonrpc.Message, rev bridge.Revision) (*pb.ListenResponse, error) {
	event, inner := feed.FromNotification(m.Method)
	if event == nil {
		return nil, nil //nolint:nilnil // it is another notification
	}
	params := m.Params
	if params == nil {
		params = []byte("{}")
	}
	if err := mcpjson.Unmarshal(params, inner, rev); err != nil {
		return nil, err
	}
	clean(inner)
	return mcpjson.Clone(event), nil // a copy: the text of the message may be far longer
}

// listenToSession listens to the notifications of a session, and subscribes to resources. It returns when the session
// is lost.
func (s *subscription) listenToSession(ctx context.Context, l *connection) error {
	h := &l.peer.subs
	honored := feed.Supported(s.requested, l.declared.Load().GetCapabilities(), l.peer.rev().HasURLElicitationError())
	uris := slices.Compact(slices.Sorted(slices.Values(honored.GetResourceSubscriptions())))
	honored.ResourceSubscriptions = nil
	own := &listener{filter: honored, source: s.own}
	h.add(own)
	defer h.remove(own)
	for _, uri := range uris {
		err := h.subscribe(ctx, l.peer, uri)
		if _, isLost := errors.AsType[*lostError](err); isLost || ctx.Err() != nil {
			h.unsubscribe(l.peer, honored.GetResourceSubscriptions())
			return err
		}
		if err != nil {
			s.c.log.Debug().Err(err).Str("uri", uri).Msg("cannot subscribe to a resource of the server")
			continue
		}
		h.watch(own, uri)
	}
	defer func() { h.unsubscribe(l.peer, honored.GetResourceSubscriptions()) }()
	s.acknowledge(&pb.SubscriptionsAcknowledged{Notifications: proto.CloneOf(honored)})
	return l.awaitLoss(ctx)
}

// awaitLoss waits until the connection is lost, and returns the reason, or the error of ctx.
func (l *connection) awaitLoss(ctx context.Context) error {
	select {
	case <-l.done:
	case <-l.peer.done:
	case <-ctx.Done():
		return ctx.Err()
	}
	return &lostError{err: errClosed}
}

// subscriptions are the listeners of a legacy session. They receive the server's changes.
type subscriptions struct {
	mu        sync.Mutex
	listeners map[*listener]struct{}
	topics    map[string]*topic // by URI
}

// A topic is a resource with listeners, or that had some until recently.
type topic struct {
	listeners int // number of current and future listeners; guarded by the lock of subscriptions
	// syncing has an element while a goroutine subscribes to or unsubscribes from the resource.
	syncing    chan struct{}
	subscribed bool // the server reports the resource; guarded by syncing
}

// A listener is a subscription to a legacy session.
type listener struct {
	filter *pb.SubscriptionFilter // guarded by the lock of subscriptions: resources are added one at a time
	source *feed.Source
}

func (h *subscriptions) add(l *listener) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.listeners == nil {
		h.listeners, h.topics = map[*listener]struct{}{}, map[string]*topic{}
	}
	h.listeners[l] = struct{}{}
}

func (h *subscriptions) remove(l *listener) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.listeners, l)
}

// watch adds a resource to a listener.
func (h *subscriptions) watch(l *listener, uri string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	l.filter.ResourceSubscriptions = append(l.filter.ResourceSubscriptions, uri)
}

// count adds by, which may be negative, to the number of listeners of a resource, and returns the sum.
func (h *subscriptions) count(uri string, by int) (*topic, int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.topics[uri]
	if t == nil {
		t = &topic{syncing: make(chan struct{}, 1)}
		h.topics[uri] = t
	}
	t.listeners += by
	return t, t.listeners
}

// hasListeners reports whether a topic has listeners. If not, and the server does not report it, it is removed. The
// caller must hold syncing.
func (h *subscriptions) hasListeners(uri string, t *topic) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if t.listeners == 0 && !t.subscribed && h.topics[uri] == t {
		delete(h.topics, uri)
	}
	return t.listeners > 0
}

// subscribe subscribes to a resource. The caller must call unsubscribe.
func (h *subscriptions) subscribe(ctx context.Context, p *peer, uri string) error {
	t, _ := h.count(uri, 1)
	err := h.sync(ctx, p, uri, t)
	if err != nil {
		h.unsubscribe(p, []string{uri})
	}
	return err
}

// unsubscribe unsubscribes from the resources without other listeners.
func (h *subscriptions) unsubscribe(p *peer, uris []string) {
	last := map[string]*topic{}
	for _, uri := range uris {
		if t, n := h.count(uri, -1); n == 0 {
			last[uri] = t
		}
	}
	if len(last) == 0 || p.isLost() {
		return
	}
	p.c.background(func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, limits.NotifyTimeout)
		defer cancel()
		for uri, t := range last {
			_ = h.sync(ctx, p, uri, t)
		}
	})
}

// sync subscribes to a topic with listeners, or unsubscribes from one without. If ctx has ended, it does not
// unsubscribe, and further changes are ignored. A caller that waited for syncing sends a failed request again.
func (h *subscriptions) sync(ctx context.Context, p *peer, uri string, t *topic) error {
	select {
	case t.syncing <- struct{}{}:
	default:
		select {
		case t.syncing <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err() // the goroutine that holds syncing subscribes, or is about to end
		}
	}
	defer func() { <-t.syncing }()
	want, method := h.hasListeners(uri, t), methodSubscribe
	if want == t.subscribed {
		return nil
	}
	if !want {
		method = methodUnsubscribe
	}
	var err error
	if want || ctx.Err() == nil {
		var msg *jsonrpc.Message
		msg, err = p.do(ctx, method, append(rawjson.AppendString([]byte(`{"uri":`), uri), '}'))
		if err == nil && msg.Error != nil {
			err = asError(method, msg)
		}
	}
	t.subscribed = want && err == nil
	h.hasListeners(uri, t)
	return err
}

// report sends a change to the listeners that requested it.
func (h *subscriptions) report(m *jsonrpc.Message, rev bridge.Revision) {
	change, _ := eventOf(m, rev)
	h.mu.Lock()
	defer h.mu.Unlock()
	for l := range h.listeners {
		if feed.Matches(l.filter, change) {
			l.source.Report(change)
		}
	}
}

// reportAll reports to every listener that everything it requested may have changed.
func (h *subscriptions) reportAll() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for l := range h.listeners {
		for _, change := range feed.All(l.filter) {
			l.source.Report(change)
		}
	}
}
