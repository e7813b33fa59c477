package mcpbridge

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// A prompt is a template for messages.
type prompt struct {
	definition
	message    *pb.Prompt
	get        func(context.Context, map[string]string) (*pb.GetPromptResult, error)
	completers map[string]Completer
}

// Prompt adds a prompt. In is a struct of simple fields, which are its arguments, or a map[string]string. Out is the
// type of its messages: string, *Message or []*Message, or *GetPromptResult of the contract.
func Prompt[In, Out any](
	a *App, name, description string, fn func(context.Context, In) (Out, error), opts ...PromptOption,
) {
	p := &prompt{definition: define(a, "prompt", name), message: &pb.Prompt{Name: name}}
	if description != "" {
		p.message.Description = &description
	}
	var o details
	for _, opt := range opts {
		opt.toPrompt(&o)
	}
	p.message.Title, p.message.Icons, p.message.Meta = o.title, o.icons, o.meta
	if !p.checkName() {
		return
	}
	switch reflect.TypeFor[Out]() {
	case reflect.TypeFor[string](), reflect.TypeFor[*Message](), reflect.TypeFor[[]*Message](),
		reflect.TypeFor[*pb.GetPromptResult]():
	default:
		p.wrong("it returns %s, and a prompt returns string, *Message or []*Message", reflect.TypeFor[Out]())
		return
	}
	in, err := inputOf[In](name, "")
	if err == nil {
		err = errors.Join(o.err, in.node.fitsText())
	}
	if err != nil {
		p.wrong("its arguments: %w", err)
		return
	}
	for argument := range o.completers {
		if in.node.properties[argument] == nil && in.node.rest == nil {
			p.wrong("there is no argument %s to complete%s", argument, didYouMean(argument, in.node.order))
			return
		}
	}
	p.completers = in.node.completers(o.completers)
	p.message.Arguments = in.node.arguments()
	p.get = func(ctx context.Context, given map[string]string) (*pb.GetPromptResult, error) {
		arguments := make(map[string][]string, len(given))
		for name, v := range given {
			arguments[name] = []string{v}
		}
		v, err := in.readArguments(name, in.node.fromText(arguments))
		if err != nil {
			return nil, &Error{Code: -32602, Message: err.Error()}
		}
		out, err := fn(ctx, v)
		if err != nil {
			return nil, err
		}
		return promptResult(out, p.message.Description)
	}
	add(p.definition, &a.prompts, p, func(p *prompt) string { return p.at }, kinds{prompts: true})
}

// promptResult returns the result of a prompt whose function returned v.
func promptResult(v any, description *string) (*pb.GetPromptResult, error) {
	r := &pb.GetPromptResult{Description: description}
	switch v := v.(type) {
	case string:
		r.Messages = []*pb.PromptMessage{User(v)}
	case *Message:
		r.Messages = []*pb.PromptMessage{v}
	case []*Message:
		r.Messages = v
	case *pb.GetPromptResult:
		r = v
	}
	if r == nil || slices.Contains(r.GetMessages(), nil) {
		return nil, errors.New("the prompt returned nil and no error")
	}
	return r, nil
}

// Text arguments.

// fitsText returns an error for a field that text cannot be converted to.
func (n *node) fitsText() error {
	for _, name := range n.order {
		p := n.properties[name]
		if slices.Contains(p.types, "object") || p.items != nil &&
			(p.items.items != nil || slices.Contains(p.items.types, "object")) {
			return fmt.Errorf("text cannot fill in %s: use string, a number, bool, or a list of these", name)
		}
	}
	return nil
}

// fromText converts text arguments to JSON. Text that cannot be converted becomes a string, which validation rejects.
func (n *node) fromText(arguments map[string][]string) []byte {
	b := []byte{'{'}
	for name, values := range arguments {
		of := n.rest
		if p := n.properties[name]; p != nil {
			of = p.node
		}
		if of == nil {
			of = anything
		}
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = append(appendText(b, name), ':')
		if slices.Contains(of.types, "array") {
			b = append(b, '[')
			for i, v := range values {
				if i > 0 {
					b = append(b, ',')
				}
				b = of.items.appendValue(b, v)
			}
			b = append(b, ']')
			continue
		}
		b = of.appendValue(b, strings.Join(values, ","))
	}
	return append(b, '}')
}

