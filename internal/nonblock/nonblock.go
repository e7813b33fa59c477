// Package nonblock has connections be read and written without a word to Go's scheduler.
//
// Before each system call, Go says that the thread may block, and if everything had been waiting until then, that wakes the
// thread that watches over the others (runtime.sysmon). It looks around every 20 µs then, until everything waits again. Where calls
// come one by one, everything waits twice for each of them, and waking that thread and its looks are a fifth of what the process uses.
// But a socket of package net never blocks, it says EAGAIN: nobody needs to watch.
//
// What is longer than 16 KiB is read and written as ever, so that work that takes long is watched over: Go lets others run when a
// goroutine has run for 10 ms, which it learns from that thread. It wakes by itself for timers, too.
package nonblock

import (
	"context"
	"net"
)

// A DialFunc connects to an address, as that of net.Dialer.
type DialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// Dial returns dial whose connections are those of Conn.
func Dial(dial DialFunc) DialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return Conn(c), nil
	}
}

// Listener returns ln whose connections are those of Conn.
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
