package catalog

import (
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/mcpbridge/mcpbridge/bridge"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// How much of lists is remembered. Over it, what was used longest ago is forgotten.
const (
	maxPages     = 1_024
	maxPageBytes = 64 << 20
	// maxCursor is how long a cursor may be, in bytes, so that the page that it leads to is remembered, and the pages before that are
	// known: all of them are looked up for each page.
	maxCursor = 1_024
)

// A listKind is what a list is of.
type listKind int

const (
	kindTools listKind = iota
	kindPrompts
	kindResources
	kindTemplates
	kinds
)

// A kindState is what is known of the lists of a kind.
type kindState struct {
	// changes counts how often they have changed.
	changes uint64
	// listens is how many Listen calls are open that tell their changes; era counts how often that began.
	listens int
	era     uint64
	// lost says that a Listen has ended by itself: nobody knows what has changed since.
	lost bool
}

// A pageKey is what a page is remembered by.
type pageKey struct {
	kind   listKind
	caller bridge.Audience
	// cursor is where the page starts, if it is not the first: an empty cursor is one like any other (PA-4).
	cursor string
	later  bool
}

// A page is a page of a list, as it was told at some time. It does not change, except for when it was told last and used last,
// which the Catalog's lock guards.
type page struct {
	key pageKey
	// origin is the answer as it came, and answer what is made of it: the same message, or one without what is bad.
	origin, answer proto.Message
	next           *string
	size           int
	// names are those of the tools, and others whether those before it make a difference: which pages they were when the
	// answer was made, and where they were bad.
	names []string
	prior []uint64
	id    uint64

	// began is when the last call began that was answered with it, came is when it was, and until is when it ceases to be true.
	began       uint64
	came, until time.Time
	// changes and era are those of the kind at that time; kept says that only the end of the era ends it.
	changes, era uint64
	kept         bool
	used         uint64
}

// A flight is a call of the backend for a page. Those who want the same page while it is under way wait for it: they take what
// it brings, or its error, unless it was the one who made the call who went away; then one of them makes it again.
//
// This is not golang.org/x/sync/singleflight because there the call outlives who made it, and nobody can end it.
type flight struct {
	began, changes uint64
	done           chan struct{}
	// Once it is done:
	page  *page
	err   error
	again bool // the error is that of who made the call
}

// list answers a call for a list. What the answer says of its time to live is what is left of it: whoever keeps it for that long
// must not keep it for longer than the backend has said.
func (c *Catalog) list(ctx context.Context, call *bridge.Call, k listKind, cursor *string, extra string, emit bridge.Emit) (*bridge.Result, error) {
	if extra != "" { // it asks for more than is known here, and the answer is for it alone (CA-3)
		result, err := c.h.Handle(ctx, call, emit)
		if err != nil {
			return nil, err
		}
		l, _ := c.clean(k, bridge.AudienceOf(call.Context()), result.Complete, nil)
		return &bridge.Result{Complete: l}, nil
	}
	key := pageKey{kind: k, caller: bridge.AudienceOf(call.Context()), later: cursor != nil}
	if cursor != nil {
		key.cursor = *cursor
	}
	p, err := c.page(ctx, key, call, 0, emit)
	if err != nil {
		return nil, err
	}
	return &bridge.Result{Complete: p.told(time.Now())}, nil
}

// told returns the answer as it is told at some time: with what is left of its time to live. The messages share all else.
func (p *page) told(at time.Time) proto.Message {
	ttl := *bridge.PageOf(p.answer).TTL
	age := at.Sub(p.came).Milliseconds()
	if ttl == nil || *ttl <= 0 || age == 0 {
		return p.answer
	}
	out := bridge.ShallowCopy(p.answer)
	*bridge.PageOf(out).TTL = proto.Int64(max(*ttl-age, 0))
	return out
}

// page returns a page that is true, or if after is not 0, one that was asked for after that.
func (c *Catalog) page(ctx context.Context, key pageKey, call *bridge.Call, after uint64, emit bridge.Emit) (*page, error) {
	for {
		p, f, mine := c.board(key, after)
		switch {
		case p != nil:
			return p, nil
		case mine:
			c.fly(ctx, f, key, call, emit)
			return f.page, f.err
		}
		select {
		case <-f.done:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if !f.again && f.began > after {
			return f.page, f.err
		}
	}
}

// board returns a page, or the flight that will bring it, and whether it is the caller's to fly.
func (c *Catalog) board(key pageKey, after uint64) (*page, *flight, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	state := &c.kinds[key.kind]
	if p := c.pages[key]; p != nil && c.holds(p, after) {
		p.used = c.clock.Add(1)
		return p, nil, false
	}
	// A flight that began before the list changed may bring what it was before.
	if f := c.flights[key]; f != nil && f.changes == state.changes {
		return nil, f, false
	}
	f := &flight{began: c.clock.Add(1), changes: state.changes, done: make(chan struct{})}
	c.flights[key] = f
	return nil, f, true
}

// holds reports whether a page is true, and was asked for after the given time. The caller holds mu.
func (c *Catalog) holds(p *page, after uint64) bool {
	state := &c.kinds[p.key.kind]
	switch {
	case p.changes != state.changes:
		return false
	case after > 0:
		return p.began > after
	case p.kept:
		return state.listens > 0 && p.era == state.era
	}
	return time.Now().Before(p.until)
}

// fly makes the call, and takes down what it brings.
func (c *Catalog) fly(ctx context.Context, f *flight, key pageKey, call *bridge.Call, emit bridge.Emit) {
	f.err, f.again = errors.New("the call for a list has panicked"), true
	defer func() {
		c.mu.Lock()
		if c.flights[key] == f {
			delete(c.flights, key)
		}
		c.mu.Unlock()
		close(f.done)
	}()
	c.mu.RLock()
	era := c.kinds[key.kind].era
	c.mu.RUnlock()
	result, err := c.h.Handle(ctx, call, emit)
	if err != nil {
		f.err, f.again = err, ctx.Err() != nil
		return
	}
	f.err, f.again = nil, false
	f.page = c.take(f, key, result.Complete, era)
}

// take makes a page of an answer and remembers it.
func (c *Catalog) take(f *flight, key pageKey, answer proto.Message, era uint64) *page {
	c.mu.RLock()
	old, prior := c.pages[key], c.prior(key)
	c.mu.RUnlock()
	p := &page{key: key}
	isSame := func(id uint64, p *page) bool { return p.id == id }
	if old != nil && (old.origin == answer || proto.Equal(old.origin, answer)) && slices.EqualFunc(old.prior, prior, isSame) {
		p.origin, p.answer, p.names, p.size, p.id = old.origin, old.answer, old.names, old.size, old.id
	} else {
		p.origin, p.answer, p.id = answer, answer, c.clock.Add(1)
		p.answer, p.names = c.clean(key.kind, key.caller, answer, prior)
		p.size = len(key.cursor) + proto.Size(p.origin)
		if p.answer != p.origin {
			p.size += proto.Size(p.answer)
		}
	}
	for _, q := range prior {
		p.prior = append(p.prior, q.id)
	}
	shared := bridge.PageOf(answer)
	ttl := *shared.TTL
	p.next = *shared.NextCursor
	p.kept, p.came = ttl == nil, time.Now()
	if ttl != nil && *ttl > 0 {
		p.until = p.came.Add(time.Duration(min(*ttl, math.MaxInt64/int64(time.Millisecond))) * time.Millisecond)
	}
	p.began, p.changes, p.era = f.began, f.changes, era
	if l, ok := p.answer.(*pb.ListToolsResponse); ok {
		c.learn(key.caller, l, p)
	}
	c.remember(p)
	return p
}

// prior returns the pages before the one of a key, as far as they are known: the last of them first. The caller holds mu.
func (c *Catalog) prior(key pageKey) []*page {
	var all []*page
	for p := c.before[key]; p != nil && p.key != key && len(all) < maxPages; p = c.before[p.key] {
		all = append(all, p)
	}
	return all
}

// nextKey returns the key of the page after p.
func (p *page) nextKey() pageKey {
	return pageKey{kind: p.key.kind, caller: p.key.caller, cursor: *p.next, later: true}
}

// remember puts a page in its place, and forgets others if there are too many. A page that a younger one has overtaken stays
// out.
func (c *Catalog) remember(p *page) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if old := c.pages[p.key]; old != nil {
		if old.began > p.began {
			return
		}
		c.forget(old)
	}
	if p.size > maxPageBytes || len(p.key.cursor) > maxCursor {
		return
	}
	p.used = c.clock.Add(1)
	c.pages[p.key] = p
	c.bytes += p.size
	if p.next != nil && len(*p.next) <= maxCursor {
		c.before[p.nextKey()] = p
	}
	for len(c.pages) > maxPages || c.bytes > maxPageBytes {
		oldest := p
		for _, q := range c.pages {
			if q.used < oldest.used {
				oldest = q
			}
		}
		c.forget(oldest)
	}
}

// forget forgets a page. The caller holds mu.
func (c *Catalog) forget(p *page) {
	delete(c.pages, p.key)
	c.bytes -= p.size
	if p.next != nil && c.before[p.nextKey()] == p {
		delete(c.before, p.nextKey())
	}
}

// listen passes on a Listen call, and learns from it what has changed before anybody else does.
func (c *Catalog) listen(ctx context.Context, call *bridge.Call, emit bridge.Emit) (*bridge.Result, error) {
	var told [kinds]bool
	defer func() { c.deaf(&told, ctx.Err() == nil) }()
	return c.h.Handle(ctx, call, func(ctx context.Context, e bridge.Event) error {
		switch change := e.Change.GetEvent().(type) {
		case *pb.ListenResponse_Acknowledged:
			c.hear(&told, change.Acknowledged.GetNotifications())
		case *pb.ListenResponse_ToolsListChanged:
			c.changed(kindTools)
		case *pb.ListenResponse_PromptsListChanged:
			c.changed(kindPrompts)
		case *pb.ListenResponse_ResourcesListChanged:
			c.changed(kindResources, kindTemplates)
		}
		return emit(ctx, e)
	})
}

// changed drops the lists of some kinds.
func (c *Catalog) changed(which ...listKind) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, k := range which {
		c.kinds[k].changes++
	}
}

// hear notes what a Listen tells.
func (c *Catalog) hear(told *[kinds]bool, f *pb.SubscriptionFilter) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for k, tells := range [kinds]bool{
		kindTools: f.GetToolsListChanged(), kindPrompts: f.GetPromptsListChanged(), kindResources: f.GetResourcesListChanged(),
		kindTemplates: f.GetResourcesListChanged(),
	} {
		if !tells || told[k] {
			continue
		}
		told[k] = true
		state := &c.kinds[k]
		if state.listens++; state.listens == 1 {
			state.era++
		}
		if state.lost {
			state.lost = false
			state.changes++
		}
	}
}

// deaf notes that a Listen has ended. If that was not the wish of who had made it, the backend may have been replaced.
func (c *Catalog) deaf(told *[kinds]bool, lost bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for k := range told {
		if !told[k] {
			continue
		}
		state := &c.kinds[k]
		state.listens--
		if lost {
			state.lost = true
			state.changes++
		}
	}
}
