package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/yosida95/uritemplate/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/rawjson"
	"github.com/mcpbridge/mcpbridge/internal/signature"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// An offer is everything that a server has.
type offer struct {
	server    *pb.DiscoverResponse
	tools     []*pb.Tool
	resources []*pb.Resource
	templates []*pb.ResourceTemplate
	prompts   []*pb.Prompt
}

func (c *client) offer(ctx context.Context) (*offer, error) {
	var o offer
	var err error
	if o.server, err = c.discover(ctx); err != nil {
		return nil, err
	}
	if o.tools, err = c.tools(ctx, o.server); err != nil {
		return nil, err
	}
	if o.resources, err = c.resources(ctx, o.server); err != nil {
		return nil, err
	}
	if o.templates, err = c.templates(ctx, o.server); err != nil {
		return nil, err
	}
	if o.prompts, err = c.prompts(ctx, o.server); err != nil {
		return nil, err
	}
	return &o, nil
}

// runList prints everything that the server has.
func runList(ctx context.Context, c *client, _ []string) error {
	o, err := c.offer(ctx)
	if err != nil {
		return err
	}
	if c.asJSON {
		// Each is as the protocol has it in the answer to the list; there are no pages.
		document := struct {
			Tools             json.RawMessage `json:"tools"`
			Resources         json.RawMessage `json:"resources"`
			ResourceTemplates json.RawMessage `json:"resourceTemplates"`
			Prompts           json.RawMessage `json:"prompts"`
		}{}
		if document.Tools, err = list(o.tools); err != nil {
			return err
		}
		if document.Resources, err = list(o.resources); err != nil {
			return err
		}
		if document.ResourceTemplates, err = list(o.templates); err != nil {
			return err
		}
		if document.Prompts, err = list(o.prompts); err != nil {
			return err
		}
		return c.printJSON(document)
	}
	var b strings.Builder
	section := func(title string, n int) bool {
		if n > 0 && b.Len() > 0 {
			b.WriteByte('\n')
		}
		if n > 0 {
			b.WriteString(title + "\n")
		}
		return n > 0
	}
	item := func(text, about string) {
		fmt.Fprintf(&b, "  %s\n", oneLine(text, maxSignature))
		if about = firstLine(about); about != "" {
			fmt.Fprintf(&b, "      %s\n", oneLine(about, maxAbout))
		}
	}
	if section("Tools", len(o.tools)) {
		for _, t := range o.tools {
			item(signature.Tool(t.GetName(), t.GetInputSchema(), t.GetOutputSchema()), t.GetDescription())
		}
	}
	if section("Resources", len(o.resources)) {
		for _, r := range o.resources {
			item(named(r.GetUri(), r.GetName(), r.GetMimeType()), r.GetDescription())
		}
	}
	if section("Resource templates", len(o.templates)) {
		for _, r := range o.templates {
			item(named(r.GetUriTemplate(), r.GetName(), r.GetMimeType()), r.GetDescription())
		}
	}
	if section("Prompts", len(o.prompts)) {
		for _, p := range o.prompts {
			item(promptSignature(p), p.GetDescription())
		}
	}
	return c.write(b.String())
}

// The limits of a line of `list`.
const (
	maxSignature = 400
	maxAbout     = 160
)

// list returns messages as a JSON list.
func list[M proto.Message](messages []M) (json.RawMessage, error) {
	raw := []byte{'['}
	for i, m := range messages {
		if i > 0 {
			raw = append(raw, ',')
		}
		item, err := encode(m)
		if err != nil {
			return nil, err
		}
		raw = append(raw, item...)
	}
	return append(raw, ']'), nil
}

// printJSON prints a document that is made here.
func (c *client) printJSON(document any) error {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(document); err != nil {
		return err
	}
	return c.print([]byte(strings.TrimSpace(b.String())))
}

// firstLine returns the first line of a text that says something.
func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return strings.TrimSpace(line)
}

// promptSignature returns a prompt as a function.
func promptSignature(p *pb.Prompt) string {
	var names []string
	for _, a := range p.GetArguments() {
		name := a.GetName()
		if !a.GetRequired() {
			name += "?"
		}
		names = append(names, name)
	}
	return p.GetName() + "(" + strings.Join(names, ", ") + ")"
}

