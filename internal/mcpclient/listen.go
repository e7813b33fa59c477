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
	"github.com/mcpbridge/mcpbridge/internal/jsonrpc"
	"github.com/mcpbridge/mcpbridge/internal/mcpjson"
	"github.com/mcpbridge/mcpbridge/internal/rawjson"
	"github.com/mcpbridge/mcpbridge/internal/supervise"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// listen tells what changes until ctx ends. When the server is lost and found again, everything may have changed meanwhile, and
// that is told.
func (c *Client) listen(ctx context.Context, call *bridge.Call, emit bridge.Emit) (*bridge.Result, error) {
	if n := c.listening.Add(1); n > int64(c.o.MaxCalls) {
		c.listening.Add(-1)
		return nil, c.overloaded("%d subscriptions are open, which is the most", c.o.MaxCalls)
	}
	defer c.listening.Add(-1)
	s := subscription{
		c: c, call: call, asked: call.Request.(*pb.ListenRequest).GetNotifications(),
		emit: func(e bridge.Event) error { return emit(ctx, e) },
	}
	if s.asked == nil {
		s.asked = &pb.SubscriptionFilter{}
	}
	if c.o.Revision == bridge.NoRevision {
		var beside sync.WaitGroup
		defer beside.Wait()
		until, cancel := context.WithCancel(ctx)
		defer cancel()
		s.twin.settled = make(chan struct{})
		beside.Go(func() {
			defer c.panics.Recover("listening to the connection of the legacy era", nil)
			s.listenToTwin(until)
		})
	}
	delay := c.pace.Backoff
	for {
		var w supervise.Wait
		l, err := c.super.Await(ctx, &w)
		began := time.Now()
		if err == nil {
			s.acked = false
			var res *bridge.Result
			if l.peer.rev().Modern() {
				s.awaitTwin(ctx)
				res, err = s.modern(ctx, l)
				if t, _ := c.currentTwin(); t != nil && isUnimplemented(err) {
					err = s.twinOnly(ctx, l)
				}
			} else {
				err = s.legacy(ctx, l)
			}
			if err == nil {
				return res, nil
			}
		}
		_, isLost := errors.AsType[*lost](err)
		switch {
		case ctx.Err() != nil:
			return nil, bridge.Canceled(ctx, s.begun)
		case s.failed != nil:
			return nil, s.failed
		case c.super.State().Ended:
			_, err := c.super.Await(ctx, &w)
			return nil, err
		case !s.begun && !isLost, s.begun && !isLost && bridge.AsError(err).Code != codes.Unavailable:
			return nil, err
		}
		if time.Since(began) > c.pace.settled {
			delay = c.pace.Backoff
		}
		if !sleep(ctx, delay) {
			return nil, bridge.Canceled(ctx, s.begun)
		}
		delay = min(2*delay, c.pace.MaxBackoff)
	}
}

// A subscription is one call of subscriptions/listen, over all the connections that it takes.
type subscription struct {
	c     *Client
	call  *bridge.Call
	emit  func(bridge.Event) error
	asked *pb.SubscriptionFilter
	begun bool // it was acknowledged
	acked bool // on this connection
	// first is what was acknowledged first, as which who listens knows it.
	first *pb.SubscriptionFilter
	// failed is why nobody listens any more.
	failed error

	emitting sync.Mutex             // guards what follows, and is held while an event is emitted
	told     bool                   // the acknowledgement was emitted
	own      *pb.SubscriptionFilter // what the server acknowledged last, on the connection of the Client itself
	twin     twinFeed
}

func (s *subscription) tell(change *pb.ListenResponse) error {
	s.emitting.Lock()
	defer s.emitting.Unlock()
	s.failed = s.emit(bridge.Event{Change: change})
	s.told = true
	return s.failed
}

