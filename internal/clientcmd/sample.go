package clientcmd

import (
	"context"
	"errors"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/mcpjson"
	"github.com/mcpbridge/mcpbridge/internal/problem"
	"github.com/mcpbridge/mcpbridge/internal/rawjson"
	"github.com/mcpbridge/mcpbridge/internal/signature"
	"github.com/mcpbridge/mcpbridge/internal/terminal"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// readSample reads a value of --sample, the response in place of a model: a result of sampling/createMessage in JSON,
// or a text.
func readSample(ctx context.Context, r argumentReader, name string) (*pb.CreateMessageResult, error) {
	text, err := r.text(ctx, "@"+name)
	if err != nil {
		return nil, err
	}
	raw := []byte(strings.TrimSpace(text))
	if isJSON := rawjson.Check(raw) == nil; !isJSON || !rawjson.IsObject(raw) || rawjson.Get(raw, "content") == nil {
		return textSample(text), nil
	}
	for _, m := range []struct{ name, value string }{{"model", `"mcpbridge"`}, {"role", `"assistant"`}} {
		if rawjson.Get(raw, m.name) == nil {
			raw = slices.Concat([]byte(`{"`+m.name+`":`+m.value+`,`), raw[1:])
		}
	}
	var sample pb.CreateMessageResult
	revisions := bridge.Revisions()
	if err := mcpjson.Unmarshal(raw, &sample, revisions[len(revisions)-1]); err != nil {
		return nil, &problem.Error{
			Exit: problem.ExitUsage, Code: "usage",
			What:  "the answer in place of a model is not a result of sampling/createMessage",
			Where: "--sample " + name,
			Why:   err.Error(), Fix: `write a text, or {"content": {"type": "text", "text": "..."}}`, Cause: err,
		}
	}
	return &sample, nil
}

// textSample returns a text as the answer of a model.
func textSample(text string) *pb.CreateMessageResult {
	block := &pb.ContentBlock{
		Block: &pb.ContentBlock_Text{Text: &pb.TextContent{Text: strings.TrimRight(text, "\r\n")}},
	}
	return &pb.CreateMessageResult{
		Role: "assistant", Content: []*pb.ContentBlock{block}, Model: "mcpbridge", StopReason: proto.String("endTurn"),
	}
}

// sample responds in place of a model: with --sample, whose last value is reused for later requests, or with the user's
// input at the terminal.
func (a *responder) sample(ctx context.Context, req *pb.CreateMessageRequest) (*pb.InputResponse, error) {
	answer := func(res *pb.CreateMessageResult) (*pb.InputResponse, error) {
		return &pb.InputResponse{Response: &pb.InputResponse_CreateMessage{CreateMessage: res}}, nil
	}
	if len(a.samples) > 0 {
		a.sampled++
		return answer(a.samples[min(a.sampled, len(a.samples))-1])
	}
	refuse := func(reason pb.InputError_Reason, message string) (*pb.InputResponse, error) {
		return &pb.InputResponse{
			Response: &pb.InputResponse_Error{Error: &pb.InputError{Reason: reason, Message: message}},
		}, nil
	}
	if !a.user.Interactive() {
		return refuse(pb.InputError_REASON_UNSUPPORTED, "mcpbridge has no model; --sample FILE answers in place of one")
	}
	a.user.Printf("\nThe server asks a model, and you answer in its place:\n")
	if text := req.GetSystemPrompt(); text != "" {
		a.user.Printf("  system: %s\n", indentRest(text, "  "))
	}
	for _, m := range req.GetMessages() {
		role := terminal.OneLine(m.GetRole(), maxSignature)
		a.user.Printf("  %s: %s\n", role, indentRest(contentText(m.GetContent()), "  "))
	}
	for _, t := range req.GetTools() {
		a.user.Printf("  tool: %s\n",
			terminal.OneLine(signature.Tool(t.GetName(), t.GetInputSchema(), ""), maxSignature))
	}
	a.user.Printf("(end with a line that is only a dot; /decline refuses)\n")
	var lines []string
	for {
		line, err := a.line(ctx, "> ")
		switch {
		case errors.Is(err, errDecline), errors.Is(err, errCancel):
			return refuse(pb.InputError_REASON_REFUSED, "the user refused")
		case err != nil:
			return nil, err
		case line == ".":
			return answer(textSample(strings.Join(lines, "\n")))
		}
		lines = append(lines, line)
	}
}

// indentRest indents all lines of a text but the first.
func indentRest(text, indent string) string {
	return strings.ReplaceAll(terminal.Escape(strings.TrimSpace(text)), "\n", "\n"+indent+"  ")
}
