package plugin

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/mcpbridge/mcpbridge/internal/bridgetest"
)

// When a bridge is killed, its plugins and their child processes are killed without any action of theirs, including
// processes that left the process group (setsid).
func TestKilledBridgeLeavesNoProcesses(t *testing.T) {
	bridgetest.SkipIfShort(t)
	for _, mode := range []string{"grandchild", "daemon"} {
		t.Run(mode, func(t *testing.T) {
			var worst time.Duration
			for range 10 {
				child, grandchild, began := killBridge(t, mode)
				gone(t, child)
				gone(t, grandchild)
				worst = max(worst, time.Since(began))
			}
			t.Logf("all gone after %v at worst", worst)
		})
	}
}

// killBridge kills a bridge whose plugin has started a process. It returns the two process IDs and the time of the
// kill.
func killBridge(t *testing.T, mode string) (child, grandchild int, began time.Time) {
	t.Helper()
	dir := t.TempDir() // a killed bridge cannot remove its sockets
	pids := filepath.Join(dir, "pids")
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), "PLUGIN_TEST_BRIDGE="+rogue, "PLUGIN_TEST_MODE="+mode, "PIDS="+pids, "TMPDIR="+dir)
	c.Stderr = os.Stderr
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Fatalf("%q, %v", line, err)
	}
	child, grandchild = started(t, pids)
	began = time.Now()
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = c.Wait()
	return child, grandchild, began
}
