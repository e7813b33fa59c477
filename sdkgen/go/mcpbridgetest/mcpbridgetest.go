// Package mcpbridgetest tests backends: Call, Read, Get and Complete call an App without a bridge and without gRPC, and
// Start runs a program behind the real bridge.
//
//	called := mcpbridgetest.Call(t, app, "greet", map[string]any{"name": "Ada"},
//		mcpbridgetest.WithAnswers(Colour{"red"}))
//	if called.Text() != "Hello Ada, here is something red for you." {
package mcpbridgetest

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
	"github.com/mcpbridge/mcpbridge/sdkgen/go/mcpbridge"
)

// maxRounds is the maximum number of rounds of the bridge.
const maxRounds = 10

// Everything returns a caller that supports all questions, and requests progress and all logs.
func Everything() *pb.CallContext {
	return &pb.CallContext{
		Verified:   &pb.VerifiedCaller{ContractVersion: 2, ProtocolVersion: "2026-07-28"},
		ClientInfo: &pb.Implementation{Name: "mcpbridgetest", Version: "1"},
		ClientCapabilities: &pb.ClientCapabilities{
			Elicitation: &pb.ElicitationCapability{Form: &pb.Capability{}, Url: &pb.Capability{}},
			Sampling:    &pb.SamplingCapability{Tools: &pb.Capability{}, Context: &pb.Capability{}},
			Roots:       &pb.RootsCapability{},
		},
		LogLevel:       pb.LogLevel_LOG_LEVEL_DEBUG,
		ProgressWanted: true,
	}
}

// Called is the outcome of a call.
type Called struct {
	Result   *pb.CallToolResult     // of Call
	Resource *pb.ReadResourceResult // of Read
	Prompt   *pb.GetPromptResult    // of Get
	Err      error                  // a gRPC status
	Progress []*pb.Progress
	Logs     []*pb.LogMessage
	Asked    []*pb.InputRequest // in their order
	Rounds   int
	// TaskStarted reports whether the last round called mcpbridge.StartTask.
	TaskStarted bool
}

// Text returns the text of the result.
func (c *Called) Text() string {
	var texts []string
	for _, block := range c.Result.GetContent() {
		texts = append(texts, block.GetText().GetText())
	}
	for _, part := range c.Resource.GetContents() {
		texts = append(texts, part.GetText())
	}
	for _, m := range c.Prompt.GetMessages() {
		texts = append(texts, m.GetContent().GetText().GetText())
	}
	return strings.Join(texts, "\n")
}

// IsError reports whether a tool failed, or the call did.
func (c *Called) IsError() bool { return c.Err != nil || c.Result.GetIsError() }

// Structured decodes a tool's structured content.
func (c *Called) Structured(tb testing.TB, to any) {
	tb.Helper()
	if err := json.Unmarshal(c.Result.GetStructuredContent(), to); err != nil {
		tb.Fatalf("structured content %q: %v", c.Result.GetStructuredContent(), err)
	}
}

// An Option is an option of a call: WithAnswers, WithCaller, WithContext.
type Option func(*caller)

type caller struct {
	ctx     context.Context //nolint:containedctx // It is an option's value.
	context *pb.CallContext
	answers []any
}

// The answers of a user who does not accept.
const (
	Decline = answer("decline")
	Cancel  = answer("cancel")
)

type answer string

// WithAnswers sets the answers to questions, in order: an object or a simple value for a form, Decline, Cancel, the
// text of the model, a []string of roots, or an *InputResponse of the contract.
func WithAnswers(answers ...any) Option { return func(c *caller) { c.answers = answers } }

// WithCaller sets the caller, instead of Everything.
func WithCaller(about *pb.CallContext) Option { return func(c *caller) { c.context = about } }

// WithContext sets the call's context, to cancel it.
func WithContext(ctx context.Context) Option { return func(c *caller) { c.ctx = ctx } }

// Call calls a tool, and answers its questions as the bridge does. args become JSON; []byte are JSON already.
func Call(tb testing.TB, app *mcpbridge.App, name string, args any, opts ...Option) *Called {
	tb.Helper()
	text, ok := args.([]byte)
	if !ok && args != nil {
		var err error
		if text, err = json.Marshal(args); err != nil {
			tb.Fatalf("arguments: %v", err)
		}
	}
	request := &pb.CallToolRequest{Name: name, Arguments: text}
	return rounds(tb, app, name, opts,
		func(c *caller, called *Called, answers map[string]*pb.InputResponse, state []byte) *pb.InputRequired {
			request.Context, request.InputResponses, request.RequestState = c.context, answers, state
			s := &stream[pb.CallToolResponse]{ctx: c.ctx}
			called.Err = app.Service().CallTool(copied(request), s)
			var needs *pb.InputRequired
			called.TaskStarted = false
			for _, e := range s.sent {
				called.event(e.GetProgress(), e.GetLog())
				called.TaskStarted = called.TaskStarted || e.GetTaskStarted() != nil
				called.Result, needs = e.GetResult(), e.GetInputRequired()
			}
			return needs
		})
}

// Read reads a resource.
func Read(tb testing.TB, app *mcpbridge.App, uri string, opts ...Option) *Called {
	tb.Helper()
	request := &pb.ReadResourceRequest{Uri: uri}
	return rounds(tb, app, uri, opts,
		func(c *caller, called *Called, answers map[string]*pb.InputResponse, state []byte) *pb.InputRequired {
			request.Context, request.InputResponses, request.RequestState = c.context, answers, state
			s := &stream[pb.ReadResourceResponse]{ctx: c.ctx}
			called.Err = app.Service().ReadResource(copied(request), s)
			var needs *pb.InputRequired
			for _, e := range s.sent {
				called.event(e.GetProgress(), e.GetLog())
				called.Resource, needs = e.GetResult(), e.GetInputRequired()
			}
			return needs
		})
}

