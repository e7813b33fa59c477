//go:build !linux

package child

import (
	"errors"
	"os/exec"

	"github.com/rs/zerolog"

	"github.com/mcpbridge/mcpbridge/internal/limits"
)

// A bounds is for Linux.
type bounds struct{}

// bound refuses limits that somebody has asked for.
func bound(l limits.Machine, _ *zerolog.Logger) (*bounds, error) {
	for _, asked := range []struct {
		limit string
		n     int
	}{{"memory", l.Memory}, {"processes", l.Processes}, {"files", l.Files}} {
		if asked.n != 0 {
			return nil, &LimitError{asked.limit, "leave it out", errors.New("that is possible on Linux only")}
		}
	}
	return &bounds{}, nil
}

func (*bounds) dispense(*zerolog.Logger, error) bool { return false }

func (*bounds) into(*exec.Cmd) {}

func (*bounds) hold(int) error { return nil }

func (*bounds) oomKills() int { return 0 }

func (*bounds) end(*zerolog.Logger) {}