// runDescribe prints all there is to know about one thing, or about the server.
func runDescribe(ctx context.Context, c *client, args []string) error {
	if len(args) == 0 {
		d, err := c.discover(ctx)
		if err != nil {
			return err
		}
		return c.describeServer(d)
	}
	o, err := c.offer(ctx)
	if err != nil {
		return err
	}
	name := args[0]
	var known []string
	for _, t := range o.tools {
		if t.GetName() == name {
			return c.describeTool(t)
		}
		known = append(known, t.GetName())
	}
	for _, p := range o.prompts {
		if p.GetName() == name {
			return c.describePrompt(p)
		}
		known = append(known, p.GetName())
	}
	for _, r := range o.resources {
		if r.GetUri() == name || r.GetName() == name {
			if c.asJSON {
				return c.printMessage(r)
			}
			return c.sheet(named(r.GetUri(), r.GetName(), r.GetMimeType()), r.GetTitle(), r.GetDescription())
		}
		known = append(known, r.GetUri())
	}
	for _, r := range o.templates {
		if r.GetUriTemplate() == name || r.GetName() == name {
			return c.describeTemplate(r, "")
		}
		known = append(known, r.GetUriTemplate())
	}
	if r := templateOf(name, o.templates); r != nil {
		return c.describeTemplate(r, name+" is one of these.")
	}
	return c.notFound("tool, prompt or resource", name, known)
}

func (c *client) describeTemplate(r *pb.ResourceTemplate, why string) error {
	if c.asJSON {
		return c.printMessage(r)
	}
	return c.sheet(named(r.GetUriTemplate(), r.GetName(), r.GetMimeType()), r.GetTitle(), r.GetDescription(), why)
}

// What a template is at most that is compared with a URI: the library takes time by the product of both, and for ever where a
// variable has a length.
const (
	maxTemplate  = 1024 // bytes, and of a URI
	maxVariables = 8
)

// templateOf returns the template that a URI is of, or nil. Of several, it is the one of which most is text: the others say less.
func templateOf(uri string, templates []*pb.ResourceTemplate) *pb.ResourceTemplate {
	var best *pb.ResourceTemplate
	most := -1
	for _, r := range templates {
		text := r.GetUriTemplate()
		if max(len(text), len(uri)) > maxTemplate || strings.Count(text, "{")+strings.Count(text, ",") > maxVariables || withLength.MatchString(text) {
			continue
		}
		t, err := uritemplate.New(text)
		if err != nil || t.Match(uri) == nil {
			continue
		}
		if fixed := len(inBraces.ReplaceAllString(text, "")); fixed > most {
			best, most = r, fixed
		}
	}
	return best
}

var (
	inBraces   = regexp.MustCompile(`\{[^}]*\}`)       // the variables of a template
	withLength = regexp.MustCompile(`\{[^}]*:[^}]*\}`) // those of which there is only so much in a URI
)

// notFound returns the problem that there is nothing of a name: that its server does not answer, if that is known.
func (c *client) notFound(what, name string, known []string) error {
	for server, err := range c.Down {
		if strings.HasPrefix(name, server+"_") {
			return err
		}
	}
	fix := "the server has no " + what + "s; `mcpbridge list` shows what it has"
	switch full := slices.IndexFunc(known, func(k string) bool { return len(c.Names) > 1 && strings.HasSuffix(k, "_"+name) }); {
	case full >= 0:
		fix = "did you mean " + known[full] + "?"
	case len(c.Names) > 1 && slices.Contains(c.Names, name):
		fix = "it is a server: write -c FILE " + name + " for it alone, or the names of all, which begin with " + name + "_"
	case len(known) > 0:
		fix = didYouMean(name, known)
	}
	if what == "tool" && c.asker.capabilities().GetElicitation() == nil && nearest(name, known) == "" {
		fix += "\nit may be hidden because nobody can be asked: --answer FIELD=VALUE says that somebody can"
	}
	return &problem{Exit: exitTool, Code: "not_found", What: fmt.Sprintf("there is no %s %q", what, name), Fix: fix}
}

// sheet prints a heading, and paragraphs below it.
func (c *client) sheet(heading string, paragraphs ...string) error {
	var b strings.Builder
	b.WriteString(strings.Join(strings.Fields(harmless(heading)), " ") + "\n")
	for _, p := range paragraphs {
		if p = strings.TrimSpace(harmless(p)); p != "" {
			b.WriteString("\n" + p + "\n")
		}
	}
	return c.write(b.String())
}

