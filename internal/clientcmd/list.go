package clientcmd

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/mcpbridge/mcpbridge/internal/signature"
	"github.com/mcpbridge/mcpbridge/internal/terminal"
)

// runList prints everything that the server has.
func runList(ctx context.Context, c *client, _ []string) error {
	o, err := c.inventory(ctx)
	if err != nil {
		return err
	}
	if c.asJSON {
		// The entries have the format of the protocol; pages are joined.
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
		fmt.Fprintf(&b, "  %s\n", terminal.OneLine(text, maxSignature))
		if about = firstLine(about); about != "" {
			fmt.Fprintf(&b, "      %s\n", terminal.OneLine(about, maxDescription))
		}
	}
	if section("Tools", len(o.tools)) {
		for _, t := range o.tools {
			item(signature.Tool(t.GetName(), t.GetInputSchema(), t.GetOutputSchema()), t.GetDescription())
		}
	}
	if section("Resources", len(o.resources)) {
		for _, r := range o.resources {
			item(uriText(r.GetUri(), r.GetName(), r.GetMimeType()), r.GetDescription())
		}
	}
	if section("Resource templates", len(o.templates)) {
		for _, r := range o.templates {
			item(uriText(r.GetUriTemplate(), r.GetName(), r.GetMimeType()), r.GetDescription())
		}
	}
	if section("Prompts", len(o.prompts)) {
		for _, p := range o.prompts {
			item(promptSignature(p), p.GetDescription())
		}
	}
	return c.write(b.String())
}

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
