package clientcmd

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/rs/zerolog"

	"github.com/mcpbridge/mcpbridge/internal/problem"
	"github.com/mcpbridge/mcpbridge/internal/rawjson"
	"github.com/mcpbridge/mcpbridge/internal/signature"
	"github.com/mcpbridge/mcpbridge/internal/terminal"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// An asker answers what servers ask: from --answer and --sample, and by asking the person at the terminal.
type asker struct {
	answers map[string][]string // by the names of fields
	used    map[string]int      // how many of answers have been used
	action  string              // of --answer /accept, /decline or /cancel: the answer to what no field answers
	asked   map[string]bool     // the fields that forms had, and the action if something has been answered by it
	samples []*pb.CreateMessageResult
	sampled int // how many of samples have been used
	roots   []*pb.Root
	user    *terminal.Prompter
}

func (c *client) newAsker(ctx context.Context) (*asker, error) {
	a := &asker{
		answers: map[string][]string{}, used: map[string]int{}, asked: map[string]bool{}, user: terminal.NewPrompter(c.env.Stdin, c.env.Stderr),
	}
	var wrong []error
	for _, answer := range c.answers {
		name, value, ok := strings.Cut(answer, "=")
		switch {
		case slices.Contains(actions, answer):
			a.action = answer
			continue
		case !ok || name == "":
			wrong = append(wrong, problem.Usage("--answer "+answer, "write --answer FIELD=VALUE, or --answer /accept, /decline or /cancel for all of a form or page",
				"%q does not answer a field", answer))
			continue
		}
		text, err := argumentReader{c.env.Stdin}.text(ctx, value)
		if err != nil {
			wrong = append(wrong, err)
		}
		a.answers[name] = append(a.answers[name], text)
	}
	for _, name := range c.samples {
		sample, err := readSample(ctx, argumentReader{c.env.Stdin}, name)
		if err != nil {
			wrong = append(wrong, err)
		}
		a.samples = append(a.samples, sample)
	}
	return a, problem.Join(wrong...)
}

// The answers to a form or a web page as a whole, on the command line and at the terminal.
const (
	answerAccept  = "/accept"
	answerDecline = "/decline"
	answerCancel  = "/cancel"
)

var actions = []string{answerAccept, answerDecline, answerCancel}

// capabilities returns what can be asked: nothing if nobody is there who could answer.
func (a *asker) capabilities() *pb.ClientCapabilities {
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

// answer answers everything that a call needs.
func (a *asker) answer(ctx context.Context, needs *pb.InputRequired) (map[string]*pb.InputResponse, error) {
	answers := map[string]*pb.InputResponse{}
	for _, key := range inOrder(needs) {
		res, err := a.one(ctx, needs.GetRequests()[key])
		if err != nil {
			return nil, err
		}
		answers[key] = res
	}
	return answers, nil
}

// inOrder returns the keys of requests in the order they were asked in. A map has none, but the state of our SDKs has;
// those of other servers are in the order of their keys.
func inOrder(needs *pb.InputRequired) []string {
	keys := slices.Sorted(maps.Keys(needs.GetRequests()))
	if rawjson.Check(needs.GetState()) != nil {
		return keys
	}
	var asked []string
	for raw := range rawjson.Elements(rawjson.Get(needs.GetState(), "asked")) {
		key, _ := rawjson.String(raw)
		asked = append(asked, key)
	}
	if slices.Equal(slices.Sorted(slices.Values(asked)), keys) {
		return asked
	}
	return keys
}

func (a *asker) one(ctx context.Context, req *pb.InputRequest) (*pb.InputResponse, error) {
	var res *pb.ElicitResult
	var err error
	switch r := req.GetRequest().(type) {
	case *pb.InputRequest_CreateMessage:
		return a.sample(ctx, r.CreateMessage)
	case *pb.InputRequest_ListRoots:
		return &pb.InputResponse{Response: &pb.InputResponse_ListRoots{ListRoots: &pb.ListRootsResult{Roots: a.roots}}}, nil
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
			Reason: pb.InputError_REASON_UNSUPPORTED, Message: "mcpbridge cannot be asked this",
		}}}, nil
	}
	return &pb.InputResponse{Response: &pb.InputResponse_Elicit{Elicit: res}}, nil
}

// What a person can do instead of answering.
var (
	errDecline = errors.New("declined")
	errCancel  = errors.New("cancelled")
)

// outcome returns what the server is told when a form or page ends without an answer, or err if it is about something else.
func outcome(err error) (*pb.ElicitResult, error) {
	switch {
	case errors.Is(err, errDecline):
		return &pb.ElicitResult{Action: pb.ElicitAction_ELICIT_ACTION_DECLINE}, nil
	case errors.Is(err, errCancel):
		return &pb.ElicitResult{Action: pb.ElicitAction_ELICIT_ACTION_CANCEL}, nil
	}
	return nil, err
}

