package mcpbridge

import (
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Extensions of MCP that apps declare.
const (
	tasksExtension = "io.modelcontextprotocol/tasks"
	uiExtension    = "io.modelcontextprotocol/ui" // MCP Apps
)

// The scheme and the media type of user interfaces.
const (
	uiScheme = "ui://"
	uiType   = "text/html;profile=mcp-app"
)

// UI sets the user interface of a tool: the URI of a resource, "ui://...". Clients that support MCP Apps show the
// results in that HTML page.
func UI(uri string) ToolOption { return toolOption(func(t *tool) { t.ui = uri }) }

// setUI adds the user interface to MCP `_meta`.
func (t *tool) setUI() error {
	if t.ui == "" {
		return nil
	}
	if !strings.HasPrefix(t.ui, uiScheme) {
		return fmt.Errorf("UI(%q): the URI of a user interface starts with %s", t.ui, uiScheme)
	}
	meta, ui, err := t.readMeta()
	if err != nil {
		return err
	}
	ui["resourceUri"] = t.ui
	if meta["ui"], err = marshal(ui); err != nil {
		return err
	}
	text, err := marshal(meta)
	t.message.Meta = string(text)
	return err
}

func (t *tool) hasUI() bool {
	_, ui, _ := t.readMeta() // other values of `ui` are no user interfaces
	return ui["resourceUri"] != nil
}

// readMeta returns MCP `_meta` and its member `ui`.
func (t *tool) readMeta() (meta map[string]jsontext.Value, ui map[string]any, err error) {
	meta, ui = map[string]jsontext.Value{}, map[string]any{}
	if text := t.message.GetMeta(); text != "" {
		err = unmarshal([]byte(text), &meta)
	}
	if of := meta["ui"]; err == nil && of != nil {
		err = unmarshal(of, &ui)
	}
	if err != nil {
		err = fmt.Errorf("its _meta: %w", err)
	}
	return meta, ui, err
}

// extensions returns the extensions of the app by id, as JSON, or an empty string. The caller holds mu.
func (a *App) extensions() string {
	declared := map[string]struct{}{}
	a.tools.values(func(t *tool) {
		if t.hasTasks() {
			declared[tasksExtension] = struct{}{}
		}
		if t.hasUI() {
			declared[uiExtension] = struct{}{}
		}
	})
	if len(declared) == 0 {
		return ""
	}
	text, _ := marshal(declared)
	return string(text)
}
