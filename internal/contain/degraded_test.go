package contain

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
)

// Three panics of one place within a minute degrade the process, until the first of them is older. As many of several
// places do not.
func TestRepeatedPanicsOfOnePlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := New(zerolog.Nop())
		parts := []*Panics{all, all.With(zerolog.Nop()), New(zerolog.Nop()).With(zerolog.Nop())}
		for n, step := range []struct {
			wait     time.Duration
			place    string
			degraded string
		}{
			{0, "here", ""},
			{time.Second, "there", ""},
			{time.Second, "here", ""},
			{time.Second, "there", ""},
			{time.Minute - 3*time.Second - 1, "here", "here"},
			{1, "elsewhere", ""},
			{0, "elsewhere", ""},
			{0, "elsewhere", "elsewhere"},
			{time.Minute, "there", ""},
		} {
			time.Sleep(step.wait) //nolint:forbidigo // by the bubble's clock
			parts[n%2].places.add(step.place)
			parts[2].places.add("another process")
			if got := all.Degraded(); got != step.degraded {
				t.Errorf("step %d: degraded is %q, want %q", n, got, step.degraded)
			}
		}
	})
}
