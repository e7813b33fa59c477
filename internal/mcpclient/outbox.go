package mcpclient

import (
	"fmt"
	"slices"
	"sync"
)

// maxQueued is how many messages without an answer may wait to be sent. What a server makes us say by asking is bounded
// so.
const maxQueued = 256

// An outbox sends messages one after the other, so that nobody waits for a server that does not read.
type outbox struct {
	// send sends a message. An error is the end.
	send func(m outgoing) error
	// failed is told why nothing can be sent any more.
	failed func(error)
	// full is called when there is no room for a message.
	full func()

	mu     sync.Mutex // guards the rest
	queue  []outgoing
	queued int // messages without an answer, of the queue
	closed bool
	wake   chan struct{}

	done chan struct{} // closed when run has returned
}

// An outgoing is a message to send: the request of an exchange, if it has one.
type outgoing struct {
	msg []byte
	x   *exchange
	// asker is the exchange that the server has asked something in, if this answers it.
	asker *exchange
}

// failed says why a message is not sent. If the server waits for it, perhaps for ever, the call does not.
func (m *outgoing) failed(why error) {
	if m.asker != nil {
		m.asker.fail(&lost{err: fmt.Errorf("was not told the answer to what it asked: %w", why), unanswered: true})
	}
}

func newOutbox(send func(outgoing) error, failed func(error), full func()) *outbox {
	return &outbox{send: send, failed: failed, full: full, wake: make(chan struct{}, 1), done: make(chan struct{})}
}

// add queues a message. It reports false if there is no room for it.
func (o *outbox) add(m outgoing) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if m.x == nil {
		if o.queued >= maxQueued {
			return false
		}
		o.queued++
	}
	o.queue = append(o.queue, m)
	signal(o.wake)
	return true
}

// remove forgets the request of x, which is not sent any more.
func (o *outbox) remove(x *exchange) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.queue = slices.DeleteFunc(o.queue, func(m outgoing) bool { return m.x == x })
}

// errUnread is why a message is not sent to a server that does not read.
var errUnread = fmt.Errorf("it does not read, and %d messages wait for it already", maxQueued)

// post queues a message that has no response, unless it is nil, and does not wait. Asker is the exchange in which the
// server has asked what msg answers, or nil. If there is no room for msg, it is dropped, and asker fails: nothing more
// may come of it.
func (o *outbox) post(msg []byte, asker *exchange) {
	m := outgoing{msg: msg, asker: asker}
	if msg == nil || o.add(m) {
		return
	}
	o.full()
	m.failed(errUnread)
}

// close makes run return once everything is sent.
func (o *outbox) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	signal(o.wake)
}

// finish closes the outbox, and returns when run has.
func (o *outbox) finish() {
	o.close()
	<-o.done
}

// run sends until the outbox is closed, and everything in it is sent, or nothing can be.
func (o *outbox) run() {
	defer close(o.done)
	for {
		o.mu.Lock()
		var m outgoing
		some := len(o.queue) > 0
		send := some
		if some {
			m = o.queue[0]
			o.queue[0] = outgoing{}
			o.queue = o.queue[1:]
			if m.x == nil {
				o.queued--
			} else {
				send = !m.x.p.isGone() && m.x.sent.begin() // from the first byte on the server may execute it
			}
		}
		closed := o.closed
		o.mu.Unlock()
		switch {
		case some && !send:
			continue
		case some:
			if err := o.send(m); err != nil {
				o.failed(err)
				return
			}
			continue
		case closed:
			return
		}
		<-o.wake
	}
}
