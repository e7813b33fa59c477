//go:build !windows

package grpcserver

import (
	"io/fs"

	"golang.org/x/sys/unix"
)

// restrict sets the mode of a socket that has no file yet.
func restrict(fd uintptr, mode fs.FileMode) error { return unix.Fchmod(int(fd), uint32(mode.Perm())) }
