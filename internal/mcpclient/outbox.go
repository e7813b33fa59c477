package mcpclient

import (
	"fmt"
	"slices"
	"sync"

	"github.com/mcpbridge/mcpbridge/internal/limits"
)

// An outbox sends messages one after the other, so that no caller is blocked by a server that does not read.
type outbox struct {
	// send sends a message. An error ends the outbox.
	send func(m outgoing) error
	// failed is called with the reason when nothing can be sent any more.
	failed func(error)
	// full is called when there is no room for a message.
	full func()

	mu     sync.Mutex // guards the rest
	queue  []outgoing
	queued int // number of queued messages without a response
	closed bool
	wake   chan struct{}

	done chan struct{} // closed when run has returned
}

// An outgoing is a message to send, with its exchange if it is a request.
type outgoing struct {
	msg []byte
	x   *exchange
	// asker is the exchange of the server's request to which this message responds, if any.
	asker *exchange
}

// failed handles a message that is not sent: asker fails, because the server may wait for the message for ever.
func (m *outgoing) failed(why error) {
	if m.asker != nil {
		m.asker.fail(&lostError{
			err: fmt.Errorf("did not receive the response to its request: %w", why), responseLost: true,
		})
	}
}

func newOutbox(send func(outgoing) error, failed func(error), full func()) *outbox {
	return &outbox{send: send, failed: failed, full: full, wake: make(chan struct{}, 1), done: make(chan struct{})}
}

// add queues a message. It returns false if there is no room.
func (o *outbox) add(m outgoing) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if m.x == nil {
		if o.queued >= limits.QueuedMessages {
			return false
		}
		o.queued++
	}
	o.queue = append(o.queue, m)
	signal(o.wake)
	return true
}

// remove removes the request of x from the queue.
func (o *outbox) remove(x *exchange) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.queue = slices.DeleteFunc(o.queue, func(m outgoing) bool { return m.x == x })
}

// errUnread is the error of a message to a server that does not read.
var errUnread = fmt.Errorf("it does not read, and %d messages are queued", limits.QueuedMessages)

// post queues a message without a response, unless it is nil, and does not wait. asker is the exchange of the server's
// request to which msg responds, or nil. If there is no room for msg, it is dropped, and asker fails, because the
// server may wait for msg for ever.
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

// run sends messages until the outbox is closed and empty, or sending fails.
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
				send = !m.x.p.isLost() && m.x.sent.begin() // from the first byte on the server may execute it
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
