// Package bridgetest contains what tests of fronts and backs share: a Handler that uses every feature of MCP, and the
// laws for Handlers that wrap another one.
package bridgetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/mcpbridge/mcpbridge/bridge"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// A Handler is a bridge.Handler with a tool, a resource or a prompt for everything that MCP can do.
type Handler struct {
	// Started receives the arguments of each call of the tool "wait" when it waits, and Ended when its context has
	// ended.
	Started, Ended chan string
	// Calls counts the calls of each tool, and "tools/list".
	Calls Counter

	serial atomic.Int64 // of the tool "survey"

	mu        sync.Mutex // guards the rest
	called    map[string]tool
	tools     []*pb.Tool
	waits     map[string]*waiting // by the argument "n" of the tool "wait"
	listeners map[chan *pb.ListenResponse]struct{}
	refused   string // the resource without notifications
}

// A Counter counts by name. It may be used concurrently.
type Counter struct {
	mu sync.Mutex
	n  map[string]int
}

func (c *Counter) add(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n == nil {
		c.n = map[string]int{}
	}
	c.n[name]++
}

// Of returns the count of name.
func (c *Counter) Of(name string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n[name]
}

// New returns a Handler with every tool.
func New() *Handler { return newHandler(kit, extraTools) }

// Kit returns a Handler with the tools of the contract kit, which docs/verify.md describes.
func Kit() *Handler { return newHandler(kit) }

func newHandler(with ...map[string]tool) *Handler {
	h := &Handler{
		Started: make(chan string, 1024), Ended: make(chan string, 1024),
		called: map[string]tool{}, waits: map[string]*waiting{}, listeners: map[chan *pb.ListenResponse]struct{}{},
	}
	for _, some := range with {
		for name, f := range some {
			h.called[name] = f
			h.tools = append(h.tools,
				&pb.Tool{Name: name, Description: proto.String("does " + name), InputSchema: schemaOf(name)})
		}
	}
	slices.SortFunc(h.tools, func(a, b *pb.Tool) int { return strings.Compare(a.GetName(), b.GetName()) })
	return h
}

// schemaOf returns the input schema of a tool.
func schemaOf(name string) string {
	if name == "echo" {
		return `{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"},` +
			`"in":{"type":"object","properties":{"n":{"type":"integer","x-mcp-header":"Count"}}}}}`
	}
	return `{"type":"object"}`
}

var _ bridge.Handler = (*Handler)(nil)

const pageSize = 4

// Handle implements bridge.Handler.
func (h *Handler) Handle(ctx context.Context, call *bridge.Call, emit bridge.Emit) (*bridge.Result, error) {
	switch r := call.Request.(type) {
	case *pb.DiscoverRequest:
		return done(discovery)
	case *pb.ListToolsRequest:
		return h.listTools(r)
	case *pb.CallToolRequest:
		h.mu.Lock()
		f := h.called[r.GetName()]
		h.mu.Unlock()
		if f == nil {
			return nil, bridge.Errorf(codes.NotFound, "there is no tool %q", r.GetName())
		}
		h.Calls.add(r.GetName())
		return f(ctx, h, r, emit)
	case *pb.ListResourcesRequest:
		return done(&pb.ListResourcesResponse{
			Resources: []*pb.Resource{{Uri: "test://a", Name: "a", Title: proto.String("The A")}},
		})
	case *pb.ListResourceTemplatesRequest:
		return done(&pb.ListResourceTemplatesResponse{
			ResourceTemplates: []*pb.ResourceTemplate{{UriTemplate: "test://{id}", Name: "t"}},
		})
	case *pb.ReadResourceRequest:
		if r.GetUri() != "test://a" {
			return nil, bridge.Errorf(codes.NotFound, "there is no resource %q", r.GetUri())
		}
		return done(&pb.ReadResourceResult{CacheScope: "team", Contents: []*pb.ResourceContents{{
			Uri:      r.GetUri(),
			MimeType: proto.String("text/plain"), Body: &pb.ResourceContents_Text{Text: "A"},
		}}})
	case *pb.ListPromptsRequest:
		return done(&pb.ListPromptsResponse{Prompts: []*pb.Prompt{{
			Name:      "p",
			Arguments: []*pb.PromptArgument{{Name: "x", Required: proto.Bool(false)}},
		}}})
	case *pb.GetPromptRequest:
		return getPrompt(r)
	case *pb.CompleteRequest:
		return done(&pb.CompleteResponse{Completion: &pb.Completion{
			Values: []string{r.GetArgument().GetValue() + "!"},
			Total:  proto.Int64(1), HasMore: proto.Bool(false),
		}})
	case *pb.ListenRequest:
		return h.listen(ctx, r, emit)
	}
	return nil, bridge.Errorf(codes.Unimplemented, "there is no %s", call.Method.Name)
}

