package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/bridgetest"
	"github.com/mcpbridge/mcpbridge/internal/bridgetest/fuzzing"
	"github.com/mcpbridge/mcpbridge/internal/problem"
)

// The revision to speak to a server is a name of an era or of a revision, which YAML would read as a date.
func TestRevisionOfServer(t *testing.T) {
	for name, want := range map[string]bridge.Revision{
		"auto": bridge.NoRevision, "legacy": bridge.Rev20251125, "modern": bridge.Rev20260728,
		"2025-06-18": bridge.Rev20250618, `"2024-11-05"`: bridge.Rev20241105,
	} {
		file := filepath.Join(t.TempDir(), "mcpbridge.yaml")
		if err := os.WriteFile(file,
			[]byte(`{version: 1, backends: [{name: a, mcp: {url: "https://example.com/mcp", revision: `+name+`}}]}`),
			0o600); err != nil {
			t.Fatal(err)
		}
		l, err := Load(file, nil, nil, map[string]string{})
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Validate(); err != nil {
			t.Error(err)
		}
		if got, ok := l.Backends[0].MCP.ParseRevision(); !ok || got != want {
			t.Errorf("revision %s is %v", name, got)
		}
	}
}

// Every part of a file is read, or is an error.
func TestConfigurationFilesAreReadCompletely(t *testing.T) {
	const backend = "version: 1\nbackends: [{name: a, dial: 'unix:///x'}]\n"
	for text, want := range map[string]string{
		backend + "---\nlimits: {calls: 1}\n":     "mcpbridge.yaml:4: the configuration is two documents",
		backend + "---\nlimits: [\n":              "mcpbridge.yaml: the configuration is two documents",
		backend + "---\n":                         "",
		"---\n" + backend + "...\n":               "",
		backend + "name: 'x${env:A'\n":            "mcpbridge.yaml:3:7: ${env: has no closing }",
		backend + "name: '${env:A}${env:A'\n":     "${env: has no closing }",
		backend + "name: '$${env:A'\n":            "",
		backend + "name: 'a$${env:A}b${env:A}'\n": "",
	} {
		name := filepath.Join(t.TempDir(), "mcpbridge.yaml")
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Load(name, []string{"A=b"}, nil, nil)
		got := ""
		if err != nil {
			p := problem.Of(err)
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
		"", "version: 1\nbackends: [{name: a, launch: {command: [x]}}]\n", "version: 1\nversion: 1\n", "{",
		"a: &a [*a]", "limits: {body: -1}",
		"version: 1\nlimits: {callIdle: -1s}\nbackends: [{dial: \"unix:///x\"}]\n", "backends: {}", "version: ${env:X}",
		"\xff\xfe", "- 1", "!!binary x",
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
		l, err := Load(name, nil, nil, nil)
		if err != nil {
			if problem.Of(err).Exit != problem.ExitConfig {
				t.Fatalf("%q: %v", data, err)
			}
			return
		}
		if err := l.Validate(); err == nil && (l.Version != 1 || len(l.Backends) == 0) {
			t.Fatalf("%q is a configuration", data)
		}
	})
}
