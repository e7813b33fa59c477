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

// On a full disk, a file can be created but not written. A limit on the size of files has the same effect, in a process
// of its own, because go test writes files too.
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
	w := newFixture(t)
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
	w.mustSucceed(tr)
	w.mustSucceed(tr)
	w.revoke()
	w.mustSucceed(tr) // with the refresh token
	if log := w.log.String(); len(w.authRequests) != 1 || strings.Count(log, "in memory") != 1 {
		t.Errorf("got %d logins, log: %s", len(w.authRequests), log)
	}
	if left := must(filepath.Glob(filepath.Join(dir, "*.new"))); len(left) > 0 {
		t.Errorf("left over: %v", left)
	}
	restore()
	tr.Close() // writes them
	w.revoke()
	w.mustSucceed(w.transport(func(o *Options) { o.Dir, o.Browser = dir, nil }))
	if len(w.authRequests) != 1 {
		t.Errorf("got %d logins", len(w.authRequests))
	}
}
