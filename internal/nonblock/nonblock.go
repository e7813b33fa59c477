// Package nonblock reads and writes sockets without notifying Go's scheduler.
//
// Before a system call that may block, Go notifies its monitor thread (runtime.sysmon), which wakes up if everything
// was idle, and then polls every 20 µs until everything is idle again. For sequential calls this happens twice per
// call, and takes a fifth of the process's CPU time. Sockets of package net are non-blocking, and do not need it.
//
// Transfers of more than 16 KiB are not affected, so that long work is preempted as usual.
package nonblock

import (
	"context"
	"net"
)

// A DialFunc connects to an address, as net.Dialer.DialContext does.
type DialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// Dial returns a DialFunc that applies Conn to the connections of dial.
func Dial(dial DialFunc) DialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return Conn(c), nil
	}
}

// Listener returns a listener that applies Conn to the connections of ln.
func Listener(ln net.Listener) net.Listener { return listener{ln} }

type listener struct{ net.Listener }

// Accept implements net.Listener.
func (l listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return Conn(c), nil
}
