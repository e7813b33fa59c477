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

// discoverCache holds a backend's Discover response, which is constant while the backend is connected.
type discoverCache struct {
	atomic.Pointer[pb.DiscoverResponse]
	turn    chan struct{}                // held by the call that checks the contract version
	checked atomic.Bool                  // the version was checked, or Discover failed
	refused atomic.Pointer[bridge.Error] // the backend was built with another version of the contract
}

// Handle implements bridge.Handler.
func (p *Plugin) Handle(ctx context.Context, call *bridge.Call, emit bridge.Emit) (*bridge.Result, error) {
	call = withArguments(call)
	return p.supervisor.Do(ctx, call, func(ctx context.Context, l *instance) supervise.Attempt {
		if call.Method == bridge.Discover {
			if d := l.discover.Load(); d != nil {
				// A copy, because the caller may modify it.
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
		a, made := p.attemptFrames(ctx, l.frames, call, emit)
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
			fail := func(bool) error { return p.lossError(l, a.err) }
			return supervise.Attempt{Outcome: supervise.Lost, Err: a.err, Emitted: a.emitted, Fail: fail}
		case lacksList(call.Method, a.err):
			return supervise.Attempt{Result: &bridge.Result{Complete: call.Method.NewResult()}}
		}
		return supervise.Attempt{Err: a.err}
	})
}

// readRaw reads the raw JSON objects of known types in a result.
func (p *Plugin) readRaw(m *bridge.Method, r *bridge.Result) error {
	out := r.Complete
	switch {
	case r.InputRequired != nil:
		out = r.InputRequired
	case r.Task != nil:
		out = r.Task
	}
	if err := mcpjson.ReadRaw(out, &p.o.Limits); err != nil {
		return p.protocolViolation(m, "sent an invalid raw object: "+err.Error())
	}
	return nil
}

// lacksList reports whether err is UNIMPLEMENTED of a list method m, which means an empty list. An exact JSON-RPC error
// is passed to the caller.
func lacksList(m *bridge.Method, err error) bool {
	e := bridge.AsError(err)
	if e.Code != codes.Unimplemented || e.RPC != nil {
		return false
	}
	_, lists := m.NewResult().(interface{ GetNextCursor() string })
	return lists
}

// withArguments returns call, or for a tools/call without arguments a copy with an empty object, because backends parse
// the arguments.
func withArguments(call *bridge.Call) *bridge.Call {
	r, ok := call.Request.(*pb.CallToolRequest)
	if !ok || len(r.GetArguments()) > 0 {
		return call
	}
	r = proto.CloneOf(r) // the front still needs the original
	r.Arguments = []byte("{}")
	c := *call
	c.Request = r
	return &c
}

// An attempt is the outcome of one sending of a call to an instance.
type attempt struct {
	result  *bridge.Result
	err     error
	sent    bool // the backend may have received the call
	lost    bool // err is a failure of the connection, not the backend's answer
	emitted bool // events were emitted
	local   bool // err comes from emit or the bridge; gRPC may still be busy with the call
}

// attemptGRPC makes a call at l over gRPC, once.
func (p *Plugin) attemptGRPC(ctx context.Context, l *instance, call *bridge.Call, emit bridge.Emit) attempt {
	if call.Method == bridge.Listen {
		// A stream on the link may outlast the connection to the backend. The Listen call on the next connection
		// reports changes.
		var end context.CancelFunc
		ctx, end = context.WithCancel(ctx)
		defer end()
		defer context.AfterFunc(l.ctx, end)()
		var acknowledged func()
		emit, acknowledged = p.acknowledge(ctx, l, call, emit)
		defer acknowledged()
	} else if l.frames.draining() { // stopSending may have been called before this call began
		return attempt{err: errNotStarted, lost: true}
	}
	// gRPC sets the peer if and only if the call was sent on a connection. A call that fails before that was not sent,
	// and one that fails later may have been, unless the server refused it. The status is UNAVAILABLE in each case.
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
	if a.err == nil || a.local {
		a.sent = true
		return a
	}
	a.sent = at.Addr != nil && !refused.Load()
	s, _ := status.FromError(a.err)
	switch s.Code() {
	case codes.Unavailable, codes.Canceled, codes.Internal, codes.Unknown:
		// A backend may return any of these codes. The code is the backend's if the connection works, and worked when
		// the call was made: gRPC may use a broken connection for a moment, and then report that it cannot make
		// another. A status with details is never gRPC's own: the backend returned it, even if it ended right after
		// that.
		if a.sent {
			a.lost = (broken(&at) || l.closed()) && len(s.Proto().GetDetails()) == 0 || call.Method == bridge.Listen &&
				l.ctx.Err() != nil
		} else {
			// Canceled if the bridge closed the connection
			a.lost = s.Code() == codes.Unavailable || s.Code() == codes.Canceled
		}
	case codes.ResourceExhausted:
		a.err = p.tooLarge(call, s)
		return a
	}
	if s.Code() == codes.Internal && unreadable(s.Message()) {
		a.err, a.lost = p.protocolViolation(call.Method, "sent an unreadable message: "+s.Message()), false
		return a
	}
	if !a.lost {
		if ctx.Err() == nil && isReset(s.Message()) {
			p.log.Warn().Str("call", target(call)).Str("status", s.Message()).
				Str("fix", "look for a panic, or an exception that nothing catches, in the backend's own log").
				Msg("the backend reset the stream of a call")
		}
		a.err = p.backendError(ctx, s)
	}
	return a
}

// isReset reports whether the server reset the stream of a call (RST_STREAM), which gRPC reports in the text only.
func isReset(text string) bool { return strings.HasPrefix(text, "stream terminated by RST_STREAM") }

// streamEndTimeout is the time in which a stream has to end after its result.
const streamEndTimeout = time.Second

// stream makes a call that returns a stream.
func (p *Plugin) stream(ctx context.Context, l *instance, call *bridge.Call, emit bridge.Emit,
	opts ...grpc.CallOption,
) (a attempt) {
	m := call.Method
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the stream if it was not read to its end
	s, err := l.conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, m.GRPC, opts...)
	if err != nil {
		a.err = err
		return a
	}
	// An error of SendMsg is io.EOF if the stream has ended: RecvMsg returns the cause.
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
			a.err = p.protocolViolation(m, "sent an empty event")
		case result != nil:
			a.result = result
			p.awaitEnd(l, s, m, cancel)
			return a
		default:
			a.emitted = true
			a.err = emit(ctx, event)
		}
		if a.err != nil {
			a.local = true
			return a
		}
	}
	if m == bridge.Listen { // its result has no required fields
		a.result = &bridge.Result{Complete: m.NewResult()}
	} else {
		a.err, a.local = p.protocolViolation(m, "ended without a result and without an error"), true
	}
	return a
}

