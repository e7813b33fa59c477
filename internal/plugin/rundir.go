package plugin

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/gofrs/flock"
	"github.com/rs/zerolog"
)

const (
	// runDirPrefix is the name pattern of the directories.
	runDirPrefix = "mcpb"
	// lockFile is locked while a directory is in use. If the bridge is killed, the kernel releases the lock and the
	// directory remains.
	lockFile = "lock"
	// minLeftoverAge is the minimum age of a leftover directory: a younger one may not be locked yet.
	minLeftoverAge = time.Minute
)

// A runDir is the directory for one process's socket and keys, which only this user can enter.
type runDir struct {
	path string
	lock *flock.Flock
}

// newRunDir creates a directory, with a name short enough for sockets.
func newRunDir() (*runDir, error) {
	var tooLong string
	for _, base := range runDirBases() {
		dir, err := os.MkdirTemp(base, runDirPrefix)
		if err != nil {
			return nil, fmt.Errorf("the directory for temporary files, %s, cannot hold the backend's socket: %w; "+
				"set TMPDIR to a directory that exists and can be written, such as an emptyDir",
				base, err)
		}
		if len(filepath.Join(dir, "plugin4294967295.sock")) >= maxSocketPath && runtime.GOOS != "windows" {
			_ = os.Remove(dir)
			tooLong = dir
			continue
		}
		d := &runDir{dir, flock.New(filepath.Join(dir, lockFile), flock.SetPermissions(0o600))}
		if err := d.lock.Lock(); err != nil {
			_ = os.RemoveAll(dir)
			return nil, fmt.Errorf("lock directory %s: %w", dir, err)
		}
		return d, nil
	}
	return nil, fmt.Errorf("directory %s: its name is too long for a socket in it; set TMPDIR to a shorter one",
		tooLong)
}

func runDirBases() []string { return []string{os.TempDir(), "/tmp"} }

// probe returns an error if a file cannot be written to the directory: programs report a socket that they cannot create
// in too many ways.
func (d *runDir) probe() error {
	file := filepath.Join(d.path, "probe")
	err := os.WriteFile(file, make([]byte, 4<<10), 0o600)
	_ = os.Remove(file)
	return err
}

// remove removes the directory with its content.
func (d *runDir) remove() error {
	err := os.RemoveAll(d.path)
	if unlockErr := d.lock.Close(); err == nil {
		err = unlockErr
	}
	return err
}

// sweep removes the directories of this user's bridges that were killed.
func sweep(log *zerolog.Logger) {
	for _, base := range runDirBases() {
		found, err := filepath.Glob(filepath.Join(base, runDirPrefix+"*", lockFile))
		if err != nil {
			continue // the base has brackets in its name
		}
		for _, file := range found {
			dir := filepath.Dir(file)
			info, err := os.Lstat(dir)
			if err != nil || !info.IsDir() || info.Mode().Perm() != 0o700 || !ownedByUser(info) ||
				time.Since(info.ModTime()) < minLeftoverAge {
				continue
			}
			d := &runDir{dir, flock.New(file)}
			if free, err := d.lock.TryLock(); err != nil || !free {
				continue // it is in use, or another bridge removes it
			}
			if err := d.remove(); err != nil {
				log.Debug().Err(err).Str("dir", dir).Msg("cannot remove the directory of a killed bridge")
				continue
			}
			log.Info().Str("dir", dir).Msg("removed the directory of a killed bridge")
		}
	}
}
