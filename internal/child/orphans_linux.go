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

// children are the processes of this package that have not been reaped yet. A write lock of startMu guarantees that no
// other is being started.
var (
	startMu  sync.RWMutex
	children sync.Map // *exec.Cmd by process ID
)

// ReapOrphans reaps processes that became children of the bridge because their parents ended, until ctx ends. PID 1 of
// a container must do this: they would stay zombies. sigchld receives SIGCHLD. Programs that start processes without
// this package must not call ReapOrphans.
func ReapOrphans(ctx context.Context, sigchld <-chan os.Signal) {
	for {
		reapOrphans()
		select {
		case <-sigchld:
		case <-ctx.Done():
			return
		}
	}
}

func reapOrphans() {
	startMu.Lock()
	defer startMu.Unlock()
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		stat, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		// The name of the program is in parentheses, and may contain any character.
		fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		if len(fields) < 2 || string(fields[0]) != "Z" || string(fields[1]) != strconv.Itoa(os.Getpid()) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if _, ours := children.Load(pid); err == nil && !ours {
			_, _ = unix.Wait4(pid, nil, unix.WNOHANG, nil)
		}
	}
}
