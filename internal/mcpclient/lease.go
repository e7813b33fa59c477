package mcpclient

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/mcpjson"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// A pool has the sessions of a legacy server for callers with capabilities, by who they are and what they can do. The one that
// was used last is used first, so that a caller whose calls come one after the other meets the same session each time.
type pool struct {
	c *Client

	opening sync.WaitGroup // those who open or close a session

	mu       sync.Mutex            // guards the rest
	idle     map[string][]*peer    // by their keys; none of the lists is empty
	deserted map[string][]*opening // that nobody waits for any more, by their keys
	all      []*peer
	total    int // of all, those being opened, and programs that have yet to end
	ending   int // programs and openings that have yet to end
	waiting  int // those who wait for room
	closed   bool
	changed  chan struct{} // closed when there may be room
}

// An opening is a session that is being opened. That goes on when who waits for it leaves: a program that takes long to start would never
// be there for callers who do not wait as long.
type opening struct {
	key    string
	cancel context.CancelFunc
	since  time.Time     // when it was deserted, if it is
	over   bool          // it ends, for others
	done   chan struct{} // closed when it is known what became of it: one of these
	got    *peer
	err    error
}

// lease returns a session of the key, which is the owner's, that nobody else uses until it is released. It waits for one, but not long:
// for a program that ends to make room for it as long as one may take to start.
func (p *pool) lease(ctx context.Context, can *pb.ClientCapabilities, key, owner string) (*peer, error) {
	limit := time.Now().Add(p.c.o.StartTimeout)
	timer := time.NewTimer(p.c.pace.Patience)
	defer timer.Stop()
	evicted := false
	p.mu.Lock()
	for {
		if p.closed {
			p.mu.Unlock()
			return nil, &lost{err: errClosed}
		}
		if got := p.pick(key); got != nil {
			p.mu.Unlock()
			return got, nil
		}
		if o := p.adopt(key); o != nil {
			p.mu.Unlock()
			return p.join(ctx, o)
		}
		if p.total < p.c.o.MaxSessions {
			break
		}
		changed := p.changed
		if p.ending <= p.waiting && p.evict() && p.ending > 0 && !evicted { // else one ends for each who waits
			evicted = true
			timer.Reset(time.Until(limit))
		}
		p.waiting++
		p.mu.Unlock()
		err := p.await(ctx, changed, timer, limit, owner)
		p.mu.Lock()
		p.waiting--
		if err != nil {
			p.mu.Unlock()
			return nil, err
		}
	}
	p.total++
	opens, cancel := context.WithCancel(p.c.ctx)
	o := &opening{key: key, cancel: cancel, done: make(chan struct{})}
	can = mcpjson.Clone(can) // it is the call's, which may end before
	p.opening.Go(func() { p.open(opens, o, can) })
	p.mu.Unlock()
	return p.join(ctx, o)
}

