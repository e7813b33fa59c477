// Package feed is the change feed: what subscribers want of a handler (Hub), what several sources report to one of them
// (Stream), and what one of them has not been sent yet (Pending).
//
// A change is a hint that something is to be read again. It may be reported twice, and is never lost: whoever comes
// late, reconnects or falls behind is reported that everything it wants has changed.
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

// A Hub makes one Listen call for all its subscribers, as long as there are any, and again when that ends. Subscribers
// are entries of a table: one that waits for changes costs no goroutine.
//
// When subscribers want something else, another Listen call replaces the one before:
//
//	next -> current -> old -> ended
//
// Next becomes current when the handler acknowledges it. Old still receives what the backend had sent before that.
// While there are both, both receive the same changes, which are reported once.
type Hub struct {
	handler  bridge.Handler
	declares func(*pb.SubscriptionFilter) bool
	log      zerolog.Logger

	reporting sync.Mutex // held while changes are reported, so that they keep their order; before mu

	mu     sync.Mutex // before the locks of subscribers
	subs   map[*Subscriber]struct{}
	wanted demand // what the subscribers want together

	next, current, old *listening
	missed             bool // since a listening that was current was lost, changes may have been missed
	closed             bool
	wg                 sync.WaitGroup
}

// A Subscriber is a client that receives changes.
type Subscriber struct {
	// Want returns what it wants, or nil if it does not want anything any more. It is called with the Hub's lock held.
	Want func() *pb.SubscriptionFilter
	// Report receives a change that it wants. It must not block for long.
	Report func(*pb.ListenResponse)

	// The Hub's lock guards what follows.
	want *pb.SubscriptionFilter // what Want last returned
	late bool                   // it has not waited until the handler knew what it wants
}

// A listening is the Hub's Listen call with one filter, made again whenever it ends.
type listening struct {
	keys   []key // what filter names, in order
	filter *pb.SubscriptionFilter
	cancel context.CancelFunc
	// settled ends when the handler has acknowledged, has failed for the first time, or has had its time for either. No
	// other listening begins until then, so that at most one waits to be acknowledged, however often subscribers change
	// what they want.
	settled context.Context //nolint:containedctx // a state that is waited for
	settle  context.CancelFunc

	// The Hub's lock guards what follows.
	honored *pb.SubscriptionFilter // what of filter the handler last acknowledged, or nil if it never has
	// held are, of the old listening, the changes that it has received and the current one has not, which are nil once
	// that has: it has received them later.
	held map[key]*pb.ListenResponse
}

const (
	// handover is how long a listening is still received after another has replaced it.
	handover = time.Second
	// readyWithin bounds how long a subscriber waits until the handler acknowledges. One with several backends takes 5
	// s when one of them is absent.
	readyWithin = 6 * time.Second
	// settledWithin is how long the handler has to acknowledge when subscribers want something else meanwhile.
	settledWithin = 2 * readyWithin
)

// NewHub returns a Hub of the changes of a handler. Declares reports whether that declares some of what a filter names.
func NewHub(h bridge.Handler, declares func(*pb.SubscriptionFilter) bool, log zerolog.Logger) *Hub {
	return &Hub{
		handler: h, declares: declares, log: log, subs: map[*Subscriber]struct{}{},
		wanted: demand{count: map[key]int{}},
	}
}

// Subscribe adds a subscriber, or takes note that it wants something else, and waits until the handler has acknowledged
// it. It returns what of that the handler reports, which is all of it as long as the handler has not said. If it goes
// on without an acknowledgment, the subscriber is reported that everything may have changed once there is one. It
// returns an error, and nothing has changed, if all subscribers together would want too much.
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

// Update is Subscribe without the wait, for a subscriber that wants less than before. It returns what it wants now.
func (h *Hub) Update(sub *Subscriber) (want *pb.SubscriptionFilter, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if want = sub.Want(); want == nil {
		return nil, nil //nolint:nilnil // it wants nothing
	}
	_, again := h.subs[sub]
	if again {
		h.wanted.add(sub.want, -1)
	}
	h.wanted.add(want, 1)
	if err := CheckTogether(h.wanted.uris, h.wanted.size); err != nil {
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

// Len returns how many subscribers there are.
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

// latest returns the listening that was made last, or nil. The caller holds mu.
func (h *Hub) latest() *listening { return cmp.Or(h.next, h.current) }

// update begins to listen to what is wanted, if that is not what the latest listening is for, and that is settled. The
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

// covers reports whether l is for all that f names.
func (l *listening) covers(f *pb.SubscriptionFilter) bool {
	return len(keysOf(f, func(k key) bool {
		_, found := slices.BinarySearchFunc(l.keys, k, key.compare)
		return found
	})) == 0
}

// settle settles l, and lets the next listening begin, if there is to be another. The caller holds mu.
func (h *Hub) settle(l *listening) {
	l.settle()
	if l == h.latest() {
		h.update()
	}
}

// run listens until ctx ends, or the handler has no Listen.
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
	if isUnimplemented(err) && h.declares(l.filter) { // else it only was declared before the backend had started
		h.log.Warn().Msg("the backend declares that it reports changes, and has no Listen: clients are not " +
			"notified of changes")
	}
}

// do calls f, which changes which listenings there are, with the Hub's lock held, and reports the changes that it
// returns.
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

// acknowledged notes that the handler has acknowledged l, which becomes the current one. If changes may have been
// missed, everything is reported to have changed: to all subscribers, or to those that were late.
func (h *Hub) acknowledged(ctx context.Context, l *listening, honored *pb.SubscriptionFilter) {
	var late []*Subscriber
	h.do(func() (changes []*pb.ListenResponse) {
		if ctx.Err() != nil {
			return nil // another has taken its place
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

// lost notes that a call of l has ended.
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

// receive reports a change that l has received. What the old and the current listening both receive is reported when
// the current one does, in its order; what only the old one has received, when that ends.
func (h *Hub) receive(ctx context.Context, l *listening, change *pb.ListenResponse) {
	h.do(func() []*pb.ListenResponse {
		if ctx.Err() != nil || !Wants(l.filter, change) {
			return nil
		}
		now := []*pb.ListenResponse{change}
		if h.old == nil || h.current == nil || !Wants(h.old.filter, change) || !Wants(h.current.filter, change) {
			return now
		}
		k := keyOf(change)
		_, known := h.old.held[k]
		switch {
		case !known && (len(h.old.held) >= limits.PendingChanges || proto.Size(change) > limits.URIs):
			return now // rather twice than never
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

// report reports a change to the subscribers that want it. The caller holds reporting.
func (h *Hub) report(change *pb.ListenResponse) {
	var subs []*Subscriber
	k := keyOf(change)
	h.mu.Lock()
	for sub := range h.subs {
		if wants(sub.want, k) {
			subs = append(subs, sub)
		}
	}
	h.mu.Unlock()
	for _, sub := range subs {
		sub.Report(change)
	}
}

// ReportAll reports to a subscriber that everything it wants may have changed.
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
