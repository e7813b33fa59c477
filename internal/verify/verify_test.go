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

// The kit in every language passes every check: one row of bridgetest.Programs for each.
func TestKitsPass(t *testing.T) {
	bridgetest.SkipIfShort(t)
	for _, program := range bridgetest.Programs() {
		t.Run(program.Language, func(t *testing.T) {
			pass(t, verify.Options{Command: program.Command(t), Env: os.Environ()}, nil)
		})
	}
}

// pass has a backend verified, and fails for every check but those that are left out for a reason.
func pass(t *testing.T, o verify.Options, leftOut []string) {
	t.Helper()
	checks, err := verify.Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if len(checks) != len(verify.Checks()) {
		t.Errorf("%d checks of %d were made", len(checks), len(verify.Checks()))
	}
	for _, c := range checks {
		want := verify.Passed
		if slices.Contains(leftOut, c.Name) {
			want = verify.LeftOut
		}
		if c.Outcome != want {
			t.Errorf("%s %s, want %s: %+v", c.Name, c.Outcome, want, c.Defects)
		}
	}
}

func hostileOptions(mode string, only ...string) verify.Options {
	env := append(os.Environ(), modeKey+"="+mode, "GORACE=atexit_sleep_ms=0") // it ends when it says so, with -race too
	return verify.Options{Command: []string{os.Args[0]}, Env: env, StartTimeout: 10 * time.Second, Only: only}
}

// A backend without an SDK and without a defect passes: what the rows below say is what is wrong with them, and nothing else.
func TestSoundBackendPasses(t *testing.T) {
	bridgetest.SkipIfShort(t)
	pass(t, hostileOptions("sound"), nil)
}

// A result can be any JSON (2026-07-28), and a tool may say so. Clients of older revisions are not told of it.
func TestOutputNeedNotBeAnObject(t *testing.T) {
	for _, mode := range []string{"an array", "anything"} {
		checks, err := verify.Run(t.Context(), hostileOptions(mode, "definitions"))
		if err != nil {
			t.Fatal(err)
		}
		if len(checks) != 1 || checks[0].Outcome != verify.Passed {
			t.Errorf("%s: %+v", mode, checks)
		}
	}
}

