package plugin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/mcpjson"
	"github.com/mcpbridge/mcpbridge/internal/supervise"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// discoverCache holds a backend's answer to Discover, which stays the same for as long as the backend is connected.
type discoverCache struct {
	atomic.Pointer[pb.DiscoverResponse]
	turn    chan struct{}                // held by the call that checks the version of the contract
	checked atomic.Bool                  // the version was checked, or Discover failed
	refused atomic.Pointer[bridge.Error] // the backend was built with another version of the contract
}

// Handle implements bridge.Handler.
func (p *Plugin) Handle(ctx context.Context, call *bridge.Call, emit bridge.Emit) (*bridge.Result, error) {
	call = withVersion(withArguments(call))
	return p.super.Do(ctx, call, func(ctx context.Context, l *life) supervise.Attempt {
		if call.Method == bridge.Discover {
			if d := l.discover.Load(); d != nil {
				// A copy, because whoever asked may add to it.
				return supervise.Attempt{Result: &bridge.Result{Complete: proto.CloneOf(d)}}
			}
		}
		if err := p.checkContract(ctx, l, call); err != nil {
			return supervise.Attempt{Err: err}
		}
		if call.Method != bridge.Listen {
			l.calls.begin(call)
			defer l.calls.end(call)
		}
		a, made := p.attemptFramed(ctx, l.frames, call, emit)
		if !made {
			a = p.attemptGRPC(ctx, l, call, emit)
		}
		if a.err == nil {
			a.err = p.readRaw(call.Method, a.result)
		}
		switch {
		case a.err == nil:
			if d, ok := a.result.Complete.(*pb.DiscoverResponse); ok && call.Method == bridge.Discover {
				if err := p.checkVersion(l, d); err != nil {
					return supervise.Attempt{Err: err}
				}
				l.discover.Store(proto.CloneOf(d))
			}
			if !call.Method.ReadOnly && !l.called.Load() {
				l.called.Store(true)
			}
			return supervise.Attempt{Result: a.result}
		case !a.sent && (a.lost || ctx.Err() != nil):
			return supervise.Attempt{Outcome: supervise.NotSent, Err: a.err}
		case a.lost || ctx.Err() != nil:
			fail := func(bool) error { return p.crashed(l, a.err) }
			return supervise.Attempt{Outcome: supervise.Lost, Err: a.err, Shown: a.shown, Fail: fail}
		case lacksList(call.Method, a.err):
			return supervise.Attempt{Result: &bridge.Result{Complete: call.Method.NewResult()}}
		}
		return supervise.Attempt{Err: a.err}
	})
}

// readRaw reads the raw JSON objects of known types in a result.
func (p *Plugin) readRaw(m *bridge.Method, r *bridge.Result) error {
	out := r.Complete
	if r.InputRequired != nil {
		out = r.InputRequired
	}
	if err := mcpjson.ReadRaw(out, &p.o.Limits); err != nil {
		return p.misbehaved(m, "sent an invalid raw object: "+err.Error())
	}
	return nil
}

// lacksList reports whether err says that the backend does not implement m, a method that lists: its list is empty. An
// exact error of JSON-RPC is for the caller.
func lacksList(m *bridge.Method, err error) bool {
	e := bridge.AsError(err)
	if e.Code != codes.Unimplemented || e.RPC != nil {
		return false
	}
	_, lists := m.NewResult().(interface{ GetNextCursor() string })
	return lists
}

// withArguments returns call, or if it is of a tool and has no arguments, one with an empty object: backends parse what
// they get.
func withArguments(call *bridge.Call) *bridge.Call {
	r, ok := call.Request.(*pb.CallToolRequest)
	if !ok || len(r.GetArguments()) > 0 {
		return call
	}
	r = proto.CloneOf(r) // the front needs it as it was
	r.Arguments = []byte("{}")
	c := *call
	c.Request = r
	return &c
}

// An attempt is what became of a call at one backend.
type attempt struct {
	result *bridge.Result
	err    error
	sent   bool // the backend may have seen the call
	lost   bool // err is that the connection broke or could not be made, and not the backend's answer
	shown  bool // events were emitted
	ours   bool // err is what emit says or what we think of the answer; gRPC may still be busy with the call
}

