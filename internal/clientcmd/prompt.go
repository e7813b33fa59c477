package clientcmd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/yosida95/uritemplate/v3"
	"google.golang.org/grpc/codes"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/problem"
	"github.com/mcpbridge/mcpbridge/internal/terminal"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// runPrompt prints the messages of a prompt.
func runPrompt(ctx context.Context, c *client, args []string) error {
	d, err := c.discover(ctx)
	if err != nil {
		return err
	}
	prompts, err := c.prompts(ctx, d)
	if err != nil {
		return err
	}
	name := args[0]
	i := slices.IndexFunc(prompts, func(p *pb.Prompt) bool { return p.GetName() == name })
	if i < 0 {
		var known []string
		for _, p := range prompts {
			known = append(known, p.GetName())
		}
		return c.notFound("prompt", name, known)
	}
	arguments, err := c.promptArguments(ctx, prompts[i], args[1:])
	if err != nil {
		return err
	}
	m, err := c.do(ctx, &bridge.Call{
		Method:  bridge.GetPrompt,
		Request: &pb.GetPromptRequest{Context: c.caller, Name: name, Arguments: arguments},
	})
	if err != nil {
		return err
	}
	res := m.(*pb.GetPromptResult)
	if c.asJSON {
		return c.printMessage(res)
	}
	var lines []string
	for _, m := range res.GetMessages() {
		role := m.GetRole()
		lines = append(lines, role+": "+contentText([]*pb.ContentBlock{m.GetContent()}))
	}
	return c.writeText(strings.Join(lines, "\n"))
}

// promptArguments returns the arguments of a prompt, which are texts.
func (c *client) promptArguments(ctx context.Context, p *pb.Prompt, words []string) (map[string]string, error) {
	values, err := c.texts(ctx, words)
	if err != nil {
		return nil, err
	}
	var known, problems []string
	for _, a := range p.GetArguments() {
		known = append(known, a.GetName())
		if _, ok := values[a.GetName()]; a.GetRequired() && !ok {
			problems = append(problems, a.GetName()+" is missing")
		}
	}
	if problems = append(problems, unknownArguments(words, known)...); len(problems) > 0 {
		return nil, invalidArguments(problems, p.GetName(), terminal.OneLine(promptSignature(p), maxSignature))
	}
	return values, nil
}

// unknownArguments returns the problems with words of the form NAME=VALUE whose names are unknown.
func unknownArguments(words, known []string) []string {
	var problems []string
	for _, word := range words {
		if name, _, _ := strings.Cut(word, "="); !slices.Contains(known, name) {
			hint := "there are no arguments"
			if len(known) > 0 {
				hint = problem.DidYouMean(name, known)
			}
			problems = append(problems, fmt.Sprintf("there is no argument %s; %s", name, hint))
		}
	}
	return problems
}

// texts returns the values of words of the form NAME=VALUE, by name.
func (c *client) texts(ctx context.Context, words []string) (map[string]string, error) {
	values := map[string]string{}
	for _, word := range words {
		name, value, ok := strings.Cut(word, "=")
		if !ok || name == "" {
			return nil, problem.Usage(word, "write NAME=VALUE", "%q is not an argument", word)
		}
		text, err := argumentReader{c.env.Stdin}.text(ctx, value)
		if err != nil {
			return nil, err
		}
		values[name] = text
	}
	return values, nil
}

// runComplete prints the completions of an argument.
func runComplete(ctx context.Context, c *client, args []string) error {
	name, prefix, ok := strings.Cut(args[1], "=")
	if !ok || name == "" {
		return problem.Usage(args[1], "write NAME=PREFIX", "%q is not NAME=PREFIX", args[1])
	}
	known, err := c.texts(ctx, args[2:])
	if err != nil {
		return err
	}
	ref, err := c.completionReference(ctx, args[0], args[1:])
	if err != nil {
		return err
	}
	req := &pb.CompleteRequest{
		Context: c.caller, Reference: ref,
		Argument: &pb.CompletionArgument{Name: name, Value: prefix},
	}
	if len(known) > 0 {
		req.ArgumentContext = &pb.CompletionContext{Arguments: known}
	}
	m, err := c.do(ctx, &bridge.Call{Method: bridge.Complete, Request: req})
	if e, ok := errors.AsType[*bridge.Error](err); ok && e.Code == codes.Unimplemented {
		return noCompletion(err) // a server of 2024-11-05 cannot declare it
	}
	if err != nil {
		return err
	}
	res := m.(*pb.CompleteResponse)
	if c.asJSON {
		return c.printMessage(res)
	}
	var b strings.Builder
	for _, v := range res.GetCompletion().GetValues() {
		b.WriteString(terminal.OneLine(v, len(v)) + "\n")
	}
	return c.write(b.String())
}

// noCompletion returns the problem of a server without completion.
func noCompletion(cause error) *problem.Error {
	return &problem.Error{
		Exit: problem.ExitTool, Code: "not_found", What: "the server does not support completion", Cause: cause,
		Fix: "`mcpbridge describe` describes the arguments",
	}
}

// completionReference returns a reference to the prompt or resource template with the name. It must have the arguments
// in words.
func (c *client) completionReference(ctx context.Context, name string,
	words []string,
) (*pb.CompletionReference, error) {
	d, err := c.discover(ctx)
	if err != nil {
		return nil, err
	}
	if !bridge.Complete.SupportedBy(d.GetCapabilities()) {
		return nil, noCompletion(nil)
	}
	prompts, err := c.prompts(ctx, d)
	if err != nil {
		return nil, err
	}
	var known []string
	for _, p := range prompts {
		if p.GetName() != name {
			known = append(known, p.GetName())
			continue
		}
		var names []string
		for _, a := range p.GetArguments() {
			names = append(names, a.GetName())
		}
		if problems := unknownArguments(words, names); len(problems) > 0 {
			return nil, invalidArguments(problems, name, terminal.OneLine(promptSignature(p), maxSignature))
		}
		return &pb.CompletionReference{
			Reference: &pb.CompletionReference_Prompt{Prompt: &pb.PromptReference{Name: name}},
		}, nil
	}
	if !strings.ContainsAny(name, ":{") {
		return nil, c.notFound("prompt", name, known)
	}
	templates, err := c.templates(ctx, d)
	if err != nil {
		return nil, err
	}
	known = nil
	for _, r := range templates {
		known = append(known, r.GetUriTemplate())
	}
	if !slices.Contains(known, name) && strings.Contains(name, "{") {
		return nil, c.notFound("resource template", name, known)
	}
	if t, err := uritemplate.New(name); err == nil && slices.Contains(known, name) {
		if problems := unknownArguments(words, t.Varnames()); len(problems) > 0 {
			return nil, invalidArguments(problems, name, terminal.OneLine(name, maxSignature))
		}
	}
	return &pb.CompletionReference{
		Reference: &pb.CompletionReference_Resource{Resource: &pb.ResourceReference{Uri: name}},
	}, nil
}