func (n *node) appendValue(b []byte, s string) []byte {
	v := jsontext.Value(s)
	if n != nil && !slices.Contains(n.types, "string") && v.IsValid() && n.types != nil && n.allows(v.Kind()) {
		return append(b, s...)
	}
	return appendText(b, s)
}

func appendText(b []byte, s string) []byte {
	b, _ = jsontext.AppendQuote(b, text(s)) // Valid UTF-8 can be quoted.
	return b
}

// arguments returns the fields of a node as arguments of a prompt.
func (n *node) arguments() []*pb.PromptArgument {
	var list []*pb.PromptArgument
	for _, name := range n.order {
		required := slices.ContainsFunc(n.required, func(p *property) bool { return p.name == name })
		a := &pb.PromptArgument{Name: name, Required: &required}
		if d := n.properties[name].description; d != "" {
			a.Description = &d
		}
		if t := n.properties[name].title; t != "" {
			a.Title = &t
		}
		list = append(list, a)
	}
	return list
}

// Completion.

// A Completer returns proposed values for an argument, best first, given the text typed so far. others are the other
// known arguments.
type Completer func(ctx context.Context, typed string, others map[string]string) ([]string, error)

type completion struct {
	argument string
	with     Completer
}

// Complete sets the completion of an argument of a prompt, or a variable of a resource template. Enums are completed
// automatically.
func Complete(argument string, with Completer) interface {
	ResourceOption
	PromptOption
} {
	return completion{argument, with}
}

func (c completion) toResource(d *details) {
	if d.completers == nil {
		d.completers = map[string]Completer{}
	}
	d.completers[c.argument] = c.with
}

func (c completion) toPrompt(d *details) { c.toResource(d) }

// completers adds the completers of enums to the given ones.
func (n *node) completers(given map[string]Completer) map[string]Completer {
	all := map[string]Completer{}
	for name, p := range n.properties {
		choices := p.enum
		if p.items != nil {
			choices = p.items.enum
		}
		if len(choices) == 0 {
			continue
		}
		var texts []string
		for _, c := range choices {
			plain, err := jsontext.AppendUnquote(nil, c)
			if err != nil {
				plain = []byte(c)
			}
			texts = append(texts, string(plain))
		}
		all[name] = func(_ context.Context, typed string, _ map[string]string) ([]string, error) {
			var fitting []string
			for _, t := range texts {
				if strings.HasPrefix(strings.ToLower(t), strings.ToLower(typed)) {
					fitting = append(fitting, t)
				}
			}
			return fitting, nil
		}
	}
	maps.Copy(all, given)
	return all
}

// maxCompletions is the maximum number of values in MCP.
const maxCompletions = 100

// complete implements Complete.
func (a *App) complete(ctx context.Context, req *pb.CompleteRequest) (*pb.CompleteResponse, error) {
	prompt, resource := req.GetReference().GetPrompt(), req.GetReference().GetResource()
	if prompt == nil && resource == nil {
		return nil, status.Error(codes.InvalidArgument, "the reference is neither a prompt nor a resource template")
	}
	var d definition
	var all map[string]Completer
	a.mu.RLock()
	if p := a.prompts.byName[prompt.GetName()]; p != nil && prompt != nil {
		d, all = p.definition, p.completers
	} else if t := a.templates.byName[resource.GetUri()]; t != nil && resource != nil {
		d, all = t.definition, t.completers
	}
	a.mu.RUnlock()
	if all == nil {
		return nil, status.Errorf(codes.NotFound, "there is no such prompt or resource template")
	}
	done := &pb.Completion{}
	with := all[req.GetArgument().GetName()]
	if with == nil {
		return &pb.CompleteResponse{Completion: done}, nil
	}
	c := &call{request: req, info: req.GetContext(), send: func(*pb.Progress, *pb.LogMessage) error { return nil }}
	err := protect(func() (err error) {
		ctx := context.WithValue(ctx, callKey{}, c)
		done.Values, err = with(ctx, req.GetArgument().GetValue(), req.GetArgumentContext().GetArguments())
		return err
	})
	if err != nil {
		return nil, failureStatus(d, err)
	}
	if n := len(done.GetValues()); n > maxCompletions {
		total, more := int64(n), true
		done.Values, done.Total, done.HasMore = done.Values[:maxCompletions], &total, &more
	}
	for i, v := range done.GetValues() {
		done.Values[i] = text(v)
	}
	return &pb.CompleteResponse{Completion: done}, nil
}
