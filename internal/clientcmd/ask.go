package clientcmd

import (
	"context"
	"slices"
	"strings"

	"github.com/mcpbridge/mcpbridge/internal/problem"
	"github.com/mcpbridge/mcpbridge/internal/terminal"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

func (c *client) newResponder(ctx context.Context) (*responder, error) {
	a := &responder{
		answers: map[string][]string{}, used: map[string]int{}, requested: map[string]bool{},
		user: terminal.NewPrompter(c.env.Stdin, c.env.Stderr),
	}
	var errs []error
	for _, answer := range c.answers {
		name, value, ok := strings.Cut(answer, "=")
		switch {
		case slices.Contains(actions, answer):
			a.action = answer
			continue
		case !ok || name == "":
			errs = append(errs, problem.Usage("--answer "+answer,
				"write --answer FIELD=VALUE, or --answer /accept, /decline or /cancel for all of a form or page",
				"%q does not answer a field", answer))
			continue
		}
		text, err := argumentReader{c.env.Stdin}.text(ctx, value)
		if err != nil {
			errs = append(errs, err)
		}
		a.answers[name] = append(a.answers[name], text)
	}
	for _, name := range c.samples {
		sample, err := readSample(ctx, argumentReader{c.env.Stdin}, name)
		if err != nil {
			errs = append(errs, err)
		}
		a.samples = append(a.samples, sample)
	}
	return a, problem.Join(errs...)
}

// answer returns the responses to the input requests of a call.
func (a *responder) answer(ctx context.Context, needs *pb.InputRequired) (map[string]*pb.InputResponse, error) {
	answers := map[string]*pb.InputResponse{}
	for _, req := range needs.GetInputRequests() {
		res, err := a.respond(ctx, req)
		if err != nil {
			return nil, err
		}
		answers[req.GetKey()] = res
	}
	return answers, nil
}

func (a *responder) respond(ctx context.Context, req *pb.InputRequest) (*pb.InputResponse, error) {
	var res *pb.ElicitResult
	var err error
	switch r := req.GetRequest().(type) {
	case *pb.InputRequest_CreateMessage:
		return a.sample(ctx, r.CreateMessage)
	case *pb.InputRequest_ListRoots:
		return &pb.InputResponse{
			Response: &pb.InputResponse_ListRoots{ListRoots: &pb.ListRootsResult{Roots: a.roots}},
		}, nil
	case *pb.InputRequest_Elicit:
		switch m := r.Elicit.GetMode().(type) {
		case *pb.ElicitRequest_Form:
			res, err = a.form(ctx, m.Form)
		case *pb.ElicitRequest_Url:
			res, err = a.page(ctx, m.Url)
		}
	}
	switch {
	case err != nil:
		return nil, err
	case res == nil:
		return &pb.InputResponse{Response: &pb.InputResponse_Error{Error: &pb.InputError{
			Reason: pb.InputError_REASON_UNSUPPORTED, Message: "mcpbridge does not support this input request",
		}}}, nil
	}
	return &pb.InputResponse{Response: &pb.InputResponse_Elicit{Elicit: res}}, nil
}
