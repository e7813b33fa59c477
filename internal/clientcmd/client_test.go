package clientcmd

import (
	"testing"
	"time"

	"github.com/mcpbridge/mcpbridge/internal/limits"
)

// The default limits of calls are longer than a day.
func TestDefaultLimitsOfCalls(t *testing.T) {
	day := 24 * time.Hour
	if l := withoutTimeouts(limits.Limits{CallTotal: time.Minute}); l.CallIdle < day || l.CallTotal != time.Minute {
		t.Errorf("the limits are %+v", l)
	}
	if l := withoutTimeouts(limits.Limits{}); l.CallTotal < day {
		t.Errorf("the limits are %+v", l)
	}
}
