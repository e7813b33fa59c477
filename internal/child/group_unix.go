//go:build unix && !linux

package child

import (
	"os/exec"
	"syscall"
)

// ownGroup makes cmd the leader of a process group, so that it can be signalled with its children.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
