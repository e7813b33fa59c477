package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcpbridge/mcpbridge/internal/bridgetest"
	"github.com/mcpbridge/mcpbridge/internal/clientcmd"
	"github.com/mcpbridge/mcpbridge/internal/problem"
	"github.com/mcpbridge/mcpbridge/internal/verify"
)

// verified runs `mcpbridge verify` and returns its exit code and output.
func verified(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs strings.Builder
	p := &Program{
		Env: clientcmd.Env{
			Args: append([]string{"verify"}, args...), Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs,
			Environ: append(os.Environ(), "MCPBRIDGE_LOG__FORMAT=text"),
		},
	}
	code = p.Run(t.Context())
	return code, out.String(), errs.String()
}

func TestVerifyReport(t *testing.T) {
	bridgetest.SkipIfShort(t)
	t.Parallel()
	kit, echo := bridgetest.Programs()[0].Command(t)[0], echoGo(t)
	mcpServer := filepath.Join(t.TempDir(), "server.py")
	if err := os.WriteFile(mcpServer, []byte(failingMCP), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name           string
		args           []string
		code           int
		stdout, stderr []string
	}{
		{
			"all is well",
			[]string{"--only", "health,cancel", "--", kit},
			problem.ExitOK,
			[]string{
				"ok      health           answers health checks for \"\" and \"plugin\"\n",
				"ok      cancel           ends a call soon after it is canceled\n",
				"2 checks: 2 passed, 0 failed, 0 skipped\n",
			},
			nil,
		},
		{
			"one is not",
			[]string{"--only", "health,bad-cursor,cancel", "--", echo},
			problem.ExitFindings,
			[]string{
				"ok      health ",
				"FAILED  bad-cursor       rejects unknown cursors\n" +
					"        what:  ListTools with an unknown cursor: no error; want status INVALID_ARGUMENT\n" +
					"        why:   a list that starts again has no end for the client\n" +
					"        fix:   fail with INVALID_ARGUMENT for an unknown cursor; a list of one page has none\n" +
					"        see:   proto/mcpbridge/v1/service.proto: ListToolsRequest\n",
				"skipped, because they need the kit's tools: cancel (see docs/verify.md)\n",
				"3 checks: 1 passed, 1 failed, 1 skipped\n",
			},
			[]string{"the backend violates the contract: bad-cursor"},
		},
		{
			"it does not start",
			[]string{"--", "false"},
			problem.ExitPlugin, nil,
			[]string{"false exited before its handshake", "fix:"},
		},
		{
			"no listener",
			[]string{"unix:/nowhere/at/all"},
			problem.ExitPlugin, nil,
			[]string{"no response from unix:/nowhere/at/all"},
		},
		{
			"dashes forgotten",
			[]string{"python3", "tools.py"},
			problem.ExitUsage, nil,
			[]string{"mcpbridge verify -- python3 tools.py"},
		},
		{"nothing to verify", nil, problem.ExitUsage, nil, []string{"there is no backend to verify"}},
		{
			"an MCP server",
			[]string{"--", "python3", mcpServer},
			problem.ExitUsage, nil,
			[]string{"this is an MCP server", "mcpbridge list -- python3 "},
		},
		{
			"the URL of an MCP server",
			[]string{"https://example.com/mcp"},
			problem.ExitUsage, nil,
			[]string{"this is an MCP server", "mcpbridge list https://"},
		},
		{
			"an address after --",
			[]string{"--", "unix:/run/x.sock"},
			problem.ExitUsage, nil,
			[]string{"write mcpbridge verify unix:/run/x.sock"},
		},
		{
			"no such check",
			[]string{"--only", "helth", "--", kit},
			problem.ExitUsage, nil,
			[]string{"did you mean health?"},
		},
		{
			"no such variable",
			[]string{"--env", "X", "--", kit},
			problem.ExitUsage, nil,
			[]string{`"X" is not NAME=VALUE`},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, stdout, stderr := verified(t, c.args...)
			if code != c.code {
				t.Errorf("exit code %d, want %d", code, c.code)
			}
			for _, want := range c.stdout {
				if !strings.Contains(stdout, want) {
					t.Errorf("stdout lacks %q:\n%s", want, stdout)
				}
			}
			for _, want := range c.stderr {
				if !strings.Contains(stderr, want) {
					t.Errorf("stderr lacks %q:\n%s", want, stderr)
				}
			}
		})
	}
}

func TestVerifyReportInJSON(t *testing.T) {
	bridgetest.SkipIfShort(t)
	code, stdout, _ := verified(t, "--json", "--only", "bad-cursor,cancel", "--", echoGo(t))
	var output struct {
		Checks []verify.Check `json:"checks"`
	}
	if err := json.Unmarshal([]byte(stdout), &output); err != nil {
		t.Fatalf("%v: %s", err, stdout)
	}
	if code != problem.ExitFindings || len(output.Checks) != 2 {
		t.Fatalf("exit code %d, %s", code, stdout)
	}
	if c := output.Checks[0]; c.Name != "bad-cursor" || c.Outcome != verify.Failed || len(c.Defects) != 1 ||
		c.Defects[0].Fix == "" {
		t.Errorf("%+v", c)
	}
	if c := output.Checks[1]; c.Outcome != verify.Skipped || c.Needs != "the kit's tools" {
		t.Errorf("%+v", c)
	}
}
