package clientcmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/mcpbridge/mcpbridge/internal/limits"
	"github.com/mcpbridge/mcpbridge/internal/problem"
	"github.com/mcpbridge/mcpbridge/internal/rawjson"
	"github.com/mcpbridge/mcpbridge/internal/signature"
)

// An argument is the user's input for a member of an object: texts, or the members of an inner object.
type argument struct {
	texts   []string
	names   []string // of members, in the order in which they were typed
	members map[string]*argument
}

// An argumentReader reads the inputs that arguments refer to: @FILE, @-, and - for all arguments.
type argumentReader struct{ stdin io.Reader }

// errIncomplete is the error of an argument that could not be read before the timeout.
var errIncomplete = errors.New("was not read to its end")

// text returns the value of an argument: itself, the content of @FILE, or stdin for @-. @@ stands for @.
func (r argumentReader) text(ctx context.Context, arg string) (string, error) {
	name, ok := strings.CutPrefix(arg, "@")
	switch {
	case !ok:
		return arg, nil
	case strings.HasPrefix(name, "@"):
		return name, nil
	}
	var text []byte
	var err error
	done := make(chan struct{})
	// A read cannot be interrupted on every system, so this goroutine may wait for input until the process ends.
	go func() {
		defer close(done)
		text, err = r.read(name)
	}()
	select {
	case <-done:
	case <-ctx.Done():
		return "", fmt.Errorf("the argument %s %w", arg, errIncomplete)
	}
	switch {
	case err != nil && name != "-":
		return "", problem.Usage(arg, "name a file that can be read; write @@ for a text that begins with @",
			"cannot read the argument %s: %v", arg, problem.Cause(err))
	case err != nil:
		return "", problem.Usage(arg, "pass a stdin that can be read", "cannot read the argument %s: %v", arg,
			problem.Cause(err))
	case len(text) > limits.MaxMessage:
		return "", problem.Usage(arg, "pass less", "the argument %s is longer than %d MiB", arg, limits.MaxMessage>>20)
	case !utf8.Valid(text):
		return "", problem.Usage(arg, "encode it first, for example with base64", "the argument %s is not UTF-8 text",
			arg)
	}
	return string(text), nil
}

// read reads a file, or stdin for -, up to one byte above the limit.
func (r argumentReader) read(name string) ([]byte, error) {
	in := r.stdin
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		in = f
	}
	if in == nil {
		return nil, nil
	}
	return io.ReadAll(io.LimitReader(in, limits.MaxMessage+1))
}

// parse returns the arguments of a call as JSON, from words of the form k=v by the types of the schema, or from one
// word that is a JSON object, @FILE or -. called and shape are for errors: the name and the signature of the tool.
func (r argumentReader) parse(
	ctx context.Context, words []string, s signature.Schema, callee, usage string,
) ([]byte, error) {
	if len(words) == 1 && (words[0] == "-" || words[0] == "@-") {
		return r.object(ctx, "@-", s, callee, usage)
	}
	if len(words) == 1 && (strings.HasPrefix(words[0], "{") || strings.HasPrefix(words[0], "@")) {
		return r.object(ctx, words[0], s, callee, usage)
	}
	all := &argument{}
	for _, word := range words {
		key, value, ok := strings.Cut(word, "=")
		if strings.HasPrefix(words[0], "{") {
			return nil, problem.Usage(strings.Join(words, " "),
				`write '{"name": "value"}' in one pair of quotes, or name=value; it is `+usage,
				"JSON has to be one argument, and these are %d", len(words))
		}
		if !ok || key == "" {
			return nil, problem.Usage(word, "write NAME=VALUE, one JSON object, @FILE or -; it is "+usage,
				"%q is not an argument", word)
		}
		text, err := r.text(ctx, value)
		if err != nil {
			return nil, err
		}
		all.add(s, key, text)
	}
	var problems []string
	raw := all.build(s, "", &problems)
	if len(problems) > 0 {
		return nil, invalidArguments(problems, callee, usage)
	}
	return raw, nil
}

