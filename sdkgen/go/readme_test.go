package mcpbridge_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// A new user copies the programs of the README.
func TestProgramsOfTheReadmeAreRight(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	here, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	overlay := map[string]map[string]string{"Replace": {}}
	var packages []string
	program := ""
	for i, block := range regexp.MustCompile("(?s)```go\n(.*?)```").FindAllSubmatch(readme, -1) {
		n := strconv.Itoa(i)
		text, name := string(block[1]), "main.go"
		if !strings.Contains(text, "func main()") {
			name = "more.go" // It is about the program before.
		} else {
			program = filepath.Join(here, "readme"+n)
			packages = append(packages, "./readme"+n)
		}
		file := filepath.Join(dir, n+".go")
		if err := os.WriteFile(file, block[1], 0o600); err != nil {
			t.Fatal(err)
		}
		overlay["Replace"][filepath.Join(program, name)] = file
	}
	if len(packages) < 3 {
		t.Fatalf("the README has %d programs", len(packages))
	}
	text, _ := json.Marshal(overlay)
	name := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(name, text, 0o600); err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(dir, "bin") + string(filepath.Separator)
	if out, err := exec.Command("go", append([]string{"build", "-overlay", name, "-o", bin}, packages...)...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, p := range packages {
		// Definitions that are wrong are said first.
		out, err := exec.Command(filepath.Join(dir, "bin", filepath.Base(p))).CombinedOutput()
		if !strings.Contains(string(out), "is a set of tools for mcpbridge") {
			t.Errorf("%s: %v: %s", p, err, out)
		}
	}
}
