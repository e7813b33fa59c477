// Package bridge is the waist of mcpbridge: one Call goes in, Events and one Result come out. Fronts (mcpserver,
// grpcserver) make Calls of what their clients send; backs (plugin, mcpclient) answer them; routers and middleware do
// both. Everything a Call carries is a message of the protobuf contract, mcpbridge.v1.
package bridge

import (
	"context"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// A Handler answers Calls.
//
// Handle may be called concurrently. It returns a Result or an error, never both and never neither; an error that is not
// an *Error is taken as an internal one. It calls emit only from the goroutine that called Handle, and never after it
// has returned. It must return soon after ctx ends, and what it started on behalf of the call must end with it.
// It must not change call or what call points to, nor keep them after it has returned.
type Handler interface {
	Handle(ctx context.Context, call *Call, emit Emit) (*Result, error)
}

// HandlerFunc is a Handler that is a function.
type HandlerFunc func(ctx context.Context, call *Call, emit Emit) (*Result, error)

// Handle implements Handler.
func (f HandlerFunc) Handle(ctx context.Context, call *Call, emit Emit) (*Result, error) {
	return f(ctx, call, emit)
}

// Emit passes an Event towards the caller. It blocks while the caller is slow, and fails when ctx ends or nobody listens any more;
// the Handler then stops.
type Emit func(context.Context, Event) error

// A Call is one MCP request, complete in itself: it can be answered without knowing of any call before it.
type Call struct {
	// Method is what is called.
	Method *Method
	// Request is what it is called with: a message of the type that Method says.
	Request Request
	// Session identifies the session or connection of a front that the Call belongs to. Calls of one session have one
	// caller, authenticated or not. If empty, only the principal identifies the caller.
	Session string
}

// With returns a Call of m with request r for the same caller, in the same session. A Handler makes the Calls by which
// it answers another one with it: a backend with sessions would begin a new one for a Call whose session is missing.
func (c *Call) With(m *Method, r Request) *Call {
	return &Call{Method: m, Request: r, Session: c.Session}
}

// Context returns what the Call says of its caller. It is never nil.
func (c *Call) Context() *pb.CallContext {
	if cc := c.Request.GetContext(); cc != nil {
		return cc
	}
	return &pb.CallContext{}
}

// Era returns the era of the client that the Call is made for.
func (c *Call) Era() Era {
	rev, _ := ParseRevision(c.Context().GetProtocolVersion())
	return rev.Era()
}

// A Request is a request message of the contract. All of them say who calls.
type Request interface {
	proto.Message
	GetContext() *pb.CallContext
}

// An Event is something the caller learns before the Result. Exactly one field is set.
type Event struct {
	// Progress tells how far the Call has come.
	Progress *pb.Progress
	// Log is a line of the Call's log.
	Log *pb.LogMessage
	// Change is what a Listen call tells.
	Change *pb.ListenResponse
}

// A Result ends a Call. Exactly one field is set.
type Result struct {
	// Complete is the answer: a message of the type that Method says.
	Complete proto.Message
	// Needs is what the Call cannot go on without. The caller may make it again with the answers.
	Needs *pb.InputRequired
}

// Shallow returns a copy of a message that holds the same messages and bytes: it may be changed itself, and not what is in it.
func Shallow[M proto.Message](m M) M {
	from := m.ProtoReflect()
	to := from.New()
	from.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		to.Set(fd, v)
		return true
	})
	to.SetUnknown(from.GetUnknown())
	return to.Interface().(M)
}
