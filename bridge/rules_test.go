package bridge_test

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"golang.org/x/tools/go/packages"

	"github.com/mcpbridge/mcpbridge/internal/bridgetest"
	"github.com/mcpbridge/mcpbridge/internal/limits"
)

// The rules of this repository that a machine can check. A failure states the reason of a rule and the fix.

const module = "github.com/mcpbridge/mcpbridge/"

// An importRule lists what some packages must not import. Paths are below the module; a prefix stands for all below it.
type importRule struct {
	who, notWhom []string
	except       []string // of who
	butNot       []string // of notWhom
	because, fix string
}

// The packages of the command are layers: cmd, clientcmd, app, config, problem, terminal.
const (
	onlyDown = "the packages of the command are layers, and each imports only those below it: cmd, clientcmd, app, " +
		"config, problem, terminal"
	lower = "move what both need into the lower package, or pass it as a parameter"
)

var importRules = []importRule{
	{
		who:     []string{""},
		notWhom: []string{"internal/mcpserver", "internal/grpcserver", "internal/plugin", "internal/mcpclient"},
		except:  []string{"cmd", "internal/app", "internal/clientcmd", "internal/bridgetest"},
		because: "fronts and backs know the waist and never one another: that is why two of each serve every direction",
		fix: "take a bridge.Handler; internal/app puts the pieces together, and so may a test in package " +
			"x_test. What both need goes into a package of its own beside them",
	},
	{
		who:     []string{"internal/router", "internal/catalog"},
		notWhom: []string{"internal/router", "internal/catalog", "internal/seal", "internal/auth"},
		because: "what is around a Handler knows that it is one and nothing else: internal/app decides what is " +
			"around what",
		fix: "take a bridge.Handler, and put what is missing into the Call",
	},
	{
		who:     []string{"bridge", "internal"},
		notWhom: []string{"cmd", "examples", "sdkgen/go"},
		butNot:  []string{"sdkgen/go/gen"},
		because: "everything points at bridge, and nothing that users write is part of it",
		fix:     "move what is needed down, into bridge",
	},
	{
		who: []string{""},
		notWhom: []string{
			"internal/terminal", "internal/problem", "internal/config", "internal/app",
			"internal/clientcmd",
		},
		except: []string{
			"cmd", "internal/terminal", "internal/problem", "internal/config", "internal/app",
			"internal/clientcmd",
		},
		because: "they are what the command is made of, and the bridge works without a command",
		fix:     "take the value as a parameter or a field of Options",
	},
	{
		who:     []string{"internal/terminal"},
		notWhom: []string{"internal/problem", "internal/config", "internal/app", "internal/clientcmd"},
		because: onlyDown, fix: lower,
	},
	{
		who:     []string{"internal/problem"},
		notWhom: []string{"internal/config", "internal/app", "internal/clientcmd"},
		because: onlyDown, fix: lower,
	},
	{
		who:     []string{"internal/config"},
		notWhom: []string{"internal/app", "internal/clientcmd"},
		because: onlyDown, fix: lower,
	},
	{
		who:     []string{"internal/app"},
		notWhom: []string{"internal/clientcmd"},
		because: onlyDown, fix: lower,
	},
	{
		who:     []string{""},
		notWhom: []string{"cmd"},
		because: "cmd only connects packages; no package depends on it",
		fix:     "move what is needed into a package below bridge",
	},
	{
		who:     []string{"sdkgen/go", "examples", "test/conformance"},
		notWhom: []string{"bridge", "internal"},
		butNot:  []string{"internal/bridgetest/fuzzing"},
		because: "a backend needs the contract only, and so does a gRPC client, as those in other languages do",
		fix:     "use sdkgen/go/gen, or put what is missing into sdkgen/go",
	},
}

// peers are modules that only tests and benchmarks in modules of their own may use.
var peers = []string{"github.com/modelcontextprotocol/", "github.com/mark3labs/"}

