package plugin

import (
	"fmt"
	"net"

	"golang.org/x/sys/unix"
)

// checkPeer returns an error unless a process of the group is at the other end of a connection.
func checkPeer(conn net.Conn, pgid int) error {
	c, ok := conn.(*net.UnixConn)
	if !ok {
		return fmt.Errorf("%T is no unix socket", conn)
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var cred *unix.Ucred
	var credErr error
	if err := raw.Control(func(fd uintptr) {
		cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return err
	}
	if credErr != nil {
		return credErr
	}
	group, err := unix.Getpgid(int(cred.Pid))
	if err != nil {
		return fmt.Errorf("process %d: %w", cred.Pid, err)
	}
	if group != pgid {
		return fmt.Errorf("process %d is not the backend, and none that it has started", cred.Pid)
	}
	return nil
}
