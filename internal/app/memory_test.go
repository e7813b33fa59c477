package app

import (
	"math"
	"testing"
)

func TestMemoryLimit(t *testing.T) {
	for _, c := range []struct {
		name                                 string
		configured, fromEnv, container, want int64
	}{
		{"nothing configured", 0, 0, math.MaxInt64, math.MaxInt64},
		{"a container", 0, 0, 100 << 20, 85 << 20},
		{"GOMEMLIMIT in a container", 0, 99 << 20, 100 << 20, 99 << 20},
		{"GOMEMLIMIT=off in a container", 0, math.MaxInt64, 100 << 20, math.MaxInt64},
		{"the configuration", 64 << 20, 99 << 20, 100 << 20, 64 << 20},
	} {
		if got := memoryOf(c.configured, c.fromEnv, c.container); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}
