//go:build unix

package child

import (
	"os"
	"syscall"
)

// A Signal is a signal to a process group.
type Signal = syscall.Signal

const (
	// Terminate sends SIGTERM to a process.
	Terminate Signal = syscall.SIGTERM
	// Kill kills a process.
	Kill Signal = syscall.SIGKILL
)

// signalGroup signals p and the processes in its group.
func signalGroup(p *os.Process, s Signal) { _ = syscall.Kill(-p.Pid, s) }
