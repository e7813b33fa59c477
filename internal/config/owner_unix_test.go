//go:build unix

package config

import (
	"io/fs"
	"os"
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

// A user who can write the file can run commands as this user, send its tokens anywhere, and disable authentication.
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
