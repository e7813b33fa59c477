package child

import (
	"fmt"
	"os/exec"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// ownGroup makes cmd the leader of a process group, so that it can be signalled with its children, and has the kernel kill
// it when the thread that starts it ends.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// waitExit waits until cmd's process has ended, and leaves it to cmd.Wait to bury it.
func waitExit(cmd *exec.Cmd) {
	for {
		err := unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if err != unix.EINTR {
			return
		}
	}
}

// A trap has the kernel kill a process group when we die, however we die. Pdeathsig alone would leave the child's own
// children, and the lifeline needs somebody who watches it.
//
// It is a pipe that only we have. Its readers are asynchronous: when the last writer goes, which is us, the kernel sends
// their owner a signal, the owner being the group and the signal SIGKILL. That works only as long as a reader is open, and
// when we die all our files are closed, in an order that depends on the kernel: hence a reader with a lower number than the
// writer's and one with a higher. What has left the group survives.
type trap struct{ files []int }

// setTrap sets a trap for the process group pgid.
func setTrap(pgid int) (trap, error) {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		return trap{}, err
	}
	defer unix.Close(p[1])
	low := p[0]
	writer, err := unix.FcntlInt(uintptr(p[1]), unix.F_DUPFD_CLOEXEC, low+1)
	if err != nil {
		return trap{[]int{low}}, err
	}
	t := trap{[]int{low, writer}}
	other, err := unix.Open("/proc/self/fd/"+strconv.Itoa(low), unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return t, fmt.Errorf("open a pipe again: %w", err)
	}
	defer unix.Close(other)
	high, err := unix.FcntlInt(uintptr(other), unix.F_DUPFD_CLOEXEC, writer+1)
	if err != nil {
		return t, err
	}
	t.files = append(t.files, high)
	for _, reader := range []int{low, high} {
		for _, set := range [][2]int{
			{unix.F_SETOWN, -pgid},
			{unix.F_SETSIG, int(unix.SIGKILL)},
			{unix.F_SETFL, unix.O_ASYNC | unix.O_NONBLOCK},
		} {
			if _, err := unix.FcntlInt(uintptr(reader), set[0], set[1]); err != nil {
				return t, fmt.Errorf("fcntl %d: %w", set[0], err)
			}
		}
	}
	return t, nil
}

// disarm removes the trap without springing it.
func (t trap) disarm() {
	for i := len(t.files) - 1; i >= 0; i-- {
		if i != 1 {
			_, _ = unix.FcntlInt(uintptr(t.files[i]), unix.F_SETFL, unix.O_NONBLOCK)
		}
	}
	for _, fd := range t.files {
		_ = unix.Close(fd)
	}
}
