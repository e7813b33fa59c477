//go:build !linux

package child

import "os/exec"

// waitExit waits until cmd's process has ended.
func waitExit(cmd *exec.Cmd) { _ = cmd.Wait() }

// A trap is available on Linux only. Elsewhere, a program must watch its lifeline to notice the end of the bridge.
type trap struct{}

func setTrap(int) (trap, error) { return trap{}, nil }

func (trap) disarm() {}
