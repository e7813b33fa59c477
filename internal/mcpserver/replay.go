package mcpserver

import (
	"container/list"
	"sync"
	"sync/atomic"
)

// A replay limits the total size of several logs. Above it, ended logs are dropped in the order in which they ended,
// except for events that a response is about to send. It may be used concurrently. A log's lock may be acquired while
// mu is held, and not the other way round.
type replay struct {
	most int
	size atomic.Int64

	mu    sync.Mutex // guards what follows; not acquired below the limit
	ended list.List  // of *eventLog
}

// add adds n to the total size, and drops ended logs above the limit. It reports whether the limit is still exceeded.
func (r *replay) add(n int) (tooMuch bool) {
	if r.size.Add(int64(n)) <= int64(r.most) {
		return false
	}
	r.mu.Lock()
	over := int(r.size.Load()) - r.most
	var forgotten []*eventLog
	for at := r.ended.Front(); over > 0 && at != nil; {
		l, _ := at.Value.(*eventLog)
		next := at.Next()
		if !l.isOwed() {
			r.ended.Remove(at)
			forgotten = append(forgotten, l)
			over -= l.held()
		}
		at = next
	}
	r.mu.Unlock()
	for _, l := range forgotten {
		l.forget(0)
	}
	return over > 0
}

// end adds an ended log. The returned function removes it.
func (r *replay) end(l *eventLog) (remove func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := r.ended.PushBack(l)
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.ended.Remove(at)
	}
}
