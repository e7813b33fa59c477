package mcpclient

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcpbridge/mcpbridge/internal/jsonrpc"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// An exchange is one request of ours from begin to end. It has one reader: the goroutine of its call, which takes the
// messages that belong to it in order, and is the only one that emits events.
//
//	transport --put--> inbox --await--> each --> emit
//
// The transports put messages into the inbox, which is a channel with a bound in bytes, and with room for the response
// at any time.
//
// The state says how far the exchange has come:
//
//	idle -> inFlight <-> suspended      the server asked something, and the caller has yet to come back with the answers
//	        inFlight, suspended -> answered, answeredElsewhere, failed
//	idle, inFlight, suspended -> abandoned      the call has ended without the response
//
// Whether the server may have executed the request is another question, which sending answers.
type exchange struct {
	use
	p *peer
	// id is the request's id and its progress token: a number.
	id     string
	method string
	// body is the whole request, and header what its headers say of it (2026-07-28).
	body   []byte
	header [][2]string
	// ctx ends when the response, and the stream that it comes on, is no longer needed.
	ctx    context.Context
	cancel context.CancelFunc
	// sent says whether the server may have the whole request.
	sent sending
	// each gets what comes before the response.
	each taker

	inbox
	questions
	shown    bool    // events were emitted
	progress float64 // the last that was emitted
}

// A state says how far an exchange has come.
type state uint8

const (
	idle              state = iota // the request was not given to the transport
	inFlight                       // the server is to answer
	suspended                      // the server waits for an answer of the caller
	answered                       // the response has come in the response to a POST, whose reader ends the context
	answeredElsewhere              // the response has come in another way
	failed                         // there will be no response
	abandoned                      // nobody waits for the response any more
)

// isAnswered reports whether the response has come.
func (s state) isAnswered() bool { return s == answered || s == answeredElsewhere }

// An inbox is what has come of an exchange and its call has not taken yet.
type inbox struct {
	ready chan struct{} // has an element when there is something to take
	room  chan struct{} // has an element when something was taken

	mu    sync.Mutex // guards the rest
	state state
	msgs  []jsonrpc.Message
	size  int   // of those of msgs that are no response, in bytes
	err   error // why there will be no more messages
}

// questions are the requests of the server in the middle of an exchange. They are for the goroutine of the call.
type questions struct {
	asks  []ask // those that are not answered
	asked int   // how many there were
}

// An ask is a request of the server in the middle of ours.
type ask struct {
	id   []byte
	key  string
	req  *pb.InputRequest
	size int // of its text, in bytes
}

// A sending is how far a request has got. Who sends it, and who says that it was not sent, agree by it: one of them is
// first.
type sending struct{ stage atomic.Int32 }

const (
	unsentYet = iota // the server does not have all of it
	underway         // the server may have all of it before we know that
	left             // the server may have it, whatever we learn later
	dropped          // the server does not have it, and will not: somebody may have been told so
)

// Load reports whether the server may have the whole request.
func (s *sending) Load() bool {
	stage := s.stage.Load()
	return stage == underway || stage == left
}

// begin is called before any of a request is sent. It reports whether that may be.
func (s *sending) begin() bool {
	s.stage.CompareAndSwap(unsentYet, underway)
	return s.Load()
}

// end says that a request was sent.
func (s *sending) end() { s.stage.Store(left) }

// takeBack says that not all of a request was sent, and that what was is of no use.
func (s *sending) takeBack() { s.stage.CompareAndSwap(underway, unsentYet) }

// settle returns whether the server may have the whole request, of which nothing is sent from then on if it does not.
func (s *sending) settle() bool {
	s.stage.CompareAndSwap(unsentYet, dropped)
	return s.Load()
}

// The bounds of an inbox. A transport that can make the server wait does so; another one drops notifications that have
// no room.
const (
	maxWaiting     = 1024
	maxWaitingSize = 1 << 20
)

// put adds a message that is not the response to a POST of ours. It reports false if there is no room for it, which
// there always is for the response, and for a request also when it is too late.
func (x *exchange) put(m *jsonrpc.Message) bool { return x.add(m, answeredElsewhere) }

