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

// A pool has the sessions of a legacy server for callers with capabilities, by key. The most recently used one is
// reused first, so that sequential calls of a caller reach the same session.
type pool struct {
	c *Client

	opening sync.WaitGroup // goroutines that open or close a session

	mu        sync.Mutex            // guards the rest
	idle      map[string][]*peer    // by key; no list is empty
	unclaimed map[string][]*opening // openings without a waiting caller, by key
	all       []*peer
	total     int // all sessions, including those being opened, and programs that have not ended
	ending    int // programs and openings that have not ended
	waiting   int // callers that wait for a session
	closed    bool
	changed   chan struct{} // closed when there may be room
}

// An opening is a session that is being opened. It continues when its caller leaves: otherwise a program that starts
// slowly would never be ready for callers with a shorter deadline.
type opening struct {
	key            string
	cancel         context.CancelFunc
	unclaimedSince time.Time     // when its last caller left, or zero
	canceled       bool          // it is being ended for other callers
	done           chan struct{} // closed when got or err is set
	peer           *peer
	err            error
}

// lease returns a session with the key for exclusive use by the owner until release. If there is none, it waits for a
// short time, or for at most one start timeout while another program ends.
func (p *pool) lease(ctx context.Context, can *pb.ClientCapabilities, key, owner string) (*peer, error) {
	limit := time.Now().Add(p.c.o.StartTimeout)
	timer := time.NewTimer(p.c.intervals.CallWait)
	defer timer.Stop()
	evicted := false
	p.mu.Lock()
	for {
		if p.closed {
			p.mu.Unlock()
			return nil, &lostError{err: errClosed}
		}
		if got := p.pick(key); got != nil {
			p.mu.Unlock()
			return got, nil
		}
		if o := p.claim(key); o != nil {
			p.mu.Unlock()
			return p.await(ctx, o)
		}
		if p.total < p.c.o.MaxSessions {
			break
		}
		changed := p.changed
		if p.ending <= p.waiting && p.evict() && p.ending > 0 && !evicted { // one ends for each waiting caller
			evicted = true
			timer.Reset(time.Until(limit))
		}
		p.waiting++
		p.mu.Unlock()
		err := p.awaitPlace(ctx, changed, timer, limit, owner)
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
	can = mcpjson.Clone(can) // it belongs to the call, which may end before
	p.opening.Go(func() { p.open(opens, o, can) })
	p.mu.Unlock()
	return p.await(ctx, o)
}

// awaitPlace waits until there may be room for a session of the owner. It waits until limit for a program that ends.
func (p *pool) awaitPlace(ctx context.Context, changed <-chan struct{}, timer *time.Timer, limit time.Time,
	owner string,
) error {
	select {
	case <-changed:
	case <-timer.C:
		switch { // another caller may be faster, so there may be no room again
		case p.abandon():
			timer.Reset(time.Until(limit))
		case p.c.pending.makeRoom(owner):
			timer.Reset(p.c.intervals.CallWait)
		default:
			return p.c.overloaded("%d sessions are in use or closing, which is the limit", p.c.o.MaxSessions)
		}
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// open opens a session. There must be room for it.
func (p *pool) open(ctx context.Context, o *opening, can *pb.ClientCapabilities) {
	defer o.cancel()
	began := time.Now()
	got, err := p.c.openSession(ctx, can, o.key)
	p.mu.Lock()
	defer p.mu.Unlock()
	defer close(o.done)
	if o.canceled {
		p.ending--
	}
	deserted := slices.Contains(p.unclaimed[o.key], o)
	if deserted {
		p.remove(o)
	}
	switch {
	case err != nil:
		if got != nil {
			p.end(got)
		} else {
			p.freePlace()
		}
		if deserted {
			p.c.log.Debug().Err(err).Msg("a session that is not needed any more failed to start")
		}
		o.err = notSentError(err)
	case p.closed || o.canceled:
		p.end(got)
		o.err = &lostError{err: errClosed}
	default:
		got.began = began
		p.all = append(p.all, got)
		if deserted {
			p.releaseLocked(got, true)
			return
		}
		o.peer = got
	}
}

// await waits for an opening. If ctx ends before, another caller can claim it.
func (p *pool) await(ctx context.Context, o *opening) (*peer, error) {
	select {
	case <-o.done:
		return o.peer, o.err
	case <-ctx.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-o.done: // just now
		if o.peer != nil {
			p.releaseLocked(o.peer, true)
		}
	default:
		o.unclaimedSince = time.Now()
		p.unclaimed[o.key] = append(p.unclaimed[o.key], o)
		p.notify()
	}
	return nil, ctx.Err()
}

// claim returns an opening without a caller, or nil. Its new caller must await it.
func (p *pool) claim(key string) *opening {
	if len(p.unclaimed[key]) == 0 {
		return nil
	}
	o := p.unclaimed[key][0]
	p.remove(o)
	return o
}

// remove removes an opening from the unclaimed ones.
func (p *pool) remove(o *opening) {
	list := slices.DeleteFunc(p.unclaimed[o.key], func(other *opening) bool { return other == o })
	if len(list) == 0 {
		delete(p.unclaimed, o.key)
		return
	}
	p.unclaimed[o.key] = list
}

// notSentError converts the error of a session that did not start to that of a call that was not sent.
func notSentError(err error) error {
	switch e := err.(type) { //nolint:errorlint // what is around it would be lost
	case *bridge.Error:
		return e
	case *lostError:
		return &lostError{err: e.err, refused: true, reprobe: e.reprobe}
	}
	return &lostError{err: err, refused: true}
}

// pick removes and returns the most recently used session. Ended ones are dropped.
func (p *pool) pick(key string) *peer {
	for list := p.idle[key]; len(list) > 0; list = p.idle[key] {
		last := list[len(list)-1]
		p.take(last)
		if !last.isClosing() {
			return last
		}
		p.drop(last)
	}
	return nil
}

// evict closes the session that has been idle longest. It returns false if there is none.
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

// abandon ends the opening that has been unclaimed longest. It returns false if there is none. It is used only if a
// caller would be rejected otherwise: callers with deadlines shorter than a start would end each other's openings, and
// no session would ever be ready.
func (p *pool) abandon() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	var first *opening
	for _, list := range p.unclaimed {
		if first == nil || list[0].unclaimedSince.Before(first.unclaimedSince) {
			first = list[0]
		}
	}
	if first == nil {
		return false
	}
	p.remove(first)
	p.ending++
	first.canceled = true
	first.cancel()
	return true
}

// take removes a session from the idle ones.
func (p *pool) take(s *peer) {
	list := slices.DeleteFunc(p.idle[s.key], func(o *peer) bool { return o == s })
	if len(list) == 0 {
		delete(p.idle, s.key)
		return
	}
	p.idle[s.key] = list
}

// drop closes an unused session.
func (p *pool) drop(s *peer) {
	p.all = slices.DeleteFunc(p.all, func(o *peer) bool { return o == s })
	p.end(s)
}

// end closes a session in the background. A program counts toward the limit until it has ended: otherwise the number of
// programs that ignore signals would be unlimited.
func (p *pool) end(s *peer) {
	if p.c.url != nil {
		p.freePlace()
		p.opening.Go(s.close)
		return
	}
	p.ending++
	p.opening.Go(func() {
		s.close()
		p.mu.Lock()
		defer p.mu.Unlock()
		p.ending--
		p.freePlace()
	})
}

// freePlace frees a place for a session.
func (p *pool) freePlace() {
	p.total--
	p.notify()
}

// notify wakes the waiting callers.
func (p *pool) notify() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// release returns a session to the pool. A session that is not clean may still send messages for its last call, so no
// other caller gets it.
func (p *pool) release(s *peer, clean bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.releaseLocked(s, clean)
}

// releaseLocked is release for callers that hold mu.
func (p *pool) releaseLocked(s *peer, clean bool) {
	switch {
	case p.closed: // the closed pool closes its sessions
	case !clean || s.isClosing():
		p.drop(s)
	default:
		s.idle = time.Now()
		p.idle[s.key] = append(p.idle[s.key], s)
		p.notify()
	}
}

// closeIdleBefore closes the idle sessions with the key that started before the given time: the server has rejected one
// of them as unknown, so it has restarted and rejects them all.
func (p *pool) closeIdleBefore(key string, before time.Time) {
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

// sweep closes expired sessions.
func (p *pool) sweep(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	var old []*peer
	for _, list := range p.idle {
		for _, s := range list {
			if now.Sub(s.idle) > p.c.o.SessionIdle || s.isClosing() {
				old = append(old, s)
			}
		}
	}
	for _, s := range old {
		p.take(s)
		p.drop(s)
	}
}

// empty closes every session, and waits until they have ended.
func (p *pool) empty() {
	p.mu.Lock()
	p.closed = true
	p.notify()
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
