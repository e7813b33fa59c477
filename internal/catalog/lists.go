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

// The limits of the cache of lists. Above them, the least recently used page is evicted.
const (
	maxPages     = 1_024
	maxPageBytes = 64 << 20
	// maxCursor is the maximum length in bytes of a cursor whose page is cached. The cursors of all earlier pages are
	// looked up for each page.
	maxCursor = 1_024
)

// A listKind is the kind of a list.
type listKind int

const (
	kindTools listKind = iota
	kindPrompts
	kindResources
	kindTemplates
	kinds
)

// A kindState is the state of the lists of a kind.
type kindState struct {
	// changes is the number of changes.
	changes uint64
	// listens is the number of open Listen calls that report changes; era is incremented when the first of them starts.
	listens int
	era     uint64
	// lost means that a Listen ended unexpectedly: there may have been changes since.
	lost bool
}

// A pageKey is the key of a cached page.
type pageKey struct {
	kind   listKind
	caller bridge.Audience
	// cursor is where the page starts, or nil for the first page: an empty cursor is valid (PA-4).
	cursor string
	later  bool
}

// A page is a cached page of a list. It is immutable, except for the times of its last use, which the Catalog's lock
// guards.
type page struct {
	key pageKey
	// origin is the received result, and answer the cleaned one: the same message, or a copy without invalid entries.
	origin, answer proto.Message
	next           *string
	size           int
	// names are the names of its tools. id identifies its content, and prior that of the earlier pages with which it
	// was cleaned.
	names []string
	prior []uint64
	id    uint64

	// began is when the last call for it started, came when its result arrived, and until when its TTL expires.
	began                 uint64
	receivedAt, expiresAt time.Time
	// changes and era are those of the kind at that time; kept means that it is valid until the era ends.
	changes, era uint64
	kept         bool
	used         uint64
}

// A flight is a call to the backend for a page. Concurrent callers of the same page wait for its result or error. If
// the caller that started it was canceled, one of the others repeats it.
//
// golang.org/x/sync/singleflight is not used because its call outlives its caller, and cannot be canceled.
type flight struct {
	began, changes uint64
	done           chan struct{}
	// The result:
	page           *page
	err            error
	callerCanceled bool // the error is that of the canceled caller
}