// Get gets a prompt.
func Get(tb testing.TB, app *mcpbridge.App, name string, args map[string]string, opts ...Option) *Called {
	tb.Helper()
	request := &pb.GetPromptRequest{Name: name, Arguments: args}
	return rounds(tb, app, name, opts,
		func(c *caller, called *Called, answers map[string]*pb.InputResponse, state []byte) *pb.InputRequired {
			request.Context, request.InputResponses, request.RequestState = c.context, answers, state
			s := &stream[pb.GetPromptResponse]{ctx: c.ctx}
			called.Err = app.Service().GetPrompt(copied(request), s)
			var needs *pb.InputRequired
			for _, e := range s.sent {
				called.event(e.GetProgress(), e.GetLog())
				called.Prompt, needs = e.GetResult(), e.GetInputRequired()
			}
			return needs
		})
}

// Complete returns the completions of an argument of a prompt, or of a resource template if ref is one.
func Complete(tb testing.TB, app *mcpbridge.App, ref, argument, typed string, others map[string]string) []string {
	tb.Helper()
	request := &pb.CompleteRequest{
		Context: Everything(), Argument: &pb.CompletionArgument{Name: argument, Value: typed},
		ArgumentContext: &pb.CompletionContext{Arguments: others},
		Reference: &pb.CompletionReference{
			Reference: &pb.CompletionReference_Prompt{Prompt: &pb.PromptReference{Name: ref}},
		},
	}
	if strings.Contains(ref, ":") {
		request.Reference.Reference = &pb.CompletionReference_Resource{Resource: &pb.ResourceReference{Uri: ref}}
	}
	response, err := app.Service().Complete(tb.Context(), request)
	if err != nil {
		tb.Fatalf("completion of %s of %s: %v", argument, ref, err)
	}
	return response.GetCompletion().GetValues()
}

func (c *Called) event(p *pb.Progress, l *pb.LogMessage) {
	if p != nil {
		c.Progress = append(c.Progress, p)
	}
	if l != nil {
		c.Logs = append(c.Logs, l)
	}
}

// rounds calls until there is a result or an error.
func rounds(
	tb testing.TB, app *mcpbridge.App, name string, opts []Option,
	call func(c *caller, called *Called, answers map[string]*pb.InputResponse, state []byte) *pb.InputRequired,
) *Called {
	tb.Helper()
	if err := app.Err(); err != nil {
		tb.Fatal(err)
	}
	c := &caller{ctx: tb.Context(), context: Everything()}
	for _, o := range opts {
		o(c)
	}
	called := &Called{}
	var answers map[string]*pb.InputResponse
	var state []byte
	for called.Rounds < maxRounds {
		called.Rounds++
		needs := call(c, called, answers, state)
		if needs == nil {
			return called
		}
		answers, state = map[string]*pb.InputResponse{}, needs.GetRequestState()
		for _, question := range needs.GetInputRequests() {
			called.Asked = append(called.Asked, question)
			if len(c.answers) == 0 {
				tb.Fatalf("%s asked, and the test has no answer: %v", name, question)
			}
			answers[question.GetKey()] = response(tb, question, c.answers[0])
			c.answers = c.answers[1:]
		}
	}
	tb.Fatalf("%s required input in %d rounds, which is the maximum of the bridge", name, maxRounds)
	return nil
}

func response(tb testing.TB, question *pb.InputRequest, given any) *pb.InputResponse {
	tb.Helper()
	switch given := given.(type) {
	case *pb.InputResponse:
		return given
	case answer:
		action := "cancel"
		if given == Decline {
			action = "decline"
		}
		return &pb.InputResponse{Response: &pb.InputResponse_Elicit{Elicit: &pb.ElicitResult{Action: action}}}
	}
	if question.GetCreateMessage() != nil {
		text, _ := given.(string)
		block := &pb.ContentBlock{Block: &pb.ContentBlock_Text{Text: &pb.TextContent{Text: text}}}
		m := &pb.CreateMessageResult{Role: "assistant", Content: []*pb.ContentBlock{block}, Model: "test"}
		return &pb.InputResponse{Response: &pb.InputResponse_CreateMessage{CreateMessage: m}}
	}
	if question.GetListRoots() != nil {
		uris, _ := given.([]string)
		list := &pb.ListRootsResult{}
		for _, uri := range uris {
			list.Roots = append(list.Roots, &pb.Root{Uri: uri})
		}
		return &pb.InputResponse{Response: &pb.InputResponse_ListRoots{ListRoots: list}}
	}
	text, err := json.Marshal(given)
	if err != nil {
		tb.Fatalf("answer: %v", err)
	}
	if len(text) == 0 || text[0] != '{' {
		text = append(append([]byte(`{"value":`), text...), '}')
	}
	result := &pb.ElicitResult{Action: "accept", Content: string(text)}
	return &pb.InputResponse{Response: &pb.InputResponse_Elicit{Elicit: result}}
}

// A stream is a gRPC stream in memory. Messages are copied, as in gRPC.
type stream[T any] struct {
	grpc.ServerStream
	ctx  context.Context //nolint:containedctx // The context of a stream.
	sent []*T
}

func (s *stream[T]) Context() context.Context { return s.ctx }

func (s *stream[T]) Send(m *T) error {
	if err := s.ctx.Err(); err != nil {
		return err
	}
	wire, err := proto.Marshal(any(m).(proto.Message))
	if err != nil {
		return err
	}
	again := new(T)
	s.sent = append(s.sent, again)
	return proto.Unmarshal(wire, any(again).(proto.Message))
}
