//go:build unix && !linux

package child

import (
	"os/exec"
	"syscall"
)

// ownGroup starts cmd as the leader of a process group, so that signals reach its children.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
