package verify_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/mcpbridge/mcpbridge/internal/verify"
)

// docs/verify.md has every check.
func TestPageHasEveryCheck(t *testing.T) {
	const page = "../../docs/verify.md"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var want strings.Builder
	for _, c := range verify.Checks() {
		fmt.Fprintf(&want, "| `%s` | %s | %s |\n", c.Name, c.Needs, c.Does)
	}
	const begin, end = "| check | needs | a backend that passes |\n|---|---|---|\n", "\n## Starting"
	before, rest, ok := strings.Cut(string(text), begin)
	table, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no table of checks", page)
	}
	if table == want.String() {
		return
	}
	if os.Getenv("UPDATE_DOCS") == "" {
		t.Fatalf("the table of checks in %s is outdated; run: UPDATE_DOCS=1 go test ./internal/verify -run Page", page)
	}
	if err := os.WriteFile(page, []byte(before+begin+want.String()+end+after), 0o644); err != nil {
		t.Fatal(err)
	}
}
