package child

import (
	"crypto/rand"
	"os"
	"os/exec"
	"syscall"
)

// guardVariable identifies a program and everything that it starts.
const guardVariable = "MCPBRIDGE_RUN"

// guardScript waits for the end of the pipe, which means that the bridge was killed, and kills all processes with $1
// in their environment. It is a shell script because systems with programs that leave their group have a shell. It
// ignores the status of grep, which cannot read some environments.
const guardScript = `read -r line
for n in 1 2 3 4 5 6 7 8 9 10; do
	found=$(grep -la "$1" /proc/[0-9]*/environ 2>/dev/null)
	[ "$found" ] || exit
	for file in $found; do
		pid=${file#/proc/}
		kill -9 "${pid%/environ}"
	done
done`

// A guard is a process that, when the bridge is killed, kills the processes that left a program's process group
// (setsid). Neither the trap nor Pdeathsig reaches them, and control groups are often not available. The zero value
// does nothing.
type guard struct {
	cmd  *exec.Cmd
	pipe *os.File
}

// newMark returns a unique environment entry.
func newMark() string { return guardVariable + "=" + rand.Text() }

// setGuard starts a guard for the mark.
func setGuard(mark string) (guard, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return guard{}, err
	}
	defer read.Close()
	cmd := exec.Command("/bin/sh", "-c", guardScript, "mcpbridge-guard", mark) //nolint:noctx // ends with the pipe
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	cmd.Dir = "/"
	cmd.Stdin = read
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // signals to the bridge do not reach it
	startMu.RLock()
	defer startMu.RUnlock()
	if err := cmd.Start(); err != nil {
		_ = write.Close()
		return guard{}, err
	}
	children.Store(cmd.Process.Pid, cmd)
	return guard{cmd, write}, nil
}

// dismiss kills the guard and waits for it. SIGKILL also ends a stopped process.
func (g guard) dismiss() {
	if g.cmd == nil {
		return
	}
	_ = g.cmd.Process.Kill() // it may have been killed already
	_ = g.pipe.Close()
	wait(g.cmd)
}
