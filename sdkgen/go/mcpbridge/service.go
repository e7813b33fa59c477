package mcpbridge

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// Service returns the service of the contract, for your own gRPC server. Run does not need it.
func (a *App) Service() pb.McpServiceServer { return &service{app: a} }

// A service is an App over gRPC.
type service struct {
	pb.UnimplementedMcpServiceServer
	app      *App
	stopping <-chan struct{} // ends Listens
}

// Discover implements the contract.
func (s *service) Discover(context.Context, *pb.DiscoverRequest) (*pb.DiscoverResponse, error) {
	return s.app.discoverResponse(), nil
}

// firstPage returns an error if there is a cursor: a list has one page.
func firstPage(cursor *string) error {
	if cursor == nil {
		return nil
	}
	return status.Errorf(codes.InvalidArgument, "there is no page at cursor %.100q", *cursor)
}

// ListTools implements the contract.
func (s *service) ListTools(_ context.Context, req *pb.ListToolsRequest) (*pb.ListToolsResponse, error) {
	s.app.mu.RLock()
	defer s.app.mu.RUnlock()
	r := &pb.ListToolsResponse{TtlMs: s.app.listTTL(), CacheScope: s.app.cache.scope}
	s.app.tools.values(func(t *tool) { r.Tools = append(r.Tools, t.message) })
	return r, firstPage(req.Cursor)
}

// ListResources implements the contract.
func (s *service) ListResources(_ context.Context, req *pb.ListResourcesRequest) (*pb.ListResourcesResponse, error) {
	s.app.mu.RLock()
	defer s.app.mu.RUnlock()
	r := &pb.ListResourcesResponse{TtlMs: s.app.listTTL(), CacheScope: s.app.cache.scope}
	s.app.resources.values(func(v *resource) { r.Resources = append(r.Resources, v.message) })
	return r, firstPage(req.Cursor)
}

// ListResourceTemplates implements the contract.
func (s *service) ListResourceTemplates(
	_ context.Context, req *pb.ListResourceTemplatesRequest,
) (*pb.ListResourceTemplatesResponse, error) {
	s.app.mu.RLock()
	defer s.app.mu.RUnlock()
	r := &pb.ListResourceTemplatesResponse{TtlMs: s.app.listTTL(), CacheScope: s.app.cache.scope}
	s.app.templates.values(func(t *template) { r.ResourceTemplates = append(r.ResourceTemplates, t.message) })
	return r, firstPage(req.Cursor)
}

// ListPrompts implements the contract.
func (s *service) ListPrompts(_ context.Context, req *pb.ListPromptsRequest) (*pb.ListPromptsResponse, error) {
	s.app.mu.RLock()
	defer s.app.mu.RUnlock()
	r := &pb.ListPromptsResponse{TtlMs: s.app.listTTL(), CacheScope: s.app.cache.scope}
	s.app.prompts.values(func(p *prompt) { r.Prompts = append(r.Prompts, p.message) })
	return r, firstPage(req.Cursor)
}

// CallTool implements the contract.
func (s *service) CallTool(req *pb.CallToolRequest, stream grpc.ServerStreamingServer[pb.CallToolResponse]) error {
	s.app.mu.RLock()
	t := s.app.tools.byName[req.GetName()]
	s.app.mu.RUnlock()
	if t == nil {
		return s.missing("tool", req.GetName(), &s.app.tools.order)
	}
	c := &call{
		request: req, info: req.GetContext(), state: req.GetRequestState(), responses: req.GetInputResponses(),
		send: func(p *pb.Progress, l *pb.LogMessage) error {
			if p != nil {
				return stream.Send(&pb.CallToolResponse{Event: &pb.CallToolResponse_Progress{Progress: p}})
			}
			return stream.Send(&pb.CallToolResponse{Event: &pb.CallToolResponse_Log{Log: l}})
		},
		startTask: func() error {
			return stream.Send(&pb.CallToolResponse{
				Event: &pb.CallToolResponse_TaskStarted{TaskStarted: &pb.TaskStarted{}},
			})
		},
	}
	result, needs, err := run(stream.Context(), t.definition, c, func(ctx context.Context) (*pb.CallToolResult, error) {
		return t.call(ctx, req.GetArguments())
	})
	switch {
	case needs != nil:
		return stream.Send(&pb.CallToolResponse{Event: &pb.CallToolResponse_InputRequired{InputRequired: needs}})
	case stream.Context().Err() != nil:
		return contextStatus(stream.Context())
	case err != nil:
		if s := exactStatus(err); s != nil {
			return s
		}
		logFailure(t.definition, err)
		result = failure(err.Error())
	}
	return stream.Send(&pb.CallToolResponse{Event: &pb.CallToolResponse_Result{Result: result}})
}

