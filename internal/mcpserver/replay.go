package mcpserver

import (
	"container/list"
	"sync"
	"sync/atomic"
)

// A replay bounds what several logs keep together. When it is too much, logs that have ended are forgotten, in the order in
// which they did, but for those that a response is about to be given. It may be used concurrently. A log's lock may be taken while mu
// is held, and not the other way round.
type replay struct {
	most int
	size atomic.Int64

	mu    sync.Mutex // guards what follows, and is not needed as long as there is room
	ended list.List  // of *eventLog
}

// add takes note that a log keeps so much more. It reports whether it is too much even so.
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

// end takes note that a log has ended. What it returns takes that back.
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
