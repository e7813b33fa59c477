package main

import (
	"path/filepath"
	"testing"
)

// The released program has no failpoints, and the source has the line of each entry of panicPoints.
func TestOnlyTheCopyHasFailpoints(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	released := filepath.Join(dir, "released")
	if _, err := goTool(t.Context(), root, "build", "-o", released, "./cmd/mcpbridge"); err != nil {
		t.Fatal(err)
	}
	failing, err := buildFailing(t.Context(), root, filepath.Join(dir, "copy"))
	if err != nil {
		t.Fatal(err)
	}
	for program, want := range map[string]bool{released: false, failing: true} {
		if has, err := hasFailpoints(program); err != nil || has != want {
			t.Errorf("%s has failpoints: got %v, %v, want %v", filepath.Base(program), has, err, want)
		}
	}
}
