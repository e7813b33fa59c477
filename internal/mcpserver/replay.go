package mcpserver

import (
	"container/list"
	"sync"
	"sync/atomic"
)

// A replayLimit limits the total size of several logs. Above it, ended logs are dropped in the order in which they
// ended, except for events that a response is about to send. It may be used concurrently. A log's lock may be acquired
// while mu is held, and not the other way round.
type replayLimit struct {
	max  int
	size atomic.Int64

	mu    sync.Mutex // guards what follows; not acquired below the limit
	ended list.List  // of *eventLog
}

// add adds n to the total size, and drops ended logs above the limit. It reports whether the limit is still exceeded.
func (r *replayLimit) add(n int) (exceeded bool) {
	if r.size.Add(int64(n)) <= int64(r.max) {
		return false
	}
	r.mu.Lock()
	over := int(r.size.Load()) - r.max
	var dropped []*eventLog
	for at := r.ended.Front(); over > 0 && at != nil; {
		l, _ := at.Value.(*eventLog)
		next := at.Next()
		if !l.hasPending() {
			r.ended.Remove(at)
			dropped = append(dropped, l)
			over -= l.byteSize()
		}
		at = next
	}
	r.mu.Unlock()
	for _, l := range dropped {
		l.dropOldest(0)
	}
	return over > 0
}

// end adds an ended log. The returned function removes it.
func (r *replayLimit) end(l *eventLog) (remove func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := r.ended.PushBack(l)
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.ended.Remove(at)
	}
}
