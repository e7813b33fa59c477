package bridge_test

import (
	"go/ast"
	"go/types"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/go/packages"
)

// layered are the packages whose files are layers: a file uses functions and types of files below it only.
var layered = []string{
	"cmd/mcpbridge", "internal/clientcmd", "internal/app", "internal/config", "internal/problem", "internal/signature",
	"internal/terminal",
}

func TestFilesAreLayers(t *testing.T) {
	for _, p := range loadModule(t) {
		if !slices.Contains(layered, pathInModule(p.PkgPath)) || p.ID != p.PkgPath {
			continue // tests are not layered
		}
		uses := fileUses(p)
		state := map[string]int{} // 1: on the path, 2: done
		var visit func(path []string)
		visit = func(path []string) {
			at := path[len(path)-1]
			state[at] = 1
			for _, next := range slices.Sorted(maps.Keys(uses[at])) {
				switch state[next] {
				case 0:
					visit(append(slices.Clone(path), next))
				case 1:
					cycle := append(slices.Clone(path[slices.Index(path, next):]), next)
					t.Errorf("%s: files use each other in a cycle: %s; %s uses %s of %s.\n  why not: a reader has "+
						"no file to begin with\n"+
						"  fix: move a declaration to a file below both", pathInModule(p.PkgPath),
						strings.Join(cycle, ", "),
						at, uses[at][next], next)
				}
			}
			state[at] = 2
		}
		for _, file := range slices.Sorted(maps.Keys(uses)) {
			if state[file] == 0 {
				visit([]string{file})
			}
		}
	}
}

// fileUses returns an example of what each file of a package uses of each other one. Fields and receivers do not count.
func fileUses(p *packages.Package) map[string]map[string]string {
	uses := map[string]map[string]string{}
	for _, f := range p.Syntax {
		from := filepath.Base(p.Fset.Position(f.Pos()).Filename)
		uses[from] = map[string]string{}
		ast.Inspect(f, func(n ast.Node) bool {
			id, ok := n.(*ast.Ident)
			if !ok {
				return true
			}
			obj := p.TypesInfo.Uses[id]
			if obj == nil || obj.Pkg() != p.Types || isReceiver(f, id) {
				return true
			}
			if v, ok := obj.(*types.Var); ok && v.IsField() {
				return true
			}
			if to := filepath.Base(p.Fset.Position(obj.Pos()).Filename); to != from && strings.HasSuffix(to, ".go") {
				uses[from][to] = obj.Name()
			}
			return true
		})
	}
	return uses
}

// isReceiver reports whether an identifier is in the receiver of a method.
func isReceiver(f *ast.File, id *ast.Ident) bool {
	return slices.ContainsFunc(f.Decls, func(d ast.Decl) bool {
		m, ok := d.(*ast.FuncDecl)
		return ok && m.Recv != nil && m.Recv.Pos() <= id.Pos() && id.Pos() < m.Recv.End()
	})
}
