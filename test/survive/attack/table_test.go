package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Every test that a row names exists. Without this test, only make test-attack would detect renamed tests.
func TestRowsNameExistingTests(t *testing.T) {
	table, err := load(attacks)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range table.Rows {
		for _, test := range row.Tests {
			pkg, name, _ := strings.Cut(test, " ")
			name, _, _ = strings.Cut(name, "/")
			if !defines(t, pkg, name) {
				t.Errorf("%s: package %s has no %s", row.ID, pkg, name)
			}
		}
	}
}

// defines reports whether a package of the main module has a test.
func defines(t *testing.T, pkg, name string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("../../..", filepath.FromSlash(pkg), "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(text, []byte("func "+name+"(")) {
			return true
		}
	}
	return false
}
