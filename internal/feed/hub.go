// Package feed implements the change feed: the subscriptions to a handler (Hub), the changes of several sources for one
// Listen call (Stream), and the changes that are pending for a subscriber (Pending).
//
// A change is a hint that something should be read again. It may be reported twice, and is never lost: a subscriber
// that subscribes late, reconnects or falls behind receives all changes of its filter.
package feed

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"google.golang.org/protobuf/proto"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/limits"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// A Hub makes one Listen call for all its subscribers while there are any, and repeats it when it ends. Subscribers are
// entries of a table: an idle one needs no goroutine.
//
// When the union of their filters changes, another Listen call replaces the previous one:
//
//	next -> current -> old -> ended
//
// The next call becomes current when the handler acknowledges it. The old one still receives what the backend had sent
// before. While there are both, both receive the same changes, each of which is reported once.
type Hub struct {
	handler  bridge.Handler
	declares func(*pb.SubscriptionFilter) bool
	log      zerolog.Logger

	reporting sync.Mutex // held while changes are reported, so that they keep their order; before mu

	mu     sync.Mutex // before the locks of subscribers
	subs   map[*Subscriber]struct{}
	wanted demand // the union of the subscribers' filters

	next, current, old *listening
	missed             bool // changes may have been missed, because the current listening was lost
	closed             bool
	wg                 sync.WaitGroup
}

// A Subscriber is a client that receives changes.
type Subscriber struct {
	// Want returns the filter, or nil if the subscription has ended. It is called with the Hub's lock held.
	Want func() *pb.SubscriptionFilter
	// Report receives a change that matches the filter. It must not block for long.
	Report func(*pb.ListenResponse)

	// The Hub's lock guards the fields below.
	want *pb.SubscriptionFilter // the last result of Want
	late bool                   // Subscribe returned before the handler acknowledged the filter
}

// A listening is a Listen call of the Hub with one filter, repeated whenever it ends.
type listening struct {
	keys   []key // the keys of filter, sorted
	filter *pb.SubscriptionFilter
	cancel context.CancelFunc
	// settled ends when the handler has acknowledged, has failed for the first time, or has used up its time for
	// either. No other listening begins before, so that at most one waits for its acknowledgment, however often filters
	// change.
	settled context.Context //nolint:containedctx // a state to wait for
	settle  context.CancelFunc

	// The Hub's lock guards the fields below.
	honored *pb.SubscriptionFilter // the last acknowledged part of filter, or nil
	// held are the changes that the old listening has received and the current one has not. An entry is nil once the
	// current one has received it too.
	held map[key]*pb.ListenResponse
}

const (
	// handover is how long a replaced listening is still received.
	handover = time.Second
	// readyWithin limits how long a subscriber waits for the acknowledgment. A handler with several backends takes 5 s
	// if one of them is down.
	readyWithin = 6 * time.Second
	// settledWithin is the time for the acknowledgment if the filters change in the meantime.
	settledWithin = 2 * readyWithin
)

// NewHub returns a Hub for the changes of a handler. declares reports whether the handler declares any of a filter's
// changes.
func NewHub(h bridge.Handler, declares func(*pb.SubscriptionFilter) bool, log zerolog.Logger) *Hub {
	return &Hub{
		handler: h, declares: declares, log: log, subs: map[*Subscriber]struct{}{},
		wanted: demand{count: map[key]int{}},
	}
}

// Subscribe adds a subscriber, or updates its filter, and waits until the handler has acknowledged it. It returns the
// part of the filter that the handler reports, or all of it if that is not known in time. In that case, the subscriber
// receives all changes of its filter after the acknowledgment. If the filters of all subscribers together are too
// large, it returns an error, and nothing has changed.
func (h *Hub) Subscribe(ctx context.Context, sub *Subscriber) (honored *pb.SubscriptionFilter, err error) {
	want, err := h.Update(sub)
	if want == nil || err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	h.mu.Lock()
	defer h.mu.Unlock()
	for made := range 2 { // the second listening was made after the update
		l := h.latest()
		if l == nil {
			return want, nil
		}
		h.mu.Unlock()
		select {
		case <-l.settled.Done():
		case <-ctx.Done():
		}
		h.mu.Lock()
		if l.honored != nil && (made == 1 || l.covers(want)) { // some of it may have been withdrawn meanwhile
			return Both(want, l.honored), nil
		}
	}
	sub.late = h.current == nil || !h.current.covers(sub.want)
	return want, nil
}

