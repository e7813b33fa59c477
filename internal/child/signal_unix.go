//go:build unix

package child

import (
	"os"
	"syscall"
)

// A Signal is what is sent to a process group.
type Signal = syscall.Signal

const (
	// Terminate asks a process to end.
	Terminate Signal = syscall.SIGTERM
	// Kill ends a process.
	Kill Signal = syscall.SIGKILL
)

// signalGroup signals p and its children, as far as they have not left its group.
func signalGroup(p *os.Process, s Signal) { _ = syscall.Kill(-p.Pid, s) }
