package clientcmd

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/rawjson"
	"github.com/mcpbridge/mcpbridge/internal/signature"
	"github.com/mcpbridge/mcpbridge/internal/terminal"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// runDescribe prints the description of one tool, prompt or resource, or of the server.
func runDescribe(ctx context.Context, c *client, args []string) error {
	if len(args) == 0 {
		d, err := c.discover(ctx)
		if err != nil {
			return err
		}
		return c.describeServer(d)
	}
	o, err := c.inventory(ctx)
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
			return c.printSections(uriText(r.GetUri(), r.GetName(), r.GetMimeType()), r.GetTitle(), r.GetDescription())
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
	return c.printSections(uriText(r.GetUriTemplate(), r.GetName(), r.GetMimeType()), r.GetTitle(), r.GetDescription(),
		why)
}

// printSections prints a heading, and paragraphs below it.
func (c *client) printSections(heading string, paragraphs ...string) error {
	var b strings.Builder
	b.WriteString(strings.Join(strings.Fields(terminal.Escape(heading)), " ") + "\n")
	for _, p := range paragraphs {
		if p = strings.TrimSpace(terminal.Escape(p)); p != "" {
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
	if all := d.GetSupportedVersions(); len(all) > 0 { // servers before 2026-07-28 do not list them
		revisions = "Revisions: " + strings.Join(all, ", ") + "\n"
	}
	return c.printSections(strings.TrimSpace(i.GetName()+" "+i.GetVersion()), i.GetTitle(), about,
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
			need += ", default " + terminal.OneLine(string(rawjson.AppendLine(nil, def)), signature.MaxDefault)
		}
		lines := []string{fmt.Sprintf("  %s (%s%s)", p.Name, p.Schema.Type(), need)}
		if about := p.Schema.Text("description"); about != "" {
			lines = append(lines, strings.Split(strings.TrimSpace(about), "\n")...)
		}
		for _, choice := range p.Schema.TitledChoices() {
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
	return c.printSections(signature.Tool(t.GetName(), t.GetInputSchema(), t.GetOutputSchema()), t.GetTitle(),
		t.GetDescription(), hints(t.GetAnnotations()),
		arguments, schemas)
}

// schemaTexts returns the schemas of a tool, in lines.
func schemaTexts(t *pb.Tool) (string, error) {
	var b strings.Builder
	for _, s := range []struct {
		name, text string
	}{{"Input schema", t.GetInputSchema()}, {"Output schema", t.GetOutputSchema()}} {
		if s.text == "" {
			continue
		}
		lines, err := terminal.Indent(rawjson.AsBytes(s.text))
		if err != nil {
			return "", fmt.Errorf("the %s of %q: %w", strings.ToLower(s.name), t.GetName(), err)
		}
		b.WriteString(s.name + "\n" + lines + "\n\n")
	}
	return b.String(), nil
}

// hints returns the annotations of a tool for people. They are not verified.
func hints(a *pb.ToolAnnotations) string {
	if a == nil {
		return ""
	}
	var says []string
	for _, h := range []struct {
		hint    *bool
		yes, no string
	}{
		{a.ReadOnlyHint, "read-only", ""},
		{a.DestructiveHint, "destructive", "not destructive"},
		{a.IdempotentHint, "idempotent", ""},
		{a.OpenWorldHint, "open world", "closed world"},
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
	return "It declares: " + strings.Join(says, ", ") + "."
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
	return c.printSections(promptSignature(p), p.GetTitle(), p.GetDescription(), arguments)
}
