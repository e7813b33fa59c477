package clientcmd

import (
	"testing"
	"time"

	"github.com/mcpbridge/mcpbridge/internal/limits"
)

// The default timeout of calls is longer than a user waits.
func TestDefaultLimitsOfCalls(t *testing.T) {
	day := 24 * time.Hour
	if l := withoutTimeouts(limits.Limits{CallTotal: time.Minute}); l.CallIdle < day || l.CallTotal != time.Minute {
		t.Errorf("got limits %+v", l)
	}
	if l := withoutTimeouts(limits.Limits{}); l.CallTotal < day {
		t.Errorf("got limits %+v", l)
	}
}
