//go:build !linux || race

package nonblock

import "net"

// Conn returns a connection that is c, and does not tell the scheduler when it is read and written, where that is known to be of use:
// on Linux, if c is of TCP. The race detector must see what goes through sockets, which is why it gets c itself.
func Conn(c net.Conn) net.Conn { return c }
