package mcpserver

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/mcpbridge/mcpbridge/internal/rawjson"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// An eventLog has the events of a legacy stream. The handler of the request appends to it; HTTP responses copy from it.
// If a response is interrupted, another one may continue, so neither side depends on the other.
//
// The size of one log, and of several logs together, is limited. Above a limit, ended logs and the oldest events of
// this log are dropped. A client that resumes at a dropped event receives an error. Events that an active response has
// yet to send are kept until it has sent them, so that a message that is longer than the limit still reaches its
// client.
type eventLog struct {
	id string
	// tag is the session's prefix of event ids.
	tag string
	// limits are: first that of the session, then that of all sessions.
	limits []*replayLimit

	mu      sync.Mutex
	first   int      // the number of events[0]
	events  [][]byte // messages; nil is the priming event
	size    int
	closed  bool
	dropped bool // dropped: no more events are kept
	unsent  int  // the number of the first event that was not sent
	reader  int  // the number of the response that sends the events; lower numbers were replaced
	copying bool // that response copies the events, and has yet to send those from number next on
	next    int
	remove  []func()      // remove the log from the lists of ended logs
	changed chan struct{} // closed on changes; nil if nothing waits
}

// primingSize is the size of a priming event, in bytes: about that on the wire, and in memory.
const primingSize = 64

func newEventLog(id string, within ...*replayLimit) *eventLog {
	return &eventLog{id: id, limits: within}
}

// eventSize returns the size of an event. A priming event counts as well: a client can cause any number of them by
// reopening a stream.
func eventSize(msg []byte) int {
	if msg == nil {
		return primingSize
	}
	return len(msg)
}

// append adds a message, which the log then owns, and returns its number.
func (l *eventLog) append(msg []byte, last bool) int {
	size := eventSize(msg)
	l.mu.Lock()
	if l.dropped { // the call continues, and the stream cannot be resumed
		defer l.mu.Unlock()
		l.first++
		return l.first - 1
	}
	l.events = append(l.events, msg)
	l.size += size
	n := l.first + len(l.events) - 1
	l.wake()
	l.mu.Unlock()
	for _, r := range l.limits {
		r.add(size)
	}
	l.trim()
	if last {
		l.close()
	}
	return n
}

// trim drops events above the limits.
func (l *eventLog) trim() {
	for _, r := range l.limits {
		if r.add(0) {
			l.dropOldest(1) // the newest can still be sent to an active response
		}
		if r.add(0) {
			l.dropOldest(0)
		}
	}
}

// pending returns how many of the newest events an active response must still send: the newest event, and earlier
// events within the session's limit, because a slow client must not determine the memory. The caller holds mu.
func (l *eventLog) pending() int {
	if !l.copying {
		return 0
	}
	n, size := 0, 0
	for i := len(l.events) - 1; i >= max(l.next-l.first, 0) && size <= l.limits[0].max; i-- {
		if n > 0 {
			size += eventSize(l.events[i])
		}
		n++
	}
	return n
}

// hasPending reports whether a response must still send events.
func (l *eventLog) hasPending() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.pending() > 0
}

// dropOldest drops all events except the newest ones, whose number is keep, and those that a response must still send.
func (l *eventLog) dropOldest(keep int) {
	l.mu.Lock()
	keep = max(keep, l.pending())
	freed := 0
	for ; len(l.events) > keep; l.first++ {
		freed += eventSize(l.events[0])
		l.events[0] = nil // keeps the array for further events
		l.events = l.events[1:]
	}
	l.size -= freed
	l.wake() // ends a response that needed them
	l.mu.Unlock()
	if freed == 0 {
		return
	}
	for _, r := range l.limits {
		r.add(-freed)
	}
}

// drop drops the log.
func (l *eventLog) drop() {
	l.mu.Lock()
	l.dropped = true
	l.mu.Unlock()
	l.claim() // ends the response that copies
	l.close()
	l.dropOldest(0)
	l.unlist()
}

// unlist removes the log from the lists of ended logs.
func (l *eventLog) unlist() {
	l.mu.Lock()
	remove := l.remove
	l.remove = nil
	l.mu.Unlock()
	for _, f := range remove {
		f()
	}
}

// push adds a message that is not the last one.
func (l *eventLog) push(msg []byte) { l.append(msg, false) }

// close marks the log as complete.
func (l *eventLog) close() {
	l.mu.Lock()
	closedBefore := l.closed
	l.closed = true
	l.wake()
	l.mu.Unlock()
	if closedBefore {
		return
	}
	var remove []func()
	for _, r := range l.limits {
		remove = append(remove, r.end(l))
	}
	l.mu.Lock()
	l.remove = remove
	dropped := l.dropped
	l.mu.Unlock()
	if dropped { // it was dropped meanwhile
		l.unlist()
	}
}

