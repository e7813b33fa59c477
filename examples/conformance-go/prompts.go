package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// A prompt is a row of the table below.
type prompt struct {
	name, description string
	arguments         []*pb.PromptArgument
	// fill returns the prompt's text, or the input that it requires first.
	fill func(*pb.GetPromptRequest) ([]*pb.ContentBlock, *pb.InputRequired)
}

// prompts are in the order in which they are listed.
var prompts = []prompt{
	{"test_simple_prompt", "A prompt without arguments.", nil, message(text("This is a simple prompt for testing."))},
	{
		"test_prompt_with_arguments", "A prompt with two arguments.",
		[]*pb.PromptArgument{argument("arg1", "First test argument"), argument("arg2", "Second test argument")},
		func(req *pb.GetPromptRequest) ([]*pb.ContentBlock, *pb.InputRequired) {
			a := req.GetArguments()
			return []*pb.ContentBlock{
				text(fmt.Sprintf("Prompt with arguments: arg1='%s', arg2='%s'", a["arg1"], a["arg2"])),
			}, nil
		},
	},
	{
		"test_prompt_with_embedded_resource", "A prompt that holds a resource.",
		[]*pb.PromptArgument{argument("resourceUri", "URI of the resource to embed")},
		func(req *pb.GetPromptRequest) ([]*pb.ContentBlock, *pb.InputRequired) {
			return []*pb.ContentBlock{
				embedded(textContents(req.GetArguments()["resourceUri"], "text/plain",
					"Embedded resource content for testing.")),
				text("Please process the embedded resource above."),
			}, nil
		},
	},
	{
		"test_prompt_with_image", "A prompt that holds an image.", nil,
		message(picture(), text("Please analyze the image above.")),
	},
	{
		"test_input_required_result_prompt", "A prompt that asks the user for its context.", nil,
		func(req *pb.GetPromptRequest) ([]*pb.ContentBlock, *pb.InputRequired) {
			e := req.GetInputResponses()["user_context"].GetElicit()
			if e == nil {
				return nil, inputRequired("", keyed("user_context", form("What context should the prompt use?",
					`{"type":"object","properties":{"context":{"type":"string"}},"required":["context"]}`)))
			}
			return []*pb.ContentBlock{text("Use this context: " + answerText(e))}, nil
		},
	},
}

// transientPrompt is listed if test_trigger_prompt_change has added it.
var transientPrompt = prompt{"test_transient_prompt", "Added and removed by a tool.", nil, message(text("I am here."))}

func argument(name, description string) *pb.PromptArgument {
	return &pb.PromptArgument{Name: name, Description: proto.String(description), Required: proto.Bool(true)}
}

func message(content ...*pb.ContentBlock) func(*pb.GetPromptRequest) ([]*pb.ContentBlock, *pb.InputRequired) {
	return func(*pb.GetPromptRequest) ([]*pb.ContentBlock, *pb.InputRequired) { return content, nil }
}

func (s *server) prompts() []prompt {
	if s.changes.hasPrompt() {
		return append(prompts[:len(prompts):len(prompts)], transientPrompt)
	}
	return prompts
}

func (s *server) ListPrompts(context.Context, *pb.ListPromptsRequest) (*pb.ListPromptsResponse, error) {
	res := &pb.ListPromptsResponse{TtlMs: listTTL, CacheScope: listScope}
	for _, p := range s.prompts() {
		res.Prompts = append(res.Prompts,
			&pb.Prompt{Name: p.name, Description: proto.String(p.description), Arguments: p.arguments})
	}
	return res, nil
}

func (s *server) GetPrompt(req *pb.GetPromptRequest, stream grpc.ServerStreamingServer[pb.GetPromptResponse]) error {
	for _, p := range s.prompts() {
		if p.name == req.GetName() {
			return p.get(req, stream)
		}
	}
	return status.Errorf(codes.NotFound, "there is no prompt %q", req.GetName())
}

func (p *prompt) get(req *pb.GetPromptRequest, stream grpc.ServerStreamingServer[pb.GetPromptResponse]) error {
	for _, a := range p.arguments {
		if _, ok := req.GetArguments()[a.GetName()]; !ok {
			return status.Errorf(codes.InvalidArgument, "prompt %q: there is no argument %q", p.name, a.GetName())
		}
	}
	if why := refusalText(req.GetInputResponses()); why != "" {
		return status.Error(codes.FailedPrecondition, why)
	}
	content, asked := p.fill(req)
	if asked != nil {
		return stream.Send(&pb.GetPromptResponse{Event: &pb.GetPromptResponse_InputRequired{InputRequired: asked}})
	}
	result := &pb.GetPromptResult{Description: proto.String(p.description)}
	for _, c := range content {
		result.Messages = append(result.Messages, &pb.PromptMessage{Role: "user", Content: c})
	}
	return stream.Send(&pb.GetPromptResponse{Event: &pb.GetPromptResponse_Result{Result: result}})
}

// completions has the completions of arguments, by name.
var completions = map[string][]string{
	"arg1": {"paris", "park", "party", "test-value-1", "test-value-2"},
	"arg2": {"test-value-a", "test-value-b"},
	"id":   {"123", "456"},
}

func (s *server) Complete(_ context.Context, req *pb.CompleteRequest) (*pb.CompleteResponse, error) {
	named := func(p prompt) bool { return p.name == req.GetReference().GetPrompt().GetName() }
	if req.GetReference().GetPrompt() != nil && !slices.ContainsFunc(s.prompts(), named) {
		return nil, status.Errorf(codes.NotFound, "there is no prompt %q", req.GetReference().GetPrompt().GetName())
	}
	c := &pb.Completion{HasMore: proto.Bool(false)}
	for _, value := range completions[req.GetArgument().GetName()] {
		if strings.HasPrefix(value, req.GetArgument().GetValue()) {
			c.Values = append(c.Values, value)
		}
	}
	c.Total = proto.Int64(int64(len(c.GetValues())))
	return &pb.CompleteResponse{Completion: c}, nil
}
