//go:build unix

package oauth

import (
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// On a full disk a file can be created, but not written. Here the process may write no files, which needs no file
// system of its own, but a process: go test writes files meanwhile.
func TestFileCanBeCreatedButNotWritten(t *testing.T) {
	const own = "MCPBRIDGE_TEST_OWN_PROCESS"
	if os.Getenv(own) == "" {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestFileCanBeCreatedButNotWritten$")
		cmd.Env = append(os.Environ(), own+"=1")
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "PASS") {
			t.Errorf("%v: %s", err, out)
		}
		return
	}
	w := newWorld(t)
	dir := filepath.Join(t.TempDir(), "c")
	tr := w.transport(func(o *Options) { o.Dir = dir })
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		t.Fatal(err)
	}
	none := limit
	none.Cur = 0
	signal.Ignore(syscall.SIGXFSZ)
	defer signal.Reset(syscall.SIGXFSZ)
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &none); err != nil {
		t.Fatal(err)
	}
	restore := func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
			t.Fatal(err)
		}
	}
	defer restore()
	w.works(tr)
	w.works(tr)
	w.revoke()
	w.works(tr) // by the refresh token
	if log := w.log.String(); len(w.asked) != 1 || strings.Count(log, "kept in memory") != 1 {
		t.Errorf("%d logins, and the log says: %s", len(w.asked), log)
	}
	if left := must(filepath.Glob(filepath.Join(dir, "*.new"))); len(left) > 0 {
		t.Errorf("left over: %v", left)
	}
	restore()
	tr.Close() // writes them
	w.revoke()
	w.works(w.transport(func(o *Options) { o.Dir, o.Browser = dir, nil }))
	if len(w.asked) != 1 {
		t.Errorf("%d logins", len(w.asked))
	}
}