// awaitEnd waits until a stream has ended after its result, so that the backend does not consider the call canceled.
// The result is valid whatever follows it.
func (p *Plugin) awaitEnd(l *instance, s grpc.ClientStream, m *bridge.Method, cancel func()) {
	defer time.AfterFunc(streamEndTimeout, cancel).Stop()
	if s.RecvMsg(m.NewEvent()) == nil {
		l.warnAfterResult.Do(func() {
			p.log.Warn().Str("method", m.GRPC).Str("fix", "the result must be the last, and the only one").
				Msg("the backend sent messages after a result; they are dropped, and this is logged once")
		})
	}
}

// unreadable reports whether gRPC could not read an answer, which it reports in the text only. A backend in Go that
// cannot read the request uses other words.
func unreadable(text string) bool {
	return strings.HasPrefix(text, "grpc: failed to unmarshal the received message")
}

// protocolViolation returns the error of an invalid answer.
func (p *Plugin) protocolViolation(m *bridge.Method, what string) error {
	return bridge.ProtocolViolation(bridge.OutcomeUnknown,
		"backend %q, %s: it %s. This is a mistake in the backend", p.o.Name, m.GRPC, what)
}

// backendError returns the error that the backend returned.
func (p *Plugin) backendError(ctx context.Context, s *status.Status) error {
	if until, limited := ctx.Deadline(); limited && s.Code() == codes.DeadlineExceeded &&
		time.Until(until) < time.Second {
		// The backend has the deadline of the call, and may notice its end before the bridge. DEADLINE_EXCEEDED long
		// before it is the backend's own.
		return bridge.AsError(context.DeadlineExceeded)
	}
	return bridge.FromStatus(s)
}

// tooLarge returns the error of an answer that is too large, or the RESOURCE_EXHAUSTED that the backend returned.
func (p *Plugin) tooLarge(call *bridge.Call, s *status.Status) error {
	size := proto.Size(call.Request)
	if size > p.o.Limits.Message {
		return bridge.Failed(codes.ResourceExhausted, bridge.OutcomeNotExecuted, "REQUEST_TOO_LARGE",
			"backend %q: the request has %d bytes, and the limit is %d (max message); the call was not executed",
			p.o.Name, size, p.o.Limits.Message)
	}
	// Only gRPC's text shows that the bridge rejected an answer as too large. A backend in Go with a lower limit uses
	// the same text, with the size of the request.
	text := s.Message()
	if strings.HasPrefix(text, "grpc: received message larger than max") &&
		!strings.Contains(text, fmt.Sprintf("(%d vs.", size)) ||
		// requests are not compressed
		strings.HasPrefix(text, "grpc: received message after decompression larger than max") {
		return p.responseTooLarge(!call.Method.Streams)
	}
	return bridge.FromStatus(s)
}

// responseTooLarge returns the error of a message that is too large. If it was the result, the call was executed.
func (p *Plugin) responseTooLarge(result bool) error {
	outcome, sequel := bridge.OutcomeUnknown,
		"it may have been an event, and whether the call was executed is not known"
	if result {
		outcome, sequel = bridge.OutcomeExecuted, "the call was executed"
	}
	return bridge.Failed(codes.ResourceExhausted, outcome, "RESPONSE_TOO_LARGE",
		"backend %q: its answer is larger than the limit of %d bytes (max message); %s", p.o.Name, p.o.Limits.Message,
		sequel)
}

// lossReasonTimeout is the time that the error of a call waits for the reason of a loss: the connection breaks before
// the process has exited.
const lossReasonTimeout = 20 * time.Millisecond

// lossError returns the error of a call that was sent on a connection which was lost.
func (p *Plugin) lossError(l *instance, cause error) error {
	code, reason, how := codes.Unknown, "BACKEND_CRASHED", "was lost"
	t := time.NewTimer(lossReasonTimeout)
	defer t.Stop()
	select {
	case <-l.done:
	case <-t.C:
	}
	select {
	case <-l.done:
		if l.lost.hung > 0 {
			how = fmt.Sprintf("did not answer for %v (hangTimeout) and was abandoned", l.lost.hung)
		}
	default:
	}
	if l.managed != nil && l.managed.OutOfMemory() {
		code, reason, how = codes.ResourceExhausted, "BACKEND_OOM", "was killed because there was no memory left"
	}
	e := bridge.Failed(code, bridge.OutcomeUnknown, reason,
		"backend %q %s during the call; whether the call was executed is not known", p.o.Name, how)
	e.Cause = cause
	return e
}