// putOwn adds a message that came in the response to the POST of x, by whoever reads that. It waits for room.
func (x *exchange) putOwn(m *jsonrpc.Message) {
	for !x.add(m, answered) {
		select {
		case <-x.room:
		case <-x.ctx.Done():
			return
		}
	}
}

// add adds a message to the inbox. A response makes it so that the state is then.
func (x *exchange) add(m *jsonrpc.Message, then state) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case x.state.isAnswered() || x.state == abandoned || x.state == failed && !m.IsResponse():
		return !m.IsRequest() // which somebody else has to answer
	case m.IsResponse():
		x.state = then
		x.msgs = append(x.msgs, *m)
	case len(x.msgs) >= maxWaiting || x.size > maxWaitingSize:
		return false
	default:
		x.msgs = append(x.msgs, kept(m))
		x.size += len(m.ID) + len(m.Method) + len(m.Params)
	}
	signal(x.ready)
	return true
}

// kept returns what is kept of a message that is no response. It is no slice of the text that the message came in,
// which may be far longer. Meta is left out: it is a part of Params, and says whose the message is, which is known by
// then.
func kept(m *jsonrpc.Message) jsonrpc.Message {
	return jsonrpc.Message{ID: bytes.Clone(m.ID), Method: m.Method, Params: bytes.Clone(m.Params)}
}

// fail ends the exchange: there will be no response, for the reason that is given first.
func (x *exchange) fail(err error) { x.finish(failed, err) }

// abandon ends the exchange, whose response nobody waits for any more. It returns the state before.
func (x *exchange) abandon(err error) (was state) { return x.finish(abandoned, err) }

func (x *exchange) finish(as state, err error) (was state) {
	x.mu.Lock()
	defer x.mu.Unlock()
	was = x.state
	if was.isAnswered() || was == abandoned || was == failed {
		return was
	}
	if was != idle || as == abandoned {
		x.state = as
	}
	if x.err == nil {
		x.err = err
	}
	signal(x.ready)
	return was
}

// move changes the state, if it is from.
func (x *exchange) move(from, to state) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.state == from {
		x.state = to
	}
}

// now returns the state.
func (x *exchange) now() state {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.state
}

// failure returns why there will be no response, if that is so.
func (x *exchange) failure() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.err
}

// take returns what has come, and why nothing more will.
func (x *exchange) take() ([]jsonrpc.Message, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	msgs := x.msgs
	x.msgs, x.size = nil, 0
	signal(x.room)
	return msgs, x.err
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// A taker gets what comes before the response, in order. An error ends the exchange.
type taker func(m *jsonrpc.Message) error

// await returns the response. If the server asks something it returns nil instead, once what is asked together has
// come.
func (x *exchange) await(ctx context.Context) (*jsonrpc.Message, error) {
	var gather <-chan time.Time
	for {
		if m, err := x.deliver(); m != nil || err != nil {
			return m, err
		}
		if len(x.asks) > 0 && gather == nil {
			gather = time.After(x.p.c.pace.gather)
		}
		select {
		case <-x.ready:
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-gather:
			gather = nil
			if len(x.asks) > 0 {
				return nil, nil //nolint:nilnil // no response yet and no error: the asks are in x
			}
		}
	}
}

// deliver passes on what has come. It returns the response if that is there, and why it will not come.
func (x *exchange) deliver() (*jsonrpc.Message, error) {
	msgs, err := x.take()
	for i := range msgs {
		m := &msgs[i]
		if m.IsResponse() {
			return m, nil
		}
		if x.each == nil {
			continue
		}
		if err := x.each(m); err != nil {
			return nil, err
		}
	}
	return nil, err
}

// errBehind is why a subscription ends that has missed a change. Who listens again is told that everything may have
// changed.
var errBehind = fmt.Errorf("the subscriber is %d changes behind, or %d bytes of them", maxWaiting, maxWaitingSize)

// isRefusal reports whether err says that the server has ended an exchange by something else than a response: a status,
// or what is no message.
func isRefusal(err error) bool {
	l, isLost := errors.AsType[*lost](err)
	return err != nil && (!isLost || l.answered && !l.gateway || l.refused)
}
