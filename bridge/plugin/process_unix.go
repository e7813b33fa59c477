//go:build unix

package plugin

import (
	"os"
	"syscall"
)

// A groupSignal is what is sent to a process group.
type groupSignal = syscall.Signal

const (
	terminate groupSignal = syscall.SIGTERM
	kill      groupSignal = syscall.SIGKILL
)

// signalGroup signals p and its children, as far as they have not left its group.
func signalGroup(p *os.Process, s groupSignal) { _ = syscall.Kill(-p.Pid, s) }
