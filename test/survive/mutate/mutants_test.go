package main

import (
	"os"
	"path/filepath"
	"testing"
)

// Every mutant applies to the current source. Without this test, make mutate would fail only after minutes.
func TestMutantsApply(t *testing.T) {
	t.Parallel()
	if len(mutants) < 20 {
		t.Errorf("got %d mutants, want at least 20", len(mutants))
	}
	for _, m := range mutants {
		text, err := os.ReadFile(filepath.Join("../../..", filepath.FromSlash(m.file)))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := m.apply(text); err != nil {
			t.Errorf("%s: got %v, want no error", m.name, err)
		}
	}
}
