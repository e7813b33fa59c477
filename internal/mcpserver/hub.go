package mcpserver

import (
	"context"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/rawjson"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// A hub makes one Listen call for all clients that want to know what changes, as long as there are any. Its subscribers are
// entries of a table: one that waits costs no goroutine.
type hub struct {
	s *Server

	telling sync.Mutex // is held while a change is told, so that what is told next comes next; before mu

	mu     sync.Mutex // before that of a session
	subs   map[*subscriber]struct{}
	wanted demand                   // what the subscribers want, together
	latest *listening               // nil when nothing is listened to
	owed   bool                     // a Listen that was heard ended by itself: what changed since is not known
	late   map[*subscriber]struct{} // those of subs that went on before the handler knew what they want
	closed bool
	wg     sync.WaitGroup
}

// A demand counts how many subscribers want what, so that one more or less costs the same however many there are.
type demand struct {
	tools, prompts, resources, elicitations int
	uris                                    map[string]int
	size                                    int // of uris, as JSON has them
}

// add counts a filter n times more.
func (d *demand) add(f *pb.SubscriptionFilter, n int) {
	for counter, want := range map[*int]bool{
		&d.tools: f.GetToolsListChanged(), &d.prompts: f.GetPromptsListChanged(), &d.resources: f.GetResourcesListChanged(),
		&d.elicitations: f.GetElicitationsCompleted(),
	} {
		if want {
			*counter += n
		}
	}
	for _, uri := range f.GetResourceSubscriptions() {
		before := d.uris[uri]
		if d.uris[uri] = before + n; d.uris[uri] == 0 {
			delete(d.uris, uri)
		}
		if before == 0 || before+n == 0 {
			d.size += n * (len(rawjson.AppendString(nil, uri)) - len(`""`))
		}
	}
}

// covers reports whether f, which is what a Listen was made with, is what is wanted.
func (d *demand) covers(f *pb.SubscriptionFilter) bool {
	if f.GetToolsListChanged() != (d.tools > 0) || f.GetPromptsListChanged() != (d.prompts > 0) ||
		f.GetResourcesListChanged() != (d.resources > 0) || f.GetElicitationsCompleted() != (d.elicitations > 0) ||
		len(f.GetResourceSubscriptions()) != len(d.uris) {
		return false
	}
	for _, uri := range f.GetResourceSubscriptions() {
		if d.uris[uri] == 0 {
			return false
		}
	}
	return true
}

// filter returns what is wanted.
func (d *demand) filter() *pb.SubscriptionFilter {
	return &pb.SubscriptionFilter{
		ToolsListChanged: ifTrue(d.tools > 0), PromptsListChanged: ifTrue(d.prompts > 0), ResourcesListChanged: ifTrue(d.resources > 0),
		ElicitationsCompleted: ifTrue(d.elicitations > 0), ResourceSubscriptions: slices.Sorted(maps.Keys(d.uris)),
	}
}

// demandOf returns what one filter wants.
func demandOf(f *pb.SubscriptionFilter) *demand {
	d := &demand{uris: map[string]int{}}
	d.add(f, 1)
	return d
}

// has reports whether all of f is wanted.
func (d *demand) has(f *pb.SubscriptionFilter) bool {
	if f.GetToolsListChanged() && d.tools == 0 || f.GetPromptsListChanged() && d.prompts == 0 ||
		f.GetResourcesListChanged() && d.resources == 0 || f.GetElicitationsCompleted() && d.elicitations == 0 {
		return false
	}
	return !slices.ContainsFunc(f.GetResourceSubscriptions(), func(uri string) bool { return d.uris[uri] == 0 })
}

func (d *demand) empty() bool { return d.tools+d.prompts+d.resources+d.elicitations+len(d.uris) == 0 }

// A subscriber is a client that wants to know what changes.
type subscriber struct {
	// want is what it wants to know. The hub's lock guards it once the subscriber is added.
	want *pb.SubscriptionFilter
	// tell takes a change that it wants to know. It must not block for long.
	tell func(*pb.ListenResponse)
}

// A listening is the hub's Listen call with one filter.
type listening struct {
	filter *pb.SubscriptionFilter
	cancel context.CancelFunc
	// settled is closed when the handler has acknowledged, has failed for the first time, or has had its time for either. No other
	// listening begins until then, so that at most one waits to be acknowledged, and its turn comes however often demands change.
	settled chan struct{}
	once    sync.Once

	// The hub's lock guards what follows. Older is the listening that this one replaces, until it has ended.
	older *listening
	// honoured is what of filter the handler last acknowledged, or nil as long as it has not said.
	honoured *pb.SubscriptionFilter
	// acked says that the handler knows what this one listens to, and replaced that it has known what a newer one listens to.
	acked, replaced bool
	// ahead has what the older one has heard more often than this one, or less often, as long as both are heard.
	ahead map[changed]lead
}

// A lead is how many times more a change was heard.
type lead struct {
	by     int
	change *pb.ListenResponse
}

const (
	// handover is how long a listening is heard after the one that replaces it was acknowledged: what the backend had told it
	// may still be under way.
	handover    = time.Second
	relistenMin = 100 * time.Millisecond
	relistenMax = 10 * time.Second
	// readyWithin bounds how long a subscriber waits for the handler to acknowledge. One with several backends takes 5 s when one of them is
	// absent.
	readyWithin = 6 * time.Second
	// settledWithin is how long the handler has to acknowledge when clients want something else meanwhile. One with several backends
	// waits for each of them.
	settledWithin = 2 * readyWithin
)

func newHub(s *Server) *hub {
	return &hub{s: s, subs: map[*subscriber]struct{}{}, wanted: demand{uris: map[string]int{}}, late: map[*subscriber]struct{}{}}
}

// add makes sub a subscriber, or takes note that its want has changed, and waits until the handler knows. The want is what wants returns,
// which is called while mu is held: of several calls for the same sub the last one notes what it wants last. If that is nil, sub is told
// nothing any more, and is no subscriber. It returns what of the want the handler tells, which is all as long as it does not say. It
// returns an error, and nothing has changed, if all subscribers together may not want so much.
func (h *hub) add(ctx context.Context, sub *subscriber, wants func() *pb.SubscriptionFilter) (told *pb.SubscriptionFilter, err error) {
	h.mu.Lock()
	want := wants()
	if want == nil {
		h.mu.Unlock()
		return nil, nil
	}
	l, err := h.note(sub, want)
	made := l == nil || h.wanted.covers(l.filter)
	h.mu.Unlock()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	if !made && l.wait(ctx) { // then the next one is made with what is wanted
		h.mu.Lock()
		l, made = h.latest, true
		h.mu.Unlock()
	}
	if l == nil {
		return want, nil
	}
	if made {
		l.wait(ctx)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if !made || l.honoured == nil {
		h.isLate(sub)
		return want, nil
	}
	return both(want, l.honoured), nil
}

// isLate takes note that sub goes on as if it were told what it wants to know. What changes until that is so, it is told then. The caller
// holds mu.
func (h *hub) isLate(sub *subscriber) {
	if _, ok := h.subs[sub]; !ok || h.latest == nil || h.latest.acked && demandOf(h.latest.filter).has(sub.want) {
		return
	}
	h.late[sub] = struct{}{}
}

// narrow is add for a want that has become a part of what it was: nobody need wait until the handler knows that.
func (h *hub) narrow(sub *subscriber, wants func() *pb.SubscriptionFilter) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if want := wants(); want != nil {
		_, _ = h.note(sub, want) // less is never too much, and who wants more meanwhile is told
	}
}

// wants returns what sub wants.
func (h *hub) wants(sub *subscriber) *pb.SubscriptionFilter {
	h.mu.Lock()
	defer h.mu.Unlock()
	return sub.want
}

// wait reports whether l is settled before ctx ends.
func (l *listening) wait(ctx context.Context) bool {
	select {
	case <-l.settled:
		return true
	case <-ctx.Done():
		return false
	}
}

// note makes sub a subscriber, or takes note that its want has become want. It returns what update does. The caller holds mu.
func (h *hub) note(sub *subscriber, want *pb.SubscriptionFilter) (*listening, error) {
	_, again := h.subs[sub]
	if again {
		h.wanted.add(sub.want, -1)
	}
	h.wanted.add(want, 1)
	if err := bridge.CheckTogether(len(h.wanted.uris), h.wanted.size); err != nil {
		h.wanted.add(want, -1)
		if again {
			h.wanted.add(sub.want, 1)
		}
		return nil, err
	}
	sub.want = want
	h.subs[sub] = struct{}{}
	return h.update(), nil
}

// remove ends subscriptions.
func (h *hub) remove(subs ...*subscriber) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, sub := range subs {
		if _, ok := h.subs[sub]; ok {
			delete(h.subs, sub)
			delete(h.late, sub)
			h.wanted.add(sub.want, -1)
		}
	}
	h.update()
}