func TestImportRules(t *testing.T) {
	for _, p := range loadModule(t) {
		if strings.HasSuffix(p.PkgPath, "_test") || strings.HasSuffix(p.PkgPath, ".test") {
			continue // a test from outside may put pieces together, as cmd does
		}
		who := pathInModule(p.PkgPath)
		for path := range p.Imports {
			for _, peer := range peers {
				if strings.HasPrefix(path, peer) {
					t.Errorf("%s imports %s.\n  why: users of mcpbridge would have to download it\n  fix: do it in "+
						"test/interop/go or test/bench, which are modules of their own", p.ID, path)
				}
			}
			if !strings.HasPrefix(path, module) {
				continue
			}
			for _, r := range importRules {
				whom := pathInModule(path)
				if !isBelow(who, r.who) || isBelow(who, r.except) || !isBelow(whom, r.notWhom) ||
					isBelow(whom, r.butNot) || who == whom {
					continue
				}
				t.Errorf("%s imports %s.\n  why not: %s\n  fix: %s", p.ID, whom, r.because, r.fix)
			}
		}
	}
}

// pathInModule returns a package's path relative to the module.
func pathInModule(path string) string {
	return strings.TrimSuffix(strings.TrimPrefix(path, module), ".test")
}

func isBelow(path string, prefixes []string) bool {
	return slices.ContainsFunc(prefixes, func(p string) bool {
		return p == "" || path == p || strings.HasPrefix(path, p+"/")
	})
}

var revisionName = regexp.MustCompile(`^20\d\d-\d\d-\d\d$`)

// A rule about packages that do not exist has no effect.
func TestImportRulesNameExistingPackages(t *testing.T) {
	var all []string
	for _, p := range loadModule(t) {
		all = append(all, pathInModule(p.PkgPath))
	}
	for _, r := range importRules {
		for _, name := range slices.Concat(r.who, r.notWhom, r.except, r.butNot) {
			if !slices.ContainsFunc(all, func(p string) bool { return isBelow(p, []string{name}) }) {
				t.Errorf("a rule is about %q, which is no package", name)
			}
		}
	}
}

// Every limit that can be configured is read by a package.
func TestEveryLimitIsEnforced(t *testing.T) {
	read := map[string]bool{}
	for _, p := range loadModule(t) {
		for id, obj := range p.TypesInfo.Uses {
			field, ok := obj.(*types.Var)
			if ok && field.IsField() && field.Pkg() != nil && pathInModule(field.Pkg().Path()) == "internal/limits" &&
				pathInModule(p.PkgPath) != "internal/limits" &&
				!strings.HasSuffix(p.Fset.Position(id.Pos()).Filename, "_test.go") {
				read[field.Name()] = true
			}
		}
	}
	for _, r := range limits.Table[limits.Limits]() {
		if !read[r.Field] {
			t.Errorf("no package reads limits.Limits.%s.\n  fix: enforce it, or delete its row", r.Field)
		}
	}
}

func TestOnlyRevisionGoComparesRevisions(t *testing.T) {
	const why = "a new revision must touch one file and not everything that was ever particular to one"
	const fix = "ask the revision a question, rev.PrimesSSE(); if there is none that fits, add one to " +
		"bridge/revision.go"
	for _, p := range loadModule(t) {
		for _, f := range p.Syntax {
			name := p.Fset.Position(f.Pos()).Filename
			if strings.HasSuffix(name, "_test.go") || strings.HasSuffix(name, filepath.Join("bridge", "revision.go")) {
				continue
			}
			ast.Inspect(f, func(n ast.Node) bool {
				if compares(p.TypesInfo, n) {
					t.Errorf("%s: revisions are compared here.\n  why not: %s\n  fix: %s", p.Fset.Position(n.Pos()),
						why, fix)
				}
				return true
			})
		}
	}
}

