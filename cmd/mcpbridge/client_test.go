package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcpbridge/mcpbridge/internal/bridgetest"
	"github.com/mcpbridge/mcpbridge/internal/clientcmd"
	"github.com/mcpbridge/mcpbridge/internal/jsonrpc"
	"github.com/mcpbridge/mcpbridge/internal/limits"
	"github.com/mcpbridge/mcpbridge/internal/problem"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// Client commands ignore the configuration of serve: they have no --insecure flag and need none.
func TestClientCommandsIgnoreServerConfiguration(t *testing.T) {
	backend := fmt.Sprintf("backends: [{name: e, launch: {command: [%q]}, toolScopes: {echo: [admin]}}]\n", echoGo(t))
	for name, c := range map[string]struct{ serve, environ string }{
		"an address that --insecure allows": {serve: "serve: {http: {addr: '0.0.0.0:8080'}}\n"},
		"the address of a pod":              {environ: "MCPBRIDGE_SERVE__HTTP__ADDR=0.0.0.0:8080"},
		"a port of gRPC":                    {serve: "serve: {grpc: {addr: '0.0.0.0:50051'}}\n"},
		"no address at all":                 {},
	} {
		t.Run(name, func(t *testing.T) {
			var stdout, stderr lockedBuffer
			p := &Program{
				Env: clientcmd.Env{
					Args:   []string{"call", writeConfig(t, c.serve+backend), "echo", "text=hi"},
					Stdin:  strings.NewReader(""),
					Stdout: &stdout, Stderr: &stderr, Environ: append(os.Environ(), c.environ),
				},
			}
			if code := p.Run(t.Context()); code != problem.ExitOK || stdout.String() != `{"text":"hi"}`+"\n" {
				t.Errorf("%d %s%s", code, &stdout, &stderr)
			}
		})
	}
	if got := runCommand(t, "", "list",
		writeConfig(t, "limits: {calls: -1}\n"+backend)); got.code != problem.ExitConfig {
		t.Errorf("limits did not apply to a client command: %d %s", got.code, got.stderr)
	}
}

func TestClientExitCodes(t *testing.T) {
	bridgetest.SkipIfShort(t)
	t.Parallel()
	_, shop := startShop(t)
	for _, c := range []struct {
		args, code string
		exit       int
	}{
		{"call " + shop + " pain", "not_found", problem.ExitTool},
		{"call " + shop + " fail", "tool_error", problem.ExitTool},
		{"call " + shop + " deny", "auth_required", problem.ExitAuth},
		{"call " + shop + " sell", "backend_failed", problem.ExitTool},
		{"call --root . " + shop + " nag", "asks_too_often", problem.ExitTool},
		{"call unix:///nowhere.sock x", "unreachable", problem.ExitUnreachable},
		{"call tcp:127.0.0.1:1 x", "unreachable", problem.ExitUnreachable},
		{"read " + shop + " shop://no", "not_found", problem.ExitTool},
		{"read x://y -- " + echoGo(t), "not_found", problem.ExitTool}, // no resources
		{"prompt " + shop + " hagle price=1", "not_found", problem.ExitTool},
		{"prompt " + shop + " haggle", "arguments", problem.ExitUsage},
		{"prompt " + shop + " haggle price=1 ton=x", "arguments", problem.ExitUsage},
		{"describe " + shop + " nothing", "not_found", problem.ExitTool},
		{"describe " + shop + " shop://3/4", "not_found", problem.ExitTool},
		{"complete " + shop + " haggle ton=k", "arguments", problem.ExitUsage},
		{"complete " + shop + " haggle tone=k pric=3", "arguments", problem.ExitUsage},
		{"complete " + shop + " hagle tone=k", "not_found", problem.ExitTool},
		{"complete " + shop + " shop://{shelf} shelve=k", "arguments", problem.ExitUsage},
		{"complete " + shop + " shop://{shelve} shelve=k", "not_found", problem.ExitTool},
		{"complete greet name=k -- " + echoGo(t), "not_found", problem.ExitTool}, // no completion
		{"call " + shop, "usage", problem.ExitUsage},
		{"call unknown x", "usage", problem.ExitUsage},
		{"list -- no-such-program", "command", problem.ExitPlugin},
		{"list --plugin -- sh -c exit", "plugin_start", problem.ExitPlugin},
		{"call --timeout 50ms " + shop + " wait", "timeout", problem.ExitTimeout},
		{"call " + shop + " order", "no_answer", problem.ExitUsage},
		{"call --answer gift=perhaps " + shop + " order", "usage", problem.ExitUsage},
		{"call --root /no/such/dir " + shop + " where", "usage", problem.ExitUsage},
	} {
		got := runCommand(t, "", strings.Fields(c.args)...)
		if code := got.errorCode(t); got.code != c.exit || code != c.code || got.stdout != "" {
			t.Errorf("%s: got exit code %d and %s, want %d and %s: %+v", c.args, got.code, code, c.exit, c.code,
				got)
		}
	}
}

