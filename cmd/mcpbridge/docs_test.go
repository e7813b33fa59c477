package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
	"google.golang.org/grpc/codes"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/bridgetest"
	"github.com/mcpbridge/mcpbridge/internal/clientcmd"
	"github.com/mcpbridge/mcpbridge/internal/mcpserver"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// statusNames are the names of the gRPC codes, by number, as docs/errors.md and most languages write them.
var statusNames = [...]string{
	"OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS",
	"PERMISSION_DENIED",
	"RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE",
	"DATA_LOSS", "UNAUTHENTICATED",
}

// TestErrorsPage returns each gRPC code from a backend, and compares the errors of clients with docs/errors.md.
func TestErrorsPage(t *testing.T) {
	var table strings.Builder
	table.WriteString("| gRPC status | legacy | modern | HTTP status, modern | message |\n|---|---|---|---|---|\n")
	row := func(name string, code codes.Code, m *bridge.Method) {
		legacy := (&bridge.Error{Code: code}).JSONRPC(bridge.LatestLegacy, m).GetCode()
		status, rpc := modernError(t, code, m)
		message := "withheld"
		if rpc.Message == "the message" {
			message = "kept"
		}
		fmt.Fprintf(&table, "| %s | %d | %d | %d | %s |\n", name, legacy, rpc.Code, status, message)
	}
	for i := 1; i < len(statusNames); i++ {
		code := codes.Code(i)
		row("`"+statusNames[i]+"`", code, bridge.CallTool)
		if code == codes.NotFound {
			row("`"+statusNames[i]+"` of a resource", code, bridge.ReadResource)
		}
	}
	bridgetest.ComparePart(t, "../../docs/errors.md", "codes", table.String())
}

// TestReasonsPage compares the reasons and outcomes of failed calls in the sources with those in docs/errors.md.
func TestReasonsPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/errors.md")
	if err != nil {
		t.Fatal(err)
	}
	written := map[string]string{} // the outcomes on the page, by reason
	_, table, _ := strings.Cut(string(page), "\n| `reason` |")
	table, _, _ = strings.Cut(table, "\n\n")
	for _, row := range regexp.MustCompile("(?m)^\\| `([A-Z_]+)` \\| ([^|]*) \\|").FindAllStringSubmatch(table, -1) {
		written[row[1]] = row[2]
	}
	given := map[string]bool{}
	for reason, outcomes := range reasons(t, "../../bridge", "../../internal", "..") {
		given[reason] = true
		for _, outcome := range outcomes {
			if !strings.Contains(written[reason], "`"+outcome+"`") {
				t.Errorf("docs/errors.md has %q for %s, but the sources also have %s", written[reason], reason, outcome)
			}
		}
		if written[reason] == "" {
			t.Errorf("docs/errors.md lacks %s", reason)
		}
	}
	for reason := range written {
		if !given[reason] {
			t.Errorf("docs/errors.md has %s, which no source uses", reason)
		}
	}
}

// outcomes are the values of constants of package bridge, by their names.
var outcomes = map[string]string{
	"OutcomeNotExecuted": "not_executed", "OutcomeUnknown": "unknown", "OutcomeExecuted": "executed",
}