// compares reports whether a node compares revisions, or strings with the name of one. Whether there is a revision at
// all may be asked everywhere.
func compares(info *types.Info, n ast.Node) bool {
	switch n := n.(type) {
	case *ast.BinaryExpr:
		switch n.Op {
		case token.EQL, token.NEQ, token.LSS, token.LEQ, token.GTR, token.GEQ:
		default:
			return false
		}
		for _, e := range []ast.Expr{n.X, n.Y} {
			if isNamed(e, "NoRevision") {
				return false
			}
		}
		return isRevision(info, n.X) || isRevision(info, n.Y) || isRevisionName(info, n.X) || isRevisionName(info, n.Y)
	case *ast.SwitchStmt:
		return n.Tag != nil && isRevision(info, n.Tag)
	case *ast.CaseClause:
		return slices.ContainsFunc(n.List, func(e ast.Expr) bool { return isRevisionName(info, e) })
	case *ast.CompositeLit: // a table by revision compares as much as a switch does
		switch t := info.TypeOf(n).Underlying().(type) {
		case *types.Map:
			return isRevisionType(t.Key())
		case *types.Slice:
			return isRevisionType(t.Elem())
		case *types.Array:
			return isRevisionType(t.Elem())
		}
	}
	return false
}

// The rule itself is tested, because code that keeps it does not show that it finds anything.
func TestComparisonsAreFound(t *testing.T) {
	const source = `package bridge
type Revision uint8
const (NoRevision Revision = iota; Old; New)
func _(r Revision, name string) {
	_ = r >= New           // found
	_ = Old == r           // found
	_ = name == "2025-11-25" // found
	switch r { case New: } // found
	switch name { case "2026-07-28": } // found
	_ = r == NoRevision
	_ = name == "2025"
	_ = r + New
	_ = map[Revision]string{New: "2026-07-28"}[r] // found
	_ = []Revision{Old, New} // found
	const newest = "2026-07-28"
	_ = newest == name // found
}`
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, "a.go", source, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	info := &types.Info{
		Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{},
		Defs: map[*ast.Ident]types.Object{},
	}
	if _, err := new(types.Config).Check(module+"bridge", set, []*ast.File{f}, info); err != nil {
		t.Fatal(err)
	}
	found := map[int]bool{}
	ast.Inspect(f, func(n ast.Node) bool {
		if compares(info, n) {
			found[set.Position(n.Pos()).Line] = true
		}
		return true
	})
	n := 0
	for line := range strings.Lines(source) {
		n++
		if want := strings.Contains(line, "// found"); found[n] != want {
			t.Errorf("line %d: found is %t: %s", n, found[n], line)
		}
	}
}

func isRevision(info *types.Info, e ast.Expr) bool { return isRevisionType(info.TypeOf(e)) }

func isRevisionType(t types.Type) bool {
	named, ok := t.(*types.Named)
	return ok && named.Obj().Name() == "Revision" && named.Obj().Pkg().Path() == module+"bridge"
}

// isRevisionName reports whether an expression is constant, and the name of a revision.
func isRevisionName(info *types.Info, e ast.Expr) bool {
	value := info.Types[e].Value
	return value != nil && value.Kind() == constant.String && revisionName.MatchString(constant.StringVal(value))
}

func isNamed(e ast.Expr, name string) bool {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name == name
	case *ast.SelectorExpr:
		return e.Sel.Name == name
	}
	return false
}

