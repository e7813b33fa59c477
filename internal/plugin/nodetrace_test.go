package plugin

import (
	"strings"
	"testing"
)

func TestNodeTraceNamesTheErrorAndTheLine(t *testing.T) {
	for want, lastError := range map[string]string{
		`DefinitionError: t.mjs:4: tool "add": no at /app/t.mjs:4`: `
			node:internal/modules/run_main:123
			    triggerUncaughtException(
			    ^

			DefinitionError: t.mjs:4: tool "add": no
			    at file:///app/t.mjs:4:3

			Node.js v20.20.2`,
		`TypeError: x is not a function at /app/db.mjs:7`: `
			file:///app/node_modules/lib/index.js:1
			x()
			^

			TypeError: x is not a function
			    at open (file:///app/node_modules/lib/index.js:1:1)
			    at async connect (file:///app/db.mjs:7:9) {
			  code: 1
			}

			Node.js v20.20.2
			`,
		`SyntaxError: Unexpected string at /app/t.mjs:3`: `
			file:///app/t.mjs:3
			a.tool("add", { description "x" });
			                            ^^^

			SyntaxError: Unexpected string
			    at compileSourceTextModule (node:internal/modules/esm/utils:346:16)

			Node.js v20.20.2`,
		`SyntaxError: Cannot use import statement outside a module: name the file .mjs or .mts, or have "type": "module" in package.json at /app/t.js:1`: `
			(node:1) Warning: To load an ES module, set "type": "module" in the package.json or use the .mjs extension.
			/app/t.js:1
			import "mcpbridge";
			^^^^^^

			SyntaxError: Cannot use import statement outside a module
			    at wrapSafe (node:internal/modules/cjs/loader:1464:18)

			Node.js v20.20.2`,
		`Error [ERR_MODULE_NOT_FOUND]: Cannot find package 'zod' imported from /app/t.mjs`: `
			Error [ERR_MODULE_NOT_FOUND]: Cannot find package 'zod' imported from /app/t.mjs
			    at packageResolve (node:internal/modules/esm/resolve:873:9) {
			  code: 'ERR_MODULE_NOT_FOUND'
			}

			Node.js v20.20.2`,
		"": `
			Error: this is not of Node
			    at file:///app/t.mjs:4:3`,
	} {
		var lines []string
		for line := range strings.Lines(strings.ReplaceAll(lastError, "\n\t\t\t", "\n")) {
			lines = append(lines, strings.TrimSuffix(line, "\n"))
		}
		if got := nodeTrace.read(lines); got != want {
			t.Errorf("nodeTrace(%q) = %q, want %q", lines, got, want)
		}
	}
}
