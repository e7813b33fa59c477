package clientcmd

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"strings"

	"github.com/mcpbridge/mcpbridge/internal/problem"
	"github.com/mcpbridge/mcpbridge/internal/rawjson"
	"github.com/mcpbridge/mcpbridge/internal/signature"
	"github.com/mcpbridge/mcpbridge/internal/terminal"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// form prompts for the fields of a form. It skips those that --answer answers, and the confirmation if --answer answers
// all, or is /accept.
func (a *responder) form(ctx context.Context, f *pb.ElicitForm) (*pb.ElicitResult, error) {
	fields := signature.Of(f.GetRequestedSchema()).Properties()
	values := map[string][]byte{}
	var open []signature.Property
	var wrong []error
	for _, field := range fields {
		a.requested[field.Name] = true
		texts := a.textsFor(field)
		if texts == nil {
			open = append(open, field)
			continue
		}
		raw, why := fieldValue(field.Schema, texts)
		if why != "" {
			wrong = append(wrong, problem.Usage("--answer "+field.Name, "answer with "+answerText(field.Schema),
				"the answer %s %s", field.Name, why))
		}
		values[field.Name] = raw
	}
	if len(wrong) > 0 {
		return nil, problem.Join(wrong...)
	}
	if err := a.actionErr(); err != nil {
		return outcome(err)
	}
	if !a.user.Interactive() || a.action == answerAccept {
		if err := a.fillDefaults(fields, open, values, f.GetMessage()); err != nil {
			return nil, err
		}
		return accept(fields, values), nil
	}
	if len(open) == 0 && len(fields) > 0 {
		return accept(fields, values), nil
	}
	a.user.Printf("\nThe server asks: %s\n", terminal.Escape(f.GetMessage()))
	for {
		if err := a.fill(ctx, open, values); err != nil {
			return outcome(err)
		}
		again, err := a.confirm(ctx)
		if err != nil {
			return outcome(err)
		}
		if !again {
			return accept(fields, values), nil
		}
	}
}

// fillDefaults fills fields without an answer from the form's defaults. Defaults alone are no answer: to accept a form
// means that the user approves.
func (a *responder) fillDefaults(fields, open []signature.Property, values map[string][]byte, message string) error {
	missing := func(fields ...signature.Property) error {
		var names, fixes []string
		for _, field := range fields {
			names = append(names, field.Name)
			fixes = append(fixes, "--answer "+field.Name+"=VALUE, where VALUE is "+answerText(field.Schema))
		}
		what := "the server asks for " + strings.Join(names, ", ") + ", and there is no answer"
		if len(fields) == 0 {
			what, fixes = "the server asks for a confirmation, and there is no answer",
				[]string{"--answer " + answerAccept + " or --answer " + answerDecline}
		}
		return &problem.Error{
			Exit: problem.ExitUsage, Code: "no_answer", What: what, Why: message,
			Fix: "answer with " + strings.Join(fixes, "\nand ") + ", or call it from a terminal",
		}
	}
	var required []signature.Property
	for _, field := range open {
		if def := rawjson.Get(field.Schema.Raw, "default"); def != nil {
			values[field.Name] = def
		} else if field.Required {
			required = append(required, field)
		}
	}
	switch {
	case len(required) > 0:
		return missing(required...)
	case a.action == answerAccept || len(open) < len(fields):
		return nil
	case len(fields) == 0:
		return missing()
	}
	return missing(fields[0])
}

// accept returns the answer to a form.
func accept(fields []signature.Property, values map[string][]byte) *pb.ElicitResult {
	raw := []byte{'{'}
	for _, field := range fields {
		value, ok := values[field.Name]
		if !ok {
			continue
		}
		if len(raw) > 1 {
			raw = append(raw, ',')
		}
		raw = append(append(rawjson.AppendString(raw, field.Name), ':'), value...)
	}
	return &pb.ElicitResult{Action: "accept", Content: rawjson.AsString(append(raw, '}'))}
}

