package clientcmd

import (
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/rs/zerolog"

	"github.com/mcpbridge/mcpbridge/internal/problem"
	"github.com/mcpbridge/mcpbridge/internal/signature"
	"github.com/mcpbridge/mcpbridge/internal/terminal"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// A responder answers the input requests of servers: from --answer and --sample, and by prompting the user at the
// terminal.
type responder struct {
	answers   map[string][]string // by the names of fields
	used      map[string]int      // how many of answers have been used
	action    string              // /accept, /decline or /cancel of --answer, for forms and pages
	requested map[string]bool     // the fields of all forms, and the action if it was used
	samples   []*pb.CreateMessageResult
	sampled   int // how many of samples have been used
	roots     []*pb.Root
	user      *terminal.Prompter
}

// The answers to a form or a web page as a whole, on the command line and at the terminal.
const (
	answerAccept  = "/accept"
	answerDecline = "/decline"
	answerCancel  = "/cancel"
)

var actions = []string{answerAccept, answerDecline, answerCancel}

// The errors for a user who does not answer.
var (
	errDecline = errors.New("declined")
	errCancel  = errors.New("cancelled")
)

// outcome converts errDecline and errCancel to the result of a form or page, and returns other errors.
func outcome(err error) (*pb.ElicitResult, error) {
	switch {
	case errors.Is(err, errDecline):
		return &pb.ElicitResult{Action: "decline"}, nil
	case errors.Is(err, errCancel):
		return &pb.ElicitResult{Action: "cancel"}, nil
	}
	return nil, err
}

// capabilities returns which input requests can be answered.
func (a *responder) capabilities() *pb.ClientCapabilities {
	c := &pb.ClientCapabilities{}
	switch {
	case a.user.Interactive() || a.action != "":
		c.Elicitation = &pb.ElicitationCapability{Form: &pb.Capability{}, Url: &pb.Capability{}}
	case len(a.answers) > 0:
		c.Elicitation = &pb.ElicitationCapability{Form: &pb.Capability{}}
	}
	if a.user.Interactive() || len(a.samples) > 0 {
		c.Sampling = &pb.SamplingCapability{Tools: &pb.Capability{}}
	}
	return c
}

// textsFor returns the texts of --answer for the field of a form, or nil. Of several answers, each form uses the next
// one, and when none is left, the last one again. For a list, the answers are its items, unless they are JSON lists.
func (a *responder) textsFor(field signature.Property) []string {
	texts := a.answers[field.Name]
	switch used := a.used[field.Name]; {
	case len(texts) == 0:
		return nil
	case isList(field.Schema) && !strings.HasPrefix(strings.TrimSpace(texts[0]), "["):
		a.used[field.Name] = len(texts)
		return texts
	case used < len(texts):
		a.used[field.Name]++
		return texts[used : used+1]
	}
	return texts[len(texts)-1:]
}

// actionErr returns errDecline or errCancel if --answer /decline or /cancel was given.
func (a *responder) actionErr() error {
	if a.action != "" {
		a.requested[a.action] = true
	}
	switch a.action {
	case answerDecline:
		return errDecline
	case answerCancel:
		return errCancel
	}
	return nil
}

// warnUnused warns of answers that no form has requested: their names may be mistyped.
func (a *responder) warnUnused(log zerolog.Logger) {
	answers := slices.Collect(maps.Keys(a.answers))
	if a.action != "" {
		answers = append(answers, a.action)
	}
	slices.Sort(answers)
	for _, name := range answers {
		if a.requested[name] {
			if used, given := a.used[name], len(a.answers[name]); used < given {
				log.Warn().Str("fix", "leave out the others").
					Msgf("--answer %s is given %d times, and %d of them were used", name, given, used)
			}
			continue
		}
		fix := "leave it out; if the tool can ask only in sessions, as before 2026-07-28: add --revision legacy"
		if len(a.requested) > 0 {
			fix = terminal.Escape(problem.DidYouMean(name, slices.Collect(maps.Keys(a.requested))))
		}
		log.Warn().Str("fix", fix).Msgf("--answer %s was not used", name)
	}
	if len(a.samples) > 0 && a.sampled == 0 {
		log.Warn().Str("fix", "leave it out").Msg("--sample was not used")
	}
}

// line reads a line. It returns errDecline or errCancel if the user does not answer.
func (a *responder) line(ctx context.Context, prompt string) (string, error) {
	line, err := a.user.ReadLine(ctx, prompt)
	switch {
	case errors.Is(err, io.EOF), line == answerCancel:
		return "", errCancel
	case line == answerDecline:
		return "", errDecline
	}
	return line, err
}
