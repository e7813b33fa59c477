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
	var names []string
	for _, t := range o.tools {
		if t.GetName() == name {
			return c.describeTool(t)
		}
		names = append(names, t.GetName())
	}
	for _, p := range o.prompts {
		if p.GetName() == name {
			return c.describePrompt(p)
		}
		names = append(names, p.GetName())
	}
	for _, r := range o.resources {
		if r.GetUri() == name || r.GetName() == name {
			if c.asJSON {
				return c.printMessage(r)
			}
			return c.printSections(uriText(r.GetUri(), r.GetName(), r.GetMimeType()), r.GetTitle(), r.GetDescription())
		}
		names = append(names, r.GetUri())
	}
	for _, r := range o.templates {
		if r.GetUriTemplate() == name || r.GetName() == name {
			return c.describeTemplate(r, "")
		}
		names = append(names, r.GetUriTemplate())
	}
	if r := templateOf(name, o.templates); r != nil {
		return c.describeTemplate(r, name+" is one of these.")
	}
	return c.notFound("tool, prompt or resource", name, names)
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
	methods := []string{}
	for _, m := range bridge.Methods() {
		if m != bridge.Discover && m.SupportedBy(d.GetCapabilities()) {
			methods = append(methods, m.Name)
		}
	}
	i := d.GetServerInfo()
	description := i.GetDescription()
	if url := i.GetWebsiteUrl(); url != "" {
		description += "\n" + url
	}
	revisions := ""
	if all := d.GetSupportedVersions(); len(all) > 0 { // servers before 2026-07-28 do not list them
		revisions = "Revisions: " + strings.Join(all, ", ") + "\n"
	}
	return c.printSections(strings.TrimSpace(i.GetName()+" "+i.GetVersion()), i.GetTitle(), description,
		revisions+"Methods: "+strings.Join(methods, ", "), d.GetInstructions())
}

func (c *client) describeTool(t *pb.Tool) error {
	if c.asJSON {
		return c.printMessage(t)
	}
	var members []string
	for _, p := range signature.Of(t.GetInputSchema()).Properties() {
		suffix := ""
		if p.Required {
			suffix = ", required"
		}
		if def := rawjson.Get(p.Schema.Raw, "default"); def != nil {
			suffix += ", default " + terminal.OneLine(string(rawjson.AppendLine(nil, def)), signature.MaxDefault)
		}
		lines := []string{fmt.Sprintf("  %s (%s%s)", p.Name, p.Schema.Type(), suffix)}
		if description := p.Schema.Text("description"); description != "" {
			lines = append(lines, strings.Split(strings.TrimSpace(description), "\n")...)
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
	var texts []string
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
			texts = append(texts, text)
		}
	}
	if len(texts) == 0 {
		return ""
	}
	return "It declares: " + strings.Join(texts, ", ") + "."
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
		if description := a.GetDescription(); description != "" {
			line += "\n      " + description
		}
		lines = append(lines, line)
	}
	arguments := ""
	if len(lines) > 0 {
		arguments = "Arguments\n" + strings.Join(lines, "\n")
	}
	return c.printSections(promptSignature(p), p.GetTitle(), p.GetDescription(), arguments)
}
