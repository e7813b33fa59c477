package plugin

import (
	"os"
	"os/exec"
	"syscall"
)

// ownGroup keeps cmd from getting the console's Ctrl-C, which is for us.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}

// A groupSignal is what is sent to a process.
type groupSignal int

const (
	terminate groupSignal = iota // there is no such thing
	kill
)

// signalGroup ends p. Its children are not reached: that would take a job object.
func signalGroup(p *os.Process, s groupSignal) {
	if s == kill {
		_ = p.Kill()
	}
}
