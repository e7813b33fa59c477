package plugin

import (
	"context"
	"errors"

	"google.golang.org/grpc/status"

	"github.com/mcpbridge/mcpbridge/bridge"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// attemptFrames makes a tools/call by frames, once. It returns false if frames are not available for the call now.
func (p *Plugin) attemptFrames(ctx context.Context, f *frames, call *bridge.Call,
	emit bridge.Emit,
) (a attempt, made bool) {
	r, ok := call.Request.(*pb.CallToolRequest)
	if !ok {
		return a, false
	}
	c, id := f.begin(r)
	if c == nil {
		return a, false
	}
	defer func() {
		if a.result == nil && a.err == nil { // a panic: the caller does not wait for the result
			f.cancel(id)
		}
		f.end(c, id)
	}()

	for {
		select {
		case in := <-c.in:

			a.sent = true
			if done := p.readFrame(ctx, &a, call, in, emit); done {
				if in.kind == frameEvent { // the call continues in the backend
					f.cancel(id)
				}
				return a, true
			}
			f.putControl(frameTaken, id)
			if a.err != nil {
				f.cancel(id)
				return a, true
			}
		case <-ctx.Done():
			a.err, a.sent = ctx.Err(), f.cancel(id)
			return a, true
		case <-f.connEnded:
			select {
			case in := <-c.in: // it was received before the connection ended
				a.sent = true
				if done := p.readFrame(ctx, &a, call, in, emit); done || a.err != nil {
					return a, true
				}
				continue
			default:
			}
			a.err, a.sent, a.lost = errConnectionEnded, !f.withdraw(id), true
			return a, true
		}
	}
}

var (
	errConnectionEnded = errors.New("the connection to the backend ended")
	errNotStarted      = errors.New("the backend drains and has not begun the call")
)

// readFrame reads one frame of a call into a. It reports whether it was the last one.
func (p *Plugin) readFrame(ctx context.Context, a *attempt, call *bridge.Call, in inbound,
	emit bridge.Emit,
) (done bool) {
	switch {
	case errors.Is(in.err, errTooLong):
		a.err = p.responseTooLarge(in.kind == frameResult)
		return true
	case in.kind == frameGoAway && !a.emitted:
		a.err, a.sent, a.lost = errNotStarted, false, true
		return true
	case in.kind == frameGoAway:
		a.err, a.local = p.protocolViolation(call.Method, "sent events of a call that it reported as not begun"), true
		return true
	case in.err != nil && in.kind == frameError:
		s := status.Convert(in.err)
		a.err = p.backendError(ctx, s)
		return true
	case in.err != nil:
		a.err, a.local = p.protocolViolation(call.Method, "sent an unreadable message: "+in.err.Error()), true
		return true
	}
	event, result, ok := bridge.Split(in.answer)
	switch {
	case !ok:
		a.err, a.local = p.protocolViolation(call.Method, "sent an empty event"), true
		return true
	case (result != nil) != (in.kind == frameResult):
		a.err, a.local = p.protocolViolation(call.Method, "sent a result as an event, or an event as a result"), true
		return true
	case result != nil:
		a.result = result
		return true
	}
	a.emitted = true
	if err := emit(ctx, event); err != nil {
		a.err, a.local = err, true
	}
	return false
}
