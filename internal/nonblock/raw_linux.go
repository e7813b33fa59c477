package nonblock

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"unsafe"
)

// most is how many bytes are read or written without telling the scheduler.
const most = 16 << 10

// A conn is a connection of TCP whose Read and Write do not tell the scheduler.
type conn struct {
	*net.TCPConn

	raw syscall.RawConn
}

func newConn(c *net.TCPConn) net.Conn {
	raw, err := c.SyscallConn()
	if err != nil {
		return c // it is none
	}
	return &conn{c, raw}
}

// Read implements net.Conn.
func (c *conn) Read(p []byte) (int, error) {
	if len(p) == 0 || len(p) > most {
		return c.TCPConn.Read(p)
	}
	t := begin(p)
	defer t.end()
	err := c.raw.Read(t.read)
	switch {
	case err != nil || t.errno != 0:
		return 0, c.problem("read", err, t.errno)
	case t.done == 0:
		return 0, io.EOF
	}
	return t.done, nil
}

// Write implements net.Conn.
func (c *conn) Write(p []byte) (int, error) {
	if len(p) == 0 || len(p) > most {
		return c.TCPConn.Write(p)
	}
	t := begin(p)
	defer t.end()
	if err := c.raw.Write(t.write); err != nil || t.errno != 0 {
		return t.done, c.problem("write", err, t.errno)
	}
	return t.done, nil
}

// ReadFrom implements io.ReaderFrom, for package net/http, which writes bodies by it. That of package net makes a new buffer for each.
func (c *conn) ReadFrom(r io.Reader) (int64, error) {
	b := pieces.Get().(*[]byte) //nolint:forcetypeassert // nothing else is put there
	defer pieces.Put(b)
	return io.CopyBuffer(struct{ io.Writer }{c}, r, *b)
}

// pieces are buffers of ReadFrom.
var pieces = sync.Pool{New: func() any { return new(make([]byte, most)) }}

// problem returns the error of Read or Write in the words of package net. It is err, if it could not be waited for the connection, or
// else errno, of the system call.
func (c *conn) problem(op string, err error, errno syscall.Errno) error {
	if err == nil {
		err = os.NewSyscallError(op, errno)
	} else if of, ok := errors.AsType[*net.OpError](err); ok {
		err = of.Err // whose Op is raw-read, or raw-write
	}
	return &net.OpError{Op: op, Net: "tcp", Source: c.LocalAddr(), Addr: c.RemoteAddr(), Err: err}
}

// A transfer is one Read or Write.
type transfer struct {
	p     []byte
	done  int
	errno syscall.Errno

	read, write func(fd uintptr) bool // its own reads and writes: making them anew each time would be garbage
}

var transfers = sync.Pool{New: func() any {
	t := new(transfer)
	t.read, t.write = t.reads, t.writes
	return t
}}

func begin(p []byte) *transfer {
	t := transfers.Get().(*transfer) //nolint:forcetypeassert // nothing else is put there
	t.p, t.done, t.errno = p, 0, 0
	return t
}

func (t *transfer) end() {
	t.p = nil
	transfers.Put(t)
}

// reads reads once. It reports whether that is all, and otherwise is called again when there is something to read.
func (t *transfer) reads(fd uintptr) bool {
	t.do(syscall.SYS_READ, fd)
	return t.errno != syscall.EAGAIN
}

// writes writes all. It reports whether that is so, and otherwise is called again when there is room.
func (t *transfer) writes(fd uintptr) bool {
	for t.done < len(t.p) {
		if t.do(syscall.SYS_WRITE, fd); t.errno != 0 {
			return t.errno != syscall.EAGAIN
		}
	}
	return true
}

// do makes a system call for what is left, and again if a signal was faster.
func (t *transfer) do(call, fd uintptr) {
	rest := t.p[t.done:]
	for {
		n, _, errno := syscall.RawSyscall(call, fd, uintptr(unsafe.Pointer(unsafe.SliceData(rest))), uintptr(len(rest))) //nolint:gosec // as unsafe.Pointer's rule 4 has it
		if errno == syscall.EINTR {
			continue
		}
		if t.errno = errno; errno == 0 {
			t.done += int(n)
		}
		return
	}
}
