package plugin

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
)

// Files of a killed bridge are removed at the next start, and no others.
func TestFilesOfKilledBridgesAreRemoved(t *testing.T) {
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
		old := time.Now().Add(-2 * minLeftoverAge)
		if err := os.Chtimes(dir, old, old); err != nil {
			t.Fatal(err)
		}
	}
	used, left, young := newDir(), newDir(), newDir()
	for _, d := range []*runDir{left, young} {
		if err := d.lock.Close(); err != nil { // as at the end of the process
			t.Fatal(err)
		}
	}
	elsewhere := filepath.Join(base, "elsewhere")
	link := filepath.Join(base, runDirPrefix+"link")
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
		t.Error("the directory exists after its removal")
	}
}

// If temporary files cannot be created, the error contains a fix. A file in place of the directory is an error for root
// too.
func TestNoTemporaryFiles(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, base := range []string{file, filepath.Join(t.TempDir(), "missing")} {
		t.Setenv("TMPDIR", base)
		if _, err := newRunDir(); err == nil || !strings.Contains(err.Error(), "temporary files, "+base+", ") ||
			!strings.Contains(err.Error(), "set TMPDIR") {
			t.Error(err)
		}
	}
}