// object returns the arguments that one word contains or refers to as a JSON object.
func (r argumentReader) object(
	ctx context.Context, word string, s signature.Schema, callee, usage string,
) ([]byte, error) {
	text, err := r.text(ctx, word)
	if err != nil {
		return nil, err
	}
	raw := []byte(strings.TrimSpace(text))
	if err := rawjson.Check(raw); err != nil || !rawjson.IsObject(raw) {
		why := "it is not an object"
		if err != nil {
			why = err.Error()
		}
		return nil, &problem.Error{
			Exit: problem.ExitUsage, Code: "usage",
			What: "the arguments of " + callee + " are not a JSON object", Why: why,
			Fix: `write '{"name": "value"}' or name=value`,
		}
	}
	given := &argument{}
	for name := range rawjson.Members(raw) {
		given.member(string(name))
	}
	var problems []string
	given.check(s, "", &problems)
	if len(problems) > 0 {
		return nil, invalidArguments(problems, callee, usage)
	}
	return raw, nil
}

// invalidArguments returns the problem with arguments, with the signature of the tool.
func invalidArguments(problems []string, callee, usage string) error {
	return &problem.Error{
		Exit: problem.ExitUsage, Code: "arguments",
		What: "the arguments of " + callee + " are invalid", Why: strings.Join(problems, "\n"),
		Fix: "it is " + usage,
	}
}

// member returns the member of the given name.
func (a *argument) member(name string) *argument {
	if a.members == nil {
		a.members = map[string]*argument{}
	}
	m := a.members[name]
	if m == nil {
		m = &argument{}
		a.members[name] = m
		a.names = append(a.names, name)
	}
	return m
}

// add adds a text for a key. In a key, a dot separates the names of nested members, unless the schema has a member with
// the whole key as its name.
func (a *argument) add(s signature.Schema, key, text string) {
	head, rest, nested := key, "", false
	if !slices.ContainsFunc(s.Properties(), func(p signature.Property) bool { return p.Name == key }) {
		head, rest, nested = strings.Cut(key, ".")
	}
	if !nested || head == "" || rest == "" {
		m := a.member(key)
		m.texts = append(m.texts, text)
		return
	}
	inner, _ := s.Property(head)
	a.member(head).add(inner.Object(), rest, text)
}

// check appends to wrong the required members that are missing, and the members that the schema does not define.
func (a *argument) check(s signature.Schema, prefix string, problems *[]string) {
	var names []string
	for _, p := range s.Properties() {
		names = append(names, p.Name)
		if p.Required && a.members[p.Name] == nil {
			*problems = append(*problems, fmt.Sprintf("%s%s is missing: it is %s", prefix, p.Name, p.Schema.Type()))
		}
	}
	for _, name := range a.names {
		if _, ok := s.Property(name); ok {
			continue
		}
		hint := "there are no arguments"
		if len(names) > 0 {
			hint = problem.DidYouMean(name, names)
		}
		*problems = append(*problems, fmt.Sprintf("there is no argument %s%s; %s", prefix, name, hint))
	}
}

// build returns a as a JSON object.
func (a *argument) build(s signature.Schema, prefix string, problems *[]string) []byte {
	a.check(s, prefix, problems)
	raw := []byte{'{'}
	for i, name := range a.names {
		m := a.members[name]
		inner, _ := s.Property(name)
		var value []byte
		switch {
		case m.members != nil && m.texts != nil:
			*problems = append(*problems, fmt.Sprintf("%s%s is given both as a whole and by its members", prefix, name))
		case m.members != nil:
			value = m.build(inner.Object(), prefix+name+".", problems)
		default:
			var why string
			if value, why = coerce(inner, m.texts); why != "" {
				*problems = append(*problems, prefix+name+" "+why)
			}
		}
		if i > 0 {
			raw = append(raw, ',')
		}
		raw = append(append(rawjson.AppendString(raw, name), ':'), value...)
	}
	return append(raw, '}')
}
