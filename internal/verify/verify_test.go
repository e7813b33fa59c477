package verify_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"

	"github.com/mcpbridge/mcpbridge/internal/bridgetest"
	"github.com/mcpbridge/mcpbridge/internal/verify"
)

func TestMain(m *testing.M) {
	if mode := os.Getenv(modeKey); mode != "" {
		os.Exit((&hostile{mode: mode, inner: bridgetest.Kit(), stopped: make(chan struct{})}).run())
	}
	goleak.VerifyTestMain(m)
}

// The kit in every language passes every check.
func TestKitsPass(t *testing.T) {
	bridgetest.SkipIfShort(t)
	for _, program := range bridgetest.Programs() {
		t.Run(program.Language, func(t *testing.T) {
			pass(t, verify.Options{Command: program.Command(t), Env: os.Environ()}, nil)
		})
	}
}

// pass fails the test unless every check passes or is in leftOut.
func pass(t *testing.T, o verify.Options, leftOut []string) {
	t.Helper()
	checks, err := verify.Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if len(checks) != len(verify.Checks()) {
		t.Errorf("got %d checks, want %d", len(checks), len(verify.Checks()))
	}
	for _, c := range checks {
		want := verify.Passed
		if slices.Contains(leftOut, c.Name) {
			want = verify.Skipped
		}
		if c.Outcome != want {
			t.Errorf("%s: got %s, want %s: %+v", c.Name, c.Outcome, want, c.Defects)
		}
	}
}

func hostileOptions(mode string, only ...string) verify.Options {
	env := append(os.Environ(), modeKey+"="+mode, "GORACE=atexit_sleep_ms=0") // exit without delay, with -race too
	return verify.Options{Command: []string{os.Args[0]}, Env: env, StartTimeout: 10 * time.Second, Only: only}
}

// A backend without an SDK and without a defect passes.
func TestSoundBackendPasses(t *testing.T) {
	bridgetest.SkipIfShort(t)
	pass(t, hostileOptions("sound"), nil)
}

// An output schema may be of any type (2026-07-28).
func TestOutputNeedNotBeAnObject(t *testing.T) {
	for _, mode := range []string{"schema of an array", "schema of any type"} {
		checks, err := verify.Run(t.Context(), hostileOptions(mode, "definitions"))
		if err != nil {
			t.Fatal(err)
		}
		if len(checks) != 1 || checks[0].Outcome != verify.Passed {
			t.Errorf("%s: got %+v", mode, checks)
		}
	}
}

