package plugin

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mcpbridge/mcpbridge/internal/bridgetest"
)

// A process that left the process group and ignores SIGTERM is killed with the plugin if cgroups are available.
// Otherwise it remains, which is logged.
func TestProcessOutsideTheGroupIsKilledWithThePlugin(t *testing.T) {
	pids := filepath.Join(t.TempDir(), "pids")
	r := run(t, Options{
		Command: []string{rogue, "ignore", "daemon"}, Env: []string{"PIDS=" + pids},
		StopTimeout: 300 * time.Millisecond,
	}).ready(t)
	child, daemon := started(t, pids)
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	gone(t, child)
	log, _ := r.log.Read()
	goneIfGathered(t, daemon, log)
}

// goneIfGathered checks that a process that left the process group is gone, unless the log reports that no cgroup is
// available.
func goneIfGathered(t *testing.T, pid int, log string) {
	t.Helper()
	if !strings.Contains(log, "there is no control group for the backend") {
		gone(t, pid)
	} else if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Errorf("without a cgroup, the process is gone: %v", err)
	}
}

func TestStoppedBackendIsRestarted(t *testing.T) {
	bridgetest.SkipIfShort(t)
	wantRestart(t, "stopped", func(pid int) error { return syscall.Kill(pid, syscall.SIGSTOP) },
		"its process is stopped (SIGSTOP)")
}