var discovery = &pb.DiscoverResponse{
	ContractVersion: bridge.ContractVersion,
	ServerInfo:      &pb.Implementation{Name: "bridgetest", Version: "1", Title: proto.String("Bridge Test")},
	Capabilities: &pb.ServerCapabilities{
		Tools:     &pb.ToolsCapability{ListChanged: proto.Bool(true)},
		Resources: &pb.ResourcesCapability{ListChanged: proto.Bool(true), Subscribe: proto.Bool(true)},
		Prompts:   &pb.PromptsCapability{},
		Logging:   &pb.Capability{}, Completions: &pb.Capability{},
	},
	Instructions: proto.String("call anything"),
}

func done(m proto.Message) (*bridge.Result, error) { return &bridge.Result{Complete: m}, nil }

func requireInput(state string, reqs ...*pb.InputRequest) (*bridge.Result, error) {
	n := &pb.InputRequired{InputRequests: reqs}
	if state != "" {
		n.RequestState = []byte(state)
	}
	return &bridge.Result{InputRequired: n}, nil
}

// Text returns a text result.
func Text(format string, args ...any) *pb.CallToolResult {
	return &pb.CallToolResult{
		Content: []*pb.ContentBlock{
			{Block: &pb.ContentBlock_Text{Text: &pb.TextContent{Text: fmt.Sprintf(format, args...)}}},
		},
	}
}

// Form returns a form elicitation with one field.
func Form(key, message, field string) *pb.InputRequest {
	return &pb.InputRequest{
		Key: key,
		Request: &pb.InputRequest_Elicit{Elicit: &pb.ElicitRequest{Mode: &pb.ElicitRequest_Form{Form: &pb.ElicitForm{
			Message: message, RequestedSchema: `{"type":"object","properties":{"` + field +
				`":{"type":"string"}},"required":["` + field + `"]}`,
		}}}},
	}
}

func (h *Handler) listTools(r *pb.ListToolsRequest) (*bridge.Result, error) {
	h.Calls.add(bridge.ListTools.Name)
	h.mu.Lock()
	defer h.mu.Unlock()
	from := 0
	if r.Cursor != nil {
		n, err := strconv.Atoi(r.GetCursor())
		if err != nil || n < 0 || n > len(h.tools) {
			return nil, bridge.Errorf(codes.InvalidArgument, "there is no page at cursor %q", r.GetCursor())
		}
		from = n
	}
	res := &pb.ListToolsResponse{Tools: h.tools[from:min(from+pageSize, len(h.tools))], TtlMs: proto.Int64(0)}
	if from+pageSize < len(h.tools) {
		res.NextCursor = proto.String(strconv.Itoa(from + pageSize))
	}
	return done(res)
}

func getPrompt(r *pb.GetPromptRequest) (*bridge.Result, error) {
	if r.GetName() != "p" {
		return nil, bridge.Errorf(codes.NotFound, "there is no prompt %q", r.GetName())
	}
	x, ok := r.GetArguments()["x"]
	if !ok {
		a := r.GetInputResponses()["x"].GetElicit()
		if a.GetAction() != "accept" {
			return requireInput("", Form("x", "which x?", "x"))
		}
		x = a.GetContent()
	}
	return done(&pb.GetPromptResult{
		Messages: []*pb.PromptMessage{{Role: "user", Content: Text("x is %s", x).GetContent()[0]}},
	})
}

// Add adds a tool that returns its name, and notifies subscribers.
func (h *Handler) Add(name string) { h.AddTool(&pb.Tool{Name: name, InputSchema: schemaOf(name)}) }

// AddTool adds a tool that returns its name, and notifies subscribers.
func (h *Handler) AddTool(t *pb.Tool) {
	h.mu.Lock()
	name := t.GetName()
	h.tools = append(h.tools, t)
	h.called[name] = func(context.Context, *Handler, *pb.CallToolRequest, bridge.Emit) (*bridge.Result, error) {
		return done(Text("%s", name))
	}
	h.mu.Unlock()
	h.notifyTools()
}

// Remove removes a tool, and notifies subscribers.
func (h *Handler) Remove(name string) {
	h.mu.Lock()
	delete(h.called, name)
	h.tools = slices.DeleteFunc(h.tools, func(t *pb.Tool) bool { return t.GetName() == name })
	h.mu.Unlock()
	h.notifyTools()
}

func (h *Handler) notifyTools() {
	h.Notify(&pb.ListenResponse{Event: &pb.ListenResponse_ToolsListChanged{ToolsListChanged: &pb.ListChanged{}}})
}

// Refuse makes further Listen calls for the resource fail.
func (h *Handler) Refuse(uri string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.refused = uri
}

// Drop ends all Listen calls with an error, as when a backend exits.
func (h *Handler) Drop() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for l := range h.listeners {
		close(l)
		delete(h.listeners, l)
	}
}

// Update notifies subscribers of a resource update.
func (h *Handler) Update(uri string) {
	h.Notify(&pb.ListenResponse{
		Event: &pb.ListenResponse_ResourceUpdated{ResourceUpdated: &pb.ResourceUpdated{Uri: uri}},
	})
}

