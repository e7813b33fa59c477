package child_test

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"github.com/mcpbridge/mcpbridge/internal/bridgetest"
	"github.com/mcpbridge/mcpbridge/internal/child"
)

// As the parent of orphans, this process leaves no zombies, and still gets the exit status of backends.
func TestOrphansAreReaped(t *testing.T) {
	bridgetest.SkipIfShort(t)
	if os.Getenv("ORPHANS") == "" { // in a process of its own, which starts no others
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestOrphansAreReaped$", "-test.v")
		cmd.Env = append(os.Environ(), "ORPHANS=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	died := make(chan os.Signal, 1)
	signal.Notify(died, unix.SIGCHLD)
	defer signal.Stop(died)
	go func() { child.ReapOrphans(ctx, died); close(done) }()
	log := zerolog.Nop()
	for range 20 {
		p := child.New([]string{"sh", "-c", "setsid sleep 0.05 & sleep 1000 & exit 7"}, "", &log)
		p.Env = os.Environ()
		discard := func(f *os.File) { _, _ = io.Copy(io.Discard, f) }
		p.Stdout, p.Stderr = discard, discard
		if err := p.Start(); err != nil {
			t.Fatal(err)
		}
		<-p.Context().Done()
		p.Finish()
		if reason := p.ExitReason(); !strings.Contains(reason, "7") {
			t.Errorf("got %q, want exit status 7", reason)
		}
	}
	tick := time.NewTicker(10 * time.Millisecond) // the system does not notify of reaped processes
	defer tick.Stop()
	for n := 0; len(children(t)) > 0; n++ {
		if <-tick.C; n > 2000 {
			t.Fatalf("got the children %q, want none", children(t))
		}
	}
	cancel()
	<-done
}

// children returns the stat lines of the children of this process.
func children(t *testing.T) (found []string) {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range stats {
		stat, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		after := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		if len(after) > 1 && after[1] == strconv.Itoa(os.Getpid()) {
			found = append(found, string(stat))
		}
	}
	return found
}
