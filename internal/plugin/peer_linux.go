package plugin

import (
	"fmt"
	"net"

	"golang.org/x/sys/unix"
)

// checkPeer returns an error unless the peer of a connection is a process of the group.
func checkPeer(conn net.Conn, pgid int) error {
	cred, err := peerOf(conn)
	if err != nil {
		return err
	}
	group, err := unix.Getpgid(int(cred.Pid))
	if err != nil {
		return fmt.Errorf("process %d: %w", cred.Pid, err)
	}
	if group != pgid {
		return fmt.Errorf("process %d is neither the backend nor one of its children", cred.Pid)
	}
	return nil
}

// peerPid returns the process at the other end of a connection, or 0 if it is unknown. For an outgoing connection, it
// is the process that listens.
func peerPid(conn net.Conn) int {
	cred, err := peerOf(conn)
	if err != nil {
		return 0
	}
	return int(cred.Pid)
}

// peerOf returns the process at the other end of a unix socket.
func peerOf(conn net.Conn) (*unix.Ucred, error) {
	c, ok := conn.(*net.UnixConn)
	if !ok {
		return nil, fmt.Errorf("%T is not a unix socket", conn)
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, err
	}
	var cred *unix.Ucred
	var credErr error
	if err := raw.Control(func(fd uintptr) {
		cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return nil, err
	}
	return cred, credErr
}
