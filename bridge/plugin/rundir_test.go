package plugin

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rs/zerolog"
)

// What is left by a bridge that was killed goes when the next one starts, and nothing else.
func TestWhatKilledBridgesLeaveIsRemoved(t *testing.T) {
	base := t.TempDir()
	t.Setenv("TMPDIR", base)
	log := zerolog.Nop()
	newDir := func() *runDir {
		t.Helper()
		d, err := newRunDir()
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(d.path, "key-pair.pem"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		return d
	}
	age := func(dir string) {
		t.Helper()
		old := time.Now().Add(-2 * leftFor)
		if err := os.Chtimes(dir, old, old); err != nil {
			t.Fatal(err)
		}
	}
	used, left, young := newDir(), newDir(), newDir()
	for _, d := range []*runDir{left, young} {
		if err := d.lock.Close(); err != nil { // as when the process ends
			t.Fatal(err)
		}
	}
	elsewhere := filepath.Join(base, "elsewhere")
	link := filepath.Join(base, runDirs+"link")
	if err := os.MkdirAll(elsewhere, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(elsewhere, lockFile), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(elsewhere, link); err != nil {
		t.Fatal(err)
	}
	age(used.path)
	age(left.path)
	age(elsewhere)
	sweep(&log)
	for dir, want := range map[string]bool{used.path: true, left.path: false, young.path: true, elsewhere: true} {
		if _, err := os.Stat(dir); (err == nil) != want {
			t.Errorf("%s is there: %v", dir, err == nil)
		}
	}
	if err := used.remove(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(used.path); err == nil {
		t.Error("it is there after it was removed")
	}
}