func (c *client) describeServer(d *pb.DiscoverResponse) error {
	if c.asJSON {
		raw, err := encode(d)
		if err != nil {
			return err
		}
		document := map[string]json.RawMessage{}
		if err := json.Unmarshal(raw, &document); err != nil {
			return err
		}
		if document["serverInfo"], err = encode(d.GetServerInfo()); err != nil {
			return err
		}
		return c.printJSON(document)
	}
	has := []string{}
	for _, m := range bridge.Methods() {
		if m != bridge.Discover && m.SupportedBy(d.GetCapabilities()) {
			has = append(has, m.Name)
		}
	}
	i := d.GetServerInfo()
	about := i.GetDescription()
	if url := i.GetWebsiteUrl(); url != "" {
		about += "\n" + url
	}
	revisions := ""
	if all := d.GetSupportedVersions(); len(all) > 0 { // servers before 2026-07-28 do not say which
		revisions = "Revisions: " + strings.Join(all, ", ") + "\n"
	}
	return c.sheet(strings.TrimSpace(i.GetName()+" "+i.GetVersion()), i.GetTitle(), about,
		revisions+"Methods: "+strings.Join(has, ", "), d.GetInstructions())
}

func (c *client) describeTool(t *pb.Tool) error {
	if c.asJSON {
		return c.printMessage(t)
	}
	var members []string
	for _, p := range signature.Of(t.GetInputSchema()).Properties() {
		need := ""
		if p.Required {
			need = ", required"
		}
		if def := rawjson.Get(p.Schema.Raw, "default"); def != nil {
			need += ", default " + oneLine(string(rawjson.AppendLine(nil, def)), signature.MaxDefault)
		}
		lines := []string{fmt.Sprintf("  %s (%s%s)", p.Name, p.Schema.Type(), need)}
		if about := p.Schema.Text("description"); about != "" {
			lines = append(lines, strings.Split(strings.TrimSpace(about), "\n")...)
		}
		for _, choice := range p.Schema.Titled() {
			lines = append(lines, choice.Value+"  "+choice.Title)
		}
		members = append(members, strings.Join(lines, "\n      "))
	}
	arguments := ""
	if len(members) > 0 {
		arguments = "Arguments\n" + strings.Join(members, "\n")
	}
	schemas, err := schemaTexts(t)
	if err != nil {
		return err
	}
	return c.sheet(signature.Tool(t.GetName(), t.GetInputSchema(), t.GetOutputSchema()), t.GetTitle(), t.GetDescription(), hints(t.GetAnnotations()),
		arguments, schemas)
}

// schemaTexts returns the schemas of a tool, in lines.
func schemaTexts(t *pb.Tool) (string, error) {
	var b strings.Builder
	for _, s := range []struct {
		name string
		raw  []byte
	}{{"Input schema", t.GetInputSchema()}, {"Output schema", t.GetOutputSchema()}} {
		if len(s.raw) == 0 {
			continue
		}
		lines, err := indented(s.raw)
		if err != nil {
			return "", fmt.Errorf("the %s of %q: %w", strings.ToLower(s.name), t.GetName(), err)
		}
		b.WriteString(s.name + "\n" + lines + "\n\n")
	}
	return b.String(), nil
}

// hints returns what a tool says of what it does, for people. It may be wrong: nobody checks it.
func hints(a *pb.ToolAnnotations) string {
	if a == nil {
		return ""
	}
	var says []string
	for _, h := range []struct {
		hint    *bool
		yes, no string
	}{
		{a.ReadOnlyHint, "changes nothing", ""},
		{a.DestructiveHint, "may destroy", "does not destroy"},
		{a.IdempotentHint, "doing it twice is doing it once", ""},
		{a.OpenWorldHint, "reaches outside", "stays inside"},
	} {
		text := h.no
		if h.hint != nil && *h.hint {
			text = h.yes
		}
		if h.hint != nil && text != "" {
			says = append(says, text)
		}
	}
	if len(says) == 0 {
		return ""
	}
	return "It says of itself: " + strings.Join(says, ", ") + "."
}

func (c *client) describePrompt(p *pb.Prompt) error {
	if c.asJSON {
		return c.printMessage(p)
	}
	var lines []string
	for _, a := range p.GetArguments() {
		line := "  " + a.GetName()
		if a.GetRequired() {
			line += " (required)"
		}
		if about := a.GetDescription(); about != "" {
			line += "\n      " + about
		}
		lines = append(lines, line)
	}
	arguments := ""
	if len(lines) > 0 {
		arguments = "Arguments\n" + strings.Join(lines, "\n")
	}
	return c.sheet(promptSignature(p), p.GetTitle(), p.GetDescription(), arguments)
}

