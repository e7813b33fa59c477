package plugin

import (
	"errors"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/limits"
)

// A backend that exceeds its memory limit is killed alone and restarted, and the caller's error contains the reason. If
// no limit can be set, it does not start, and the error contains a fix.
func TestBackendThatExceedsItsMemoryLimit(t *testing.T) {
	sibling := run(t, Options{Name: "sibling", Command: []string{rogue}}).ready(t)
	before := sibling.pid(t) // it has opened all its files
	r := run(t, Options{Command: []string{rogue}, Machine: limits.Machine{Memory: 128 << 20, Processes: 100}})
	if err := r.Ready(t.Context()); err != nil {
		var start *StartError
		if !errors.As(err, &start) || !strings.Contains(start.Fix, "Delegate=memory") ||
			!strings.Contains(start.Why, "its limit of memory cannot be set") {
			t.Error(err)
		}
		return
	}
	first := r.pid(t)
	_, err := r.Handle(t.Context(), tool("eat", `{}`), ignore)
	e := wantFailure(t, err, codes.ResourceExhausted, bridge.OutcomeUnknown, "BACKEND_OOM")
	if !strings.Contains(e.Message, "no memory left") {
		t.Error(e.Message)
	}
	r.log.wait(t, `"status":"killed by signal: killed, because there was no memory left`) // its files are closed by now
	if second := r.pid(t); second == first {
		t.Error("the process still runs")
	}
	if got := r.text(t, "echo", `{}`); got != `{}` {
		t.Errorf("echo: %s", got)
	}
	if sibling.pid(t) != before {
		t.Error("another backend was killed as well")
	}
}

// The error of a start with too little memory contains the reason.
func TestBackendThatCannotStartWithinItsMemoryLimit(t *testing.T) {
	r := run(t, Options{Command: []string{rogue}, Machine: limits.Machine{Memory: 1 << 20}})
	err := r.Ready(t.Context())
	var start *StartError
	if !errors.As(err, &start) || !strings.Contains(start.Fix, "memory") && !strings.Contains(start.Fix, "Delegate") {
		t.Errorf("%v", err)
	}
	_, err = r.Handle(t.Context(), tool("echo", `{}`), ignore)
	if e := bridge.AsError(err); e.Outcome != bridge.OutcomeNotExecuted {
		t.Errorf("a call: %v", err)
	}
}
