// Package bridge defines the interface between fronts and backs: a Handler takes a Call and returns Events and one
// Result. Fronts (mcpserver, grpcserver) make Calls from their clients' requests, backs (plugin, mcpclient) answer
// them, and routers and middleware do both. Everything in a Call is a message of the protobuf contract,
// mcpbridge.v1.
package bridge

import (
	"context"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// A Handler answers Calls.
//
// Handle may be called concurrently. It returns a Result or an error, never both and never neither; an error that
// is not an *Error is treated as an internal one. It calls emit only from the goroutine that called Handle, and
// not after it has returned. It must return soon after ctx ends, and must stop what it started on behalf of the
// call. It must not modify call or what call points to, nor retain them.
type Handler interface {
	Handle(ctx context.Context, call *Call, emit Emit) (*Result, error)
}

// HandlerFunc is an adapter that allows the use of functions as Handlers.
type HandlerFunc func(ctx context.Context, call *Call, emit Emit) (*Result, error)

// Handle implements Handler.
func (f HandlerFunc) Handle(ctx context.Context, call *Call, emit Emit) (*Result, error) {
	return f(ctx, call, emit)
}

// Emit sends an Event to the caller. It blocks while the caller is slow, and returns an error when ctx ends or the
// caller has disconnected; the Handler then stops.
type Emit func(context.Context, Event) error

// A Call is one MCP request. It can be answered without knowledge of earlier calls.
type Call struct {
	Method *Method
	// Request has the type that Method.NewRequest returns.
	Request Request
	// Session identifies the session or connection of a front that the Call belongs to. All Calls of a session have
	// the same caller, authenticated or not. If empty, only the principal identifies the caller.
	Session string
	// Background means that the Call is or may become a task, and can outlive the request of the client. It has its
	// own limits.
	Background bool
	// Header is the header of the HTTP request that a tools/call came in, if it repeats arguments (since 2026-07-28:
	// Mcp-Param-*). If nil, no header has to match them.
	Header map[string][]string
}

// With returns a Call of m with request r for the same caller in the same session. Handlers use it for the Calls
// that they make to answer c: a backend with sessions would start a new one for a Call without a session.
func (c *Call) With(m *Method, r Request) *Call {
	return &Call{Method: m, Request: r, Session: c.Session, Background: c.Background, Header: c.Header}
}

// Context returns the request's context. It is never nil.
func (c *Call) Context() *pb.CallContext {
	if cc := c.Request.GetContext(); cc != nil {
		return cc
	}
	return &pb.CallContext{}
}

// Revision returns the revision of the client.
func (c *Call) Revision() Revision {
	rev, _ := ParseRevision(c.Context().GetVerified().GetProtocolVersion())
	return rev
}

// Era returns the era of the client.
func (c *Call) Era() Era { return c.Revision().Era() }

// A Request is a request message of the contract.
type Request interface {
	proto.Message
	GetContext() *pb.CallContext
}

// An Event precedes the Result. Exactly one field is set.
type Event struct {
	Progress *pb.Progress
	Log      *pb.LogMessage
	// TaskStarted reports that a tool continues in the background.
	TaskStarted *pb.TaskStarted
	// Resumable is the request state with which a retry continues a Background Call. It stays in the bridge.
	Resumable []byte
	// Change is a notification of a Listen call.
	Change *pb.ListenResponse
}

// A Result ends a Call. Exactly one field is set.
type Result struct {
	// Complete has the type that Method.NewResult returns.
	Complete proto.Message
	// InputRequired lists the input that the Call needs. The caller may retry the Call with it.
	InputRequired *pb.InputRequired
	// Task is the task that the Call, a tools/call, continues as. It may only be returned to a caller that supports
	// tasks.
	Task *pb.Task
}

// ShallowCopy returns a copy of a message that shares its submessages and byte slices.
func ShallowCopy[M proto.Message](m M) M {
	from := m.ProtoReflect()
	to := from.New()
	from.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		to.Set(fd, v)
		return true
	})
	to.SetUnknown(from.GetUnknown())
	return to.Interface().(M)
}