// list executes a list call. The result has the remaining TTL, so that a client does not cache it for longer than the
// backend allowed.
func (c *Catalog) list(ctx context.Context, call *bridge.Call, k listKind, cursor *string, extra string,
	emit bridge.Emit,
) (*bridge.Result, error) {
	if extra != "" { // unknown members make the result specific to this request (CA-3)
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
	return &bridge.Result{Complete: p.withTTL(time.Now())}, nil
}

// withTTL returns the result with the remaining TTL at a time. All other parts are shared.
func (p *page) withTTL(at time.Time) proto.Message {
	ttl := *bridge.PageOf(p.answer).TTL
	age := at.Sub(p.receivedAt).Milliseconds()
	if ttl == nil || *ttl <= 0 || age == 0 {
		return p.answer
	}
	out := bridge.ShallowCopy(p.answer)
	*bridge.PageOf(out).TTL = proto.Int64(max(*ttl-age, 0))
	return out
}

// page returns a valid page, or if after is not 0, one that was requested after that time.
func (c *Catalog) page(ctx context.Context, key pageKey, call *bridge.Call, after uint64,
	emit bridge.Emit,
) (*page, error) {
	for {
		p, f, created := c.cachedOrFlight(key, after)
		switch {
		case p != nil:
			return p, nil
		case created:
			c.requestPage(ctx, f, key, call, emit)
			return f.page, f.err
		}
		select {
		case <-f.done:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if !f.callerCanceled && f.began > after {
			return f.page, f.err
		}
	}
}

// cachedOrFlight returns a cached page, or a flight for it, and whether the caller must execute the flight.
func (c *Catalog) cachedOrFlight(key pageKey, after uint64) (*page, *flight, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	state := &c.kinds[key.kind]
	if p := c.pages[key]; p != nil && c.isValid(p, after) {
		p.used = c.clock.Add(1)
		return p, nil, false
	}
	// A flight that started before the list changed may have the old list.
	if f := c.flights[key]; f != nil && f.changes == state.changes {
		return nil, f, false
	}
	f := &flight{began: c.clock.Add(1), changes: state.changes, done: make(chan struct{})}
	c.flights[key] = f
	return nil, f, true
}

// isValid reports whether a page is valid, and was requested after the given time. The caller holds mu.
func (c *Catalog) isValid(p *page, after uint64) bool {
	state := &c.kinds[p.key.kind]
	switch {
	case p.changes != state.changes:
		return false
	case after > 0:
		return p.began > after
	case p.kept:
		return state.listens > 0 && p.era == state.era
	}
	return time.Now().Before(p.expiresAt)
}

// requestPage executes the call, and records its result.
func (c *Catalog) requestPage(ctx context.Context, f *flight, key pageKey, call *bridge.Call, emit bridge.Emit) {
	f.err, f.callerCanceled = errors.New("the call for a list has panicked"), true
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
		f.err, f.callerCanceled = err, ctx.Err() != nil
		return
	}
	f.err, f.callerCanceled = nil, false
	f.page = c.newPage(f, key, result.Complete, era)
}

// newPage creates a page from a result and caches it.
func (c *Catalog) newPage(f *flight, key pageKey, answer proto.Message, era uint64) *page {
	c.mu.RLock()
	old, prior := c.pages[key], c.prior(key)
	c.mu.RUnlock()
	p := &page{key: key}
	isSame := func(id uint64, p *page) bool { return p.id == id }
	if old != nil && (old.origin == answer || proto.Equal(old.origin, answer)) &&
		slices.EqualFunc(old.prior, prior, isSame) {
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
	p.kept, p.receivedAt = ttl == nil, time.Now()
	if ttl != nil && *ttl > 0 {
		p.expiresAt = p.receivedAt.Add(
			time.Duration(min(*ttl, math.MaxInt64/int64(time.Millisecond))) * time.Millisecond)
	}
	p.began, p.changes, p.era = f.began, f.changes, era
	if l, ok := p.answer.(*pb.ListToolsResponse); ok {
		c.recordTools(key.caller, l, p)
	}
	c.cachePage(p)
	return p
}

// prior returns the cached pages before the one of a key, the last of them first. The caller holds mu.
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

// cachePage caches a page, and evicts others above the limits. A page that is older than the cached one is dropped.
func (c *Catalog) cachePage(p *page) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if old := c.pages[p.key]; old != nil {
		if old.began > p.began {
			return
		}
		c.evictPage(old)
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
		c.evictPage(oldest)
	}
}

// evictPage evicts a page. The caller holds mu.
func (c *Catalog) evictPage(p *page) {
	delete(c.pages, p.key)
	c.bytes -= p.size
	if p.next != nil && c.before[p.nextKey()] == p {
		delete(c.before, p.nextKey())
	}
}

// listen forwards a Listen call. The Catalog handles its changes before the caller receives them.
func (c *Catalog) listen(ctx context.Context, call *bridge.Call, emit bridge.Emit) (*bridge.Result, error) {
	var reported [kinds]bool
	defer func() { c.recordListenEnd(&reported, ctx.Err() == nil) }()
	return c.h.Handle(ctx, call, func(ctx context.Context, e bridge.Event) error {
		switch change := e.Change.GetEvent().(type) {
		case *pb.ListenResponse_Acknowledged:
			c.recordListen(&reported, change.Acknowledged.GetNotifications())
		case *pb.ListenResponse_ToolsListChanged:
			c.invalidate(kindTools)
		case *pb.ListenResponse_PromptsListChanged:
			c.invalidate(kindPrompts)
		case *pb.ListenResponse_ResourcesListChanged:
			c.invalidate(kindResources, kindTemplates)
		}
		return emit(ctx, e)
	})
}

// invalidate drops the lists of some kinds.
func (c *Catalog) invalidate(which ...listKind) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, k := range which {
		c.kinds[k].changes++
	}
}

// recordListen records which kinds of lists a Listen reports.
func (c *Catalog) recordListen(reported *[kinds]bool, f *pb.SubscriptionFilter) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for k, reports := range [kinds]bool{
		kindTools: f.GetToolsListChanged(), kindPrompts: f.GetPromptsListChanged(),
		kindResources: f.GetResourcesListChanged(),
		kindTemplates: f.GetResourcesListChanged(),
	} {
		if !reports || reported[k] {
			continue
		}
		reported[k] = true
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

// recordListenEnd records the end of a Listen. If its caller did not end it, the backend may have been replaced.
func (c *Catalog) recordListenEnd(reported *[kinds]bool, lost bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for k := range reported {
		if !reported[k] {
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