func TestEveryPackageHasOneComment(t *testing.T) {
	comments := map[string][]string{} // files with a package comment, by directory
	onlyTests := map[string]bool{}    // directories without a package that is not a test
	files := goFiles(t)
	for _, file := range files {
		if strings.HasSuffix(file.name, "_test.go") {
			onlyTests[filepath.Dir(file.name)] = true
		}
	}
	for _, file := range files {
		if !strings.HasSuffix(file.name, "_test.go") {
			delete(onlyTests, filepath.Dir(file.name))
		}
	}
	for _, file := range files {
		dir := filepath.Dir(file.name)
		if strings.HasSuffix(file.name, "_test.go") && !onlyTests[dir] {
			if file.tree.Doc.Text() != "" && file.tree.Doc.Text() != "\n" {
				t.Errorf("%s: a test has a package comment.\n  why not: a reader looks for it in the package\n  "+
					"fix: put a blank line after it", file.name)
			}
			continue
		}
		if ast.IsGenerated(file.tree) {
			continue
		}
		comments[dir] = append(comments[dir], nil...) // a package without a comment must be there too
		if file.tree.Doc == nil {
			continue
		}
		comments[dir] = append(comments[dir], file.name)
		want := "Package " + file.tree.Name.Name + " "
		if file.tree.Name.Name == "main" {
			want = "Command "
		}
		if text := file.tree.Doc.Text(); !strings.HasPrefix(text, want) {
			t.Errorf("%s: its package comment begins %.40q.\n  why not: go doc shows it in a list\n  fix: begin it "+
				"with %q", file.name, text, want)
		}
	}
	for dir, files := range comments {
		if len(files) != 1 {
			t.Errorf("%s has %d package comments: %v.\n  why: a reader meets a package by its one comment\n  fix: "+
				"have exactly one, in the file that one comes for", dir, len(files), files)
		}
	}
}

func TestMainAloneEndsTheProcess(t *testing.T) {
	for _, file := range goFiles(t) {
		if file.tree.Name.Name == "main" || strings.HasSuffix(file.name, "_test.go") {
			continue
		}
		ast.Inspect(file.tree, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			pkg, ok := sel.X.(*ast.Ident)
			if !ok {
				return true
			}
			name := pkg.Name + "." + sel.Sel.Name
			if file.name == "sdkgen/go/mcpbridge/run.go" && name == "signal.NotifyContext" {
				return true // App.Run is the whole of its program, and RunContext is for those that are more.
			}
			switch name {
			case "os.Exit", "log.Fatal", "log.Fatalf", "log.Fatalln", "signal.Notify", "signal.NotifyContext":
				t.Errorf("%s: %s.\n  why not: a package does not know what else runs in its process, nor what must "+
					"end first\n  fix: return an error, or end with the context", file.at(n), name)
			}
			return true
		})
	}
}

// A Handler that makes a Call for another one keeps its session, which bridge.Call.With does: a literal would lose it.
func TestHandlersMakeCallsWithTheSessionOfAnother(t *testing.T) {
	for _, dir := range []string{"router", "catalog", "plugin", "mcpclient"} {
		files, err := filepath.Glob(filepath.Join(root(t), "internal", dir, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v, %d files", dir, err, len(files))
		}
		for _, name := range files {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasSuffix(name, "_test.go") && bytes.Contains(text, []byte("&bridge.Call{")) {
				t.Errorf("%s makes a bridge.Call by a literal: use With of the Call that it is made for", name)
			}
		}
	}
}

// A test may be skipped on an operating system that lacks what it tests. bridgetest.SkipIfShort skips slow tests with
// -short, which neither make test nor CI uses.
func TestNoTestIsSkipped(t *testing.T) {
	for _, name := range []string{"Makefile", ".ci/run"} {
		eachLine(t, name, func(n int, line string) {
			if strings.Contains(line, "-short") {
				t.Errorf("%s:%d: tests are run with -short.\n  why not: it leaves out most of what starts "+
					"programs\n  fix: run all of them", name, n)
			}
		})
	}
	for _, file := range goFiles(t) {
		ast.Inspect(file.tree, func(n ast.Node) bool {
			if branch, ok := n.(*ast.IfStmt); ok && asksPlatform(branch.Cond) {
				return false
			}
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			sel, ok := call.Fun.(*ast.SelectorExpr)
			if ok && slices.Contains([]string{"Skip", "Skipf", "SkipNow"}, sel.Sel.Name) &&
				strings.HasSuffix(file.name, "_test.go") {
				t.Errorf("%s: a test is skipped.\n  why not: it goes unnoticed\n  fix: set up what "+
					"it needs, or take it out", file.at(n))
			}
			return true
		})
	}
	skip := regexp.MustCompile(`\b(?:it|test|describe)\.(?:skip|todo)\b|\bpytest\.(?:mark\.)?(?:skip|xfail)\b`)
	for _, name := range repositoryFiles(t, ".py", ".ts", ".mjs") {
		eachLine(t, name, func(n int, line string) {
			if skip.MatchString(line) {
				t.Errorf("%s:%d: a test is skipped.\n  why not: it goes unnoticed\n  fix: set up "+
					"what it needs, or take it out", name, n)
			}
		})
	}
}

// asksPlatform reports whether a condition asks for the operating system or the processor.
func asksPlatform(cond ast.Expr) bool {
	asks := false
	ast.Inspect(cond, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok && isNamed(sel.X, "runtime") &&
			(sel.Sel.Name == "GOOS" || sel.Sel.Name == "GOARCH") {
			asks = true
		}
		return true
	})
	return asks
}