// attemptGRPC makes call at l over gRPC, once.
func (p *Plugin) attemptGRPC(ctx context.Context, l *life, call *bridge.Call, emit bridge.Emit) attempt {
	if call.Method == bridge.Listen {
		// Its calls may outlive a life on the old link. What changes, the next life tells.
		var end context.CancelFunc
		ctx, end = context.WithCancel(ctx)
		defer end()
		defer context.AfterFunc(l.here, end)()
		var acknowledged func()
		emit, acknowledged = p.acknowledge(ctx, l, call, emit)
		defer acknowledged()
	} else if l.frames.draining() { // what waits for the last call in flight has set it before it counted them
		return attempt{err: errNotBegun, lost: true}
	}
	// gRPC knows the peer exactly if the call was handed to a connection. What fails before that was not sent, and what
	// fails after it may have been, unless the server refused it: the status is UNAVAILABLE each time.
	var at peer.Peer
	ctx, refused := refusable(ctx)
	var a attempt
	if call.Method.Streams {
		a = p.stream(ctx, l, call, emit, grpc.Peer(&at))
	} else {
		res := call.Method.NewResult()
		if err := l.conn.Invoke(ctx, call.Method.GRPC, call.Request, res, grpc.Peer(&at)); err != nil {
			a.err = err
		} else {
			a.result = &bridge.Result{Complete: res}
		}
	}
	if a.err == nil || a.ours {
		a.sent = true
		return a
	}
	a.sent = at.Addr != nil && !refused.Load()
	s, _ := status.FromError(a.err)
	switch s.Code() {
	case codes.Unavailable, codes.Canceled, codes.Internal, codes.Unknown:
		// A backend may answer with any of these. It did if the connection held, and had held when the call was made:
		// gRPC may take a broken one for whole for a moment, and then says that it cannot make another. What has
		// details gRPC did not make: the backend has answered, even if it ended right after that.
		if a.sent {
			a.lost = (broken(&at) || l.closed()) && len(s.Proto().GetDetails()) == 0 || call.Method == bridge.Listen &&
				l.here.Err() != nil
		} else {
			a.lost = s.Code() == codes.Unavailable || s.Code() == codes.Canceled // the latter: we closed the connection
		}
	case codes.ResourceExhausted:
		a.err = p.tooLarge(call, s)
		return a
	}
	if s.Code() == codes.Internal && unreadable(s.Message()) {
		a.err, a.lost = p.misbehaved(call.Method, "sent what is no message: "+s.Message()), false
		return a
	}
	if !a.lost {
		if ctx.Err() == nil && isReset(s.Message()) {
			p.log.Warn().Str("call", target(call)).Str("status", s.Message()).
				Str("fix", "look for a panic, or an exception that nothing catches, in the backend's own log").
				Msg("the backend reset the stream of a call")
		}
		a.err = p.answered(ctx, s)
	}
	return a
}

// isReset reports whether gRPC says that the server reset the stream of a call (RST_STREAM), which it tells by text
// only.
func isReset(text string) bool { return strings.HasPrefix(text, "stream terminated by RST_STREAM") }

// endWithin is how long a stream may take to end after its result.
const endWithin = time.Second

// stream makes a call whose answer is a stream.
func (p *Plugin) stream(ctx context.Context, l *life, call *bridge.Call, emit bridge.Emit,
	opts ...grpc.CallOption,
) (a attempt) {
	m := call.Method
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the stream when we stop reading before its end
	s, err := l.conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, m.GRPC, opts...)
	if err != nil {
		a.err = err
		return a
	}
	// An error of SendMsg is io.EOF if the stream has ended: RecvMsg says why.
	if err := s.SendMsg(call.Request); err != nil && !errors.Is(err, io.EOF) {
		a.err = err
		return a
	}
	if err := s.CloseSend(); err != nil {
		a.err = err
		return a
	}
	for {
		msg := m.NewEvent()
		err := s.RecvMsg(msg)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			a.err = err
			return a
		}

		event, result, ok := bridge.Split(msg)
		switch {
		case !ok:
			a.err = p.misbehaved(m, "sent an event with nothing in it")
		case result != nil:
			a.result = result
			p.awaitEnd(l, s, m, cancel)
			return a
		default:
			a.shown = true
			a.err = emit(ctx, event)
		}
		if a.err != nil {
			a.ours = true
			return a
		}
	}
	if m == bridge.Listen { // there is nothing in its result that a backend must say
		a.result = &bridge.Result{Complete: m.NewResult()}
	} else {
		a.err, a.ours = p.misbehaved(m, "ended without a result and without an error"), true
	}
	return a
}

