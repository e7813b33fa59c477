//go:build unix

package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A fileInfo is what a file with an owner and a mode is.
type fileInfo struct {
	uid  uint32
	mode fs.FileMode
}

func (fileInfo) Name() string        { return "mcpbridge.yaml" }
func (fileInfo) Size() int64         { return 0 }
func (f fileInfo) Mode() fs.FileMode { return f.mode }
func (fileInfo) ModTime() time.Time  { return time.Time{} }
func (fileInfo) IsDir() bool         { return false }
func (f fileInfo) Sys() any          { return &syscall.Stat_t{Uid: f.uid} }

// Whoever can write the file can run anything as this user, send its tokens anywhere, and let in anybody.
func TestOwnerOfTheFile(t *testing.T) {
	me := uint32(os.Geteuid())
	for _, c := range []struct {
		fileInfo
		want string
	}{
		{fileInfo{me, 0o644}, ""},
		{fileInfo{0, 0o444}, ""},
		{fileInfo{me, 0o664}, "other users can write"},
		{fileInfo{me, 0o646}, "other users can write"},
		{fileInfo{me + 1000, 0o644}, "belongs to another user"},
	} {
		err := checkOwner("mcpbridge.yaml", c.fileInfo)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%+v: %v", c.fileInfo, err)
		}
	}
}

func TestFileThatOthersCouldHaveWritten(t *testing.T) {
	for name, text := range map[string]string{
		"a command":        "version: 1\nbackends: [{name: a, launch: {command: [x]}}]",
		"an address":       "version: 1\nbackends: [{name: a, dial: 'unix:///nowhere'}]",
		"a URL":            "version: 1\nbackends: [{name: a, mcp: {url: 'http://127.0.0.1:9/mcp', auth: {bearer: secret}}}]",
		"another client's": `{"mcpServers": {"a": {"url": "http://127.0.0.1:9/mcp", "headers": {"Authorization": "Bearer secret"}}}}`,
		"no configuration": "{",
	} {
		config := filepath.Join(t.TempDir(), "mcpbridge.yaml")
		if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(config, 0o666); err != nil { // whatever the umask
			t.Fatal(err)
		}
		for _, command := range []string{"run", "list"} {
			if got := runCommand(t, "", command, "-c", config); got.code != exitConfig || got.errorCode(t) != "config_writable" {
				t.Errorf("%s of %s said %+v", command, name, got)
			}
		}
	}
}
