package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcpbridge/mcpbridge/internal/bridgetest"
	"github.com/mcpbridge/mcpbridge/internal/problem"
)

const failingPython = `import logging, os, signal, sys
from mcpbridge import App, Context, ToolError
app = App("failing")

def boom():
    raise ValueError("boom")

@app.tool
def throw() -> str:
    """fails"""
    boom()

@app.tool
def refuse() -> str:
    """fails"""
    raise ToolError("no such city")

@app.tool
def exit() -> str:
    """fails"""
    print("about to exit", file=sys.stderr, flush=True)
    os._exit(3)

@app.tool
def segv() -> str:
    """fails"""
    os.kill(os.getpid(), signal.SIGSEGV)

@app.tool
async def think(ctx: Context) -> str:
    """asks a model"""
    return (await ctx.sample("What?", max_tokens=9)).text

@app.tool
async def ask(ctx: Context) -> str:
    """asks the user"""
    return str(await ctx.elicit("What?", str))

@app.tool
async def pay(ctx: Context) -> str:
    """asks to visit a page"""
    return str(await ctx.elicit_url("Pay.", "https://pay.example.com"))

@app.tool
def careful() -> str:
    """warns"""
    sys.stderr.write('{"level":"warning","message":"be careful"}\n')
    return "ok"

app.run()
`

const failingNode = `import { app } from "DIST";
const a = app("failing", "1");
function boom() { return undefined.foo; }
for (const [name, f] of Object.entries({
  throw: () => boom(),
  exit: () => { console.error("about to exit"); process.exit(3); },
})) a.tool(name, { description: "fails", input: { type: "object" } }, f);
await a.run();
`

// failingMCP is an MCP server without an SDK.
const failingMCP = `import json, os, sys
for line in sys.stdin:
    m = json.loads(line)
    if m["method"] == "initialize":
        r = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
             "serverInfo": {"name": "raw", "version": "1"}}
    elif m["method"] == "tools/list":
        r = {"tools": [{"name": n, "inputSchema": {"type": "object"}} for n in ("throw", "exit")]}
    elif m["method"] == "tools/call":
        print("Traceback (most recent call last):\n  File failing.py, line 1\nValueError: boom",
              file=sys.stderr, flush=True)
        if m["params"]["name"] == "exit":
            os._exit(3)
        r = {"content": [{"type": "text", "text": "it failed"}], "isError": True}
    else:
        continue
    print(json.dumps({"jsonrpc": "2.0", "id": m["id"], "result": r}), flush=True)
`

// The output of `call` contains what the backend's developer needs: the exception and its trace, or how the process
// exited and its last output. Each kind of failure has its own exit code.
func TestFailuresOfBackendsAreExplained(t *testing.T) {
	bridgetest.SkipIfShort(t)
	python, err := filepath.Abs("../../.venv/bin/python")
	if err != nil {
		t.Fatal(err)
	}
	dist, err := filepath.Abs("../../sdkgen/typescript/dist/index.js")
	if err != nil {
		t.Fatal(err)
	}
	for _, needed := range []string{python, dist} {
		if _, err := os.Stat(needed); err != nil {
			t.Fatalf("%v: run make setup setup-typescript", err)
		}
	}
	dir := t.TempDir()
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	golang := filepath.Join(dir, "failing")
	if out, err := exec.Command("go", "build", "-o", golang, "./testdata/failing").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	commands := map[string]string{
		"python": python + " " + write("failing.py", failingPython),
		"node":   "node " + write("failing.mjs", strings.ReplaceAll(failingNode, "DIST", dist)),
		"go":     golang,
		"mcp":    python + " " + write("server.py", failingMCP),
	}
	type failure struct{ Code, Where, Cause, Trace, Stderr string }
	for _, c := range []struct {
		language, tool string
		exit           int
		want           failure // substrings
	}{
		{
			"python", "throw", problem.ExitTool,
			failure{"tool_error", "failing.py:11", "ValueError: boom", "line 6, in boom", ""},
		},
		{"python", "refuse", problem.ExitTool, failure{"tool_error", "", "no such city", "", ""}},
		{"python", "exit", problem.ExitCrashed, failure{"backend_crashed", "", "exit status 3", "", "about to exit"}},
		{"python", "segv", problem.ExitCrashed, failure{"backend_crashed", "", "segmentation fault", "", ""}},
		{
			"node", "throw", problem.ExitTool,
			failure{"tool_error", "failing.mjs:3", "TypeError: Cannot read", "at boom", ""},
		},
		{"node", "exit", problem.ExitCrashed, failure{"backend_crashed", "", "exit status 3", "", "about to exit"}},
		{"go", "throw", problem.ExitTool, failure{"tool_error", "main.go:17", "nil pointer", "main.throw", ""}},
		{"go", "error", problem.ExitTool, failure{"tool_error", "main.go:31", "boom", "", ""}},
		{"go", "exit", problem.ExitCrashed, failure{"backend_crashed", "", "exit status 3", "", "about to exit"}},
		{"mcp", "throw", problem.ExitTool, failure{"tool_error", "", "it failed", "", "ValueError: boom"}},
		{"mcp", "exit", problem.ExitCrashed, failure{"backend_crashed", "", "exit status 3", "", "ValueError: boom"}},
	} {
		t.Run(c.language+" "+c.tool, func(t *testing.T) {
			t.Parallel()
			got := runCommand(t, "", append([]string{"call", c.tool, "--"}, strings.Fields(commands[c.language])...)...)
			lines := strings.Split(strings.TrimSpace(got.stderr), "\n")
			var last struct{ Error failure }
			if err := json.Unmarshal([]byte(lines[len(lines)-1]), &last); err != nil {
				t.Fatalf("%v: %+v", err, got)
			}
			for _, part := range []struct{ got, want string }{
				{last.Error.Code, c.want.Code},
				{last.Error.Where, c.want.Where},
				{last.Error.Cause, c.want.Cause},
				{last.Error.Trace, c.want.Trace},
				{last.Error.Stderr, c.want.Stderr},
			} {
				if !strings.Contains(part.got, part.want) || part.want == "" && part.got != "" {
					t.Errorf("%q is not in %q: %+v", part.want, part.got, got)
				}
			}
			if got.code != c.exit || len(lines) > 1 {
				t.Errorf("got %+v", got)
			}
		})
	}
	for tool, fix := range map[string]string{
		"think": "--sample FILE", "ask": "--answer FIELD=VALUE",
		"pay": "--answer /accept",
	} {
		t.Run("python "+tool, func(t *testing.T) {
			t.Parallel()
			got := runCommand(t, "", append([]string{"call", tool, "--"}, strings.Fields(commands["python"])...)...)
			if got.code != problem.ExitTool || !strings.Contains(got.stderr, `"hint":"`) ||
				!strings.Contains(got.stderr, fix) {
				t.Errorf("got %+v", got)
			}
		})
	}
	t.Run("python careful", func(t *testing.T) {
		t.Parallel()
		got := runCommand(t, "",
			append([]string{"call", "careful", "--log-format", "text", "--"}, strings.Fields(commands["python"])...)...)
		if got.code != problem.ExitOK || !strings.Contains(got.stderr, "WRN be careful") ||
			strings.Contains(got.stderr, "record=") {
			t.Errorf("got %+v", got)
		}
	})
}