// Each defect is found by its check, with its own text.
func TestDefectsAreFound(t *testing.T) {
	bridgetest.SkipIfShort(t)
	defects := []struct{ mode, check, text string }{
		{"old handshake", "handshake", `field 1 is "0"`},
		{"another version", "handshake", `field 2 is "2"`},
		{"net/rpc", "handshake", `field 5 is "netrpc"`},
		{"invalid certificate", "handshake", "field 6, the certificate, is not base64"},
		{"padded certificate", "handshake", "is padded with ="},
		{"certificate for another name", "handshake", "is not for localhost"},
		{"no TLS", "handshake", "field 6 is empty"},
		{"all interfaces", "handshake", "must be 127.0.0.1:PORT"},
		{"socket in another directory", "handshake", "is not in the directory PLUGIN_UNIX_SOCKET_DIR"},
		{"no client certificate required", "mutual-tls", "a client without a certificate was accepted"},
		{"no TLS", "mutual-tls", "a client without TLS was accepted"},
		{"no plugin service", "health", `health of "plugin": status NOT_FOUND`},
		{"not serving", "health", `health of "" is NOT_SERVING`},
		{"handshake by hand", "by-hand", "started with no MCPBRIDGE_PLUGIN, it printed a handshake"},
		{"crashes by hand", "by-hand", "it crashed: killed by signal: killed"},
		{"crashes on other versions", "versions", "it crashed: killed by signal: killed"},
		{"crashes without keys", "stock-host", "it crashed: killed by signal: killed"},
		{"crashes as an orphan", "orphan", "it crashes after its standard input ended: killed by signal: killed"},
		{"exits with 0 by hand", "by-hand", "it exited with 0"},
		{"no message by hand", "by-hand", "it printed nothing to standard error"},
		{"any version", "versions", "started with PLUGIN_PROTOCOL_VERSIONS=97,98, it printed a handshake"},
		{"unix only", "tcp", "it listens at unix although PLUGIN_TRANSPORTS=tcp"},
		{"no message without keys", "stock-host", "without an error on standard error"},
		{"always a certificate", "plaintext", "field 6 is not empty"},
		{"six fields", "multiplex", "field 7 of the handshake is missing"},
		{"no server name", "discover", "server_info has no name"},
		{"declares revisions", "discover", "supported_versions is [2026-07-28]"},
		{"no capabilities", "discover", "capabilities are missing"},
		{"changing Discover", "discover", "Discover differs between two calls"},
		{"endless list", "lists", `ListTools returns the cursor "8" twice`},
		{"too many pages", "lists", "ListTools has more than 1024 pages"},
		{"huge list", "lists", "ListTools has more than 67108864 bytes"},
		{"changing order", "lists", "ListTools differs between two calls"},
		{"any cursor", "bad-cursor", "ListTools with an unknown cursor: no error"},
		{"bad name", "definitions", "name must be 1 to 128 letters"},
		{"no schema", "definitions", "input schema is missing"},
		{"not an object", "definitions", `input schema does not have "type": "object"`},
		{"no JSON Schema", "definitions", "input schema is not a JSON Schema"},
		{"truncated schema", "definitions", "output schema is not JSON"},
		{"a boolean schema", "definitions", "output schema is not a JSON object"},
		{"external schema", "definitions", "a schema must be self-contained"},
		{"duplicate tool", "definitions", `ListTools has tool "add" twice`},
		{"no meta", "definitions", "_meta is not a JSON object"},
		{"undeclared tasks", "definitions", "does not declare the extension io.modelcontextprotocol/tasks"},
		{"invalid task support", "definitions", `task_support is "sometimes"`},
		{"no scheme", "definitions", "URI has no scheme"},
		{"nameless resource", "definitions", "name is missing"},
		{"no template", "definitions", "URI template is not one of RFC 6570"},
		{"duplicate argument", "definitions", "name of an argument is missing or a duplicate"},
		{"accepts unknown names", "unknown-names", "an unknown tool: no error"},
		{"status instead of a tool error", "result", "fail: status INTERNAL"},
		{"other error code", "result", "want the JSON-RPC error -7"},
		{"status for bad arguments", "bad-arguments", "echo [1]: status INTERNAL"},
		{"exits on bad arguments", "bad-arguments", "the process exited: exit status 2"},
		{"small messages", "blobs", "RESOURCE_EXHAUSTED"},
		{"floating point", "unicode", "structured content is"},
		{"decreasing progress", "progress", "progress event 1 is -1"},
		{"endless progress", "progress", "more than 100000 events"},
		{"too few progress events", "progress", "got 5000 progress events, want 10000"},
		{"progress for all", "progress", "3 progress events for a caller without progress_wanted"},
		{"ignores the log level", "logs", "with log_level error, it logs"},
		{"ignores cancellation", "cancel", "the tool ran for"},
		{"ignores cancellation", "deadline", "the tool ran for"},
		{"drops unknown members", "unknown-members", "_meta is , want"},
		{"drops unknown members", "unknown-members", "extra is , want"},
		{"one input request per round", "questions", "still requires input after 10 rounds"},
		{"repeats steps", "questions", "a step that must run once ran in every round"},
		{"ignores declined forms", "answers", `with a client that declines, it returns "cancelled", want "declined"`},
		{"ignores client capabilities", "answers", "it requires input of a client that does not support forms"},
		{"accepts any state", "state", "an unknown state is accepted"},
		{"mixes up callers", "side-by-side", "who returns to client-"},
		{"no acknowledgement", "acknowledges", "the first event of Listen is"},
		{"no acknowledgement", "listen", "the first event is"},
		{"no changes", "listen", "test://a changed: the subscriber gets"},
		{"all changes", "listen", "a subscriber to test://other only gets"},
		{"second handshake", "noise", "it printed 10 handshakes"},
		{"interrupted", "interrupt", "it exited: killed by signal: interrupt"},
		{"no controller", "shutdown", "Shutdown: status UNIMPLEMENTED"},
		{"ignores Shutdown", "shutdown", "it keeps running"},
		{"exits during calls", "shutdown", "a call in flight did not complete"},
		{"exits with 3", "shutdown", "got exit status 3, want exit status 0"},
		{"leaves its socket", "shutdown", "its socket still exists"},
		{"ignores SIGTERM", "terminate", "it keeps running"},
		{"survives as an orphan", "orphan", "it keeps running after its standard input ended"},
		{"one socket", "killed", "address already in use"},
	}
	// Most checks wait for a timeout, so many run at a time.
	type outcome struct {
		checks []verify.Check
		err    error
	}
	outcomes := make([]outcome, len(defects))
	slots := make(chan struct{}, 8)
	var wg sync.WaitGroup
	for i, d := range defects {
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			outcomes[i].checks, outcomes[i].err = verify.Run(t.Context(), hostileOptions(d.mode, d.check))
		})
	}
	wg.Wait()
	rows := map[string]bool{}
	for i, d := range defects {
		rows[d.check] = true
		t.Run(d.check+"/"+d.mode, func(t *testing.T) {
			if err := outcomes[i].err; err != nil {
				t.Fatal(err)
			}
			checks := outcomes[i].checks
			if len(checks) != 1 || checks[0].Outcome != verify.Failed {
				t.Fatalf("got %+v, want one failed check", checks)
			}
			for _, found := range checks[0].Defects {
				if found.What == "" || found.Why == "" || found.Fix == "" {
					t.Errorf("incomplete defect: %+v", found)
				}
				if strings.Contains(found.What, d.text) || strings.Contains(found.Why, d.text) {
					return
				}
			}
			t.Errorf("no defect with %q: %+v", d.text, checks[0].Defects)
		})
	}
	for _, c := range verify.Checks() {
		if !rows[c.Name] {
			t.Errorf("no row for the check %s", c.Name)
		}
	}
}