// form asks for the fields of a form. Those that --answer answers are not asked for, and neither is whether to send them if it
// answers all, or is /accept.
func (a *asker) form(ctx context.Context, f *pb.ElicitForm) (*pb.ElicitResult, error) {
	fields := signature.Of(f.GetRequestedSchema()).Properties()
	values := map[string][]byte{}
	var open []signature.Property
	var wrong []error
	for _, field := range fields {
		a.asked[field.Name] = true
		texts := a.given(field)
		if texts == nil {
			open = append(open, field)
			continue
		}
		raw, why := fieldValue(field.Schema, texts)
		if why != "" {
			wrong = append(wrong, problem.Usage("--answer "+field.Name, "answer with "+answerText(field.Schema), "the answer %s %s", field.Name, why))
		}
		values[field.Name] = raw
	}
	if len(wrong) > 0 {
		return nil, problem.Join(wrong...)
	}
	if err := a.act(); err != nil {
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

// given returns what --answer says of the field of a form, or nil. Of several answers each is that of one form, and the
// last one also that of the forms after it. To a list they are its items, unless they are lists in JSON.
func (a *asker) given(field signature.Property) []string {
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

// act returns the error by which --answer /decline or /cancel ends a form or a page.
func (a *asker) act() error {
	if a.action != "" {
		a.asked[a.action] = true
	}
	switch a.action {
	case answerDecline:
		return errDecline
	case answerCancel:
		return errCancel
	}
	return nil
}

// fillDefaults fills what nobody answers from the form's defaults. They make no answer by themselves: to accept a form is to say that
// the user approves.
func (a *asker) fillDefaults(fields, open []signature.Property, values map[string][]byte, message string) error {
	missing := func(fields ...signature.Property) error {
		var names, fixes []string
		for _, field := range fields {
			names = append(names, field.Name)
			fixes = append(fixes, "--answer "+field.Name+"=VALUE, where VALUE is "+answerText(field.Schema))
		}
		what := "the server asks for " + strings.Join(names, ", ") + ", and nobody answers"
		if len(fields) == 0 {
			what, fixes = "the server asks for a yes, and nobody answers", []string{"--answer " + answerAccept + " or --answer " + answerDecline}
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

// tellUnused warns of answers that no form has asked for: their names may be mistyped.
func (a *asker) tellUnused(log zerolog.Logger) {
	answers := slices.Collect(maps.Keys(a.answers))
	if a.action != "" {
		answers = append(answers, a.action)
	}
	slices.Sort(answers)
	for _, name := range answers {
		if a.asked[name] {
			if used, given := a.used[name], len(a.answers[name]); used < given {
				log.Warn().Str("fix", "leave out the others").Msgf("--answer %s is given %d times, and %d of them were asked for", name, given, used)
			}
			continue
		}
		fix := "leave it out; if the tool can ask only in sessions, as before 2026-07-28: add --revision legacy"
		if len(a.asked) > 0 {
			fix = terminal.Escape(problem.DidYouMean(name, slices.Collect(maps.Keys(a.asked))))
		}
		log.Warn().Str("fix", fix).Msgf("nobody asked for --answer %s", name)
	}
	if len(a.samples) > 0 && a.sampled == 0 {
		log.Warn().Str("fix", "leave it out").Msg("nobody asked for --sample")
	}
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
	return &pb.ElicitResult{Action: pb.ElicitAction_ELICIT_ACTION_ACCEPT, Content: append(raw, '}')}
}

// confirm asks whether to send what was answered, or to answer again.
func (a *asker) confirm(ctx context.Context) (again bool, err error) {
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

// page asks to visit a web page.
func (a *asker) page(ctx context.Context, p *pb.ElicitUrl) (*pb.ElicitResult, error) {
	if err := a.act(); err != nil {
		return outcome(err)
	}
	if !a.user.Interactive() && a.action == "" {
		return nil, nil //nolint:nilnil // nobody can visit it
	}
	a.user.Printf("\nThe server asks to visit a web page: %s\n  %s\n", terminal.Escape(p.GetMessage()), terminal.Escape(p.GetUrl()))
	if u, err := url.Parse(p.GetUrl()); err == nil && u.Host != "" {
		a.user.Printf("  It is of %s.", terminal.Escape(u.Host))
		if u.Scheme != "https" {
			a.user.Printf(" It is not encrypted.")
		}
		a.user.Printf(" Do not visit it if you do not know why.\n")
	}
	if a.action == answerAccept {
		return &pb.ElicitResult{Action: pb.ElicitAction_ELICIT_ACTION_ACCEPT}, nil
	}
	for {
		line, err := a.line(ctx, "Have you visited it? (yes, /decline, /cancel): ")
		if err != nil {
			return outcome(err)
		}
		switch strings.ToLower(line) {
		case "y", "yes":
			return &pb.ElicitResult{Action: pb.ElicitAction_ELICIT_ACTION_ACCEPT}, nil
		case "n", "no":
			return outcome(errDecline)
		}
	}
}

// line reads a line. It returns errDecline or errCancel if the user does not answer.
func (a *asker) line(ctx context.Context, prompt string) (string, error) {
	line, err := a.user.ReadLine(ctx, prompt)
	switch {
	case errors.Is(err, io.EOF), line == answerCancel:
		return "", errCancel
	case line == answerDecline:
		return "", errDecline
	}
	return line, err
}
