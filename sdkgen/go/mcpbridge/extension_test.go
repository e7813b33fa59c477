package mcpbridge_test

import (
	"context"
	"strings"
	"testing"

	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
	"github.com/mcpbridge/mcpbridge/sdkgen/go/mcpbridge"
	"github.com/mcpbridge/mcpbridge/sdkgen/go/mcpbridgetest"
)

// The option sets `_meta` of the tool and declares MCP Apps (extension ui, 2026-01-26: tool metadata, resources).
func TestUserInterface(t *testing.T) {
	app := mcpbridge.New("test", "1")
	tool := func(app *mcpbridge.App, name string, opts ...mcpbridge.ToolOption) {
		mcpbridge.Tool(app, name, "x", func(context.Context, struct{}) (string, error) { return "x", nil }, opts...)
	}
	page := func(context.Context) (string, error) { return "<!doctype html>", nil }
	tool(app, "report", mcpbridge.UI("ui://reports/report"))
	tool(app, "refresh", mcpbridge.UI("ui://reports/report"),
		mcpbridge.Meta(M{"big": 9007199254740993, "ui": M{"visibility": []string{"app"}}}))
	tool(app, "plain", mcpbridge.Meta(M{"ui": "none"}), mcpbridge.Task{})
	mcpbridge.ResourceFunc(app, "ui://reports/report", "report", "", page)
	mcpbridge.ResourceFunc(app, "ui://reports/old", "old", "", page, mcpbridge.MimeType("text/html"))

	got := map[string]string{}
	for _, tool := range list(t, app) {
		got[tool.GetName()] = tool.GetMeta()
	}
	for name, want := range map[string]string{
		"report":  `{"ui":{"resourceUri":"ui://reports/report"}}`,
		"refresh": `{"big":9007199254740993,"ui":{"resourceUri":"ui://reports/report","visibility":["app"]}}`,
		"plain":   `{"ui":"none"}`,
	} {
		if got[name] != want {
			t.Errorf("%s: got _meta %s, want %s", name, got[name], want)
		}
	}
	d, err := app.Service().Discover(t.Context(), &pb.DiscoverRequest{})
	if e := d.GetCapabilities().GetExtensions(); err != nil ||
		e != `{"io.modelcontextprotocol/tasks":{},"io.modelcontextprotocol/ui":{}}` {
		t.Errorf("got the extensions %s, %v", e, err)
	}
	for uri, want := range map[string]string{
		"ui://reports/report": "text/html;profile=mcp-app", "ui://reports/old": "text/html",
	} {
		if c := mcpbridgetest.Read(t, app, uri).Resource.GetContents()[0]; c.GetMimeType() != want {
			t.Errorf("%s: got %v, want the type %s", uri, c, want)
		}
	}

	mistaken := mcpbridge.New("test", "1")
	tool(mistaken, "report", mcpbridge.UI("https://example.com"))
	if err := mistaken.Err(); err == nil || !strings.Contains(err.Error(), "starts with ui://") {
		t.Errorf("got %v", err)
	}
}
