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
	"github.com/mcpbridge/mcpbridge/internal/limits"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// An exchange is one request to the server and its response. Its only reader is the goroutine of its call, which takes
// the messages of the exchange in order and is the only one that emits events.
//
//	transport --put--> inbox --await--> each --> emit
//
// The transports put messages into the inbox, whose size in bytes is limited. There is always room for the response.
//
// The state is the progress of the exchange:
//
//	idle -> inFlight <-> suspended
//	        inFlight, suspended -> answered, answeredElsewhere, failed
//	idle,   inFlight, suspended -> abandoned
//
// Whether the server may have executed the request does not follow from the state: see sendState.
type exchange struct {
	taskUse
	purpose
	p *peer
	// id is a number. It is the request's ID and its progress token.
	id     string
	method string
	// body is the complete request, and header its HTTP headers (2026-07-28).
	body   []byte
	header [][2]string
	// ctx ends when the response and its stream are no longer needed.
	ctx    context.Context
	cancel context.CancelFunc
	// sent records whether the server may have the complete request.
	sent sendState
	// each handles the messages before the response.
	each messageHandler

	inbox
	serverRequests
	emitted  bool    // events were emitted
	progress float64 // last emitted progress
}

// A state is the progress of an exchange.
type state uint8

const (
	idle              state = iota // the request was not passed to the transport
	inFlight                       // the server has the request, or may have it
	suspended                      // the server waits for a response of the caller
	answered                       // the response arrived in the HTTP response to the POST, whose reader ends ctx
	answeredElsewhere              // the response arrived on another stream
	failed                         // there will be no response
	abandoned                      // the call ended without the response
)

// isAnswered reports whether the response has arrived.
func (s state) isAnswered() bool { return s == answered || s == answeredElsewhere }

// An inbox holds the received messages of an exchange until its call takes them.
type inbox struct {
	ready chan struct{} // has an element if there are messages
	room  chan struct{} // has an element if messages were taken

	mu    sync.Mutex // guards the rest
	state state
	msgs  []jsonrpc.Message
	size  int   // of the messages that are not responses, in bytes
	err   error // why there will be no more messages
}

// serverRequests are the server's requests during an exchange. Only the goroutine of the call uses them.
type serverRequests struct {
	requests     []serverRequest // unanswered requests
	requestCount int             // number of all requests
}

// A serverRequest is a request of the server during an exchange.
type serverRequest struct {
	id   []byte
	req  *pb.InputRequest
	size int // in bytes
}

// A sendState records whether a request was sent. The goroutine that sends the request and the one that cancels it both
// change the record: the first change decides.
type sendState struct{ stage atomic.Int32 }

const (
	notSent   = iota // the server does not have the complete request
	beingSent        // the server may have the complete request before the write returns
	sent             // the server may have the complete request
	withheld         // the server does not have the complete request and never will; this may have been reported
)

// Load reports whether the server may have the complete request.
func (s *sendState) Load() bool {
	stage := s.stage.Load()
	return stage == beingSent || stage == sent
}

// begin must be called before a request is sent. It reports whether the request may be sent.
func (s *sendState) begin() bool {
	s.stage.CompareAndSwap(notSent, beingSent)
	return s.Load()
}

// end records that a request was sent.
func (s *sendState) end() { s.stage.Store(sent) }

// markUnsent records that a request was sent only in part, so that the server cannot execute it.
func (s *sendState) markUnsent() { s.stage.CompareAndSwap(beingSent, notSent) }

// settle reports whether the server may have the complete request. If not, begin returns false from then on.
func (s *sendState) settle() bool {
	s.stage.CompareAndSwap(notSent, withheld)
	return s.Load()
}

// put adds a message that did not arrive in the HTTP response to the POST of x. If there is no room, it returns false
// instead of waiting, because other exchanges use the same stream. There is always room for the response. It also
// returns false for a request that arrives after the end of the exchange.
func (x *exchange) put(m *jsonrpc.Message) bool { return x.add(m, answeredElsewhere) }

// putOwn adds a message that arrived in the HTTP response to the POST of x. It waits for room.
func (x *exchange) putOwn(m *jsonrpc.Message) {
	for !x.add(m, answered) {
		select {
		case <-x.room:
		case <-x.ctx.Done():
			return
		}
	}
}

// add adds a message to the inbox, if there is room. If the message is the response, the new state is the given one.
func (x *exchange) add(m *jsonrpc.Message, then state) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case x.state.isAnswered() || x.state == abandoned || x.state == failed && m.IsRequest():
		return !m.IsRequest() // another call must respond to it
	case m.IsResponse():
		x.state = then
		x.msgs = append(x.msgs, *m)
	case len(x.msgs) >= limits.PendingChanges || x.size > limits.PendingChangesBytes:
		return false
	default:
		x.msgs = append(x.msgs, retainedCopy(m))
		x.size += len(m.ID) + len(m.Method) + len(m.Params)
	}
	signal(x.ready)
	return true
}

// retainedCopy copies the parts of a message that are needed later, so that its text, which may be far longer, does not
// stay in memory. The message is not a response. Meta is not copied because it is a part of Params, and the message is
// already assigned to its call.
func retainedCopy(m *jsonrpc.Message) jsonrpc.Message {
	return jsonrpc.Message{ID: bytes.Clone(m.ID), Method: m.Method, Params: bytes.Clone(m.Params)}
}

// fail ends the exchange without a response. The first error counts.
func (x *exchange) fail(err error) { x.finish(failed, err) }

// abandon ends the exchange because the response is no longer needed. It returns the previous state.
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

// transition changes the state from one to another. In any other state it does nothing.
func (x *exchange) transition(from, to state) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.state == from {
		x.state = to
	}
}

// currentState returns the state.
func (x *exchange) currentState() state {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.state
}

// failure returns why there will be no response, or nil.
func (x *exchange) failure() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.err
}

// takeMessages returns the received messages, and why there will be no more.
func (x *exchange) takeMessages() ([]jsonrpc.Message, error) {
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

// A messageHandler handles the messages before the response, in order. An error ends the exchange.
type messageHandler func(m *jsonrpc.Message) error

// await returns the response. If the server sends requests, it returns nil instead, after a short time in which further
// ones are collected.
func (x *exchange) await(ctx context.Context) (*jsonrpc.Message, error) {
	var gather <-chan time.Time
	for {
		if m, err := x.deliver(); m != nil || err != nil {
			return m, err
		}
		if len(x.requests) > 0 && gather == nil {
			gather = time.After(x.p.c.intervals.collectTime)
		}
		select {
		case <-x.ready:
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-gather:
			gather = nil
			if len(x.requests) > 0 {
				return nil, nil //nolint:nilnil // no response yet and no error: the requests are in x
			}
		}
	}
}

// deliver passes received messages to the call. It returns the response if it has arrived, or why it will not arrive.
func (x *exchange) deliver() (*jsonrpc.Message, error) {
	msgs, err := x.takeMessages()
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

// errBehind ends a subscription that missed a change. The subscriber's next Listen reports that everything may have
// changed.
var errBehind = fmt.Errorf("the subscriber is %d changes behind, or %d bytes of them", limits.PendingChanges,
	limits.PendingChangesBytes)

// isRefusal reports whether the server ended an exchange without a response, by an HTTP status or an invalid message.
func isRefusal(err error) bool {
	l, isLost := errors.AsType[*lostError](err)
	return err != nil && (!isLost || l.answered && !l.gateway || l.refused)
}
