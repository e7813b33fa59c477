package bridge

import (
	"google.golang.org/protobuf/proto"

	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// A Method is a row of the table of what can be called. Everything that is particular to a method is here or in the
// messages it takes and returns.
type Method struct {
	// Name is the method's name in MCP, such as "tools/call".
	Name string
	// GRPC is the method's full name in gRPC, such as "/mcpbridge.v1.McpService/CallTool".
	GRPC string
	// Streams says that the gRPC method answers with a stream of events that NewEvent makes room for. Otherwise it answers
	// with one message that NewResult makes room for.
	Streams bool
	// Asks says that the Result may be Needs.
	Asks bool
	// ReadOnly says that making the call twice is the same as making it once, whatever the backend is.
	ReadOnly bool
	// Since is the first revision whose clients can send the method.
	Since Revision
	// NewRequest returns an empty request of the method, from a caller.
	NewRequest func(caller *pb.CallContext) Request
	// NewResult returns an empty result of the method.
	NewResult func() proto.Message
	// NewEvent returns an empty event of the stream, if there is one.
	NewEvent func() proto.Message
	// Target returns what the request is about: a tool's or prompt's name, or a resource's URI. It is nil where there is no
	// such thing. In 2026-07-28 the HTTP header Mcp-Name says the same.
	Target func(Request) string
	// Offered reports whether a server with such capabilities has the method.
	Offered func(*pb.ServerCapabilities) bool
}

// The methods of MCP that are Calls. The others (initialize, ping, logging/setLevel, resources/subscribe, notifications)
// are the business of the front that knows the revision.
var (
	Discover = &Method{
		Name: "server/discover", GRPC: pb.McpService_Discover_FullMethodName, ReadOnly: true, Since: Rev20260728,
		NewRequest: func(c *pb.CallContext) Request { return &pb.DiscoverRequest{Context: c} },
		NewResult:  func() proto.Message { return new(pb.DiscoverResponse) },
		Offered:    func(*pb.ServerCapabilities) bool { return true },
	}
	ListTools = &Method{
		Name: "tools/list", GRPC: pb.McpService_ListTools_FullMethodName, ReadOnly: true, Since: Rev20241105,
		NewRequest: func(c *pb.CallContext) Request { return &pb.ListToolsRequest{Context: c} },
		NewResult:  func() proto.Message { return new(pb.ListToolsResponse) },
		Offered:    hasTools,
	}
	CallTool = &Method{
		Name: "tools/call", GRPC: pb.McpService_CallTool_FullMethodName, Streams: true, Asks: true, Since: Rev20241105,
		NewRequest: func(c *pb.CallContext) Request { return &pb.CallToolRequest{Context: c} },
		NewResult:  func() proto.Message { return new(pb.CallToolResult) },
		NewEvent:   func() proto.Message { return new(pb.CallToolResponse) },
		Target:     func(r Request) string { return r.(*pb.CallToolRequest).GetName() },
		Offered:    hasTools,
	}
	ListResources = &Method{
		Name: "resources/list", GRPC: pb.McpService_ListResources_FullMethodName, ReadOnly: true, Since: Rev20241105,
		NewRequest: func(c *pb.CallContext) Request { return &pb.ListResourcesRequest{Context: c} },
		NewResult:  func() proto.Message { return new(pb.ListResourcesResponse) },
		Offered:    hasResources,
	}
	ListResourceTemplates = &Method{
		Name: "resources/templates/list", GRPC: pb.McpService_ListResourceTemplates_FullMethodName, ReadOnly: true, Since: Rev20241105,
		NewRequest: func(c *pb.CallContext) Request { return &pb.ListResourceTemplatesRequest{Context: c} },
		NewResult:  func() proto.Message { return new(pb.ListResourceTemplatesResponse) },
		Offered:    hasResources,
	}
	ReadResource = &Method{
		Name: "resources/read", GRPC: pb.McpService_ReadResource_FullMethodName, Streams: true, Asks: true, ReadOnly: true, Since: Rev20241105,
		NewRequest: func(c *pb.CallContext) Request { return &pb.ReadResourceRequest{Context: c} },
		NewResult:  func() proto.Message { return new(pb.ReadResourceResult) },
		NewEvent:   func() proto.Message { return new(pb.ReadResourceResponse) },
		Target:     func(r Request) string { return r.(*pb.ReadResourceRequest).GetUri() },
		Offered:    hasResources,
	}
	ListPrompts = &Method{
		Name: "prompts/list", GRPC: pb.McpService_ListPrompts_FullMethodName, ReadOnly: true, Since: Rev20241105,
		NewRequest: func(c *pb.CallContext) Request { return &pb.ListPromptsRequest{Context: c} },
		NewResult:  func() proto.Message { return new(pb.ListPromptsResponse) },
		Offered:    hasPrompts,
	}
	GetPrompt = &Method{
		Name: "prompts/get", GRPC: pb.McpService_GetPrompt_FullMethodName, Streams: true, Asks: true, ReadOnly: true, Since: Rev20241105,
		NewRequest: func(c *pb.CallContext) Request { return &pb.GetPromptRequest{Context: c} },
		NewResult:  func() proto.Message { return new(pb.GetPromptResult) },
		NewEvent:   func() proto.Message { return new(pb.GetPromptResponse) },
		Target:     func(r Request) string { return r.(*pb.GetPromptRequest).GetName() },
		Offered:    hasPrompts,
	}
	Complete = &Method{
		Name: "completion/complete", GRPC: pb.McpService_Complete_FullMethodName, ReadOnly: true, Since: Rev20241105,
		NewRequest: func(c *pb.CallContext) Request { return &pb.CompleteRequest{Context: c} },
		NewResult:  func() proto.Message { return new(pb.CompleteResponse) },
		Offered:    func(c *pb.ServerCapabilities) bool { return c.GetCompletions() != nil },
	}
	Listen = &Method{
		Name: "subscriptions/listen", GRPC: pb.McpService_Listen_FullMethodName, Streams: true, ReadOnly: true, Since: Rev20260728,
		NewRequest: func(c *pb.CallContext) Request { return &pb.ListenRequest{Context: c} },
		NewResult:  func() proto.Message { return new(pb.ListenResult) },
		NewEvent:   func() proto.Message { return new(pb.ListenResponse) },
		Offered: func(c *pb.ServerCapabilities) bool {
			return c.GetTools().GetListChanged() || c.GetPrompts().GetListChanged() ||
				c.GetResources().GetListChanged() || c.GetResources().GetSubscribe()
		},
	}
)

func hasTools(c *pb.ServerCapabilities) bool     { return c.GetTools() != nil }
func hasResources(c *pb.ServerCapabilities) bool { return c.GetResources() != nil }
func hasPrompts(c *pb.ServerCapabilities) bool   { return c.GetPrompts() != nil }

// Methods returns the table, in the order of the contract.
func Methods() []*Method {
	return []*Method{
		Discover, ListTools, CallTool, ListResources, ListResourceTemplates, ReadResource, ListPrompts, GetPrompt, Complete,
		Listen,
	}
}

var methodsByName = func() map[string]*Method {
	byName := map[string]*Method{}
	for _, m := range Methods() {
		byName[m.Name] = m
	}
	return byName
}()

// MethodByName returns the method that MCP calls name, or nil.
func MethodByName(name string) *Method { return methodsByName[name] }

// Split says what an event of a stream is: an Event, or the Result that ends the stream. It reports false for a message
// that is neither, which no correct peer sends.
func Split(event proto.Message) (Event, *Result, bool) {
	switch m := event.(type) {
	case *pb.CallToolResponse:
		if r := m.GetResult(); r != nil {
			return Event{}, &Result{Complete: r}, true
		}
		return splitCommon(m)
	case *pb.ReadResourceResponse:
		if r := m.GetResult(); r != nil {
			return Event{}, &Result{Complete: r}, true
		}
		return splitCommon(m)
	case *pb.GetPromptResponse:
		if r := m.GetResult(); r != nil {
			return Event{}, &Result{Complete: r}, true
		}
		return splitCommon(m)
	case *pb.ListenResponse:
		if r := m.GetResult(); r != nil {
			return Event{}, &Result{Complete: r}, true
		}
		return Event{Change: m}, nil, m.GetEvent() != nil
	}
	return Event{}, nil, false
}

// splitCommon says what an event is that any call can send.
func splitCommon(m interface {
	GetProgress() *pb.Progress
	GetLog() *pb.LogMessage
	GetInputRequired() *pb.InputRequired
},
) (Event, *Result, bool) {
	if p := m.GetProgress(); p != nil {
		return Event{Progress: p}, nil, true
	}
	if l := m.GetLog(); l != nil {
		return Event{Log: l}, nil, true
	}
	if n := m.GetInputRequired(); n != nil {
		return Event{}, &Result{Needs: n}, true
	}
	return Event{}, nil, false
}

// Join is the reverse of Split: it returns the message that tells an Event, or the Result that ends the stream, to a peer. It
// returns nil for what the method cannot tell.
func (m *Method) Join(e Event, r *Result) proto.Message {
	switch m {
	case CallTool:
		out := &pb.CallToolResponse{}
		switch {
		case e.Progress != nil:
			out.Event = &pb.CallToolResponse_Progress{Progress: e.Progress}
		case e.Log != nil:
			out.Event = &pb.CallToolResponse_Log{Log: e.Log}
		case r != nil && r.Needs != nil:
			out.Event = &pb.CallToolResponse_InputRequired{InputRequired: r.Needs}
		case r != nil:
			out.Event = &pb.CallToolResponse_Result{Result: r.Complete.(*pb.CallToolResult)}
		}
		return out
	case ReadResource:
		out := &pb.ReadResourceResponse{}
		switch {
		case e.Progress != nil:
			out.Event = &pb.ReadResourceResponse_Progress{Progress: e.Progress}
		case e.Log != nil:
			out.Event = &pb.ReadResourceResponse_Log{Log: e.Log}
		case r != nil && r.Needs != nil:
			out.Event = &pb.ReadResourceResponse_InputRequired{InputRequired: r.Needs}
		case r != nil:
			out.Event = &pb.ReadResourceResponse_Result{Result: r.Complete.(*pb.ReadResourceResult)}
		}
		return out
	case GetPrompt:
		out := &pb.GetPromptResponse{}
		switch {
		case e.Progress != nil:
			out.Event = &pb.GetPromptResponse_Progress{Progress: e.Progress}
		case e.Log != nil:
			out.Event = &pb.GetPromptResponse_Log{Log: e.Log}
		case r != nil && r.Needs != nil:
			out.Event = &pb.GetPromptResponse_InputRequired{InputRequired: r.Needs}
		case r != nil:
			out.Event = &pb.GetPromptResponse_Result{Result: r.Complete.(*pb.GetPromptResult)}
		}
		return out
	case Listen:
		if e.Change != nil {
			return e.Change
		}
		return &pb.ListenResponse{Event: &pb.ListenResponse_Result{Result: r.Complete.(*pb.ListenResult)}}
	}
	return nil
}
