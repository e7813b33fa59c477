//go:build linux && !race

package nonblock

import "net"

// Conn returns c with Read and Write that do not notify the scheduler, if c is a TCP connection. With the race
// detector, which has to see synchronization through sockets, it returns c.
func Conn(c net.Conn) net.Conn {
	if t, ok := c.(*net.TCPConn); ok {
		return newConn(t)
	}
	return c
}