// reasons returns the reasons of failed calls in the sources below dirs, each with its outcomes. Reasons are arguments
// of Failed, which also have an outcome, values of variables named reason*, and members of JSON text.
func reasons(t *testing.T, dirs ...string) map[string][]string {
	t.Helper()
	found := map[string][]string{}
	inJSON := regexp.MustCompile(`"reason":"([A-Z_]+)"`)
	add := func(reason string, outcomes ...string) { found[reason] = append(found[reason], outcomes...) }
	note := func(e ast.Expr, outcomes ...string) {
		if lit, ok := e.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			reason, _ := strconv.Unquote(lit.Value)
			add(reason, outcomes...)
		}
	}
	named := func(e ast.Expr) bool {
		id, ok := e.(*ast.Ident)
		return ok && strings.HasPrefix(strings.ToLower(id.Name), "reason")
	}
	visit := func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			name := n.Fun
			if sel, ok := name.(*ast.SelectorExpr); ok {
				name = sel.Sel
			}
			if id, ok := name.(*ast.Ident); !ok || id.Name != "Failed" || len(n.Args) < 4 {
				break
			}
			if outcome, ok := n.Args[1].(*ast.SelectorExpr); ok {
				note(n.Args[2], outcomes[outcome.Sel.Name])
			} else {
				note(n.Args[2])
			}
		case *ast.AssignStmt:
			for i := range min(len(n.Lhs), len(n.Rhs)) {
				if named(n.Lhs[i]) {
					note(n.Rhs[i])
				}
			}
		case *ast.ValueSpec:
			for i := range n.Values {
				if named(n.Names[i]) {
					note(n.Values[i])
				}
			}
		case *ast.BasicLit:
			for _, m := range inJSON.FindAllStringSubmatch(n.Value, -1) {
				add(m[1])
			}
		}
		return true
	}
	for _, dir := range dirs {
		err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
			if err == nil {
				ast.Inspect(file, visit)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for reason := range found {
		if !regexp.MustCompile(`^[A-Z]+(_[A-Z]+)*$`).MatchString(reason) {
			delete(found, reason) // a reason of another kind
		}
	}
	return found
}

type rpcError struct {
	Code    int64
	Message string
}

// modernError returns what a client of the latest revision receives when a backend fails a call.
func modernError(t *testing.T, code codes.Code, m *bridge.Method) (status int, e rpcError) {
	t.Helper()
	failing := bridge.HandlerFunc(func(_ context.Context, c *bridge.Call, _ bridge.Emit) (*bridge.Result, error) {
		if c.Method == bridge.Discover {
			has := &pb.ServerCapabilities{Tools: &pb.ToolsCapability{}, Resources: &pb.ResourcesCapability{}}
			return &bridge.Result{Complete: &pb.DiscoverResponse{Capabilities: has}}, nil
		}
		return nil, bridge.Errorf(code, "the message")
	})
	s := mcpserver.New(failing, mcpserver.Options{})
	defer s.Close()
	target := map[*bridge.Method]string{bridge.CallTool: `"name":"x"`, bridge.ReadResource: `"uri":"x"`}[m]
	body := `{"jsonrpc":"2.0","id":1,"method":"` + m.Name + `","params":{` + target + `,"_meta":{` +
		`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},` +
		`"io.modelcontextprotocol/clientInfo":{"name":"test","version":"1"}}}}`
	req := httptest.NewRequest(http.MethodPost, "http://localhost/mcp", strings.NewReader(body)).
		WithContext(t.Context())
	for name, value := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": m.Name, "Mcp-Name": "x",
	} {
		req.Header.Set(name, value)
	}
	res := httptest.NewRecorder()
	s.ServeHTTP(res, req)
	var answer struct{ Error *rpcError }
	if err := json.Unmarshal(res.Body.Bytes(), &answer); err != nil || answer.Error == nil {
		t.Fatalf("%s: got %q: %v", code, res.Body, err)
	}
	return res.Code, *answer.Error
}

// TestReadmeOverHTTP sends the requests of the README.
func TestReadmeOverHTTP(t *testing.T) {
	bridgetest.SkipIfShort(t)
	parts := bridgetest.Fenced(t, "../../README.md")
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "tools.py"), []byte(parts["tools.py"]), 0o600); err != nil {
		t.Fatal(err)
	}
	python, err := filepath.Abs("../../.venv/bin/python")
	if err != nil {
		t.Fatal(err)
	}
	r := start(t, nil, nil, "run", "--http", "127.0.0.1:0", "--dir", dir, "--", python, "tools.py")
	const there = "http://127.0.0.1:8080/mcp"
	script := parts["ask it over http"]
	if !strings.Contains(script, there) {
		t.Fatalf("README.md has no request for %s:\n%s", there, script)
	}
	out, err := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c",
		strings.Replace(script, there, r.url, 1)).CombinedOutput()
	for _, want := range []string{`"name":"greet"`, `"input_required"`, "Which language?"} {
		if err != nil || !strings.Contains(string(out), want) {
			t.Errorf("%v, and %s is not in the response:\n%s", err, want, out)
		}
	}
	var clients struct {
		MCPServers map[string]struct {
			Args []string
		}
	}
	if err := json.Unmarshal([]byte(parts["mcp.json"]), &clients); err != nil ||
		len(clients.MCPServers["greeter"].Args) != 5 {
		t.Errorf("the instructions for clients are wrong: %v\n%s", err, parts["mcp.json"])
	}
}

