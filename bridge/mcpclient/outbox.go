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

// remove takes the request of x back. It reports false if it is being sent already.
func (o *outbox) remove(x *exchange) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	i := slices.IndexFunc(o.queue, func(m outgoing) bool { return m.x == x })
	if i < 0 {
		return false
	}
	o.queue = slices.Delete(o.queue, i, i+1)
	return true
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
		if some {
			m = o.queue[0]
			o.queue[0] = outgoing{}
			o.queue = o.queue[1:]
			if m.x == nil {
				o.told--
			} else {
				m.x.sent.end() // from the first byte on the server may execute it
			}
		}
		closed := o.closed
		o.mu.Unlock()
		switch {
		case some && m.x != nil && m.x.p.isGone():
			// Its caller may have learned already that it was not sent, and make it again. Who learns it later is told that it may have been.
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