// confirm prompts for whether to send the answers, or to edit them.
func (a *responder) confirm(ctx context.Context) (again bool, err error) {
	for {
		line, err := a.line(ctx, "Send it? ([yes], edit, /decline, /cancel): ")
		if err != nil {
			return false, err
		}
		switch strings.ToLower(line) {
		case "", "y", "yes":
			return false, nil
		case "e", "edit":
			return true, nil
		case "n", "no", "decline":
			return false, errDecline
		}
	}
}

// page prompts to visit a web page.
func (a *responder) page(ctx context.Context, p *pb.ElicitUrl) (*pb.ElicitResult, error) {
	if err := a.actionErr(); err != nil {
		return outcome(err)
	}
	if !a.user.Interactive() && a.action == "" {
		return nil, nil //nolint:nilnil // there is no user to visit it
	}
	a.user.Printf("\nThe server asks to visit a web page: %s\n  %s\n", terminal.Escape(p.GetMessage()),
		terminal.Escape(p.GetUrl()))
	if u, err := url.Parse(p.GetUrl()); err == nil && u.Host != "" {
		a.user.Printf("  Its host is %s.", terminal.Escape(u.Host))
		if u.Scheme != "https" {
			a.user.Printf(" It is not encrypted.")
		}
		a.user.Printf(" Do not visit it unless you know why the server asks.\n")
	}
	if a.action == answerAccept {
		return &pb.ElicitResult{Action: "accept"}, nil
	}
	for {
		line, err := a.line(ctx, "Have you visited it? (yes, /decline, /cancel): ")
		if err != nil {
			return outcome(err)
		}
		switch strings.ToLower(line) {
		case "y", "yes":
			return &pb.ElicitResult{Action: "accept"}, nil
		case "n", "no":
			return outcome(errDecline)
		}
	}
}

// fill prompts for fields. An empty line stands for the previous answer.
func (a *responder) fill(ctx context.Context, fields []signature.Property, values map[string][]byte) error {
	if len(fields) > 0 {
		a.user.Printf("(an empty line accepts the default in brackets; /decline refuses; /cancel or Ctrl-D answers " +
			"nothing)\n")
	}
	for _, field := range fields {
		def := values[field.Name]
		if def == nil {
			def = rawjson.Get(field.Schema.Raw, "default")
		}
		raw, err := a.field(ctx, field, def)
		if err != nil {
			return err
		}
		if raw != nil {
			values[field.Name] = raw
		}
	}
	return nil
}

// field prompts for a field until the answer is valid. It returns nil if the field is omitted.
func (a *responder) field(ctx context.Context, field signature.Property, def []byte) ([]byte, error) {
	s := field.Schema
	if text := s.Text("description"); text != "" {
		a.user.Printf("  %s\n", terminal.Escape(text))
	}
	for _, choice := range s.TitledChoices() {
		a.user.Printf("    %s  %s\n", terminal.Escape(choice.Value), terminal.Escape(choice.Title))
	}
	prompt := fmt.Sprintf("  %s (%s", cmp.Or(s.Text("title"), field.Name), answerText(s))
	if !field.Required {
		prompt += ", optional"
	}
	prompt += ")"
	if def != nil {
		text := signature.Value(def)
		if isBoolean(s) {
			text = cmp.Or(map[string]string{"true": "yes", "false": "no"}[text], text)
		}
		prompt += " [" + text + "]"
	}
	for {
		line, err := a.line(ctx, terminal.Escape(prompt)+": ")
		switch {
		case err != nil:
			return nil, err
		case line == "" && (def != nil || !field.Required):
			return def, nil
		case line == "":
			a.user.Printf("  it is required\n")
			continue
		}
		texts := []string{line}
		if isList(s) && !strings.HasPrefix(line, "[") {
			texts = strings.Split(line, ",")
			for i := range texts {
				texts[i] = strings.TrimSpace(texts[i])
			}
		}
		raw, wrong := fieldValue(s, texts)
		if wrong == "" {
			return raw, nil
		}
		a.user.Printf("  it %s\n", terminal.Escape(wrong))
	}
}