// The exit codes in --help are the actual ones.
func TestHelpOfExitCodes(t *testing.T) {
	for _, command := range []string{"run", "list", "describe", "call", "read", "prompt", "complete"} {
		help := strings.Join(strings.Fields(runCommand(t, "", command, "--help").stdout), " ")
		if !strings.Contains(help, "1 a wrong command line") || !strings.Contains(help, " 6 a wrong configuration") {
			t.Errorf("%s: got %s", command, help)
		}
		if got := runCommand(t, "", command, "--nope"); got.code != problem.ExitUsage {
			t.Errorf("%s --nope: got %+v", command, got)
		}
	}
}

// No hint suggests repeating a call that may have been executed, even if the backend does not report an outcome.
func TestHintsNeverSuggestRepeatingAnExecutedCall(t *testing.T) {
	_, shop := startShop(t)
	got := runCommand(t, "", "call", shop, "sell")
	if !strings.Contains(got.stderr, "the till is stuck") ||
		!strings.Contains(got.stderr, "check its effect before you call it again") ||
		strings.Contains(got.stderr, "try again") {
		t.Errorf("got %+v", got)
	}
}

// limits.callTotal applies to commands if it is configured.
func TestCommandsHaveNoTimeoutByDefault(t *testing.T) {
	_, shop := startShop(t)
	t.Setenv("MCPBRIDGE_LIMITS__CALLTOTAL", "50ms")
	if got := runCommand(t, "", "call", shop, "wait"); got.code != problem.ExitTimeout ||
		!strings.Contains(got.stderr, "it took longer than 50ms") {
		t.Errorf("with a timeout: got %+v", got)
	}
}

// A program that prints the address on which it listens is not a server on stdin and stdout.
func TestServerAtAnotherPath(t *testing.T) {
	bridgetest.SkipIfShort(t)
	got := runCommand(t, "", "list", "--start-timeout", "200ms", "--", "sh", "-c",
		"echo listening on port 3000; exec sleep 100")
	for _, want := range []string{
		"was answered within 200ms",
		`stdout, where only MCP belongs:\n    listening on port 3000`,
		"check that it is a server on stdin and stdout",
	} {
		if got.code != problem.ExitPlugin || !strings.Contains(got.stderr, want) {
			t.Errorf("got %+v, want %q in it", got, want)
		}
	}
}

// The error for a program that exits contains its output and a fix.
func TestExitedProgramErrorHasAFix(t *testing.T) {
	for script, want := range map[string]string{
		"exit 3":                           "run the command by itself",
		"echo tools.py:3: bad >&2; exit 3": `correct the error that it printed last on standard error;\nif it is a backend of mcpbridge: add --plugin`,
		"echo starting >&2":                "it must call the SDK's run",
	} {
		if got := runCommand(t, "", "list", "--", "sh", "-c", script); got.code != problem.ExitPlugin ||
			!strings.Contains(got.stderr, want) {
			t.Errorf("%s: got %+v, want %q in it", script, got, want)
		}
	}
}

