package child

import (
	"fmt"
	"os/exec"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// ownGroup starts cmd as the leader of a process group, so that signals reach its children, and lets the kernel kill
// it when the thread that starts it exits.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// waitExit waits until the process has ended, and leaves its status to cmd.Wait.
func waitExit(cmd *exec.Cmd) {
	for {
		err := unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if err != unix.EINTR {
			return
		}
	}
}

// A trap makes the kernel kill a process group when the bridge dies for any reason. Pdeathsig does not apply to the
// program's own children.
//
// It is a pipe whose only writer is the bridge, with asynchronous readers: when the last writer is closed, the kernel
// sends SIGKILL to the owner of the readers, which is the group. This needs an open reader, and at exit the kernel
// closes all files in an undefined order: so one reader has a lower number than the writer, and one a higher.
// Processes that have left the group survive.
type trap struct{ files []int }

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

// disarm removes the trap without killing the group.
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
