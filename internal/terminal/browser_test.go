package terminal

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// Pages are opened with the program that BROWSER names, without a terminal and without a shell.
func TestBrowserOfTheEnvironment(t *testing.T) {
	dir := t.TempDir()
	program, page := filepath.Join(dir, "a browser"), `http://127.0.0.1/?a=$(id)&b='1'`
	if err := os.WriteFile(program, []byte("#!/bin/sh\nprintf %s \"$1\" >\"$0.log\"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer

	t.Setenv("BROWSER", "")
	if Login(&stderr) != nil {
		t.Error("there is a browser without a terminal and without BROWSER")
	}
	t.Setenv("BROWSER", program)
	if err := Login(&stderr)(t.Context(), page); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(program + ".log"); string(got) != page {
		t.Errorf("it opened %q (%v), want %q", got, err, page)
	}
	if stderr.Len() > 0 {
		t.Errorf("a log got %q", &stderr)
	}
	t.Setenv("BROWSER", filepath.Join(dir, "none"))
	if Login(&stderr)(t.Context(), page) == nil {
		t.Error("no error reports that the page was not opened")
	}
}
