package mcpclient

import (
	"slices"
	"sync"
)

// maxTold is how many messages without an answer may wait to be sent. What a server makes us say by asking is bounded so.
const maxTold = 256

// An outbox sends messages one after the other, so that nobody waits for a server that does not read.
type outbox struct {
	// send sends a message. An error is the end.
	send func(msg []byte) error
	// failed is told why nothing can be sent any more.
	failed func(error)

	mu     sync.Mutex // guards the rest
	queue  []outgoing
	told   int // of the queue
	closed bool
	wake   chan struct{}

	done chan struct{} // closed when run has returned
}

// An outgoing is a message to send: the request of an exchange, if it has one.
type outgoing struct {
	msg []byte
	x   *exchange
}

func newOutbox(send func([]byte) error, failed func(error)) *outbox {
	return &outbox{send: send, failed: failed, wake: make(chan struct{}, 1), done: make(chan struct{})}
}

// add queues a message. It reports false if there is no room for it.
func (o *outbox) add(m outgoing) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if m.x == nil {
		if o.told >= maxTold {
			return false
		}
		o.told++
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
				o.told--
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
			// gofail: var mcpclientSend struct{}

			if err := o.send(m.msg); err != nil {
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
