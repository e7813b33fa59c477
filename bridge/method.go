package bridge

import (
	"google.golang.org/protobuf/proto"

	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// A Method describes an MCP method whose requests are Calls. Everything that is specific to a method is in its table
// row or in its messages.
type Method struct {
	// Name is the method's name in MCP, such as "tools/call".
	Name string
	// GRPC is the method's full name in gRPC, such as "/mcpbridge.v1.McpService/CallTool".
	GRPC string
	// Streams reports whether the gRPC method is server-streaming: a stream of the messages that NewEvent returns.
	// The response of a unary method is the message that NewResult returns.
	Streams bool
	// MayRequireInput reports whether the Result may be InputRequired.
	MayRequireInput bool
	// ReadOnly reports whether repeating the call is safe for every backend.
	ReadOnly bool
	// Since is the first revision that defines the method, and Until the first that no longer does, or NoRevision.
	Since, Until Revision
	// NewRequest returns an empty request from the caller.
	NewRequest func(caller *pb.CallContext) Request
	NewResult  func() proto.Message
	// NewEvent is nil unless Streams.
	NewEvent func() proto.Message
	// Target returns the name of the tool or prompt, the URI of the resource, or the id of the task, as in the header
	// Mcp-Name (2026-07-28). It is nil for methods without a target.
	Target func(Request) string
	// SupportedBy reports whether a server with the capabilities has the method.
	SupportedBy func(*pb.ServerCapabilities) bool
}

// The methods of MCP whose requests are Calls. Fronts handle the others (initialize, ping, logging/setLevel,
// resources/subscribe, notifications), which differ between revisions.
var (
	Discover = &Method{
		Name: "server/discover", GRPC: pb.McpService_Discover_FullMethodName, ReadOnly: true, Since: Rev20260728,
		NewRequest:  func(c *pb.CallContext) Request { return &pb.DiscoverRequest{Context: c} },
		NewResult:   func() proto.Message { return new(pb.DiscoverResponse) },
		SupportedBy: func(*pb.ServerCapabilities) bool { return true },
	}
	ListTools = &Method{
		Name: "tools/list", GRPC: pb.McpService_ListTools_FullMethodName, ReadOnly: true, Since: Rev20241105,
		NewRequest:  func(c *pb.CallContext) Request { return &pb.ListToolsRequest{Context: c} },
		NewResult:   func() proto.Message { return new(pb.ListToolsResponse) },
		SupportedBy: hasTools,
	}
	CallTool = &Method{
		Name: "tools/call", GRPC: pb.McpService_CallTool_FullMethodName, Streams: true, MayRequireInput: true,
		Since:       Rev20241105,
		NewRequest:  func(c *pb.CallContext) Request { return &pb.CallToolRequest{Context: c} },
		NewResult:   func() proto.Message { return new(pb.CallToolResult) },
		NewEvent:    func() proto.Message { return new(pb.CallToolResponse) },
		Target:      func(r Request) string { return r.(*pb.CallToolRequest).GetName() },
		SupportedBy: hasTools,
	}
	ListResources = &Method{
		Name: "resources/list", GRPC: pb.McpService_ListResources_FullMethodName, ReadOnly: true, Since: Rev20241105,
		NewRequest:  func(c *pb.CallContext) Request { return &pb.ListResourcesRequest{Context: c} },
		NewResult:   func() proto.Message { return new(pb.ListResourcesResponse) },
		SupportedBy: hasResources,
	}
	ListResourceTemplates = &Method{
		Name: "resources/templates/list", GRPC: pb.McpService_ListResourceTemplates_FullMethodName, ReadOnly: true,
		Since:       Rev20241105,
		NewRequest:  func(c *pb.CallContext) Request { return &pb.ListResourceTemplatesRequest{Context: c} },
		NewResult:   func() proto.Message { return new(pb.ListResourceTemplatesResponse) },
		SupportedBy: hasResources,
	}
	ReadResource = &Method{
		Name: "resources/read", GRPC: pb.McpService_ReadResource_FullMethodName, Streams: true, MayRequireInput: true,
		ReadOnly: true, Since: Rev20241105,
		NewRequest:  func(c *pb.CallContext) Request { return &pb.ReadResourceRequest{Context: c} },
		NewResult:   func() proto.Message { return new(pb.ReadResourceResult) },
		NewEvent:    func() proto.Message { return new(pb.ReadResourceResponse) },
		Target:      func(r Request) string { return r.(*pb.ReadResourceRequest).GetUri() },
		SupportedBy: hasResources,
	}
	ListPrompts = &Method{
		Name: "prompts/list", GRPC: pb.McpService_ListPrompts_FullMethodName, ReadOnly: true, Since: Rev20241105,
		NewRequest:  func(c *pb.CallContext) Request { return &pb.ListPromptsRequest{Context: c} },
		NewResult:   func() proto.Message { return new(pb.ListPromptsResponse) },
		SupportedBy: hasPrompts,
	}
	GetPrompt = &Method{
		Name: "prompts/get", GRPC: pb.McpService_GetPrompt_FullMethodName, Streams: true, MayRequireInput: true,
		ReadOnly: true, Since: Rev20241105,
		NewRequest:  func(c *pb.CallContext) Request { return &pb.GetPromptRequest{Context: c} },
		NewResult:   func() proto.Message { return new(pb.GetPromptResult) },
		NewEvent:    func() proto.Message { return new(pb.GetPromptResponse) },
		Target:      func(r Request) string { return r.(*pb.GetPromptRequest).GetName() },
		SupportedBy: hasPrompts,
	}
	Complete = &Method{
		Name: "completion/complete", GRPC: pb.McpService_Complete_FullMethodName, ReadOnly: true, Since: Rev20241105,
		NewRequest:  func(c *pb.CallContext) Request { return &pb.CompleteRequest{Context: c} },
		NewResult:   func() proto.Message { return new(pb.CompleteResponse) },
		SupportedBy: func(c *pb.ServerCapabilities) bool { return c.GetCompletions() != nil },
	}
	Listen = &Method{
		Name: "subscriptions/listen", GRPC: pb.McpService_Listen_FullMethodName, Streams: true, ReadOnly: true,
		Since:      Rev20260728,
		NewRequest: func(c *pb.CallContext) Request { return &pb.ListenRequest{Context: c} },
		NewResult:  func() proto.Message { return new(pb.ListenResult) },
		NewEvent:   func() proto.Message { return new(pb.ListenResponse) },
		SupportedBy: func(c *pb.ServerCapabilities) bool {
			return c.GetTools().GetListChanged() || c.GetPrompts().GetListChanged() ||
				c.GetResources().GetListChanged() || c.GetResources().GetSubscribe() || ServesTasks(c)
		},
	}
	GetTask = &Method{
		Name: "tasks/get", GRPC: pb.McpService_GetTask_FullMethodName, ReadOnly: true, Since: Rev20251125,
		NewRequest:  func(c *pb.CallContext) Request { return &pb.GetTaskRequest{Context: c} },
		NewResult:   func() proto.Message { return new(pb.GetTaskResponse) },
		Target:      taskID,
		SupportedBy: ServesTasks,
	}
	ListTasks = &Method{
		Name: "tasks/list", GRPC: pb.McpService_ListTasks_FullMethodName, ReadOnly: true, Since: Rev20251125,
		Until:       Rev20260728,
		NewRequest:  func(c *pb.CallContext) Request { return &pb.ListTasksRequest{Context: c} },
		NewResult:   func() proto.Message { return new(pb.ListTasksResponse) },
		SupportedBy: ServesTasks,
	}
	UpdateTask = &Method{
		Name: "tasks/update", GRPC: pb.McpService_UpdateTask_FullMethodName, Since: Rev20260728,
		NewRequest:  func(c *pb.CallContext) Request { return &pb.UpdateTaskRequest{Context: c} },
		NewResult:   func() proto.Message { return new(pb.UpdateTaskResponse) },
		Target:      taskID,
		SupportedBy: ServesTasks,
	}
	CancelTask = &Method{
		Name: "tasks/cancel", GRPC: pb.McpService_CancelTask_FullMethodName, Since: Rev20251125,
		NewRequest:  func(c *pb.CallContext) Request { return &pb.CancelTaskRequest{Context: c} },
		NewResult:   func() proto.Message { return new(pb.CancelTaskResponse) },
		Target:      taskID,
		SupportedBy: ServesTasks,
	}
)

func taskID(r Request) string { return r.(interface{ GetTaskId() string }).GetTaskId() }

func hasTools(c *pb.ServerCapabilities) bool     { return c.GetTools() != nil }
func hasResources(c *pb.ServerCapabilities) bool { return c.GetResources() != nil }
func hasPrompts(c *pb.ServerCapabilities) bool   { return c.GetPrompts() != nil }

// Methods returns all methods, in the order of the contract.
func Methods() []*Method {
	return []*Method{
		Discover, ListTools, CallTool, ListResources, ListResourceTemplates, ReadResource, ListPrompts, GetPrompt,
		Complete, Listen, GetTask, ListTasks, UpdateTask, CancelTask,
	}
}

var methodsByName = func() map[string]*Method {
	byName := map[string]*Method{}
	for _, m := range Methods() {
		byName[m.Name] = m
	}
	return byName
}()

// MethodByName returns the method with the MCP name, or nil.
func MethodByName(name string) *Method { return methodsByName[name] }

// Split converts a message of a gRPC stream to an Event, or to the Result that ends the stream. It returns false
// if the message is neither, which is a protocol violation.
func Split(event proto.Message) (Event, *Result, bool) {
	switch m := event.(type) {
	case *pb.CallToolResponse:
		switch e := m.GetEvent().(type) {
		case *pb.CallToolResponse_Result:
			return Event{}, &Result{Complete: e.Result}, true
		case *pb.CallToolResponse_Task:
			return Event{}, &Result{Task: e.Task.GetTask()}, e.Task.GetTask() != nil
		case *pb.CallToolResponse_TaskStarted:
			return Event{TaskStarted: e.TaskStarted}, nil, true
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

// splitCommon is Split for the events that all calls share.
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
		return Event{}, &Result{InputRequired: n}, true
	}
	return Event{}, nil, false
}

// Join is the reverse of Split: it returns the message for an Event or a Result, or nil if the method has no
// stream.
func (m *Method) Join(e Event, r *Result) proto.Message {
	switch m {
	case CallTool:
		out := &pb.CallToolResponse{}
		switch {
		case e.Progress != nil:
			out.Event = &pb.CallToolResponse_Progress{Progress: e.Progress}
		case e.Log != nil:
			out.Event = &pb.CallToolResponse_Log{Log: e.Log}
		case e.TaskStarted != nil:
			out.Event = &pb.CallToolResponse_TaskStarted{TaskStarted: e.TaskStarted}
		case r != nil && r.InputRequired != nil:
			out.Event = &pb.CallToolResponse_InputRequired{InputRequired: r.InputRequired}
		case r != nil && r.Task != nil:
			out.Event = &pb.CallToolResponse_Task{Task: &pb.CreateTaskResult{Task: r.Task}}
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
		case r != nil && r.InputRequired != nil:
			out.Event = &pb.ReadResourceResponse_InputRequired{InputRequired: r.InputRequired}
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
		case r != nil && r.InputRequired != nil:
			out.Event = &pb.GetPromptResponse_InputRequired{InputRequired: r.InputRequired}
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