// Notify sends a change to all subscribers.
func (h *Handler) Notify(change *pb.ListenResponse) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for l := range h.listeners {
		l <- change
	}
}

// Listeners returns the number of Listen calls in flight.
func (h *Handler) Listeners() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.listeners)
}

func (h *Handler) listen(ctx context.Context, r *pb.ListenRequest, emit bridge.Emit) (*bridge.Result, error) {
	changes := make(chan *pb.ListenResponse, 64)
	h.mu.Lock()
	refused := h.refused != "" && slices.Contains(r.GetNotifications().GetResourceSubscriptions(), h.refused)
	if !refused {
		h.listeners[changes] = struct{}{}
	}
	h.mu.Unlock()
	if refused {
		return nil, bridge.Errorf(codes.Unavailable, "cannot listen to %q", h.refused)
	}
	defer func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.listeners, changes)
	}()
	err := emit(ctx, bridge.Event{Change: &pb.ListenResponse{Event: &pb.ListenResponse_Acknowledged{
		Acknowledged: &pb.SubscriptionsAcknowledged{Notifications: r.GetNotifications()},
	}}})
	for err == nil {
		select {
		case c, open := <-changes:
			if !open {
				return nil, bridge.Errorf(codes.Unavailable, "the backend has ended")
			}
			err = emit(ctx, bridge.Event{Change: c})
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	return nil, err
}

type tool func(ctx context.Context, h *Handler, r *pb.CallToolRequest, emit bridge.Emit) (*bridge.Result, error)

// extraTools are the tools that the laws and the kit do not need.
var extraTools = map[string]tool{
	// climb sends progress before each of three seconds.
	"climb": func(ctx context.Context, _ *Handler, _ *pb.CallToolRequest, emit bridge.Emit) (*bridge.Result, error) {
		for step := range 3 {
			p := &pb.Progress{Progress: float64(step), Total: proto.Float64(3), Message: proto.String("higher")}
			if err := emit(ctx, bridge.Event{Progress: p}); err != nil {
				return nil, err
			}
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		return done(Text("on top"))
	},
	// why requests a name and returns why there is none.
	"why": func(_ context.Context, _ *Handler, r *pb.CallToolRequest, _ bridge.Emit) (*bridge.Result, error) {
		if in := r.GetInputResponses()["name"]; in != nil {
			return done(Text("%v %d %s", in.GetError().GetReason(), in.GetError().GetCode(),
				in.GetError().GetMessage()))
		}
		return requireInput("", Form("name", "who?", "name"))
	},
	// endless requires input in every round.
	"endless": func(_ context.Context, _ *Handler, r *pb.CallToolRequest, _ bridge.Emit) (*bridge.Result, error) {
		return requireInput(string(r.GetRequestState())+"x", Form("name", "who?", "name"))
	},
	// broken fails with an error that must be redacted.
	"broken": func(context.Context, *Handler, *pb.CallToolRequest, bridge.Emit) (*bridge.Result, error) {
		return nil, errors.New("password is hunter2")
	},
	// visit requests a URL elicitation.
	"visit": func(_ context.Context, _ *Handler, r *pb.CallToolRequest, _ bridge.Emit) (*bridge.Result, error) {
		if a := r.GetInputResponses()["page"].GetElicit(); a != nil {
			return done(Text("visited: %v", a.GetAction()))
		}
		return requireInput("", &pb.InputRequest{
			Key: "page",
			Request: &pb.InputRequest_Elicit{Elicit: &pb.ElicitRequest{
				Mode: &pb.ElicitRequest_Url{Url: &pb.ElicitUrl{Message: "sign in", Url: "https://example.com/in"}},
			}},
		})
	},
	// mustvisit fails with the error that requires a URL elicitation, until it is completed.
	"mustvisit": func(_ context.Context, _ *Handler, r *pb.CallToolRequest, _ bridge.Emit) (*bridge.Result, error) {
		if a := r.GetInputResponses()["e1"].GetElicit(); a != nil {
			return done(Text("visited: %v", a.GetAction()))
		}
		return nil, &bridge.Error{Code: codes.FailedPrecondition, RPC: &pb.JsonRpcError{
			Code: -32042, Message: "sign in first",
			Data: `{"elicitations":[{"mode":"url","elicitationId":"e1","url":"https://example.com/in","message":"sign in"}]}`,
		}}
	},
	// panic panics.
	"panic": func(context.Context, *Handler, *pb.CallToolRequest, bridge.Emit) (*bridge.Result, error) {
		panic("a bug")
	},
	// garbage returns invalid JSON.
	"garbage": func(context.Context, *Handler, *pb.CallToolRequest, bridge.Emit) (*bridge.Result, error) {
		return done(&pb.CallToolResult{StructuredContent: []byte(`{"a":1,"a":`)})
	},
}
