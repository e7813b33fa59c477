package child

import (
	"os"
	"os/exec"
	"syscall"
)

// ownGroup starts cmd in a group of its own, which does not receive the console's Ctrl-C.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}

// A Signal is a request to a process.
type Signal int

const (
	// Terminate has no effect on Windows.
	Terminate Signal = iota
	// Kill kills a process.
	Kill
)

// signalGroup kills p, but not its children, which would need a job object.
func signalGroup(p *os.Process, s Signal) {
	if s == Kill {
		_ = p.Kill()
	}
}