func TestReadPromptCompleteDescribe(t *testing.T) {
	bridgetest.SkipIfShort(t)
	s, shop := startShop(t)
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	logo := filepath.Join(t.TempDir(), "logo.png")
	for args, want := range map[string]string{
		"read " + shop + " shop://sign":                       "open",
		"read " + shop + " shop://logo":                       "\x89PNG\x00\xff",
		"read --output " + logo + " " + shop + " shop://logo": "",
		"prompt " + shop + " haggle price=3":                  "user: Not more than 3.\n",
		"complete " + shop + " haggle tone=k price=3":         "kind\nkey3\n",
		// a URI in place of a template: the server decides whether it completes that
		"complete " + shop + " shop://sign shelf=k": "kind\nkey\n",
		"call " + shop + " paint":                   "red \x1b[31m\u202e\u009b and \n",
		"call --root . " + shop + " where":          "file://" + dir + "\n",
		"describe " + shop + " shop://sign":         "shop://sign (sign, text/plain)\n",
		"describe " + shop + " shop://{shelf}":      "shop://{shelf} (shelf)\n",
		"describe " + shop + " shop://3": "shop://{shelf} (shelf)\n\nshop://3 is one of " +
			"these.\n",
		"describe --json " + shop + " shop://3": `{"name":"shelf","uriTemplate":"shop://{shelf}"}` +
			"\n",
		"complete --json " + shop +
			" shop://{shelf} shelf=k": `{"completion":{"values":["kind","key"]},"resultType":"complete"}` + "\n",
		"call --answer size=l --answer count=2 " + shop + " order": `accept {"size":"l","count":2,"gift":false}` + "\n",
	} {
		if got := runCommand(t, "", strings.Fields(args)...); got.stdout != want || got.code != problem.ExitOK {
			var a, b any
			if json.Unmarshal([]byte(got.stdout), &a) == nil && json.Unmarshal([]byte(want), &b) == nil &&
				strings.Contains(args, "--json") {
				if x, _ := json.Marshal(a); string(x) == mustJSON(b) {
					continue
				}
			}
			t.Errorf("%s: got %+v", args, got)
		}
	}
	if data, err := os.ReadFile(logo); err != nil || string(data) != "\x89PNG\x00\xff" {
		t.Errorf("it wrote %q, %v", data, err)
	}
	document := filepath.Join(t.TempDir(), "sign.json")
	if got := runCommand(t, "", "read", "--json", "-o", document, shop,
		"shop://sign"); got != (commandOutput{"", "", problem.ExitOK}) {
		t.Errorf("got %+v", got)
	}
	shown := runCommand(t, "", "read", "--json", shop, "shop://sign").stdout
	if data, err := os.ReadFile(document); err != nil || string(data) != shown || !json.Valid(data) {
		t.Errorf("wrote %q, %v, and printed %q", data, err, shown)
	}
	for uri, want := range map[string]string{
		"shop://sing":               "did you mean shop://sign?",
		"sign":                      "write its URI: shop://sign",
		"shop://no-such-shelf-here": "it must match shop://{shelf}",
		"x://nothing/of/the/shop":   "`mcpbridge list` shows what there is to read",
	} {
		if got := runCommand(t, "", "read", shop, uri); got.code != problem.ExitTool ||
			!strings.Contains(got.stderr, want) {
			t.Errorf("%s: got %+v", uri, got)
		}
	}
	for args, want := range map[string]string{
		"haggle ton=k":             `there is no argument ton; did you mean tone?","hint":"it is haggle(price, tone?)"`,
		"haggle x=k":               "there is no argument x; known are: price, tone",
		"shop://{shelf} shelve=k":  `there is no argument shelve; did you mean shelf?","hint":"it is shop://{shelf}"`,
		"shop://{shelve} shelve=k": "did you mean shop://{shelf}?",
	} {
		if got := runCommand(t, "",
			append([]string{"complete", shop}, strings.Fields(args)...)...); !strings.Contains(got.stderr, want) {
			t.Errorf("%s: got %+v", args, got)
		}
	}
	got := runCommand(t, "", "describe", shop)
	if !strings.Contains(got.stdout, `Buy\u001b[31m something.`) || !strings.Contains(got.stdout, "tools/call") ||
		strings.Contains(got.stdout, "Revisions: \n") {
		t.Errorf("got %+v", got)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.caller.GetClientCapabilities(); e.GetSampling() != nil {
		t.Error("sampling was declared")
	}
}

// A server without completion rejects the request in 2024-11-05. In later revisions it does not declare the capability.
func TestServersWithoutCompletion(t *testing.T) {
	for _, rev := range []string{"2024-11-05", "2025-11-25"} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			m, wrong := jsonrpc.Parse(body, limits.Defaults())
			answer := `"error":{"code":-32601,"message":"no such method"}`
			switch {
			case r.Method != http.MethodPost || err != nil || wrong != nil:
				w.WriteHeader(http.StatusMethodNotAllowed)
				return
			case !m.IsRequest():
				w.WriteHeader(http.StatusAccepted)
				return
			case m.Method == "initialize":
				answer = `"result":{"protocolVersion":"` + rev +
					`","capabilities":{"prompts":{},"resources":{}},"serverInfo":{"name":"s","version":"1"}}`
			case m.Method == "prompts/list":
				answer = `"result":{"prompts":[{"name":"haggle","arguments":[{"name":"price"}]}]}`
			}
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,%s}`, m.ID, answer)
		}))
		t.Cleanup(s.Close)
		got := runCommand(t, "", "complete", s.URL, "haggle", "price=1")
		if got.code != problem.ExitTool || !strings.Contains(got.stderr, "the server does not support completion") ||
			!strings.Contains(got.stderr, "mcpbridge describe") {
			t.Errorf("%s: got %+v", rev, got)
		}
		// The server declares no tools.
		got = runCommand(t, "", "call", s.URL, "haggle")
		if got.code != problem.ExitTool ||
			!strings.Contains(got.stderr, "the server has no tools; `mcpbridge list` shows") {
			t.Errorf("%s: call: %+v", rev, got)
		}
		// The server declares resources without implementing their list: the list is empty.
		if got := runCommand(t, "", "list", s.URL); got.code != problem.ExitOK ||
			!strings.Contains(got.stdout, "haggle") {
			t.Errorf("%s: list: %+v", rev, got)
		}
	}
}

// --revision is for servers that support 2026-07-28 but have tools that request input only in sessions.
func TestRevisionOfTheServer(t *testing.T) {
	first := "read -r line; echo \"$line\" >&2; exit 3"
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--revision", "legacy", "--", "sh", "-c", first}, `\"method\":\"initialize\"`},
		{[]string{"--revision", "2024-11-05", "--", "sh", "-c", first}, `\"protocolVersion\":\"2024-11-05\"`},
		{[]string{"--revision", "modern", "--", "sh", "-c", first}, `\"method\":\"server/discover\"`},
		{[]string{"--revision", "2024-11-06", "--", "sh", "-c", first}, `there is no revision \"2024-11-06\" of MCP`},
		{[]string{"--revision", "legacy", "--plugin", "--", "sh", "-c", first}, "keep one of the two"},
		{[]string{"--revision", "legacy", "tcp:127.0.0.1:9"}, "--revision is for an MCP server"},
	} {
		got := runCommand(t, "", append([]string{"list"}, c.args...)...)
		if got.code == problem.ExitOK || !strings.Contains(strings.ReplaceAll(got.stderr, `\\\"`, `\"`), c.want) {
			t.Errorf("%q: got %+v, want %s in it", c.args, got, c.want)
		}
	}
}