// Each defect is found by its check, with a text of its own.
func TestDefectsAreFound(t *testing.T) {
	bridgetest.SkipIfShort(t)
	defects := []struct{ mode, check, says string }{
		{"old handshake", "handshake", `field 1 is "0"`},
		{"another version", "handshake", `field 2 is "2"`},
		{"net/rpc", "handshake", `field 5 is "netrpc"`},
		{"garbage for a certificate", "handshake", "field 6, the certificate, is not base64"},
		{"padded", "handshake", "is padded with ="},
		{"nameless certificate", "handshake", "is not for localhost"},
		{"no TLS", "handshake", "field 6 is empty"},
		{"everywhere", "handshake", "it must be 127.0.0.1:PORT"},
		{"in the open", "handshake", "is not in the directory that PLUGIN_UNIX_SOCKET_DIR says"},
		{"open", "mutual-tls", "a client without a certificate was let in"},
		{"no TLS", "mutual-tls", "a client without TLS was let in"},
		{"unwell", "health", `health of "plugin": status NOT_FOUND`},
		{"not serving", "health", `health of "" is NOT_SERVING`},
		{"started by anybody", "by-hand", "started with no MCPBRIDGE_PLUGIN it says that it listens"},
		{"crashes by hand", "by-hand", "it crashes: killed by signal: killed"},
		{"crashes at versions", "versions", "it crashes: killed by signal: killed"},
		{"crashes without keys", "stock-host", "it crashed: killed by signal: killed"},
		{"crashes as an orphan", "orphan", "it crashes when its standard input has ended: killed by signal: killed"},
		{"content", "by-hand", "it exits with 0"},
		{"silent", "by-hand", "it says nothing on standard error"},
		{"any version", "versions", "started with PLUGIN_PROTOCOL_VERSIONS=97,98 it says that it listens"},
		{"unix only", "tcp", "it listens at unix although PLUGIN_TRANSPORTS=tcp"},
		{"silent without keys", "stock-host", "did not say why on standard error"},
		{"always a certificate", "plaintext", "field 6 is not empty"},
		{"six fields", "multiplex", "field 7 of the handshake is missing"},
		{"nameless", "discover", "server_info has no name"},
		{"versioned", "discover", "supported_versions is [2026-07-28]"},
		{"incapable", "discover", "there are no capabilities"},
		{"fickle", "discover", "Discover is not the same twice"},
		{"endless list", "lists", `ListTools says the cursor "8" twice`},
		{"ever more pages", "lists", "ListTools has more than 1000 pages"},
		{"huge list", "lists", "ListTools has more than 67108864 bytes"},
		{"shuffled", "lists", "ListTools is not the same twice"},
		{"any cursor", "bad-cursor", "ListTools at a cursor that does not exist is answered as if it were right"},
		{"bad name", "definitions", "its name is not 1 to 128 letters"},
		{"no schema", "definitions", "its input schema is missing"},
		{"not an object", "definitions", `its input schema does not have "type": "object"`},
		{"no JSON Schema", "definitions", "its input schema is not a JSON Schema"},
		{"half a schema", "definitions", "its output schema is not JSON"},
		{"a boolean schema", "definitions", "its output schema is not a JSON object"},
		{"a schema elsewhere", "definitions", "a schema must hold all it needs"},
		{"twice", "definitions", `ListTools has tool "add" twice`},
		{"no meta", "definitions", "_meta is not a JSON object"},
		{"no scheme", "definitions", "its URI has no scheme"},
		{"nameless resource", "definitions", "it has no name"},
		{"no template", "definitions", "its URI template is not one of RFC 6570"},
		{"argument twice", "definitions", "an argument has no name, or that of another"},
		{"anything goes", "unknown-names", "a tool that does not exist is answered as if it were right"},
		{"status for a failure", "result", "fail: status INTERNAL"},
		{"inexact", "result", "want the JSON-RPC error -7"},
		{"upset", "bad-arguments", "echo [1]: status INTERNAL"},
		{"easy to upset", "bad-arguments", "the process has ended: exit status 2"},
		{"small messages", "blobs", "RESOURCE_EXHAUSTED"},
		{"floating point", "unicode", "structured content is"},
		{"backwards", "progress", "step 1 came as -1"},
		{"endless steps", "progress", "it has more than 100000 events"},
		{"half the steps", "progress", "of 10000 steps 5000 were told"},
		{"progress for all", "progress", "3 steps were told to a caller that does not want them"},
		{"chatty", "logs", "asked for error, it logs"},
		{"stubborn", "cancel", "the tool went on for"},
		{"stubborn", "deadline", "the tool went on for"},
		{"forgetful", "unknown-members", "_meta is  and was"},
		{"forgetful", "unknown-members", "extra is  and was"},
		{"one at a time", "questions", "it asks on after 10 rounds"},
		{"again and again", "questions", "what is to happen once happened in every round"},
		{"does not take no", "answers", `of a client that declines it says "cancelled", and not "declined"`},
		{"asks anybody", "answers", "it asks a client that cannot show forms"},
		{"gullible", "state", "a state that it has not said is taken for its own"},
		{"crossed", "side-by-side", "who says to client-"},
		{"no acknowledgement", "acknowledges", "the first event of Listen is not the acknowledgement"},
		{"no acknowledgement", "listen", "the first event is not the acknowledgement"},
		{"tells nobody", "listen", "a listener is not told that test://a has changed"},
		{"tells everybody", "listen", "a listener that asked for test://other only is told"},
		{"second handshake", "noise", "it has printed 10 handshakes"},
		{"interrupted", "interrupt", "it ended: killed by signal: interrupt"},
		{"no controller", "shutdown", "Shutdown: status UNIMPLEMENTED"},
		{"deaf to Shutdown", "shutdown", "it goes on running"},
		{"abrupt", "shutdown", "a call that was running did not finish"},
		{"exits with 3", "shutdown", "it ended with exit status 3"},
		{"leaves its socket", "shutdown", "its socket is still there"},
		{"deaf to SIGTERM", "terminate", "it goes on running"},
		{"orphan", "orphan", "it goes on after its standard input has ended"},
		{"one socket", "killed", "address already in use"},
	}
	// Most of the time they wait for something not to happen, so many at a time.
	type outcome struct {
		checks []verify.Check
		err    error
	}
	outcomes := make([]outcome, len(defects))
	places := make(chan struct{}, 8)
	var wg sync.WaitGroup
	for i, d := range defects {
		wg.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
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
				t.Fatalf("not found: %+v", checks)
			}
			for _, found := range checks[0].Defects {
				if found.What == "" || found.Why == "" || found.Fix == "" {
					t.Errorf("it does not say all there is to say: %+v", found)
				}
				if strings.Contains(found.What, d.says) || strings.Contains(found.Why, d.says) {
					return
				}
			}
			t.Errorf("nothing says %q: %+v", d.says, checks[0].Defects)
		})
	}
	for _, c := range verify.Checks() {
		if !rows[c.Name] {
			t.Errorf("there is no defect that %s finds", c.Name)
		}
	}
}

// Why a backend cannot be verified at all is said as well.
func TestBackendsThatCannotBeVerified(t *testing.T) {
	bridgetest.SkipIfShort(t)
	for name, c := range map[string]struct {
		o    verify.Options
		says string
	}{
		"it ends":          {verify.Options{Command: []string{"false"}, Env: os.Environ()}, "false ended before it said where it listens: exit status 1"},
		"there is none":    {verify.Options{Command: []string{"no-such-program"}, Env: os.Environ()}, "there is no program"},
		"it says nothing":  {verify.Options{Command: []string{"sleep", "60"}, Env: os.Environ(), StartTimeout: 100 * time.Millisecond}, "did not say where it listens within 100ms"},
		"nobody is there":  {verify.Options{Address: "unix:" + filepath.Join(t.TempDir(), "none")}, "nothing answers at unix:"},
		"it is no address": {verify.Options{Address: "http://here"}, "is no address"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := verify.Run(t.Context(), c.o)
			start, ok := errors.AsType[*verify.StartError](err)
			if !ok || !strings.Contains(start.What, c.says) || start.Why == "" || start.Fix == "" {
				t.Errorf("got %v, %+v; want %q", err, start, c.says)
			}
		})
	}
}

// What runs already is dialled, and what needs a launch is left out.
func TestDialledBackendPasses(t *testing.T) {
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
		"handshake", "mutual-tls", "by-hand", "versions", "tcp", "stock-host", "plaintext", "multiplex", "interrupt", "shutdown",
		"terminate", "orphan", "killed",
	})
}

// A backend without the kit's tools has no tool called, whatever they are called.
func TestToolsOfAnAuthorAreNotCalled(t *testing.T) {
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
			t.Errorf("%s was called %d times", name, n)
		}
	}
	for _, c := range checks {
		if c.Name == "cancel" && (c.Outcome != verify.LeftOut || c.Needs == "") {
			t.Errorf("cancel %s", fmt.Sprint(c))
		}
	}
}
