package interop

import (
	"context"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// bothEras returns servers of other libraries that support both eras and request input during a call.
func bothEras(t *testing.T) map[string][]string {
	t.Helper()
	here, err := filepath.Abs("../servers")
	if err != nil {
		t.Fatal(err)
	}
	python, both := filepath.Join(here, ".venv", "bin", "python"), filepath.Join(here, "both")
	return map[string][]string{
		"python":     {python, filepath.Join(both, "sdk.py")},
		"fastmcp":    {python, filepath.Join(both, "fast.py")},
		"typescript": {"node", filepath.Join(both, "sdk.mjs")},
		"mcp-go":     {filepath.Join(both, "go", "target", "both")},
		"rmcp":       {filepath.Join(both, "rust", "target", "debug", "both")},
	}
}

// inputTools has the results of the tools that request input during a call, if a server has them.
var inputTools = map[string]string{"ask": "hi Ada!", "think": "The model says: You said: What is love?"}

// Clients get the same results from a server of both eras through the bridge, in each revision, with clients of other
// revisions at the same time. Tools that request input during a call work in the legacy era only.
func TestBothEras(t *testing.T) {
	for name, command := range bothEras(t) {
		stdio := func() mcp.Transport {
			return &mcp.CommandTransport{Command: exec.Command(command[0], command[1:]...)}
		}
		t.Run(name+"/stdio", func(t *testing.T) {
			sameThroughBridge(t, stdio, append([]string{"--mcp", "--"}, command...)...)
		})
		t.Run(name+"/http", func(t *testing.T) {
			url := "http://" + serve(t, command) + "/mcp"
			direct := func() mcp.Transport { return &mcp.StreamableClientTransport{Endpoint: url} }
			sameThroughBridge(t, direct, "-c", config(t, map[string]any{"url": url}))
		})
	}
}

// sameThroughBridge compares the results of a server with and without the bridge.
func sameThroughBridge(t *testing.T, direct func() mcp.Transport, args ...string) {
	t.Helper()
	url, _ := listening(t, bridgeRun(t, append([]string{"--http", "127.0.0.1:0"}, args...)...))
	for _, revision := range []string{"2026-07-28", "2025-11-25", "2025-06-18", "2026-07-28"} {
		want := answersOf(t, revision, direct())
		for tool, result := range inputTools {
			if has := want[tool] != "none"; has && revision != "2026-07-28" && want[tool] != result {
				t.Fatalf("%s without the bridge: %q", revision, want)
			}
		}
		if got := answersOf(t, revision, &mcp.StreamableClientTransport{Endpoint: url}); !maps.Equal(got, want) {
			t.Errorf("%s: %q, and without the bridge %q", revision, got, want)
		}
	}
}

// With revision: legacy, the requests of such tools are input requests for a client of 2026-07-28.
func TestLegacyForModernClients(t *testing.T) {
	for name, command := range bothEras(t) {
		t.Run(name, func(t *testing.T) {
			mcpOf := map[string]any{"command": command, "revision": "legacy"}
			url, _ := listening(t, bridgeRun(t, "-c", config(t, mcpOf), "--http", "127.0.0.1:0"))
			got := answersOf(t, "2026-07-28", &mcp.StreamableClientTransport{Endpoint: url})
			for tool, result := range inputTools {
				if got[tool] != "none" && got[tool] != result {
					t.Errorf("%s: %q", tool, got[tool])
				}
			}
		})
	}
}

// config returns a configuration file with one MCP server.
func config(t *testing.T, server map[string]any) string {
	t.Helper()
	return configOf(t, []map[string]any{{"name": "both", "mcp": server}})
}

// configOf returns a configuration file with backends.
func configOf(t *testing.T, backends []map[string]any) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "mcpbridge.yaml")
	// JSON is YAML
	text, err := json.Marshal(map[string]any{"version": 1, "backends": backends})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// answersOf returns the results of each tool for a client of a revision, and the server's capabilities.
func answersOf(t *testing.T, revision string, transport mcp.Transport) map[string]string {
	t.Helper()
	client := mcp.NewClient(&mcp.Implementation{Name: "both", Version: "1"}, &mcp.ClientOptions{
		ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"name": "Ada"}}, nil
		},
		CreateMessageHandler: func(_ context.Context, r *mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) { //nolint:staticcheck // deprecated, and served all the same
			content, _ := r.Params.Messages[0].Content.(*mcp.TextContent)
			return &mcp.CreateMessageResult{Model: "ada-1", Role: "assistant", Content: &mcp.TextContent{Text: "You said: " + content.Text}}, nil //nolint:staticcheck // as above
		},
	})
	session, err := client.Connect(t.Context(), transport, &mcp.ClientSessionOptions{ProtocolVersion: revision})
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	if got := session.InitializeResult().ProtocolVersion; got != revision {
		t.Fatalf("the revision is %s", got)
	}
	can := *session.InitializeResult().Capabilities
	can.Logging = nil //nolint:staticcheck // deprecated, and declared by the bridge itself
	declared, err := json.Marshal(can)
	if err != nil {
		t.Fatal(err)
	}
	answers := map[string]string{"echo": "none", "ask": "none", "think": "none", "capabilities": string(declared)}
	tools, err := session.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, tool := range tools.Tools {
		call, arguments := tool.Name, map[string]any{}
		if call == "echo" {
			arguments["text"] = "hi"
		}
		res, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: call, Arguments: arguments})
		switch {
		case err != nil:
			// The SDK's note about the HTTP status.
			text := strings.TrimSuffix(err.Error(), ": rejected by transport: Bad Request")
			answers[call] = "error: " + strings.Replace(text, `sending "tools/call": `, "", 1)
		case res.IsError:
			answers[call] = "failed: " + resultText(res)
		default:
			answers[call] = resultText(res)
		}
	}
	return answers
}
