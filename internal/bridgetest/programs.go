package bridgetest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A Program is the contract kit in one language, as a backend that can be launched.
type Program struct {
	Language string
	command  []string // paths in the repository start with ROOT
	needs    string   // a file below ROOT that must have been built
	made     string   // the command that builds it
}

// Programs returns all kits. A new language is one row. docs/verify.md describes their tools.
func Programs() []Program {
	return []Program{
		{Language: "go", command: []string{"ROOT/examples/kit-go"}},
		{
			Language: "python", command: []string{"ROOT/.venv/bin/python", "ROOT/examples/kit-python/kit.py"},
			needs: ".venv/bin/python", made: "make setup",
		},
		{
			Language: "typescript", command: []string{"node", "ROOT/examples/kit-typescript/dist/kit.js"},
			needs: "examples/kit-typescript/dist/kit.js", made: "make setup-typescript",
		},
		{
			Language: "java", command: []string{"java", "-jar", "ROOT/examples/kit-java/target/kit-java.jar"},
			needs: "examples/kit-java/target/kit-java.jar", made: "make setup-java",
		},
	}
}

// Command returns the program's command line. It builds a Go program; the others must be built before.
func (p Program) Command(t *testing.T) []string {
	t.Helper()
	root := root(t)
	if p.needs != "" {
		if _, err := os.Stat(filepath.Join(root, p.needs)); err != nil {
			t.Fatalf("the kit in %s: %v; run: %s", p.Language, err, p.made)
		}
	}
	var command []string
	for _, word := range p.command {
		if below, ok := strings.CutPrefix(word, "ROOT/"); ok {
			word = filepath.Join(root, below)
		}
		command = append(command, word)
	}
	if p.Language == "go" {
		out := filepath.Join(t.TempDir(), filepath.Base(command[0]))
		build := exec.CommandContext(t.Context(), "go", "build", "-o", out, command[0])
		build.Dir = root
		if text, err := build.CombinedOutput(); err != nil {
			t.Fatalf("the kit in %s: %v\n%s", p.Language, err, text)
		}
		command[0] = out
	}
	return command
}

// root returns the directory of the repository.
func root(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		if filepath.Dir(dir) == dir {
			t.Fatal("there is no go.mod in the directories above: run the test in the repository")
		}
		dir = filepath.Dir(dir)
	}
}
