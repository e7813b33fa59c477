//go:build !linux

package child

import (
	"errors"
	"os/exec"

	"github.com/rs/zerolog"

	"github.com/mcpbridge/mcpbridge/internal/limits"
)

// resourceLimits are available on Linux only.
type resourceLimits struct{}

// newResourceLimits rejects configured limits.
func newResourceLimits(l limits.Machine, _ *zerolog.Logger) (*resourceLimits, error) {
	for _, c := range []struct {
		limit string
		n     int
	}{{"memory", l.Memory}, {"processes", l.Processes}, {"files", l.Files}} {
		if c.n != 0 {
			return nil, &LimitError{c.limit, "leave it out", errors.New("supported on Linux only")}
		}
	}
	return &resourceLimits{}, nil
}

func (*resourceLimits) dropOptional(*zerolog.Logger, error) bool { return false }

func (*resourceLimits) configure(*exec.Cmd) {}

func (*resourceLimits) apply(int) error { return nil }

func (*resourceLimits) oomKills() int { return 0 }

func (*resourceLimits) end(*zerolog.Logger) {}