// A backend with another version of the contract is rejected, and the error has a fix.
func TestCallOfAnotherContractVersion(t *testing.T) {
	s, shop := startShop(t)
	s.version = 1
	const want = "was built with version 1 of the contract, and this mcpbridge has version 2: update its SDK, or " +
		"its stubs with mcpbridge proto DIR"
	for _, args := range [][]string{{"call", shop, "order"}, {"list", shop}} {
		if got := runCommand(t, "", args...); got.code == problem.ExitOK || !strings.Contains(got.stderr, want) {
			t.Errorf("%v: got %+v", args, got)
		}
	}
}

func TestLimitsOfAClient(t *testing.T) {
	s, shop := startShop(t)
	s.endless = true
	if got := runCommand(t, "", "list", shop); got.code != problem.ExitOK ||
		!strings.Contains(got.stderr, "prompts/list has too many pages") {
		t.Errorf("got %+v", got)
	}
	digits := "n=1" + strings.Repeat("0", 10_000)
	if got := runCommand(t, "", "call", shop, "buy", "what=x", digits); got.code != problem.ExitUsage ||
		len(got.stderr) > 2_000 {
		t.Errorf("got %+v", got)
	}
	long := writeConfig(t, strings.Repeat("#", 4<<20))
	if got := runCommand(t, "", "list", "-c", long); got.code != problem.ExitConfig ||
		!strings.Contains(got.stderr, "longer than 4 MiB") {
		t.Errorf("got %+v", got)
	}
}