// Update is Subscribe without the wait, for a subscriber whose filter shrinks. It returns the current filter.
func (h *Hub) Update(sub *Subscriber) (want *pb.SubscriptionFilter, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if want = sub.Want(); want == nil {
		return nil, nil //nolint:nilnil // the subscription has ended
	}
	_, again := h.subs[sub]
	if again {
		h.wanted.add(sub.want, -1)
	}
	h.wanted.add(want, 1)
	if err := CheckAllSubscriptions(h.wanted.uris, h.wanted.size); err != nil {
		h.wanted.add(want, -1)
		if again {
			h.wanted.add(sub.want, 1)
		}
		return nil, err
	}
	sub.want = want
	h.subs[sub] = struct{}{}
	h.update()
	return want, nil
}

// Remove removes subscribers.
func (h *Hub) Remove(subs ...*Subscriber) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, sub := range subs {
		if _, ok := h.subs[sub]; ok {
			delete(h.subs, sub)
			h.wanted.add(sub.want, -1)
		}
	}
	h.update()
}

// Len returns the number of subscribers.
func (h *Hub) Len() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.subs)
}

// Close removes all subscribers, and waits until the Listen calls have ended.
func (h *Hub) Close() {
	h.mu.Lock()
	h.closed = true
	clear(h.subs)
	h.update()
	h.mu.Unlock()
	h.wg.Wait()
}

// latest returns the listening that was started last, or nil. The caller holds mu.
func (h *Hub) latest() *listening { return cmp.Or(h.next, h.current) }

// update starts a listening for the current filters, unless the latest one is not settled or has the same filter. The
// caller holds mu.
func (h *Hub) update() {
	if len(h.wanted.count) == 0 || h.closed {
		for _, l := range []*listening{h.next, h.current, h.old} {
			if l != nil {
				l.cancel()
			}
		}
		h.next, h.current, h.old, h.missed = nil, nil, nil, false
		return
	}
	if l := h.latest(); l != nil && (l.settled.Err() == nil || h.wanted.is(l.keys)) {
		return
	}
	if h.next != nil {
		h.next.cancel()
	}
	ctx, cancel := context.WithCancel(context.Background())
	l := &listening{keys: h.wanted.keys(), cancel: cancel}
	l.filter = filterOf(l.keys)
	l.settled, l.settle = context.WithCancel(context.Background())
	h.next = l
	h.wg.Go(func() { h.run(ctx, l) })
}

// covers reports whether the filter of l includes f.
func (l *listening) covers(f *pb.SubscriptionFilter) bool {
	return len(keysOf(f, func(k key) bool {
		_, found := slices.BinarySearchFunc(l.keys, k, key.compare)
		return found
	})) == 0
}

// settle marks l as settled, and starts the next listening if the filters have changed. The caller holds mu.
func (h *Hub) settle(l *listening) {
	l.settle()
	if l == h.latest() {
		h.update()
	}
}

// run listens until ctx ends, or the handler does not implement Listen.
func (h *Hub) run(ctx context.Context, l *listening) {
	defer l.cancel()
	defer time.AfterFunc(settledWithin, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.settle(l)
	}).Stop()
	call := &bridge.Call{Method: bridge.Listen, Request: &pb.ListenRequest{
		Context: &pb.CallContext{Verified: bridge.Verified(bridge.Rev20260728, nil, nil)}, Notifications: l.filter,
	}}
	err := Follow(ctx, func(reset func()) error {
		_, err := h.handler.Handle(ctx, call, func(_ context.Context, e bridge.Event) error {
			if ack := e.Change.GetAcknowledged(); ack != nil {
				reset()
				h.acknowledged(ctx, l, ack.GetNotifications())
			} else {
				h.receive(ctx, l, e.Change)
			}
			return nil
		})
		h.lost(ctx, l, isUnimplemented(err))
		return err
	}, func(err error, again time.Duration) bool {
		h.log.Debug().Err(err).Dur("again_in", again).Msg("the backend ended its Listen call")
		return isUnimplemented(err)
	})
	if isUnimplemented(err) && h.declares(l.filter) { // otherwise it was declared only until the backend started
		h.log.Warn().Msg("the backend declares change notifications, but Listen is unimplemented: clients are not " +
			"notified of changes")
	}
}