// close ends the hub and waits for what it started.
func (h *hub) close() {
	h.mu.Lock()
	h.closed = true
	clear(h.subs)
	clear(h.late)
	h.update() // closed, so that everything stops
	h.mu.Unlock()
	h.wg.Wait()
}

// update begins to listen to what the subscribers want, if that is not what is listened to, and returns how it is listened to. While
// that is not settled, it is what the next one waits for. The caller holds mu.
func (h *hub) update() *listening {
	if h.wanted.empty() || h.closed {
		if h.latest != nil {
			h.latest.stop()
			h.latest = nil
		}
		return nil
	}
	if l := h.latest; l != nil {
		if !l.isSettled() || h.wanted.covers(l.filter) {
			return l
		}
		if !l.acked { // what it was to replace is heard until the next one is acknowledged
			l.cancel()
		}
	}
	filter := h.wanted.filter()
	ctx, cancel := context.WithCancel(h.s.ctx)
	l := &listening{filter: filter, cancel: cancel, settled: make(chan struct{}), older: h.latest, ahead: map[changed]lead{}}
	h.latest = l
	h.wg.Go(func() { h.run(ctx, l) })
	return l
}

func (l *listening) isSettled() bool {
	select {
	case <-l.settled:
		return true
	default:
		return false
	}
}