func TestLogOfACall(t *testing.T) {
	s, shop := startShop(t)
	for _, c := range []struct {
		level string
		shown bool
		sent  pb.LogLevel
	}{
		{"info", true, pb.LogLevel_LOG_LEVEL_INFO},
		{"debug", true, pb.LogLevel_LOG_LEVEL_DEBUG},
		{"error", false, pb.LogLevel_LOG_LEVEL_ERROR},
	} {
		got := runCommand(t, "", "call", "--log-level", c.level, shop, "paint")
		if strings.Contains(got.stderr, `mixing\\u001b[31m`) != c.shown || got.code != problem.ExitOK {
			t.Errorf("%s: got %+v", c.level, got)
		}
		s.mu.Lock()
		if got := s.caller.GetLogLevel(); got != c.sent {
			t.Errorf("%s: the server received %s", c.level, got)
		}
		s.mu.Unlock()
	}
}

// The kind of a command is detected by its output: an MCP server is started once, and a plugin twice.
func TestTargetKindIsDetected(t *testing.T) {
	bridgetest.SkipIfShort(t)
	t.Parallel()
	for _, c := range []struct {
		flag, command, starts string
		code                  int
	}{
		{"", "exec " + echoGo(t), "..", problem.ExitOK},
		{"--plugin", "exec " + echoGo(t), ".", problem.ExitOK},
		{"", "echo noise; exec " + bridgeProgram(t) + " run --stdio -- " + echoGo(t), ".", problem.ExitOK},
		{"--mcp", "exec " + bridgeProgram(t) + " run --stdio -- " + echoGo(t), ".", problem.ExitOK},
		{"", "exit 3", "", problem.ExitPlugin}, // mcpclient may start it again
	} {
		count := filepath.Join(t.TempDir(), "count")
		args := strings.Fields("call " + c.flag + " echo n=1 --")
		got := runCommand(t, "", append(args, "sh", "-c", "printf . >>"+count+"; "+c.command)...)
		if got.code != c.code || c.code == problem.ExitOK && got.stdout != `{"n":1}`+"\n" {
			t.Errorf("%s %s: got %+v", c.flag, c.command, got)
		}
		if starts, err := os.ReadFile(count); err != nil || c.starts != "" && string(starts) != c.starts {
			t.Errorf("%s %s: it was started %q times, %v", c.flag, c.command, starts, err)
		}
	}
}