// acknowledge tells what will be told. The second time it is that everything may have changed: what happened meanwhile is lost
// (2026-07-28: basic/patterns/subscriptions, graceful closure). So may what the server told at first, and
// does not tell any more: it is another one by now.
func (s *subscription) acknowledge(ack *pb.SubscriptionsAcknowledged) error {
	if s.acked {
		return nil
	}
	s.acked = true
	ack = s.withTwin(ack)
	if !s.begun {
		s.begun, s.first = true, proto.CloneOf(ack.GetNotifications())
		return s.tell(&pb.ListenResponse{Event: &pb.ListenResponse_Acknowledged{Acknowledged: ack}})
	}
	for _, change := range bridge.ChangesOf(both(s.first, ack.GetNotifications())) {
		if err := s.tell(change); err != nil {
			return err
		}
	}
	return nil
}

// both returns a filter of what either names.
func both(a, b *pb.SubscriptionFilter) *pb.SubscriptionFilter {
	uris := slices.Concat(a.GetResourceSubscriptions(), b.GetResourceSubscriptions())
	slices.Sort(uris)
	either := func(a, b bool) *bool {
		if !a && !b {
			return nil
		}
		return proto.Bool(true)
	}
	return &pb.SubscriptionFilter{
		ToolsListChanged:      either(a.GetToolsListChanged(), b.GetToolsListChanged()),
		PromptsListChanged:    either(a.GetPromptsListChanged(), b.GetPromptsListChanged()),
		ResourcesListChanged:  either(a.GetResourcesListChanged(), b.GetResourcesListChanged()),
		ElicitationsCompleted: either(a.GetElicitationsCompleted(), b.GetElicitationsCompleted()),
		ResourceSubscriptions: slices.Compact(uris),
	}
}