// TestReadme follows the README: it writes its tools and runs its commands.
func TestReadme(t *testing.T) {
	bridgetest.SkipIfShort(t)
	t.Parallel()
	parts := bridgetest.Fenced(t, "../../README.md")
	dir := t.TempDir()
	for _, name := range []string{"tools.py", "mcpbridge.yaml"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(parts[name]), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	venv, err := filepath.Abs("../../.venv/bin")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"ask it over stdio", "run what the file says"} {
		script, ok := parts[name]
		if !ok {
			t.Fatalf("README.md has no part %q", name)
		}
		cmd := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", script)
		cmd.Dir = dir
		// TestMain put mcpbridge into venv.
		cmd.Env = append(os.Environ(), "PATH="+venv+string(filepath.ListSeparator)+os.Getenv("PATH"))
		cmd.Stdin = strings.NewReader(
			`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},` +
				`"clientInfo":{"name":"readme","version":"1"}}}` + "\n")
		var stderr strings.Builder
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		// The name is not compared, because on a busy machine the backend may still be starting.
		if err != nil || !strings.Contains(string(out), `"serverInfo":{"name":`) {
			t.Errorf("%s: %v\n%s\n%s\n%s", name, err, script, out, stderr.String())
		}
	}
}

// TestCommandsPage compares the commands in docs/commands.md with the actual ones.
func TestCommandsPage(t *testing.T) {
	root, _ := (&Program{}).command()
	var b strings.Builder
	table := func(flags *pflag.FlagSet, leaveOut func(name string) bool) {
		b.WriteString("| flag | |\n|---|---|\n")
		flags.VisitAll(func(f *pflag.Flag) {
			if leaveOut(f.Name) {
				return
			}
			value, usage := pflag.UnquoteUsage(f)
			flag := "--" + f.Name
			if f.Shorthand != "" {
				flag = "-" + f.Shorthand + ", " + flag
			}
			if def := f.DefValue; def != "" && def != "false" && def != "[]" && def != "0s" {
				usage += " (default " + def + ")"
			}
			fmt.Fprintf(&b, "| `%s` | %s |\n", strings.TrimSpace(flag+" "+value), usage)
		})
		b.WriteByte('\n')
	}
	shared := pflag.NewFlagSet("", pflag.ContinueOnError)
	shared.SortFlags = false
	new(clientcmd.TargetFlags).Add(shared)
	b.WriteString("Every one of them takes these flags, which say more about its target:\n\n")
	table(shared, func(string) bool { return false })
	for _, name := range []string{
		"run", "list", "describe", "call", "read", "prompt", "complete", "tasks list",
		"tasks get", "tasks watch", "tasks answer", "tasks cancel", "tasks result",
	} {
		c, _, err := root.Find(strings.Fields(name))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "### mcpbridge %s\n\n%s.\n\n    %s\n\n", name, c.Short, c.UseLine())
		table(c.LocalFlags(), func(name string) bool { return name == "help" || shared.Lookup(name) != nil })
	}
	bridgetest.ComparePart(t, "../../docs/commands.md", "commands", b.String())
}

// TestCommandsPageSession runs the commands of the session in docs/commands.md and compares their output.
func TestCommandsPageSession(t *testing.T) {
	bridgetest.SkipIfShort(t)
	t.Parallel()
	session, ok := bridgetest.Fenced(t, "../../docs/commands.md")["session"]
	if !ok {
		t.Fatal("docs/commands.md has no session")
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "tools.py"), []byte(bridgetest.Fenced(t, "../../README.md")["tools.py"]),
		0o600); err != nil {
		t.Fatal(err)
	}
	venv, err := filepath.Abs("../../.venv/bin")
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for line := range strings.Lines(session) {
		command, ok := strings.CutPrefix(strings.TrimSpace(line), "$ ")
		if !ok {
			continue
		}
		cmd := exec.CommandContext(t.Context(), "bash", "-c", command)
		cmd.Dir = dir
		// TestMain put mcpbridge into venv.
		cmd.Env = append(os.Environ(), "PATH="+venv+string(filepath.ListSeparator)+os.Getenv("PATH"))
		out, err := cmd.CombinedOutput()
		fmt.Fprintf(&got, "$ %s\n%s", command, out)
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			fmt.Fprintf(&got, "[exit code %d]\n", exit.ExitCode())
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(session, got.String()); diff != "" {
		t.Errorf("docs/commands.md (-) differs from the output (+):\n%s", diff)
	}
}