// settle lets the next listening begin, if it is time for one. The caller holds mu.
func (h *hub) settle(l *listening) {
	l.once.Do(func() { close(l.settled) })
	if l == h.latest {
		h.update()
	}
}

// stop ends a listening and those it was to replace.
func (l *listening) stop() {
	for ; l != nil; l = l.older {
		l.cancel()
	}
}

// run listens until ctx ends, again and again: a backend that restarts ends its Listen. What changed while nobody listened
// is not known, so afterwards everything is told to have changed.
func (h *hub) run(ctx context.Context, l *listening) {
	defer h.ended(l)
	defer time.AfterFunc(settledWithin, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.settle(l)
	}).Stop()
	call := &bridge.Call{Method: bridge.Listen, Request: &pb.ListenRequest{
		Context: &pb.CallContext{ProtocolVersion: bridge.Rev20260728.String()}, Notifications: l.filter,
	}}
	pause := relistenMin
	for {
		_, err := h.s.handle(ctx, call, func(_ context.Context, e bridge.Event) error {
			ack := e.Change.GetAcknowledged()
			if ack == nil {
				h.hear(l, e.Change)
				return nil
			}
			pause = relistenMin
			owed, late := h.acknowledged(ctx, l, ack.GetNotifications())
			if owed {
				for _, c := range bridge.ChangesOf(l.filter) {
					h.hear(l, c)
				}
				return nil
			}
			for _, sub := range late {
				h.tellAll(sub)
			}
			return nil
		})
		never := err != nil && bridge.AsError(err).Code == codes.Unimplemented
		if !h.silent(ctx, l, never) {
			return
		}
		h.s.log.Debug().Err(err).Dur("again_in", pause).Msg("the backend ended its Listen")
		if never {
			if !h.s.declares(l.filter) {
				return // only what was declared before the backend had started
			}
			h.s.log.Warn().Msg("the backend says that it tells changes, and has no Listen: clients will not learn of changes")
			return
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
		pause = min(2*pause, relistenMax)
	}
}

// declares reports whether the handler declares, to clients of any era, that it reports some of what a filter names.
func (s *Server) declares(f *pb.SubscriptionFilter) bool {
	for era := range s.known {
		if k := s.known[era].Load(); k != nil && !demandOf(honour(f, k.GetCapabilities())).empty() {
			return true
		}
	}
	return false
}

// acknowledged notes that the handler knows what l listens to, and what of that it tells, so that the listenings it replaces can end: the
// youngest of them soon, the others now. It reports whether something may have changed that nobody was told, and who may have missed a
// change that others were told.
func (h *hub) acknowledged(ctx context.Context, l *listening, honoured *pb.SubscriptionFilter) (owed bool, late []*subscriber) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if ctx.Err() != nil { // too late: another has taken its place
		return false, nil
	}
	heard := false
	for o := l.older; o != nil && !l.acked; o = o.older {
		o.replaced = true
		if o.acked && !heard {
			heard = true
			time.AfterFunc(handover, o.cancel)
		} else {
			o.acked = false
			o.cancel()
		}
	}
	l.acked, l.honoured = true, both(l.filter, honoured)
	h.settle(l)
	if len(h.late) > 0 {
		known := demandOf(l.filter)
		for sub := range h.late {
			if known.has(sub.want) {
				late = append(late, sub)
				delete(h.late, sub)
			}
		}
	}
	owed, h.owed = h.owed, false
	return owed, late
}

