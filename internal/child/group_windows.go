package child

import (
	"os"
	"os/exec"
	"syscall"
)

// ownGroup keeps cmd from getting the console's Ctrl-C, which is for us.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}

// A Signal is what is sent to a process.
type Signal int

const (
	// Terminate asks a process to end. There is no such thing here.
	Terminate Signal = iota
	// Kill ends a process.
	Kill
)

// signalGroup ends p. Its children are not reached: that would take a job object.
func signalGroup(p *os.Process, s Signal) {
	if s == Kill {
		_ = p.Kill()
	}
}
