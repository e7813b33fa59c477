package clientcmd

import (
	"encoding/json"
	"io"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/mcpjson"
	"github.com/mcpbridge/mcpbridge/internal/terminal"
)

// writeText writes a text of a server with a line end, and escapes it on a terminal.
func (c *client) writeText(text string) error {
	if !c.terminal {
		if text != "" && !strings.HasSuffix(text, "\n") {
			text += "\n"
		}
		return c.write(text)
	}
	if text = terminal.Escape(text); !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	return c.write(text)
}

// printJSON prints a document that is not a message of the protocol.
func (c *client) printJSON(document any) error {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(document); err != nil {
		return err
	}
	return c.print([]byte(strings.TrimSpace(b.String())))
}

// print writes a document: indented and escaped on a terminal.
func (c *client) print(raw []byte) error {
	text := string(raw)
	if c.terminal {
		lines, err := terminal.Indent(raw)
		if err != nil {
			return err
		}
		text = terminal.Escape(lines)
	}
	return c.write(text + "\n")
}

// printMessage prints a message as JSON of the newest revision.
func (c *client) printMessage(m proto.Message) error {
	raw, err := encode(m)
	if err != nil {
		return err
	}
	return c.print(raw)
}

// write writes data.
func (c *client) write(text string) error {
	_, err := io.WriteString(c.env.Stdout, text)
	return err
}

// encode returns a message as JSON of the newest revision.
func encode(m proto.Message) (json.RawMessage, error) {
	revisions := bridge.Revisions()
	return mcpjson.Append(nil, m, revisions[len(revisions)-1])
}
