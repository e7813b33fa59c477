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

// An exchange is one request of ours while it is being answered. The wire puts what comes of it in, the goroutine of the call
// takes it out; while a call is parked, nobody takes.
type exchange struct {
	use
	p *peer
	// id is the request's id and its progress token: a number.
	id     string
	method string
	// name is what Mcp-Name says, and params what the other headers of a tool's arguments do (2026-07-28).
	name   *string
	params [][2]string
	// body is the whole request, and unread what of it net/http has not read yet.
	body   []byte
	unread *bytes.Reader
	// ctx ends when nobody wants an answer any more.
	ctx    context.Context
	cancel context.CancelFunc
	// sent says whether the server may have the whole request.
	sent sending
	// stopped says that the server was told that nobody wants the answer, where the request may come after that.
	stopped atomic.Bool

	// stream is what the goroutine of the call has yet to read itself. Two changes of goroutine are a good part of what a call costs.
	stream *stream
	// each gets what comes before the response, if anybody wants it; delivering is locked meanwhile.
	each       taker
	delivering sync.Mutex
	stray      sync.Once
	// untie ends what cancels ctx when the caller's ends.
	untie func() bool

	started  bool    // it was given to the wire
	asks     []ask   // what the server has asked and nobody has answered; for the goroutine of the call
	asked    int     // how often it has asked
	progress float64 // the last that was passed on
	shown    bool    // events were emitted

	mu sync.Mutex // guards the rest
	// alone says that the goroutine of the call reads the response.
	alone bool
	// streams says that the response is a stream, the end of which is read when the call has ended, and cancels ctx; but not if it is apart:
	// then what answers the request came in another way, and the stream may never end.
	streams, apart bool
	// msgs is what has come and nobody has taken.
	msgs     []jsonrpc.Message
	size     int // of those of msgs that are no response, in bytes
	answered bool
	over     bool          // nobody will take any more
	err      error         // why there will be no more messages
	unheard  bool          // that is because who called takes no more
	ready    chan struct{} // has an element when there is something to take
	room     chan struct{} // has an element when something was taken
}

// A sending is how far a request has got. Who sends it, and who says that it was not sent, agree by it: one of them is first.
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

// What is kept for a caller that does not take it. A server that sends more must wait, if it can; else what is only news is
// dropped.
const (
	maxWaiting     = 1024
	maxWaitingSize = 1 << 20
)

// An ask is a request of the server in the middle of ours.
type ask struct {
	id   []byte
	key  string
	req  *pb.InputRequest
	size int // of its text, in bytes
}

// put adds a message. It reports false if there is no room for it, which there always is for the response, and for a request
// also when it is too late.
func (x *exchange) put(m *jsonrpc.Message) bool { return x.add(m, false) }

// add is put, where there may be room for all that comes together.
func (x *exchange) add(m *jsonrpc.Message, all bool) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.over || x.answered {
		return !m.IsRequest() // which somebody else has to answer
	}
	full := !all && (len(x.msgs) >= maxWaiting || x.size > maxWaitingSize)
	if full && !m.IsResponse() {
		return false
	}
	if m.IsResponse() {
		x.answered = true
		x.msgs = append(x.msgs, *m)
	} else {
		x.msgs = append(x.msgs, kept(m))
		x.size += len(m.ID) + len(m.Method) + len(m.Params)
	}
	signal(x.ready)
	return true
}

// kept returns what is kept of a message that is no response. It is no slice of the text that the message came in, which may be far longer.
// Meta is left out: it is a part of Params, and says whose the message is, which is known by then.
func kept(m *jsonrpc.Message) jsonrpc.Message {
	return jsonrpc.Message{ID: bytes.Clone(m.ID), Method: m.Method, Params: bytes.Clone(m.Params)}
}

// putSlowly adds a message, and waits for room. A goroutine that reads for itself takes what one event has before it reads the next.
func (x *exchange) putSlowly(m *jsonrpc.Message) {
	for !x.add(m, x.isAlone()) {
		select {
		case <-x.room:
		case <-x.ctx.Done():
			return
		}
	}
}

// share says that another goroutine reads the rest.
func (x *exchange) share() {
	x.mu.Lock()
	x.alone = false
	x.mu.Unlock()
}

