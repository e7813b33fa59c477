package bridge_test

import (
	"fmt"
	"go/ast"
	"os"
	"strings"
	"testing"
)

// The maximum sizes of written Go code without tests. sizes.txt lists what is larger, and may only shrink.
const (
	maxFile   = 500 // lines
	maxFunc   = 80  // lines between its braces
	maxStruct = 15  // fields
)

func TestSizes(t *testing.T) {
	text, err := os.ReadFile("sizes.txt")
	if err != nil {
		t.Fatal(err)
	}
	allowed := map[string]int{}
	for line := range strings.Lines(string(text)) {
		i := strings.LastIndex(line, " ")
		var n int
		if _, err := fmt.Sscan(line[i:], &n); err != nil {
			t.Fatalf("sizes.txt: %q: %v", line, err)
		}
		allowed[line[:i]] = n
	}
	check := func(what string, size, most int) {
		known, ok := allowed[what]
		delete(allowed, what)
		switch {
		case size > most && !ok:
			t.Errorf("%s has %d, more than %d: split it by what its parts do", what, size, most)
		case size > most && size > known:
			t.Errorf("%s has %d, more than the %d of sizes.txt: what is listed there may only shrink", what, size,
				known)
		case size <= most && ok:
			t.Errorf("%s has only %d: remove its line from sizes.txt", what, size)
		}
	}
	for _, f := range goFiles(t) {
		generated := strings.Contains(f.name, "/gen/")
		product := strings.HasPrefix(f.name, "bridge/") || strings.HasPrefix(f.name, "internal/") ||
			strings.HasPrefix(f.name, "cmd/") || strings.HasPrefix(f.name, "sdkgen/go/")
		if !product || generated || strings.HasSuffix(f.name, "_test.go") {
			continue
		}
		line := func(n ast.Node) int { return f.set.Position(n.Pos()).Line }
		check("file "+f.name, f.set.File(f.tree.Pos()).LineCount(), maxFile)
		ast.Inspect(f.tree, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				if n.Body != nil {
					check("func "+f.name+" "+n.Name.Name, f.set.Position(n.Body.Rbrace).Line-line(n.Body)-1, maxFunc)
				}
			case *ast.TypeSpec:
				s, ok := n.Type.(*ast.StructType)
				if !ok {
					break
				}
				fields := 0
				for _, field := range s.Fields.List {
					fields += max(1, len(field.Names))
				}
				check("struct "+f.name+" "+n.Name.Name, fields, maxStruct)
			}
			return true
		})
	}
	for what := range allowed {
		t.Errorf("%s does not exist: remove its line from sizes.txt", what)
	}
}
