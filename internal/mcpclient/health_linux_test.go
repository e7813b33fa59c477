package mcpclient_test

import (
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/bridgetest"
	"github.com/mcpbridge/mcpbridge/internal/mcpclient"
)

// A program stopped by SIGSTOP is restarted, and calls that wait for it end.
func TestStoppedProgramIsRestarted(t *testing.T) {
	bridgetest.SkipIfShort(t)
	for _, rev := range []bridge.Revision{bridge.Rev20251125, bridge.Rev20260728} {
		t.Run(rev.String(), func(t *testing.T) {
			c := run(t, mcpclient.Options{
				Command: []string{os.Args[0]}, Env: []string{serveEnv + "=" + ownHandler},
				Revision: rev,
			}, (*mcpclient.Client).HastenHangChecks)
			failed := make(chan error)
			go func() {
				_, err := c.Handle(t.Context(), toolCall("wait", `{}`), ignore)
				failed <- err
			}()
			if got := call(t, c, "started", `{}`); got != "started" {
				t.Errorf("got %q", got)
			}
			signalChildren(t, syscall.SIGSTOP)
			e := bridge.AsError(<-failed)
			if e.Reason != "BACKEND_CRASHED" || e.Outcome != bridge.OutcomeUnknown ||
				!strings.Contains(e.Cause.Error(), "SIGSTOP") {
				t.Errorf("got %v: %v", e, e.Cause)
			}
			if got := call(t, c, "echo", `{}`); got != "{}" {
				t.Errorf("got %q", got)
			}
		})
	}
}
