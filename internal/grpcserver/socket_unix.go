//go:build !windows

package grpcserver

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// restrict sets the mode of a socket before it has a file.
func restrict(fd uintptr, mode fs.FileMode) error { return unix.Fchmod(int(fd), uint32(mode.Perm())) }

const (
	// lockWithin is the maximum time to wait for the lock of the directory, and lockAgain the polling interval.
	lockWithin   = 2 * time.Second
	lockInterval = 5 * time.Millisecond
)

// lock prevents other bridges from changing the sockets in the directory of a path, until the returned function is
// called.
func lock(ctx context.Context, path string) (unlock func(), err error) {
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, lockWithin)
	defer cancel()
	for {
		err := unix.Flock(int(dir.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { dir.Close() }, nil // which unlocks it
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			dir.Close()
			return nil, fmt.Errorf("lock %s: %w", dir.Name(), err)
		}
		select {
		case <-time.After(lockInterval):
		case <-ctx.Done():
			dir.Close()
			return nil, fmt.Errorf("lock %s, which another process holds: %w", dir.Name(), ctx.Err())
		}
	}
}
