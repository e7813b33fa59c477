package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/bridgetest"
	"github.com/mcpbridge/mcpbridge/internal/bridgetest/fuzzing"
)

// A variable is replaced wherever it stands, and its value is told to the backend and to nobody else.
func TestVariablesAreReplacedAndNotPrinted(t *testing.T) {
	t.Setenv("SECRET_TOKEN", "hunter2-hunter2")
	config := writeConfig(t, fmt.Sprintf(`
serve: {http: {addr: "127.0.0.1:0"}}
backends:
  - name: tells
    launch:
      command: [sh, -c, "echo the token is $TOKEN, the text is $TEXT >&2; exec %s", "${env:SECRET_TOKEN}"]
      env: {TOKEN: "${env:SECRET_TOKEN}", TEXT: "$${env:SECRET_TOKEN}"}
`, echoGo(t)))
	r := start(t, nil, nil, "run", "--log-format", "json", "-c", config)
	r.awaitLog(t, "the token is ${env:SECRET_TOKEN}, the text is ${env:SECRET_TOKEN}")
	r.drain()
	r.wait(t)
	if strings.Contains(r.stderr.String(), "hunter2") {
		t.Errorf("it told the secret:\n%s", r.stderr)
	}
	wrong := writeConfig(t, "backends: [{name: a, launch: {command: [sh, -c, 'echo no ${env:SECRET_TOKEN} >&2; exit 3']}}]")
	got := runCommand(t, "", "list", "--plugin", "-c", wrong)
	if got.code != exitPlugin || strings.Contains(got.stderr, "hunter2") || !strings.Contains(got.stderr, "${env:SECRET_TOKEN}") {
		t.Errorf("it said %+v", got)
	}
}

// The revision to speak to a server is a name of an era or of a revision, which YAML would read as a date.
func TestRevisionOfServer(t *testing.T) {
	for name, want := range map[string]bridge.Revision{
		"auto": bridge.NoRevision, "legacy": bridge.Rev20251125, "modern": bridge.Rev20260728,
		"2025-06-18": bridge.Rev20250618, `"2024-11-05"`: bridge.Rev20241105,
	} {
		file := filepath.Join(t.TempDir(), "mcpbridge.yaml")
		if err := os.WriteFile(file, []byte(`{version: 1, backends: [{name: a, mcp: {url: "https://example.com/mcp", revision: `+name+`}}]}`), 0o600); err != nil {
			t.Fatal(err)
		}
		l, err := load(file, nil, nil, map[string]string{})
		if err != nil {
			t.Fatal(err)
		}
		if err := l.validate(); err != nil {
			t.Error(err)
		}
		if got, ok := l.Backends[0].MCP.revision(); !ok || got != want {
			t.Errorf("revision %s is %v", name, got)
		}
	}
}

func TestServersOfOtherClients(t *testing.T) {
	name := filepath.Join(t.TempDir(), "mcp.json")
	text := `{
	// what editors write
	"inputs": [],
	"servers": {
		"my tools!": {"type": "stdio", "command": "npx", "args": ["-y", "server", "${HOME}"], "env": {"A": "${env:B}", "C": "${D:-e}", "F": "\ud83d\ude00 \\ud83d a\/b"}, "autoApprove": ["x"]},
		"web": {"type": "http", "url": "https://example.com/mcp", "headers": {"Authorization": "Bearer ${TOKEN}"}},
		"off": {"command": "off", "disabled": true}, /* trailing comma */
	},
}`
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := load(name, []string{"HOME=/home/ada", "B=b", "TOKEN=t0ken-t0ken"}, nil, map[string]string{})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.validate(); err != nil {
		t.Error(err)
	}
	want := []BackendConfig{
		{Name: "my-tools", MCP: &MCPConfig{
			Command: []string{"npx", "-y", "server", "/home/ada"}, Dir: workingDir(), Env: map[string]string{"A": "b", "C": "e", "F": "\U0001F600 \\ud83d a/b"},
		}},
		{Name: "web", MCP: &MCPConfig{URL: "https://example.com/mcp", Headers: map[string]string{"Authorization": "Bearer t0ken-t0ken"}}},
	}
	if !reflect.DeepEqual(l.Backends, want) {
		t.Errorf("it was read as %+v", l.Backends)
	}
	warnings := strings.Join(l.file.warnings, "\n")
	for _, w := range []string{":3:2: ignoring inputs", ":5:3: the server \"my tools!\" is called \"my-tools\" here", ": ignoring autoApprove of my tools!"} {
		if !strings.Contains(warnings, w) {
			t.Errorf("it does not warn %q:\n%s", w, warnings)
		}
	}
	if err := l.only("wep"); err == nil || asProblem(err).Fix != "did you mean web?" {
		t.Errorf("it found wep: %v", err)
	}
	if err := l.only("web"); err != nil || l.where("backends.0.mcp.url") != name+":6:34" {
		t.Errorf("%v, and its url is at %s", err, l.where("backends.0.mcp.url"))
	}
}

