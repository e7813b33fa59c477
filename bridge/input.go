package bridge

import pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"

// A retriable is a request that may be sent again with input responses.
type retriable interface {
	GetInputResponses() map[string]*pb.InputResponse
	GetRequestState() []byte
}

var _, _, _ retriable = (*pb.CallToolRequest)(nil), (*pb.ReadResourceRequest)(nil), (*pb.GetPromptRequest)(nil)

// Retry returns a copy of the Call with the answers to its input requests and the request state.
func (c *Call) Retry(answers map[string]*pb.InputResponse, state []byte) *Call {
	switch r := c.Request.(type) {
	case *pb.CallToolRequest:
		return c.With(c.Method, &pb.CallToolRequest{
			Context: r.GetContext(), Name: r.GetName(), Arguments: r.GetArguments(), Extra: r.GetExtra(),
			InputResponses: answers, RequestState: state,
		})
	case *pb.ReadResourceRequest:
		return c.With(c.Method, &pb.ReadResourceRequest{
			Context: r.GetContext(), Uri: r.GetUri(), Extra: r.GetExtra(), InputResponses: answers, RequestState: state,
		})
	case *pb.GetPromptRequest:
		return c.With(c.Method, &pb.GetPromptRequest{
			Context: r.GetContext(), Name: r.GetName(), Arguments: r.GetArguments(), Extra: r.GetExtra(),
			InputResponses: answers, RequestState: state,
		})
	}
	return c
}

// IsRetry reports whether a request carries input responses or a request state.
func IsRetry(r Request) bool {
	in, ok := r.(retriable)
	return ok && (len(in.GetInputResponses()) > 0 || in.GetRequestState() != nil)
}

// State returns the request state of a request, or nil.
func State(r Request) []byte {
	if s, ok := r.(retriable); ok {
		return s.GetRequestState()
	}
	return nil
}

// SetState sets the request state of a request that can have one.
func SetState(r Request, state []byte) {
	switch r := r.(type) {
	case *pb.CallToolRequest:
		r.RequestState = state
	case *pb.ReadResourceRequest:
		r.RequestState = state
	case *pb.GetPromptRequest:
		r.RequestState = state
	}
}
