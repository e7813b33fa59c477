package bridgetest

import (
	"os"
	"regexp"
	"testing"
)

// ComparePart compares the part of a page between two marks with want, or replaces it by want if UPDATE_DOCS is set.
func ComparePart(t *testing.T, page, name, want string) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	part := regexp.MustCompile(`(?s)(<!-- ` + name + `:[^\n]*-->\n)(.*?)(<!-- /` + name + ` -->)`)
	m := part.FindSubmatchIndex(text)
	if m == nil {
		t.Fatalf("%s has no part %q", page, name)
	}
	if got := string(text[m[4]:m[5]]); got == want {
		return
	}
	if os.Getenv("UPDATE_DOCS") == "" {
		t.Fatalf("%s: the part %q is outdated; UPDATE_DOCS=1 replaces it with:\n%s", page, name, want)
	}
	updated := string(text[:m[4]]) + want + string(text[m[5]:])
	if err := os.WriteFile(page, []byte(updated), 0o600); err != nil { //nolint:gosec // it keeps its mode
		t.Fatal(err)
	}
}

// Fenced returns the code after each mark `<!-- test: NAME -->` of a page, by its name.
func Fenced(t *testing.T, page string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, m := range regexp.MustCompile("(?s)<!-- test: (.*?) -->\n```[a-z]*\n(.*?)```").
		FindAllStringSubmatch(string(text), -1) {
		found[m[1]] = m[2]
	}
	return found
}