// wake notifies the waiting goroutines. The caller holds mu.
func (l *eventLog) wake() {
	if l.changed != nil {
		close(l.changed)
		l.changed = nil
	}
}

// claim makes the caller the only response that sends events, and returns its number.
func (l *eventLog) claim() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reader++
	l.copying = false
	l.wake()
	return l.reader
}

// claimFrom is claim for a response that copies the events from number n on, until leave is called.
func (l *eventLog) claimFrom(n int) (reader int, leave func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reader++
	l.copying, l.next = true, n
	l.wake()
	reader = l.reader
	return reader, func() {
		l.mu.Lock()
		if l.reader == reader {
			l.copying = false
		}
		l.mu.Unlock()
		l.trim()
	}
}

// resumableAfter reports whether a client can resume the stream after event n: the event was added, and none after it
// was dropped.
func (l *eventLog) resumableAfter(n int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return n+1 >= l.first && n < l.first+len(l.events)
}

// firstUnsent returns the number of the first unsent event.
func (l *eventLog) firstUnsent() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return max(l.unsent, l.first)
}

// markUnsent records that the events from number n on were not sent.
func (l *eventLog) markUnsent(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unsent = min(l.unsent, n)
}

// ended reports whether the log is complete.
func (l *eventLog) ended() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closed
}

// byteSize returns the size of the log in bytes.
func (l *eventLog) byteSize() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.size
}

// isReader reports whether reader is still the response that sends events.
func (l *eventLog) isReader(reader int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.reader == reader
}

// wait waits for events from number n on, marks them as sent, and returns them. It returns none if the log is complete,
// if an event was dropped, if another response took over, or when ctx ends.
func (l *eventLog) wait(ctx context.Context, reader, n int) ([][]byte, bool) {
	for {
		l.mu.Lock()
		if l.reader != reader {
			l.mu.Unlock()
			return nil, false
		}
		if n < l.first {
			l.mu.Unlock()
			return nil, false // an interrupted stream is better than a gap
		}
		if newEvents := l.events[n-l.first:]; len(newEvents) > 0 || l.closed {
			newEvents = slices.Clone(newEvents) // events that are dropped meanwhile are sent nevertheless
			l.unsent, l.next = max(l.unsent, n+len(newEvents)), n+len(newEvents)
			l.mu.Unlock()
			l.trim()
			return newEvents, len(newEvents) > 0
		}
		if l.changed == nil {
			l.changed = make(chan struct{})
		}
		changed := l.changed
		l.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, false
		}
	}
}

// resumable returns the stream of an event id, and the event's number. It returns nil if events after it were dropped.
func (ss *session) resumable(event string) (*eventLog, int) {
	id, number, _ := strings.Cut(strings.TrimPrefix(event, ss.tag), "-")
	n, err := strconv.Atoi(number)
	if err != nil || n < 0 {
		return nil, 0
	}
	ss.mu.Lock()
	l := ss.logs[id]
	ss.mu.Unlock()
	if l == nil || event != l.eventID(n) || !l.resumableAfter(n) {
		return nil, 0
	}
	return l, n
}

// errEventsDropped returns the error for an event whose successors were dropped. The call may be in flight or have
// ended.
func errEventsDropped(event string) *pb.JsonRpcError {
	e := invalidRequest("the events after " + strconv.Quote(rawjson.Shorten(event)) +
		" were dropped; the call may have been executed: repeat it only if executing it twice does no harm")
	e.Data = `{"reason":"EVENTS_FORGOTTEN","outcome":"unknown"}` // of the call, not of this request
	return e
}

// newLog starts a stream that the client can resume.
func (ss *session) newLog() *eventLog {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	ss.lastLog++
	return ss.addLog(strconv.Itoa(ss.lastLog))
}

// addLog starts a stream with the given id. The caller holds mu.
func (ss *session) addLog(id string) *eventLog {
	l := newEventLog(id, &ss.replay, &ss.s.opts.Sessions.replay)
	l.tag = ss.tag
	ss.logs[id] = l
	ss.order = append(ss.order, id)
	for len(ss.order) > maxLogs {
		i := slices.IndexFunc(ss.order, func(id string) bool { return id != standaloneID && ss.logs[id].ended() })
		if i < 0 {
			break // the remaining ones belong to calls in flight, whose number is limited
		}
		ss.logs[ss.order[i]].drop()
		delete(ss.logs, ss.order[i])
		ss.order = slices.Delete(ss.order, i, i+1)
	}
	return l
}

// standaloneID is the id of the standalone stream, which a GET opens.
const standaloneID = "0"

// standaloneLog returns the standalone stream.
func (ss *session) standaloneLog() *eventLog {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if l := ss.logs[standaloneID]; l != nil {
		return l
	}
	return ss.addLog(standaloneID)
}