func TestBackendsThatCannotBeVerified(t *testing.T) {
	bridgetest.SkipIfShort(t)
	for name, c := range map[string]struct {
		o    verify.Options
		text string
	}{
		"exits": {
			verify.Options{Command: []string{"false"}, Env: os.Environ()},
			"false exited before its handshake: exit status 1",
		},
		"not found": {
			verify.Options{Command: []string{"no-such-program"}, Env: os.Environ()},
			"there is no program",
		},
		"no handshake": {verify.Options{
			Command: []string{"sleep", "60"}, Env: os.Environ(),
			StartTimeout: 100 * time.Millisecond,
		}, "printed no handshake within 100ms"},
		"no response": {
			verify.Options{Address: "unix:" + filepath.Join(t.TempDir(), "none")},
			"no response from unix:",
		},
		"invalid address": {verify.Options{Address: "http://here"}, "is not an address"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := verify.Run(t.Context(), c.o)
			start, ok := errors.AsType[*verify.StartError](err)
			if !ok || !strings.Contains(start.What, c.text) || start.Why == "" || start.Fix == "" {
				t.Errorf("got %v, %+v; want %q", err, start, c.text)
			}
		})
	}
}

// Checks of a running backend leave out those that launch one.
func TestRunningBackendPasses(t *testing.T) {
	bridgetest.SkipIfShort(t)
	path := filepath.Join(t.TempDir(), "s")
	ln, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	h := &hostile{mode: "sound", inner: bridgetest.Kit(), stopped: make(chan struct{})}
	h.serve(nil)
	served := make(chan error, 1)
	go func() { served <- h.server.Serve(ln) }()
	t.Cleanup(func() {
		h.server.Stop()
		<-served
	})
	pass(t, verify.Options{Address: "unix:" + path}, []string{
		"handshake", "mutual-tls", "by-hand", "versions", "tcp", "stock-host", "plaintext", "multiplex", "interrupt",
		"shutdown",
		"terminate", "orphan", "killed",
	})
}

// Without all of the kit's tools, no tool is called.
func TestToolsAreNotCalled(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	ln, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	inner := bridgetest.Kit()
	inner.Remove("who")
	s := grpc.NewServer()
	register(s, inner)
	served := make(chan error, 1)
	go func() { served <- s.Serve(ln) }()
	t.Cleanup(func() {
		s.Stop()
		<-served
	})
	checks, err := verify.Run(t.Context(), verify.Options{Address: "unix:" + path})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"sleep", "add", "echo", "remove", "noise"} {
		if n := inner.Calls.Of(name); n != 0 {
			t.Errorf("%s: got %d calls, want none", name, n)
		}
	}
	for _, c := range checks {
		if c.Name == "cancel" && (c.Outcome != verify.Skipped || c.Needs == "") {
			t.Errorf("cancel: got %s", fmt.Sprint(c))
		}
	}
}
