package mcpserver

import (
	"context"
	"slices"
	"sync"
)

// An eventLog is what a legacy stream has said so far. Whoever answers the request appends to it; HTTP responses copy from
// it. A response may be cut off and another one may take over where it stopped, so neither side knows about the other.
//
// What it keeps is bounded by those that it shares the bounds with, and forgotten when it is too much: of logs that have ended
// all, of this one its oldest events. Whoever would need them is told so. What a response that copies is about to be given is kept
// until then: an answer that is longer than the bound reaches the client that waits for it.
type eventLog struct {
	id string
	// tag is that of the session.
	tag string
	// within are the bounds, that of the session first.
	within []*replay

	mu     sync.Mutex
	first  int      // the number of events[0]
	events [][]byte // messages; nil stands for the priming event, which has none
	size   int
	closed bool
	gone   bool // dropped: nothing is kept any more
	told   int  // the number of the first event that no response has given out
	reader int  // counts the responses that took over
	copied bool // the last of them copies, and has yet to be given the events from next on
	next   int
	remove []func()      // takes the log away from those that have ended
	grown  chan struct{} // closed and replaced whenever something above changes; nil while nobody waits
}

// primingSize is what a priming event counts as, in bytes: about what it is on the wire, and in memory.
const primingSize = 64

func newEventLog(id string, within ...*replay) *eventLog { return &eventLog{id: id, within: within} }

// roomOf returns what an event takes. A priming event counts as well: a client may have any number of them, by opening a stream again and
// again.
func roomOf(msg []byte) int {
	if msg == nil {
		return primingSize
	}
	return len(msg)
}

// append adds a message, which the log then owns, and returns its number.
func (l *eventLog) append(msg []byte, last bool) int {
	size := roomOf(msg)
	l.mu.Lock()
	if l.gone { // its call goes on, and nobody can come back to it
		defer l.mu.Unlock()
		l.first++
		return l.first - 1
	}
	l.events = append(l.events, msg)
	l.size += size
	n := l.first + len(l.events) - 1
	l.wake()
	l.mu.Unlock()
	for _, r := range l.within {
		r.add(size)
	}
	l.trim()
	if last {
		l.close()
	}
	return n
}

// trim forgets what is too much.
func (l *eventLog) trim() {
	for _, r := range l.within {
		if r.add(0) {
			l.forget(1) // the newest can still be told to whoever listens
		}
		if r.add(0) {
			l.forget(0)
		}
	}
}

// owed returns how many of the newest events are still to be given to a response that copies: the newest, and of those before it as
// many as may be kept, for a client that reads slowly must not decide how much that is. The caller holds mu.
func (l *eventLog) owed() int {
	if !l.copied {
		return 0
	}
	n, size := 0, 0
	for i := len(l.events) - 1; i >= max(l.next-l.first, 0) && size <= l.within[0].most; i-- {
		if n > 0 {
			size += roomOf(l.events[i])
		}
		n++
	}
	return n
}

// isOwed reports whether a response is still to be given something.
func (l *eventLog) isOwed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.owed() > 0
}

// forget drops all events but the newest so many, and those that a response is owed.
func (l *eventLog) forget(but int) {
	l.mu.Lock()
	but = max(but, l.owed())
	freed := 0
	for ; len(l.events) > but; l.first++ {
		freed += roomOf(l.events[0])
		l.events[0] = nil // the array stays, for what is still to come
		l.events = l.events[1:]
	}
	l.size -= freed
	l.wake() // a response that needed them is cut
	l.mu.Unlock()
	if freed == 0 {
		return
	}
	for _, r := range l.within {
		r.add(-freed)
	}
}

// drop forgets the log altogether.
func (l *eventLog) drop() {
	l.mu.Lock()
	l.gone = true
	l.mu.Unlock()
	l.take() // whoever copies is cut
	l.close()
	l.forget(0)
	l.unlist()
}

// unlist takes the log away from those that have ended.
func (l *eventLog) unlist() {
	l.mu.Lock()
	remove := l.remove
	l.remove = nil
	l.mu.Unlock()
	for _, f := range remove {
		f()
	}
}

// push adds a message that is not the last.
func (l *eventLog) push(msg []byte) { l.append(msg, false) }

// close says that nothing more will be appended.
func (l *eventLog) close() {
	l.mu.Lock()
	again := l.closed
	l.closed = true
	l.wake()
	l.mu.Unlock()
	if again {
		return
	}
	var remove []func()
	for _, r := range l.within {
		remove = append(remove, r.end(l))
	}
	l.mu.Lock()
	l.remove = remove
	gone := l.gone
	l.mu.Unlock()
	if gone { // since then
		l.unlist()
	}
}

// wake tells whoever waits that something changed. The caller holds mu.
func (l *eventLog) wake() {
	if l.grown != nil {
		close(l.grown)
		l.grown = nil
	}
}

// take makes the caller the one response that gives out events, and returns how it is known to be.
func (l *eventLog) take() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reader++
	l.copied = false
	l.wake()
	return l.reader
}

// follow is take for a response that copies, from event number n on, until it leaves.
func (l *eventLog) follow(n int) (reader int, leave func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reader++
	l.copied, l.next = true, n
	l.wake()
	reader = l.reader
	return reader, func() {
		l.mu.Lock()
		if l.reader == reader {
			l.copied = false
		}
		l.mu.Unlock()
		l.trim()
	}
}

// has reports whether the event after number n, or the end of the log, can be given out.
func (l *eventLog) has(n int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return n+1 >= l.first && n < l.first+len(l.events)
}

// untold returns the number of the first event that no response has given out.
func (l *eventLog) untold() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return max(l.told, l.first)
}

// untell notes that the events from number n on could not be given out after all.
func (l *eventLog) untell(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.told = min(l.told, n)
}

// ended reports whether nothing more will be appended.
func (l *eventLog) ended() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closed
}

// held returns how many bytes the log keeps.
func (l *eventLog) held() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.size
}

// holds reports whether reader is still the one response that is given events.
func (l *eventLog) holds(reader int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.reader == reader
}

// wait blocks until there is an event of number n or later, and returns those there are, which counts as giving them out. It
// returns none when the log is closed and has no more, when another response took over, or when ctx ends.
func (l *eventLog) wait(ctx context.Context, reader, n int) ([][]byte, bool) {
	for {
		l.mu.Lock()
		if l.reader != reader {
			l.mu.Unlock()
			return nil, false
		}
		if n < l.first {
			l.mu.Unlock()
			return nil, false // forgotten; better a cut stream than one with a hole
		}
		if fresh := l.events[n-l.first:]; len(fresh) > 0 || l.closed {
			fresh = slices.Clone(fresh) // what is forgotten meanwhile is given all the same
			l.told, l.next = max(l.told, n+len(fresh)), n+len(fresh)
			l.mu.Unlock()
			l.trim()
			return fresh, len(fresh) > 0
		}
		if l.grown == nil {
			l.grown = make(chan struct{})
		}
		grown := l.grown
		l.mu.Unlock()
		select {
		case <-grown:
		case <-ctx.Done():
			return nil, false
		}
	}
}