// What editors put in place of their own variables, mcpbridge does, too; what they ask their users for, it cannot know.
func TestServersOfEditors(t *testing.T) {
	t.Setenv("HOME", "/home/ada")
	folder := filepath.Join(t.TempDir(), "project")
	read := func(dir, server string) (*loaded, error) {
		t.Helper()
		name := filepath.Join(folder, dir, "mcp.json")
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(`{"servers": {"a": `+server+`}}`), 0o600); err != nil {
			t.Fatal(err)
		}
		return load(name, []string{"TOKEN=t"}, nil, map[string]string{})
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
		if w := strings.Join(l.file.warnings, "\n"); !strings.Contains(w, "ignoring envFile of a") || !strings.Contains(w, "name them in env") {
			t.Errorf("it warns %q", w)
		}
	}
	for server, want := range map[string]string{
		`{"url": "https://example.com", "headers": {"Authorization": "Bearer ${input:key}"}}`: "an editor asks its user for ${input:key}",
		`{"command": "x", "args": ["${command:pick}"]}`:                                       "an editor asks its user for ${command:pick}",
		`{"command": "x", "args": ["${file}"]}`:                                               "environment variable file is not set",
		`{"type": "websocket", "url": "wss://example.com"}`:                                   `there is no type "websocket"`,
		`{"type": 1, "url": "https://example.com"}`:                                           `there is no type "1"`,
	} {
		if _, err := read(".vscode", server); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(asProblem(err).Where, "mcp.json:1:") {
			t.Errorf("%s: %v, want %q", server, err, want)
		}
	}
	for _, name := range []string{"http", "sse", "streamableHttp", "streamable-http", "local"} {
		if _, err := read(".vscode", `{"type": "`+name+`", "url": "https://example.com"}`); err != nil {
			t.Error(err)
		}
	}
}

// What is written to be read is not left out.
func TestFilesAreReadWhole(t *testing.T) {
	const backend = "version: 1\nbackends: [{name: a, dial: 'unix:///x'}]\n"
	for text, want := range map[string]string{
		backend + "---\nlimits: {calls: 1}\n":     "mcpbridge.yaml:4: the configuration is two documents",
		backend + "---\nlimits: [\n":              "mcpbridge.yaml: the configuration is two documents",
		backend + "---\n":                         "",
		"---\n" + backend + "...\n":               "",
		backend + "name: 'x${env:A'\n":            "mcpbridge.yaml:3:7: there is a ${env: without its }",
		backend + "name: '${env:A}${env:A'\n":     "there is a ${env: without its }",
		backend + "name: '$${env:A'\n":            "",
		backend + "name: 'a$${env:A}b${env:A}'\n": "",
	} {
		name := filepath.Join(t.TempDir(), "mcpbridge.yaml")
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := load(name, []string{"A=b"}, nil, nil)
		got := ""
		if err != nil {
			p := asProblem(err)
			got = filepath.Base(p.Where) + ": " + p.What
		}
		if want == "" && err != nil || !strings.Contains(got, want) {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

// FuzzConfig reads any file: it is a configuration, or an error, and never anything else.
func FuzzConfig(f *testing.F) {
	bridgetest.SkipIfShort(f)
	for _, s := range []string{
		"", "version: 1\nbackends: [{name: a, launch: {command: [x]}}]\n", "version: 1\nversion: 1\n", "{", "a: &a [*a]", "limits: {body: -1}",
		"version: 1\nlimits: {callIdle: -1s}\nbackends: [{dial: \"unix:///x\"}]\n", "backends: {}", "version: ${env:X}", "\xff\xfe", "- 1", "!!binary x",
	} {
		f.Add([]byte(s))
	}
	name := filepath.Join(f.TempDir(), "mcpbridge.yaml")
	file, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { file.Close() })
	fuzzing.Run(f, func(t *testing.T, data []byte) {
		// To write a file anew has it written to the disk, which takes longer than all the rest.
		_, err := file.WriteAt(data, 0)
		if err := errors.Join(err, file.Truncate(int64(len(data)))); err != nil {
			t.Fatal(err)
		}
		l, err := load(name, nil, nil, nil)
		if err != nil {
			if asProblem(err).Exit != exitConfig {
				t.Fatalf("%q: %v", data, err)
			}
			return
		}
		if err := l.validate(); err == nil && (l.Version != 1 || len(l.Backends) == 0) {
			t.Fatalf("%q is a configuration", data)
		}
	})
}