// modern listens by a request of its own (2026-07-28: basic/patterns/subscriptions).
func (s *subscription) modern(ctx context.Context, l *connection) (*bridge.Result, error) {
	p := l.peer
	x, err := p.beginRequest(bridge.Listen, s.call.Request, use{listens: true})
	if err != nil {
		return nil, err
	}
	defer p.end(x)
	x.each = func(m *jsonrpc.Message) error {
		if m.Method == notifyCancelled {
			return &lost{err: errors.New("the server ended the subscription")}
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
	if !s.begun { // some end before they begin
		if err := s.acknowledge(&pb.SubscriptionsAcknowledged{Notifications: &pb.SubscriptionFilter{}}); err != nil {
			return nil, err
		}
	}
	out := &pb.ListenResult{}
	if err := mcpjson.Unmarshal(msg.Result, out, p.rev()); err != nil {
		return nil, s.c.misbehaved("answered %s with what is not its result: %v", bridge.Listen.Name, err)
	}
	clean(out)
	return &bridge.Result{Complete: out}, nil
}

// take passes a notification on.
func (s *subscription) take(m *jsonrpc.Message, rev bridge.Revision) error {
	if m.Method == notifyAcknowledged {
		ack := &pb.SubscriptionsAcknowledged{}
		if err := mcpjson.Unmarshal(m.Params, ack, rev); err != nil {
			return s.c.misbehaved("acknowledged a subscription with what is none: %v", err)
		}
		clean(ack)
		return s.acknowledge(ack)
	}
	change := changeOf(m, rev)
	if change == nil || !s.begun {
		return nil
	}
	return s.tell(change)
}

// changeOf returns the change that a notification tells, or nil if it tells none.
func changeOf(m *jsonrpc.Message, rev bridge.Revision) *pb.ListenResponse {
	out := &pb.ListenResponse{}
	var inner proto.Message
	switch m.Method {
	case notifyToolsList:
		c := &pb.ListChanged{}
		out.Event, inner = &pb.ListenResponse_ToolsListChanged{ToolsListChanged: c}, c
	case notifyPromptsList:
		c := &pb.ListChanged{}
		out.Event, inner = &pb.ListenResponse_PromptsListChanged{PromptsListChanged: c}, c
	case notifyResourcesList:
		c := &pb.ListChanged{}
		out.Event, inner = &pb.ListenResponse_ResourcesListChanged{ResourcesListChanged: c}, c
	case notifyUpdated:
		c := &pb.ResourceUpdated{}
		out.Event, inner = &pb.ListenResponse_ResourceUpdated{ResourceUpdated: c}, c
	case notifyElicitation:
		c := &pb.ElicitationCompleted{}
		out.Event, inner = &pb.ListenResponse_ElicitationCompleted{ElicitationCompleted: c}, c
	default:
		return nil
	}
	params := m.Params
	if params == nil {
		params = []byte("{}")
	}
	if mcpjson.Unmarshal(params, inner, rev) != nil {
		return nil
	}
	clean(inner)
	return proto.CloneOf(out) // it is kept until it is told, and the text that it came in, which may be far longer, is not
}

// legacy listens to what a session is told anyway, and subscribes to resources. It returns when the session is lost.
func (s *subscription) legacy(ctx context.Context, l *connection) error {
	h := &l.peer.subs
	honoured := honoured(s.asked, l.known.Load().GetCapabilities(), l.peer.rev())
	uris := honoured.GetResourceSubscriptions()
	honoured.ResourceSubscriptions = nil
	in := newListener(proto.CloneOf(honoured))
	h.add(in)
	defer h.remove(in)
	for _, uri := range uris {
		err := h.subscribe(ctx, l.peer, uri)
		if _, isLost := errors.AsType[*lost](err); isLost || ctx.Err() != nil {
			h.unsubscribe(l.peer, honoured.GetResourceSubscriptions())
			return err
		}
		if err != nil {
			s.c.log.Debug().Err(err).Str("uri", uri).Msg("the server does not tell when a resource changes")
			continue
		}
		honoured.ResourceSubscriptions = append(honoured.ResourceSubscriptions, uri)
		h.watch(in, uri)
	}
	defer func() { h.unsubscribe(l.peer, honoured.GetResourceSubscriptions()) }()
	if err := s.acknowledge(&pb.SubscriptionsAcknowledged{Notifications: honoured}); err != nil {
		return err
	}
	for {
		select {
		case <-in.pending.Ready():
			for _, change := range in.pending.Take() {
				if err := s.tell(change); err != nil {
					return err
				}
			}
		case <-l.gone:
			return &lost{err: errClosed}
		case <-l.peer.gone:
			return &lost{err: errClosed}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// honoured returns what of a filter a server that can do so much will tell.
func honoured(f *pb.SubscriptionFilter, can *pb.ServerCapabilities, rev bridge.Revision) *pb.SubscriptionFilter {
	and := func(want *bool, has bool) *bool {
		if want == nil || *want && !has {
			return nil
		}
		return want
	}
	out := &pb.SubscriptionFilter{
		ToolsListChanged:      and(f.ToolsListChanged, can.GetTools().GetListChanged()),
		PromptsListChanged:    and(f.PromptsListChanged, can.GetPrompts().GetListChanged()),
		ResourcesListChanged:  and(f.ResourcesListChanged, can.GetResources().GetListChanged()),
		ElicitationsCompleted: and(f.ElicitationsCompleted, rev.HasURLElicitationError()),
	}
	if can.GetResources().GetSubscribe() {
		out.ResourceSubscriptions = slices.Compact(slices.Sorted(slices.Values(f.GetResourceSubscriptions())))
	}
	return out
}

// subscriptions are those of a legacy session. They get the changes that the server reports.
type subscriptions struct {
	mu        sync.Mutex
	listeners map[*listener]struct{}
	topics    map[string]*topic // by their URIs
}

// A topic is a resource that somebody listens to, or did until just now.
type topic struct {
	wanted int // how many listen to it, or are about to; the lock of subscriptions guards it
	// turn has an element while one of them, or who was the last, has the server tell of it or not.
	turn       chan struct{}
	subscribed bool // the server tells of it; for whose turn it is
}

// A listener is a subscription to a legacy session.
type listener struct {
	filter  *pb.SubscriptionFilter // the lock of subscriptions guards it: resources come one by one
	pending *bridge.Pending        // what is added to it is added with that lock, too
}

func newListener(filter *pb.SubscriptionFilter) *listener {
	return &listener{filter, bridge.NewPending(bridge.MaxPending, bridge.MaxPendingSize, func() *pb.SubscriptionFilter { return proto.CloneOf(filter) })}
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

// watch makes a listener be told of a resource.
func (h *subscriptions) watch(l *listener, uri string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	l.filter.ResourceSubscriptions = append(l.filter.ResourceSubscriptions, uri)
}

// subscribe has the server tell when a resource changes, unless it does so already. Who has subscribed is to unsubscribe.
func (h *subscriptions) subscribe(ctx context.Context, p *peer, uri string) error {
	h.mu.Lock()
	t := h.topics[uri]
	if t == nil {
		t = &topic{turn: make(chan struct{}, 1)}
		h.topics[uri] = t
	}
	t.wanted++
	h.mu.Unlock()
	err := t.subscribe(ctx, p, uri)
	if err != nil {
		h.unsubscribe(p, []string{uri})
	}
	return err
}

// subscribe has the server report changes of t, unless it does. If another subscriber is at it, it waits, and tries
// again if that one failed.
func (t *topic) subscribe(ctx context.Context, p *peer, uri string) error {
	select {
	case t.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-t.turn }()
	if t.subscribed {
		return nil
	}
	msg, err := p.do(ctx, methodSubscribe, append(rawjson.AppendString([]byte(`{"uri":`), uri), '}'))
	if err == nil && msg.Error != nil {
		err = asError(methodSubscribe, msg)
	}
	t.subscribed = err == nil
	return err
}

// unsubscribe has the server tell no more of the resources that nobody else listens to.
func (h *subscriptions) unsubscribe(p *peer, uris []string) {
	last := map[string]*topic{}
	h.mu.Lock()
	for _, uri := range uris {
		t := h.topics[uri]
		if t.wanted--; t.wanted == 0 {
			last[uri] = t
		}
	}
	h.mu.Unlock()
	if len(last) == 0 || p.isGone() {
		return
	}
	p.c.background(func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, tellTimeout)
		defer cancel()
		for uri, t := range last {
			h.unsubscribeFrom(ctx, p, uri, t)
		}
	})
}

// unsubscribeFrom has the server report changes of t no longer, and forgets t, unless somebody wants it again. When ctx
// has ended, the server is sent nothing, and what it reports then is ignored.
func (h *subscriptions) unsubscribeFrom(ctx context.Context, p *peer, uri string, t *topic) {
	select {
	case t.turn <- struct{}{}:
	default:
		select {
		case t.turn <- struct{}{}:
		case <-ctx.Done():
			return // who is at it wants it, or is about to silence it
		}
	}
	defer func() { <-t.turn }()
	if t.subscribed && !h.isWanted(t) {
		if ctx.Err() == nil {
			_, _ = p.do(ctx, methodUnsubscribe, append(rawjson.AppendString([]byte(`{"uri":`), uri), '}'))
		}
		t.subscribed = false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if t.wanted == 0 && !t.subscribed && h.topics[uri] == t {
		delete(h.topics, uri)
	}
}

// isWanted reports whether anybody listens to a topic, or is about to.
func (h *subscriptions) isWanted(t *topic) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return t.wanted > 0
}

// report passes a change that the server reports on to the listeners that asked for it.
func (h *subscriptions) report(m *jsonrpc.Message, rev bridge.Revision) {
	change := changeOf(m, rev)
	if change == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for l := range h.listeners {
		if bridge.Wants(l.filter, change) {
			l.pending.Add(change)
		}
	}
}

// reportAll reports to every listener that everything it asked for may have changed.
func (h *subscriptions) reportAll() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for l := range h.listeners {
		for _, change := range bridge.ChangesOf(l.filter) {
			l.pending.Add(change)
		}
	}
}