// runCall calls a tool.
func runCall(ctx context.Context, c *client, args []string) error {
	d, err := c.discover(ctx)
	if err != nil {
		return err
	}
	tools, err := c.tools(ctx, d)
	if err != nil {
		return err
	}
	name := args[0]
	i := slices.IndexFunc(tools, func(t *pb.Tool) bool { return t.GetName() == name })
	if i < 0 {
		var known []string
		for _, t := range tools {
			known = append(known, t.GetName())
		}
		return c.notFound("tool", name, known)
	}
	t := tools[i]
	shape := oneLine(signature.Tool(name, t.GetInputSchema(), nil), maxSignature)
	arguments, err := argumentReader{c.p.Stdin}.parse(ctx, args[1:], signature.Of(t.GetInputSchema()), name, shape)
	if err != nil {
		return err
	}
	m, err := c.do(ctx, &bridge.Call{Method: bridge.CallTool, Request: &pb.CallToolRequest{Context: c.caller, Name: name, Arguments: arguments}})
	if err != nil {
		return err
	}
	res := m.(*pb.CallToolResult)
	if res.GetIsError() && !c.called.Load() {
		return wrongArguments([]string{contentText(res.GetContent())}, name, shape)
	}
	if c.asJSON {
		if err := c.printMessage(res); err != nil {
			return err
		}
	}
	text := contentText(res.GetContent())
	if len(res.GetContent()) == 0 && len(res.GetStructuredContent()) > 0 {
		text = string(res.GetStructuredContent())
	}
	if res.GetIsError() {
		return &problem{Exit: exitTool, Code: "tool_error", What: fmt.Sprintf("the tool %q failed", name), Why: text, Fix: unaskedFix(text)}
	}
	if c.asJSON {
		return nil
	}
	return c.writeText(text)
}

// writeText writes a text of a server as it is, or harmless on a terminal, which gets whole lines.
func (c *client) writeText(text string) error {
	if !c.terminal {
		if text != "" && !strings.HasSuffix(text, "\n") {
			text += "\n"
		}
		return c.write(text)
	}
	if text = harmless(text); !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	return c.write(text)
}

// runRead writes the content of a resource.
func runRead(ctx context.Context, c *client, args []string) error {
	d, err := c.discover(ctx)
	if err != nil {
		return err
	}
	if !bridge.ReadResource.SupportedBy(d.GetCapabilities()) {
		return c.notFound("resource", args[0], nil)
	}
	m, err := c.do(ctx, &bridge.Call{Method: bridge.ReadResource, Request: &pb.ReadResourceRequest{Context: c.caller, Uri: args[0]}})
	if err != nil {
		if p := asProblem(err); p.Exit == exitTool && p.Fix == "" {
			p.Fix = c.readFix(ctx, d, args[0])
			return p
		}
		return err
	}
	res := m.(*pb.ReadResourceResult)
	switch {
	case c.asJSON && c.output != "":
		raw, err := encode(res)
		if err != nil {
			return err
		}
		return c.save(append(raw, '\n'))
	case c.asJSON:
		return c.printMessage(res)
	}
	var data []byte
	isText := true
	for _, r := range res.GetContents() {
		switch body := r.GetBody().(type) {
		case *pb.ResourceContents_Text:
			data = append(data, body.Text...)
		case *pb.ResourceContents_Blob:
			data = append(data, body.Blob...)
			isText = isText && utf8.Valid(body.Blob)
		}
	}
	switch {
	case c.output != "":
		return c.save(data)
	case c.terminal && !isText:
		return &problem{
			Exit: exitUsage, Code: "binary", What: fmt.Sprintf("%s is %d bytes that are not text", args[0], len(data)), Where: "stdout is a terminal",
			Fix: "write --output FILE",
		}
	case c.terminal:
		return c.writeText(string(data))
	}
	return c.write(string(data))
}

// save writes data to the file of --output.
func (c *client) save(data []byte) error {
	if err := os.WriteFile(c.output, data, 0o600); err != nil {
		return &problem{
			Exit: exitUsage, Code: "output", What: fmt.Sprintf("cannot write %s: %v", c.output, cause(err)), Where: "--output",
			Fix: "name another file", Cause: err,
		}
	}
	return nil
}

