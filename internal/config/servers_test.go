package config

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/mcpbridge/mcpbridge/internal/problem"
)

func TestServersOfOtherClients(t *testing.T) {
	name := filepath.Join(t.TempDir(), "mcp.json")
	text := `{
	// what editors write
	"inputs": [],
	"servers": {
		"my tools!": {"type": "stdio", "command": "npx", "args": ["-y", "server", "${HOME}"],
			"env": {"A": "${env:B}", "C": "${D:-e}", "F": "\ud83d\ude00 \\ud83d a\/b"}, "autoApprove": ["x"]},
		"web": {"type": "http", "url": "https://example.com/mcp", "headers": {"Authorization": "Bearer ${TOKEN}"}},
		"off": {"command": "off", "disabled": true}, /* trailing comma */
	},
}`
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := Load(name, []string{"HOME=/home/ada", "B=b", "TOKEN=t0ken-t0ken"}, nil, map[string]string{})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Validate(); err != nil {
		t.Error(err)
	}
	want := []Backend{
		{Name: "my-tools", MCP: &MCP{
			Command: []string{"npx", "-y", "server", "/home/ada"}, Dir: workingDir(),
			Env: map[string]string{"A": "b", "C": "e", "F": "\U0001F600 \\ud83d a/b"},
		}},
		{Name: "web", MCP: &MCP{
			URL:     "https://example.com/mcp",
			Headers: map[string]string{"Authorization": "Bearer t0ken-t0ken"},
		}},
	}
	if !reflect.DeepEqual(l.Backends, want) {
		t.Errorf("it was read as %+v", l.Backends)
	}
	warnings := strings.Join(l.file.warnings, "\n")
	for _, w := range []string{
		":3:2: ignoring inputs", ":5:3: the server \"my tools!\" is called \"my-tools\" here",
		": ignoring autoApprove of my tools!",
	} {
		if !strings.Contains(warnings, w) {
			t.Errorf("it does not warn %q:\n%s", w, warnings)
		}
	}
	if err := l.SelectBackend("wep"); err == nil || problem.Of(err).Fix != "did you mean web?" {
		t.Errorf("it found wep: %v", err)
	}
	if err := l.SelectBackend("web"); err != nil || l.Where("backends.0.mcp.url") != name+":7:34" {
		t.Errorf("%v, and its url is at %s", err, l.Where("backends.0.mcp.url"))
	}
}

// Variables of editors are expanded as editors do, except for those that they request from their users.
func TestServersOfEditors(t *testing.T) {
	t.Setenv("HOME", "/home/ada")
	folder := filepath.Join(t.TempDir(), "project")
	read := func(dir, server string) (*Config, error) {
		t.Helper()
		name := filepath.Join(folder, dir, "mcp.json")
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(`{"servers": {"a": `+server+`}}`), 0o600); err != nil {
			t.Fatal(err)
		}
		return Load(name, []string{"TOKEN=t"}, nil, map[string]string{})
	}
	for _, dir := range []string{".vscode", ".cursor", "."} {
		l, err := read(dir, `{"type": "stdio", "command": "${workspaceFolder}${/}a", "args": ["${userHome}", "${workspaceFolderBasename}", "$${userHome}", "${TOKEN}", "$${input:x}"], "envFile": ".env"}`)
		if err != nil {
			t.Fatal(err)
		}
		want := []string{folder + "/a", "/home/ada", "project", "${userHome}", "t", "${input:x}"}
		if got := l.Backends[0].MCP.Command; !reflect.DeepEqual(got, want) {
			t.Errorf("in %s, the command is %q, want %q", dir, got, want)
		}
		if w := strings.Join(l.file.warnings, "\n"); !strings.Contains(w, "ignoring envFile of a") ||
			!strings.Contains(w, "name them in env") {
			t.Errorf("it warns %q", w)
		}
	}
	for server, want := range map[string]string{
		`{"url": "https://example.com", "headers": {"Authorization": "Bearer ${input:key}"}}`: "${input:key} prompts the user of an editor",
		`{"command": "x", "args": ["${command:pick}"]}`:                                       "${command:pick} prompts the user of an editor",
		`{"command": "x", "args": ["${file}"]}`:                                               "environment variable file is not set",
		`{"type": "websocket", "url": "wss://example.com"}`:                                   `there is no type "websocket"`,
		`{"type": 1, "url": "https://example.com"}`:                                           `there is no type "1"`,
	} {
		if _, err := read(".vscode", server); err == nil || !strings.Contains(err.Error(), want) ||
			!strings.Contains(problem.Of(err).Where, "mcp.json:1:") {
			t.Errorf("%s: %v, want %q", server, err, want)
		}
	}
	for _, name := range []string{"http", "sse", "streamableHttp", "streamable-http", "local"} {
		if _, err := read(".vscode", `{"type": "`+name+`", "url": "https://example.com"}`); err != nil {
			t.Error(err)
		}
	}
}
