//go:build unix

package plugin

import (
	"io/fs"
	"os"
	"syscall"
)

// ownedByUser reports whether a file belongs to this user.
func ownedByUser(info fs.FileInfo) bool {
	s, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(s.Uid) == os.Getuid()
}