func TestNothingIsLeftForLater(t *testing.T) {
	note := regexp.MustCompile(`\b(?:TO` + `DO|FIX` + `ME|XX` + `X)\b`)
	for _, name := range repositoryFiles(t, ".go", ".py", ".ts", ".mjs", ".proto", ".sh", ".yml", ".yaml", ".toml") {
		eachLine(t, name, func(n int, line string) {
			if note.MatchString(line) {
				t.Errorf("%s:%d: something is left for later.\n  why not: later never comes, and a reader cannot "+
					"rely on what is there\n  fix: do it now, or open an issue and say in the comment what holds today",
					name, n)
			}
		})
	}
}

// loadOnce loads the packages of the main module, tests included. Types of what they import come from the build cache.
var loadOnce = sync.OnceValues(func() ([]*packages.Package, error) {
	return packages.Load(&packages.Config{
		Mode: packages.NeedName | packages.NeedImports | packages.NeedSyntax | packages.NeedFiles |
			packages.NeedCompiledGoFiles |
			packages.NeedTypes | packages.NeedTypesInfo | packages.NeedExportFile,
		Dir: "..", Tests: true,
	}, "./...")
})

func loadModule(t *testing.T) []*packages.Package {
	t.Helper()
	bridgetest.SkipIfShort(t)
	loaded, err := loadOnce()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range loaded {
		for _, e := range p.Errors {
			t.Errorf("%s: %v", p.ID, e)
		}
	}
	return loaded
}

// A goFile is a Go file of the repository, whatever its module.
type goFile struct {
	name string
	set  *token.FileSet
	tree *ast.File
}

func (f goFile) at(n ast.Node) string { return f.set.Position(n.Pos()).String() }

func goFiles(t *testing.T) []goFile {
	t.Helper()
	var files []goFile
	for _, name := range repositoryFiles(t, ".go") {
		set := token.NewFileSet()
		tree, err := parser.ParseFile(set, filepath.Join(root(t), name), nil,
			parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, goFile{name, set, tree})
	}
	return files
}

// repositoryFiles returns the files with the given endings that are, or could be, in the repository.
func repositoryFiles(t *testing.T, endings ...string) []string {
	t.Helper()
	cmd := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	cmd.Dir = root(t)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("git ls-files: %v", err)
	}
	var names []string
	for name := range strings.SplitSeq(string(out), "\x00") {
		if !slices.Contains(endings, filepath.Ext(name)) || slices.Contains(strings.Split(name, "/"), "testdata") {
			continue
		}
		if _, err := os.Stat(filepath.Join(root(t), name)); err == nil { // it may be deleted and not yet committed
			names = append(names, name)
		}
	}
	return names
}

func eachLine(t *testing.T, name string, f func(n int, line string)) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root(t), name))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for line := range bytes.Lines(text) {
		n++
		f(n, string(line))
	}
}

func root(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "go.mod")); err != nil {
		t.Fatal(fmt.Errorf("the root of the module is not %s: %w", strconv.Quote(dir), err))
	}
	return dir
}
