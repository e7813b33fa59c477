package child

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

// started are the processes of this package that nobody has waited for yet. Whoever holds beginning for itself knows that there are no
// others of ours.
var (
	beginning sync.RWMutex
	started   sync.Map // of process ids
)

// BuryOrphans waits, until ctx ends, for those processes that are children of this one only because their parents have ended, as happens to
// the first process of a container: they would stay there as zombies. It looks when somebody has died. Whoever starts processes without this
// package must not call it.
func BuryOrphans(ctx context.Context, died <-chan os.Signal) {
	for {
		buryOrphans()
		select {
		case <-died:
		case <-ctx.Done():
			return
		}
	}
}

// buryOrphans waits for those that have ended.
func buryOrphans() {
	beginning.Lock()
	defer beginning.Unlock()
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		stat, err := os.ReadFile(path)
		if err != nil {
			continue // it has gone
		}
		// The name of the program is in brackets, and may have any character.
		fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		if len(fields) < 2 || string(fields[0]) != "Z" || string(fields[1]) != strconv.Itoa(os.Getpid()) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if _, ours := started.Load(pid); err == nil && !ours {
			_, _ = unix.Wait4(pid, nil, unix.WNOHANG, nil) // nobody else does
		}
	}
}