// awaitEnd waits until a stream has ended whose result is there, so that the backend does not take it for cancelled.
// The result is the answer, whatever comes after it.
func (p *Plugin) awaitEnd(l *life, s grpc.ClientStream, m *bridge.Method, cancel func()) {
	defer time.AfterFunc(endWithin, cancel).Stop()
	if s.RecvMsg(m.NewEvent()) == nil {
		l.after.Do(func() {
			p.log.Warn().Str("method", m.GRPC).Str("fix", "the result must be the last, and the only one").
				Msg("the backend sent more after a result; that is dropped, and told once")
		})
	}
}

// unreadable reports whether gRPC itself says that it could not read an answer, which it tells by text only. A backend
// in Go that cannot read the request uses other words.
func unreadable(text string) bool {
	return strings.HasPrefix(text, "grpc: failed to unmarshal the received message")
}

// misbehaved is the error of an answer that no correct backend gives.
func (p *Plugin) misbehaved(m *bridge.Method, what string) error {
	return bridge.ProtocolViolation(pb.CallFailure_OUTCOME_UNKNOWN,
		"backend %q, %s: it %s. This is a mistake in the backend", p.o.Name, m.GRPC, what)
}

// answered is the error that the backend answered with.
func (p *Plugin) answered(ctx context.Context, s *status.Status) error {
	if until, limited := ctx.Deadline(); limited && s.Code() == codes.DeadlineExceeded &&
		time.Until(until) < time.Second {
		// The deadline travels with the call, and the backend may notice its end before we do. Long before it, it is
		// one of its own.
		return bridge.AsError(context.DeadlineExceeded)
	}
	return bridge.FromStatus(s)
}

// tooLarge is the error of a message that is too large for us, or the RESOURCE_EXHAUSTED that the backend answered
// with.
func (p *Plugin) tooLarge(call *bridge.Call, s *status.Status) error {
	size := proto.Size(call.Request)
	if size > p.o.Limits.Message {
		return bridge.Failed(codes.ResourceExhausted, pb.CallFailure_OUTCOME_NOT_EXECUTED, "REQUEST_TOO_LARGE",
			"backend %q: the request has %d bytes, and the limit is %d (max message); the call was not executed",
			p.o.Name, size, p.o.Limits.Message)
	}
	// gRPC does not tell otherwise than by text that it was itself who found an answer too large. A backend in Go whose
	// own limit is lower uses the same words, but of the request's size.
	text := s.Message()
	if strings.HasPrefix(text, "grpc: received message larger than max") &&
		!strings.Contains(text, fmt.Sprintf("(%d vs.", size)) ||
		// no request is compressed
		strings.HasPrefix(text, "grpc: received message after decompression larger than max") {
		return p.responseTooLarge(!call.Method.Streams)
	}
	return bridge.FromStatus(s)
}

// responseTooLarge is the error of a message that is too large for us. If it was the result, the call was executed.
func (p *Plugin) responseTooLarge(result bool) error {
	outcome, sequel := pb.CallFailure_OUTCOME_UNKNOWN,
		"it may have been an event, and whether the call was executed is not known"
	if result {
		outcome, sequel = pb.CallFailure_OUTCOME_EXECUTED, "the call was executed"
	}
	return bridge.Failed(codes.ResourceExhausted, outcome, "RESPONSE_TOO_LARGE",
		"backend %q: its answer is larger than the limit of %d bytes (max message); %s", p.o.Name, p.o.Limits.Message,
		sequel)
}

// reasonWithin is how long the error of a call whose backend was lost waits for the reason: its connection breaks
// before its process is gone.
const reasonWithin = 20 * time.Millisecond

// crashed is the error of a call that was sent to a backend which was lost in the given life.
func (p *Plugin) crashed(l *life, cause error) error {
	code, reason, how := codes.Unknown, "BACKEND_CRASHED", "was lost"
	t := time.NewTimer(reasonWithin)
	defer t.Stop()
	select {
	case <-l.gone:
	case <-t.C:
	}
	select {
	case <-l.gone:
		if l.lost.hung > 0 {
			how = fmt.Sprintf("did not answer for %v (hangTimeout) and was given up", l.lost.hung)
		}
	default:
	}
	if l.managed != nil && l.managed.OutOfMemory() {
		code, reason, how = codes.ResourceExhausted, "BACKEND_OOM", "was killed because there was no memory left"
	}
	e := bridge.Failed(code, pb.CallFailure_OUTCOME_UNKNOWN, reason,
		"backend %q %s during the call; whether the call was executed is not known", p.o.Name, how)
	e.Cause = cause
	return e
}