// ReadResource implements the contract.
func (s *service) ReadResource(req *pb.ReadResourceRequest,
	stream grpc.ServerStreamingServer[pb.ReadResourceResponse],
) error {
	d, read := s.app.find(req.GetUri())
	if read == nil {
		return status.Errorf(codes.NotFound, "there is no resource %.200q", req.GetUri())
	}
	c := &call{
		request: req, info: req.GetContext(), uri: req.GetUri(), state: req.GetRequestState(),
		responses: req.GetInputResponses(),
		send: func(p *pb.Progress, l *pb.LogMessage) error {
			if p != nil {
				return stream.Send(&pb.ReadResourceResponse{Event: &pb.ReadResourceResponse_Progress{Progress: p}})
			}
			return stream.Send(&pb.ReadResourceResponse{Event: &pb.ReadResourceResponse_Log{Log: l}})
		},
	}
	result, needs, err := run(stream.Context(), d, c, read)
	switch {
	case needs != nil:
		return stream.Send(&pb.ReadResourceResponse{
			Event: &pb.ReadResourceResponse_InputRequired{InputRequired: needs},
		})
	case stream.Context().Err() != nil:
		return contextStatus(stream.Context())
	case err != nil:
		return failureStatus(d, err)
	}
	return stream.Send(&pb.ReadResourceResponse{Event: &pb.ReadResourceResponse_Result{Result: result}})
}

// GetPrompt implements the contract.
func (s *service) GetPrompt(req *pb.GetPromptRequest, stream grpc.ServerStreamingServer[pb.GetPromptResponse]) error {
	s.app.mu.RLock()
	p := s.app.prompts.byName[req.GetName()]
	s.app.mu.RUnlock()
	if p == nil {
		return s.missing("prompt", req.GetName(), &s.app.prompts.order)
	}
	c := &call{
		request: req, info: req.GetContext(), state: req.GetRequestState(), responses: req.GetInputResponses(),
		send: func(p *pb.Progress, l *pb.LogMessage) error {
			if p != nil {
				return stream.Send(&pb.GetPromptResponse{Event: &pb.GetPromptResponse_Progress{Progress: p}})
			}
			return stream.Send(&pb.GetPromptResponse{Event: &pb.GetPromptResponse_Log{Log: l}})
		},
	}
	result, needs, err := run(stream.Context(), p.definition, c,
		func(ctx context.Context) (*pb.GetPromptResult, error) {
			return p.get(ctx, req.GetArguments())
		})
	switch {
	case needs != nil:
		return stream.Send(&pb.GetPromptResponse{Event: &pb.GetPromptResponse_InputRequired{InputRequired: needs}})
	case stream.Context().Err() != nil:
		return contextStatus(stream.Context())
	case err != nil:
		return failureStatus(p.definition, err)
	}
	return stream.Send(&pb.GetPromptResponse{Event: &pb.GetPromptResponse_Result{Result: result}})
}

// Complete implements the contract.
func (s *service) Complete(ctx context.Context, req *pb.CompleteRequest) (*pb.CompleteResponse, error) {
	return s.app.complete(ctx, req)
}

// missing returns the status for an unknown name. names is guarded by the app's lock.
func (s *service) missing(kind, name string, names *[]string) error {
	s.app.mu.RLock()
	defer s.app.mu.RUnlock()
	name = fmt.Sprintf("%.128s", name) // A status is sent in the trailers, which are limited.
	return status.Errorf(codes.NotFound, "there is no %s %q%s", kind, name, didYouMean(name, *names))
}

// questions returns the open input requests in the order in which the handler made them.
func (a *inputRound) questions() (questions []*pb.InputRequest) {
	for _, key := range a.order {
		a.open[key].Key = key
		questions = append(questions, a.open[key])
	}
	return questions
}

// run makes one round of a call. If it asks questions, they are its result, whatever the handler returned.
func run[T any](
	ctx context.Context, d definition, c *call, handle func(context.Context) (T, error),
) (result T, needs *pb.InputRequired, err error) {
	err = protect(func() (err error) {
		result, err = handle(context.WithValue(ctx, callKey{}, c))
		return err
	})
	if c.close() {
		d.repeat.Do(func() {
			logger().Warn(fmt.Sprintf("%s: %s %q sends progress or log messages before an answered question, "+
				"and so again in each round; send them after the question or in mcpbridge.Once", d.at, d.kind, d.name))
		})
	}
	needs, tooMuch := c.required()
	if tooMuch != nil {
		return result, nil, tooMuch
	}
	if p, ok := errors.AsType[*panicError](err); ok && needs != nil {
		logger().Error(fmt.Sprintf(
			"%s: a handler panicked after a question; return the error of a question: %v", p.place(), p),
			"stack", p.stack)
	}
	return result, needs, err
}
