//go:build unix

package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/mcpbridge/mcpbridge/internal/problem"
)

func TestConfigurationWritableByOthersIsRejected(t *testing.T) {
	for name, text := range map[string]string{
		"a command":  "version: 1\nbackends: [{name: a, launch: {command: [x]}}]",
		"an address": "version: 1\nbackends: [{name: a, dial: 'unix:///nowhere'}]",
		"a URL": "version: 1\nbackends: [{name: a, mcp: {url: 'http://127.0.0.1:9/mcp', auth: {bearer: " +
			"secret}}}]",
		"another client's": `{"mcpServers": {"a": {"url": "http://127.0.0.1:9/mcp", "headers": {"Authorization": "Bearer secret"}}}}`,
		"no configuration": "{",
	} {
		config := filepath.Join(t.TempDir(), "mcpbridge.yaml")
		if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(config, 0o666); err != nil { // regardless of the umask
			t.Fatal(err)
		}
		for _, command := range []string{"run", "list"} {
			if got := runCommand(t, "", command, "-c", config); got.code != problem.ExitConfig ||
				got.errorCode(t) != "config_writable" {
				t.Errorf("%s of %s: got %+v", command, name, got)
			}
		}
	}
}
