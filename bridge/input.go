package bridge

import pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"

// Retry returns the Call to make once the answers to what it needs are known. The Call itself stays as it is; both share
// what they are called with.
func (c *Call) Retry(answers map[string]*pb.InputResponse, state []byte) *Call {
	switch r := c.Request.(type) {
	case *pb.CallToolRequest:
		return c.With(c.Method, &pb.CallToolRequest{
			Context: r.GetContext(), Name: r.GetName(), Arguments: r.GetArguments(), Extra: r.GetExtra(),
			InputResponses: answers, State: state,
		})
	case *pb.ReadResourceRequest:
		return c.With(c.Method, &pb.ReadResourceRequest{
			Context: r.GetContext(), Uri: r.GetUri(), Extra: r.GetExtra(), InputResponses: answers, State: state,
		})
	case *pb.GetPromptRequest:
		return c.With(c.Method, &pb.GetPromptRequest{
			Context: r.GetContext(), Name: r.GetName(), Arguments: r.GetArguments(), Extra: r.GetExtra(),
			InputResponses: answers, State: state,
		})
	}
	return c
}

// Continues reports whether a request brings back answers or a state.
func Continues(r Request) bool {
	in, ok := r.(interface {
		GetInputResponses() map[string]*pb.InputResponse
		GetState() []byte
	})
	return ok && (len(in.GetInputResponses()) > 0 || in.GetState() != nil)
}

// State returns the state that a request brings back, or nil.
func State(r Request) []byte {
	if s, ok := r.(interface{ GetState() []byte }); ok {
		return s.GetState()
	}
	return nil
}

// SetState sets the state of a request that can have one.
func SetState(r Request, state []byte) {
	switch r := r.(type) {
	case *pb.CallToolRequest:
		r.State = state
	case *pb.ReadResourceRequest:
		r.State = state
	case *pb.GetPromptRequest:
		r.State = state
	}
}