// silent takes note that a call of l has ended, and whether the handler says that it never tells anything. It reports whether to listen
// again, which is if that was not our wish: what changes until then, nobody knows.
func (h *hub) silent(ctx context.Context, l *listening, never bool) (again bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if ctx.Err() == nil {
		again = !l.replaced
		h.owed = h.owed || again && l.acked // else those who waited for it are late
		l.acked = false
		clear(l.ahead)
	}
	if never {
		l.honoured = &pb.SubscriptionFilter{}
	}
	h.settle(l)
	return again
}

// ended takes l, which hears no more, out of the chain of listenings, and tells what only l has heard.
func (h *hub) ended(l *listening) {
	l.cancel()
	h.telling.Lock()
	defer h.telling.Unlock()
	var untold []*pb.ListenResponse
	h.mu.Lock()
	for n := h.latest; n != nil; n = n.older {
		if n.older != l {
			continue
		}
		n.older = l.older
		for _, ahead := range n.ahead {
			if ahead.by > 0 {
				untold = append(untold, ahead.change)
			}
		}
		clear(n.ahead)
	}
	h.mu.Unlock()
	for _, change := range untold {
		h.tell(change)
	}
}

// hear tells a change that l has heard, if it asked for it. While l is heard although another listening replaces it, both hear the same,
// if not at the same time. The newer one tells it, so that everything is told once, and in its order; what it has not heard when l
// ends is told then.
func (h *hub) hear(l *listening, change *pb.ListenResponse) {
	if !bridge.Wants(l.filter, change) {
		return
	}
	h.telling.Lock()
	defer h.telling.Unlock()
	h.mu.Lock()
	now := h.compare(l, change)
	h.mu.Unlock()
	if now {
		h.tell(change)
	}
}

// compare takes note of a change that l has heard, if another listening hears the same. It reports whether to tell it now. The caller
// holds mu.
func (h *hub) compare(l *listening, change *pb.ListenResponse) bool {
	hearing := func(l *listening) *listening {
		for l != nil && (!l.acked || !bridge.Wants(l.filter, change)) {
			l = l.older
		}
		return l
	}
	newer := hearing(h.latest)
	if newer == nil {
		return true
	}
	older := hearing(newer.older)
	if older == nil || l != newer && l != older {
		return true
	}
	by := 1
	if l == newer {
		by = -1
	}
	k := changeOf(change)
	ahead, known := newer.ahead[k]
	if !known && (len(newer.ahead) >= bridge.MaxPending || proto.Size(change) > bridge.MaxURIs) {
		return true // rather twice than never
	}
	if ahead.by += by; ahead.by == 0 {
		delete(newer.ahead, k)
	} else {
		newer.ahead[k] = lead{ahead.by, change}
	}
	return l == newer
}

// tell tells a change to those who want to know. The caller holds telling.
func (h *hub) tell(change *pb.ListenResponse) {
	var subs []*subscriber
	h.mu.Lock()
	for sub := range h.subs {
		if bridge.Wants(sub.want, change) {
			subs = append(subs, sub)
		}
	}
	h.mu.Unlock()
	for _, sub := range subs {
		sub.tell(change)
	}
}

// tellAll tells sub that all that it wants to know may have changed.
func (h *hub) tellAll(sub *subscriber) {
	h.telling.Lock()
	defer h.telling.Unlock()
	h.mu.Lock()
	_, ok := h.subs[sub]
	want := sub.want
	h.mu.Unlock()
	if !ok {
		return
	}
	for _, change := range bridge.ChangesOf(want) {
		sub.tell(change)
	}
}

// A changed names what has changed, so that changes can be compared.
type changed struct {
	kind reflect.Type
	what string
}

func changeOf(change *pb.ListenResponse) changed {
	c := changed{kind: reflect.TypeOf(change.GetEvent())}
	switch e := change.GetEvent().(type) {
	case *pb.ListenResponse_ResourceUpdated:
		c.what = e.ResourceUpdated.GetUri()
	case *pb.ListenResponse_ElicitationCompleted:
		c.what = e.ElicitationCompleted.GetElicitationId()
	}
	return c
}