// streamed says that the response is a stream.
func (x *exchange) streamed() {
	x.mu.Lock()
	x.streams = true
	x.mu.Unlock()
}

// comesApart says that what answers the request comes in another way than in the response to it.
func (x *exchange) comesApart() {
	x.mu.Lock()
	x.apart = x.apart || !x.answered
	x.mu.Unlock()
}

// fail ends the exchange: there will be no more messages.
func (x *exchange) fail(err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.err == nil {
		x.err = err
	}
	signal(x.ready)
}

// isAlone reports whether the goroutine of the call reads the response.
func (x *exchange) isAlone() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.alone
}

// failure returns why there will be no more messages, if that is so.
func (x *exchange) failure() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.err
}

// refused reports whether the server has ended the exchange by something else than a response: a status, or what is no message.
func (x *exchange) refused() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.err == nil || x.unheard {
		return false
	}
	l, isLost := errors.AsType[*lost](x.err)
	return !isLost || l.answered && !l.gateway || l.refused
}

// news takes what has come and is no response.
func (x *exchange) news() []jsonrpc.Message {
	x.mu.Lock()
	defer x.mu.Unlock()
	msgs := x.msgs
	x.msgs, x.size = nil, 0
	if n := len(msgs); n > 0 && msgs[n-1].IsResponse() {
		msgs, x.msgs = msgs[:n-1], msgs[n-1:]
	}
	return msgs
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

// isAnswered reports whether the response has come.
func (x *exchange) isAnswered() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.answered
}

// finish says that nobody will take any more. It reports whether the response has come, and whether its end is yet to be read.
func (x *exchange) finish() (answered, lingers bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.over, x.msgs = true, nil
	return x.answered, x.answered && x.streams && !x.apart && x.ctx.Err() == nil
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// A taker gets what comes before the response, in order. An error ends the exchange.
type taker func(m *jsonrpc.Message) error

// await returns the response. If the server asks something it returns nil instead, once what is asked together has come.
func (x *exchange) await(ctx context.Context) (*jsonrpc.Message, error) {
	defer x.quiet()
	var gather <-chan time.Time
	for {
		if m, err := x.deliver(); m != nil || err != nil {
			return m, err
		}
		if len(x.asks) > 0 && gather == nil {
			gather = time.After(x.p.c.pace.gather)
		}
		if x.stream != nil {
			if !x.stream.step() {
				x.stream = nil
			}
			continue
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
	x.delivering.Lock()
	defer x.delivering.Unlock()
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

// elsewhere adds a message that came in another way than in the response to x. The goroutine of the call may be reading that, so
// another one passes the message on.
func (x *exchange) elsewhere(m *jsonrpc.Message) {
	if w, ok := x.p.wire.(*streamable); ok && x.put(m) && x.isAlone() {
		x.stray.Do(func() { w.spawn(x, x.relay) })
	} else if !ok && !x.put(m) && x.listens { // who shares a connection must not be kept waiting by one slow caller
		x.fail(&lost{err: errBehind})
	}
}

// errBehind is why a subscription ends that has missed a change. Who listens again is told that everything may have changed.
var errBehind = fmt.Errorf("who listens is %d changes behind, or %d bytes of them", maxWaiting, maxWaitingSize)

// relay passes on what comes elsewhere, until the response has come.
func (x *exchange) relay() {
	for {
		select {
		case <-x.ready:
		case <-x.ctx.Done():
			return
		}
		if x.pass() {
			signal(x.ready) // for the goroutine of the call
			return
		}
	}
}

// pass passes on what is no response. It reports true if there will be nothing more to pass.
func (x *exchange) pass() bool {
	x.delivering.Lock()
	defer x.delivering.Unlock()
	for _, m := range x.news() {
		err := x.each(&m)
		if err == nil {
			continue
		}
		x.mu.Lock()
		x.unheard = x.err == nil
		x.mu.Unlock()
		x.fail(err)
		x.cancel()
		return true
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.answered || x.over || x.err != nil
}

// quiet returns when nothing that comes will be passed on any more: whoever called has got an answer.
func (x *exchange) quiet() {
	if x.untie == nil {
		return
	}
	x.finish()
	x.delivering.Lock()
	x.delivering.Unlock() //nolint:gocritic,staticcheck // somebody may be at it, and there is nothing to guard
}