// readFix says what to read instead of what cannot be read, or "" if it should be there.
func (c *client) readFix(ctx context.Context, d *pb.DiscoverResponse, uri string) string {
	const look = "`mcpbridge list` shows what there is to read"
	resources, err := c.resources(ctx, d)
	if err != nil {
		return look
	}
	var known []string
	for _, r := range resources {
		switch uri {
		case r.GetUri():
			return ""
		case r.GetName():
			return "write its URI: " + r.GetUri()
		}
		known = append(known, r.GetUri())
	}
	if best := nearest(uri, known); best != "" {
		return "did you mean " + best + "?"
	}
	templates, err := c.templates(ctx, d)
	if r := templateOf(uri, templates); err == nil && r != nil {
		return "it has to be of " + r.GetUriTemplate() + ", which `mcpbridge describe` describes"
	}
	return look
}

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
	m, err := c.do(ctx, &bridge.Call{Method: bridge.GetPrompt, Request: &pb.GetPromptRequest{Context: c.caller, Name: name, Arguments: arguments}})
	if err != nil {
		return err
	}
	res := m.(*pb.GetPromptResult)
	if c.asJSON {
		return c.printMessage(res)
	}
	var lines []string
	for _, m := range res.GetMessages() {
		role := strings.ToLower(strings.TrimPrefix(m.GetRole().String(), "ROLE_"))
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
	var known, wrong []string
	for _, a := range p.GetArguments() {
		known = append(known, a.GetName())
		if _, ok := values[a.GetName()]; a.GetRequired() && !ok {
			wrong = append(wrong, a.GetName()+" is missing")
		}
	}
	if wrong = append(wrong, unknownArguments(words, known)...); len(wrong) > 0 {
		return nil, wrongArguments(wrong, p.GetName(), oneLine(promptSignature(p), maxSignature))
	}
	return values, nil
}

// unknownArguments says which of the words of the form NAME=VALUE are about arguments that there are not.
func unknownArguments(words, known []string) []string {
	var wrong []string
	for _, word := range words {
		if name, _, _ := strings.Cut(word, "="); !slices.Contains(known, name) {
			hint := "there are no arguments"
			if len(known) > 0 {
				hint = didYouMean(name, known)
			}
			wrong = append(wrong, fmt.Sprintf("there is no argument %s; %s", name, hint))
		}
	}
	return wrong
}

// texts returns words of the form NAME=VALUE.
func (c *client) texts(ctx context.Context, words []string) (map[string]string, error) {
	values := map[string]string{}
	for _, word := range words {
		name, value, ok := strings.Cut(word, "=")
		if !ok || name == "" {
			return nil, usage(word, "write NAME=VALUE", "%q is not an argument", word)
		}
		text, err := argumentReader{c.p.Stdin}.text(ctx, value)
		if err != nil {
			return nil, err
		}
		values[name] = text
	}
	return values, nil
}

// runComplete prints how an argument can go on.
func runComplete(ctx context.Context, c *client, args []string) error {
	name, prefix, ok := strings.Cut(args[1], "=")
	if !ok || name == "" {
		return usage(args[1], "write NAME=PREFIX", "%q does not say which argument to complete", args[1])
	}
	known, err := c.texts(ctx, args[2:])
	if err != nil {
		return err
	}
	ref, err := c.completable(ctx, args[0], args[1:])
	if err != nil {
		return err
	}
	req := &pb.CompleteRequest{Context: c.caller, Ref: ref, Argument: &pb.CompletionArgument{Name: name, Value: prefix}}
	if len(known) > 0 {
		req.CompletionContext = &pb.CompletionContext{Arguments: known}
	}
	m, err := c.do(ctx, &bridge.Call{Method: bridge.Complete, Request: req})
	if e, ok := errors.AsType[*bridge.Error](err); ok && e.Code == codes.Unimplemented {
		return completesNothing(err) // one of 2024-11-05 cannot say it before
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
		b.WriteString(oneLine(v, len(v)) + "\n")
	}
	return c.write(b.String())
}

// completesNothing is the problem of a completion by a server that has none.
func completesNothing(cause error) *problem {
	return &problem{
		Exit: exitTool, Code: "not_found", What: "the server completes no arguments", Cause: cause,
		Fix: "`mcpbridge describe` shows which arguments there are, and what they are about",
	}
}

// completable returns what a completion is of: a prompt or a resource template, which has to have the arguments.
func (c *client) completable(ctx context.Context, name string, words []string) (*pb.CompletionReference, error) {
	d, err := c.discover(ctx)
	if err != nil {
		return nil, err
	}
	if !bridge.Complete.SupportedBy(d.GetCapabilities()) {
		return nil, completesNothing(nil)
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
		if wrong := unknownArguments(words, names); len(wrong) > 0 {
			return nil, wrongArguments(wrong, name, oneLine(promptSignature(p), maxSignature))
		}
		return &pb.CompletionReference{Reference: &pb.CompletionReference_Prompt{Prompt: &pb.PromptReference{Name: name}}}, nil
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
		if wrong := unknownArguments(words, t.Varnames()); len(wrong) > 0 {
			return nil, wrongArguments(wrong, name, oneLine(name, maxSignature))
		}
	}
	return &pb.CompletionReference{Reference: &pb.CompletionReference_Resource{Resource: &pb.ResourceReference{Uri: name}}}, nil
}