// do calls f with the Hub's lock held, and then reports the changes that f returns. f may start, replace and end
// listenings.
func (h *Hub) do(f func() []*pb.ListenResponse) {
	h.reporting.Lock()
	defer h.reporting.Unlock()
	h.mu.Lock()
	changes := f()
	h.mu.Unlock()
	for _, change := range changes {
		h.report(change)
	}
}

// acknowledged handles an acknowledgment of l, which becomes the current listening. If changes may have been missed, it
// reports all changes: to all subscribers, or to those that were late.
func (h *Hub) acknowledged(ctx context.Context, l *listening, honored *pb.SubscriptionFilter) {
	var late []*Subscriber
	h.do(func() (changes []*pb.ListenResponse) {
		if ctx.Err() != nil {
			return nil // it was replaced
		}
		l.honored = Both(l.filter, honored)
		if l == h.next {
			changes = h.endOld()
			if old := h.current; old != nil {
				h.old, old.held = old, map[key]*pb.ListenResponse{}
				time.AfterFunc(handover, func() { h.ended(old) })
			}
			h.current, h.next = l, nil
		}
		for sub := range h.subs {
			if sub.late && l.covers(sub.want) {
				sub.late = false
				late = append(late, sub)
			}
		}
		if h.missed {
			h.missed, late = false, nil
			changes = append(changes, All(l.filter)...)
		}
		h.settle(l)
		return changes
	})
	for _, sub := range late {
		h.ReportAll(sub)
	}
}

// lost handles the end of a call of l.
func (h *Hub) lost(ctx context.Context, l *listening, never bool) {
	h.ended(l)
	h.mu.Lock()
	defer h.mu.Unlock()
	if ctx.Err() == nil && l == h.current {
		h.current, h.missed = nil, true
		if h.next != nil {
			l.cancel()
		} else {
			h.next = l
		}
	}
	if never {
		l.honored = &pb.SubscriptionFilter{}
	}
	h.settle(l)
}

// ended ends l if it is the old listening.
func (h *Hub) ended(l *listening) {
	h.do(func() []*pb.ListenResponse {
		if l != h.old {
			return nil
		}
		return h.endOld()
	})
}

// endOld ends the old listening, if there is one, and returns the changes that only it has received. The caller holds
// mu.
func (h *Hub) endOld() (changes []*pb.ListenResponse) {
	if h.old == nil {
		return nil
	}
	h.old.cancel()
	for _, change := range h.old.held {
		if change != nil {
			changes = append(changes, change)
		}
	}
	h.old = nil
	return changes
}

// receive reports a change that l has received. A change that both the old and the current listening receive is
// reported in the order of the current one; one that only the old one receives, when that ends.
func (h *Hub) receive(ctx context.Context, l *listening, change *pb.ListenResponse) {
	h.do(func() []*pb.ListenResponse {
		if ctx.Err() != nil || !Matches(l.filter, change) {
			return nil
		}
		now := []*pb.ListenResponse{change}
		if h.old == nil || h.current == nil || !Matches(h.old.filter, change) || !Matches(h.current.filter, change) {
			return now
		}
		k := keyOf(change)
		_, known := h.old.held[k]
		switch {
		case !known && (len(h.old.held) >= limits.PendingChanges || proto.Size(change) > limits.URIs):
			return now // a change may be reported twice, and must not be lost
		case l == h.current:
			h.old.held[k] = nil
		case l == h.old && !known:
			h.old.held[k] = change
			return nil
		case l == h.old:
			return nil
		}
		return now
	})
}

// report reports a change to the subscribers with a matching filter. The caller holds reporting.
func (h *Hub) report(change *pb.ListenResponse) {
	var subs []*Subscriber
	k := keyOf(change)
	h.mu.Lock()
	for sub := range h.subs {
		if matches(sub.want, k) {
			subs = append(subs, sub)
		}
	}
	h.mu.Unlock()
	for _, sub := range subs {
		sub.Report(change)
	}
}

// ReportAll reports all changes of its filter to a subscriber.
func (h *Hub) ReportAll(sub *Subscriber) {
	h.reporting.Lock()
	defer h.reporting.Unlock()
	h.mu.Lock()
	_, ok := h.subs[sub]
	want := sub.want
	h.mu.Unlock()
	if !ok {
		return
	}
	for _, change := range All(want) {
		sub.Report(change)
	}
}
