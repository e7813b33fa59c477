package main

import (
	"os"
	"path/filepath"
	"testing"
)

// What is released knows nothing of failpoints: they are comments until a copy is built in which they are not.
func TestOnlyTheCopyHasFailpoints(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	released := filepath.Join(dir, "released")
	if _, err := goTool(t.Context(), root, "build", "-o", released, "./cmd/mcpbridge"); err != nil {
		t.Fatal(err)
	}
	failing, points, err := buildFailing(t.Context(), root, filepath.Join(dir, "copy"))
	if err != nil {
		t.Fatal(err)
	}
	for program, want := range map[string]bool{released: false, failing: true} {
		if has, err := hasFailpoints(program); err != nil || has != want {
			t.Errorf("%s: failpoints: %v, want %v: %v", filepath.Base(program), has, want, err)
		}
	}
	if len(points) < 40 {
		t.Errorf("%d failpoints, want 40 or more", len(points))
	}
	seen := map[string]string{}
	for _, p := range points {
		if other := seen[p.name]; other != "" {
			t.Errorf("%s is the name of a failpoint in %s and in %s: begin it with its package", p.name, other, p.dir)
		}
		seen[p.name] = p.dir
		if _, ok := panicPoints[p.name]; !ok {
			t.Errorf("%s, in %s, is in no row of R15: add one to panicPoints", p.name, p.dir)
		}
	}
	for name := range panicPoints {
		if seen[name] == "" {
			t.Errorf("R15 has a row for %s, which is no failpoint", name)
		}
	}
	if _, err := os.Stat("../../internal/mcpserver/exchange.fail.go"); err == nil {
		t.Error("the failpoints were enabled in the source itself: `go tool gofail disable` it")
	}
}
