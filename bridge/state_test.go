package bridge_test

import (
	"go/ast"
	"go/types"
	"slices"
	"strings"
	"testing"
)

// processWide are the variables below the command that change and are meant to be of the process.
var processWide = map[string]string{
	"internal/child.startMu":  "the system has one table of child processes for a process",
	"internal/child.children": "the system has one table of child processes for a process",
}

func TestNothingBelowTheCommandIsOfTheProcess(t *testing.T) {
	const why = "two bridges in a process, or two tests, must not change one another"
	const fix = "make it a field of what has it, and give it to others by their Options"
	found := map[string]bool{}
	for _, p := range loadModule(t) {
		path := pathInModule(p.PkgPath)
		if !isBelow(path, []string{"bridge", "internal"}) || isBelow(path, []string{"internal/bridgetest"}) {
			continue
		}
		global := func(e ast.Expr) *types.Var {
			for {
				switch x := e.(type) {
				case *ast.SelectorExpr:
					e = x.X
				case *ast.IndexExpr:
					e = x.X
				case *ast.StarExpr:
					e = x.X
				case *ast.ParenExpr:
					e = x.X
				case *ast.Ident:
					v, ok := p.TypesInfo.Uses[x].(*types.Var)
					if !ok || v.Pkg() != p.Types || v.Parent() != p.Types.Scope() {
						return nil
					}
					return v
				default:
					return nil
				}
			}
		}
		changed := func(v *types.Var) {
			name := path + "." + v.Name()
			if found[name] || strings.HasSuffix(p.Fset.Position(v.Pos()).Filename, "_test.go") {
				return
			}
			found[name] = true
			if processWide[name] == "" {
				t.Errorf("%s: %s changes while the process runs: %s.\n  fix: %s", p.Fset.Position(v.Pos()), name, why,
					fix)
			}
		}
		for _, name := range p.Types.Scope().Names() {
			if v, ok := p.Types.Scope().Lookup(name).(*types.Var); ok && holdsState(v.Type()) {
				changed(v)
			}
		}
		for _, file := range p.Syntax {
			if strings.HasSuffix(p.Fset.Position(file.Pos()).Filename, "_test.go") {
				continue
			}
			ast.Inspect(file, func(n ast.Node) bool {
				var all []ast.Expr
				switch n := n.(type) {
				case *ast.AssignStmt:
					all = n.Lhs
				case *ast.IncDecStmt:
					all = []ast.Expr{n.X}
				case *ast.CallExpr:
					if name, ok := n.Fun.(*ast.Ident); ok && (name.Name == "delete" || name.Name == "clear") {
						all = n.Args[:1]
					}
				}
				for _, e := range all {
					if v := global(e); v != nil {
						changed(v)
					}
				}
				return true
			})
		}
	}
	for name := range processWide {
		if !found[name] {
			t.Errorf("%s is no variable that changes: delete its exception", name)
		}
	}
}

// holdsState reports whether a variable of a type is made to be changed: it has a lock, an atomic, a sync.Map or a
// channel.
func holdsState(of types.Type) bool {
	if p, ok := of.(*types.Pointer); ok {
		of = p.Elem()
	}
	if named, ok := of.(*types.Named); ok && named.Obj().Pkg() != nil {
		switch path := named.Obj().Pkg().Path(); path {
		case "sync/atomic":
			return true
		case "sync":
			return slices.Contains([]string{"Map", "Mutex", "RWMutex", "WaitGroup"}, named.Obj().Name())
		default:
			if !strings.HasPrefix(path, module) {
				return false // what the standard library keeps inside is its own
			}
		}
	}
	switch u := of.Underlying().(type) {
	case *types.Chan:
		return true
	case *types.Struct:
		for f := range u.Fields() {
			if _, pointer := f.Type().(*types.Pointer); !pointer && holdsState(f.Type()) {
				return true
			}
		}
	}
	return false
}