// await waits until there may be room for a session of the owner's. It waits until limit for a program that ends.
func (p *pool) await(ctx context.Context, changed <-chan struct{}, timer *time.Timer, limit time.Time, owner string) error {
	select {
	case <-changed:
	case <-timer.C:
		switch { // somebody else may be faster, so it may have to be made again
		case p.abandon():
			timer.Reset(time.Until(limit))
		case p.c.pending.makeRoom(owner):
			timer.Reset(p.c.pace.Patience)
		default:
			return p.c.overloaded("%d sessions are in use or have yet to end, which is the most", p.c.o.MaxSessions)
		}
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// open opens a session, for which there is room.
func (p *pool) open(ctx context.Context, o *opening, can *pb.ClientCapabilities) {
	defer o.cancel()
	began := time.Now()
	got, err := p.c.openSession(ctx, can, o.key)
	p.mu.Lock()
	defer p.mu.Unlock()
	defer close(o.done)
	if o.over {
		p.ending--
	}
	deserted := slices.Contains(p.deserted[o.key], o)
	if deserted {
		p.remove(o)
	}
	switch {
	case err != nil:
		if got != nil {
			p.end(got)
		} else {
			p.room()
		}
		if deserted {
			p.c.log.Debug().Err(err).Msg("a session that nobody waits for any more did not begin")
		}
		o.err = notBegun(err)
	case p.closed || o.over:
		p.end(got)
		o.err = &lost{err: errClosed}
	default:
		got.began = began
		p.all = append(p.all, got)
		if deserted {
			p.giveBack(got, true)
			return
		}
		o.got = got
	}
}

// join waits for a session that is being opened. Who leaves leaves it to others.
func (p *pool) join(ctx context.Context, o *opening) (*peer, error) {
	select {
	case <-o.done:
		return o.got, o.err
	case <-ctx.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-o.done: // just now
		if o.got != nil {
			p.giveBack(o.got, true)
		}
	default:
		o.since = time.Now()
		p.deserted[o.key] = append(p.deserted[o.key], o)
		p.tell()
	}
	return nil, ctx.Err()
}

// adopt returns a session that is being opened and that nobody waits for, or nil. Whoever has it joins it.
func (p *pool) adopt(key string) *opening {
	if len(p.deserted[key]) == 0 {
		return nil
	}
	o := p.deserted[key][0]
	p.remove(o)
	return o
}

// remove takes a session that is being opened out of the deserted ones.
func (p *pool) remove(o *opening) {
	list := slices.DeleteFunc(p.deserted[o.key], func(other *opening) bool { return other == o })
	if len(list) == 0 {
		delete(p.deserted, o.key)
		return
	}
	p.deserted[o.key] = list
}

// notBegun returns why a session did not begin, as the error of a call that was not sent.
func notBegun(err error) error {
	switch e := err.(type) { //nolint:errorlint // what is around it would be lost
	case *bridge.Error:
		return e
	case *lost:
		return &lost{err: e.err, refused: true, renew: e.renew}
	}
	return &lost{err: err, refused: true}
}

// pick takes the session out that was used last. Those that are over go.
func (p *pool) pick(key string) *peer {
	for list := p.idle[key]; len(list) > 0; list = p.idle[key] {
		last := list[len(list)-1]
		p.take(last)
		if !last.isOver() {
			return last
		}
		p.drop(last)
	}
	return nil
}

// evict closes the session that has been idle for longest. It reports false if there is none.
func (p *pool) evict() bool {
	var oldest *peer
	for _, list := range p.idle {
		if oldest == nil || list[0].idle.Before(oldest.idle) {
			oldest = list[0]
		}
	}
	if oldest == nil {
		return false
	}
	p.take(oldest)
	p.drop(oldest)
	return true
}

// abandon ends the opening that was deserted first. It reports false if there is none. That is for those who would be refused else: callers
// who come in turn, and wait for less than a start takes, would have each end the other's, and none would ever be there.
func (p *pool) abandon() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	var first *opening
	for _, list := range p.deserted {
		if first == nil || list[0].since.Before(first.since) {
			first = list[0]
		}
	}
	if first == nil {
		return false
	}
	p.remove(first)
	p.ending++
	first.over = true
	first.cancel()
	return true
}

// take takes a session out of the idle ones.
func (p *pool) take(s *peer) {
	list := slices.DeleteFunc(p.idle[s.key], func(o *peer) bool { return o == s })
	if len(list) == 0 {
		delete(p.idle, s.key)
		return
	}
	p.idle[s.key] = list
}

// drop closes a session that nobody uses.
func (p *pool) drop(s *peer) {
	p.all = slices.DeleteFunc(p.all, func(o *peer) bool { return o == s })
	p.end(s)
}

// end closes a session, beside everything else. A program takes its room until nothing is left of it: else there would be any number
// of those that do not end when they are told to.
func (p *pool) end(s *peer) {
	if p.c.url != nil {
		p.room()
		p.opening.Go(s.close)
		return
	}
	p.ending++
	p.opening.Go(func() {
		s.close()
		p.mu.Lock()
		defer p.mu.Unlock()
		p.ending--
		p.room()
	})
}

// room says that there is room for one session more.
func (p *pool) room() {
	p.total--
	p.tell()
}

// tell tells those who wait that there may be room.
func (p *pool) tell() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// release gives a session back. One that is not clean may still say something on behalf of the call that it was leased for, so
// nobody else gets it.
func (p *pool) release(s *peer, clean bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.giveBack(s, clean)
}

// giveBack is release by somebody who holds mu.
func (p *pool) giveBack(s *peer, clean bool) {
	switch {
	case p.closed: // who closed the pool closes all that is in it
	case !clean || s.isOver():
		p.drop(s)
	default:
		s.idle = time.Now()
		p.idle[s.key] = append(p.idle[s.key], s)
		p.tell()
	}
}

// forget closes the idle sessions of the key that began before the given time: a server that has forgotten one of them has forgotten all,
// as it was started anew.
func (p *pool) forget(key string, before time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	for _, s := range slices.Clone(p.idle[key]) {
		if s.began.Before(before) {
			p.take(s)
			p.drop(s)
		}
	}
}

// sweep closes the sessions that nobody has used for long.
func (p *pool) sweep(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	var old []*peer
	for _, list := range p.idle {
		for _, s := range list {
			if now.Sub(s.idle) > p.c.o.SessionIdle || s.isOver() {
				old = append(old, s)
			}
		}
	}
	for _, s := range old {
		p.take(s)
		p.drop(s)
	}
}

// empty closes every session, whoever uses it, and waits for that.
func (p *pool) empty() {
	p.mu.Lock()
	p.closed = true
	p.tell()
	all := p.all
	p.all = nil
	p.mu.Unlock()
	var wg sync.WaitGroup
	for _, s := range all {
		wg.Go(s.close)
	}
	wg.Wait()
	p.opening.Wait()
}
