package child

import (
	"crypto/rand"
	"os"
	"os/exec"
	"syscall"
)

// guardVariable marks the environment of a program, and so that of all that it starts.
const guardVariable = "MCPBRIDGE_RUN"

// guardScript waits for the end of the pipe. Unless it is killed before that, the bridge has been killed, and whatever
// has the mark $1 in its environment is killed, until nothing is left. It has to be a process of its own to be there then, and a shell,
// because any system that has programs which leave their group has one. The status of grep says nothing: some environments cannot be read.
const guardScript = `read -r line
for n in 1 2 3 4 5 6 7 8 9 10; do
	found=$(grep -la "$1" /proc/[0-9]*/environ 2>/dev/null)
	[ "$found" ] || exit
	for file in $found; do
		pid=${file#/proc/}
		kill -9 "${pid%/environ}"
	done
done`

// A guard kills what has left the process group of a program (setsid) when we are killed: neither the trap nor Pdeathsig reach it, and a
// control group can be made in few places only. The zero value guards nothing.
type guard struct {
	cmd  *exec.Cmd
	pipe *os.File
}

// newMark returns an environment entry that no other run of a program has.
func newMark() string { return guardVariable + "=" + rand.Text() }

// setGuard starts to guard what has the mark.
func setGuard(mark string) (guard, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return guard{}, err
	}
	defer read.Close()
	cmd := exec.Command("/bin/sh", "-c", guardScript, "mcpbridge-guard", mark) //nolint:noctx // it ends when the pipe does
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	cmd.Dir = "/"
	cmd.Stdin = read
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // what ends us does not end it
	beginning.RLock()
	defer beginning.RUnlock()
	if err := cmd.Start(); err != nil {
		_ = write.Close()
		return guard{}, err
	}
	started.Store(cmd.Process.Pid, cmd)
	return guard{cmd, write}, nil
}

// dismiss kills the guard and waits for it. SIGKILL also ends a stopped guard (SIGSTOP).
func (g guard) dismiss() {
	if g.cmd == nil {
		return
	}
	_ = g.cmd.Process.Kill() // it may have been killed already
	_ = g.pipe.Close()
	wait(g.cmd)
}
