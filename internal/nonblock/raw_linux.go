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

// maxSize is the maximum number of bytes that are transferred without notifying the scheduler.
const maxSize = 16 << 10

// A conn is a TCP connection whose Read and Write do not notify the scheduler.
type conn struct {
	*net.TCPConn

	raw syscall.RawConn
}

func newConn(c *net.TCPConn) net.Conn {
	raw, err := c.SyscallConn()
	if err != nil {
		return c // without a file descriptor
	}
	return &conn{c, raw}
}

// Read implements net.Conn.
func (c *conn) Read(p []byte) (int, error) {
	if len(p) == 0 || len(p) > maxSize {
		return c.TCPConn.Read(p)
	}
	t := begin(p)
	defer t.end()
	err := c.raw.Read(t.read)
	switch {
	case err != nil || t.errno != 0:
		return 0, c.opError("read", err, t.errno)
	case t.done == 0:
		return 0, io.EOF
	}
	return t.done, nil
}

// Write implements net.Conn.
func (c *conn) Write(p []byte) (int, error) {
	if len(p) == 0 || len(p) > maxSize {
		return c.TCPConn.Write(p)
	}
	t := begin(p)
	defer t.end()
	if err := c.raw.Write(t.write); err != nil || t.errno != 0 {
		return t.done, c.opError("write", err, t.errno)
	}
	return t.done, nil
}

// ReadFrom implements io.ReaderFrom, which net/http uses to write bodies. Package net would allocate a buffer for
// each.
func (c *conn) ReadFrom(r io.Reader) (int64, error) {
	b := copyBuffers.Get().(*[]byte) //nolint:forcetypeassert // nothing else is put there
	defer copyBuffers.Put(b)
	return io.CopyBuffer(struct{ io.Writer }{c}, r, *b)
}

var copyBuffers = sync.Pool{New: func() any { return new(make([]byte, maxSize)) }}

// opError returns the error of Read or Write as package net does: err if waiting failed, or errno of the system call.
func (c *conn) opError(op string, err error, errno syscall.Errno) error {
	if err == nil {
		err = os.NewSyscallError(op, errno)
	} else if of, ok := errors.AsType[*net.OpError](err); ok {
		err = of.Err // its Op is raw-read or raw-write
	}
	return &net.OpError{Op: op, Net: "tcp", Source: c.LocalAddr(), Addr: c.RemoteAddr(), Err: err}
}

// A transfer is one Read or Write.
type transfer struct {
	p     []byte
	done  int
	errno syscall.Errno

	read, write func(fd uintptr) bool // method values, stored because creating one allocates
}

var transfers = sync.Pool{New: func() any {
	t := new(transfer)
	t.read, t.write = t.readOnce, t.writeAll
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

// readOnce reads, and returns false if it has to wait for data.
func (t *transfer) readOnce(fd uintptr) bool {
	t.do(syscall.SYS_READ, fd)
	return t.errno != syscall.EAGAIN
}

// writeAll writes the rest, and returns false if it has to wait for space.
func (t *transfer) writeAll(fd uintptr) bool {
	for t.done < len(t.p) {
		if t.do(syscall.SYS_WRITE, fd); t.errno != 0 {
			return t.errno != syscall.EAGAIN
		}
	}
	return true
}

// do makes a system call for the rest, and repeats it if it was interrupted.
func (t *transfer) do(call, fd uintptr) {
	rest := t.p[t.done:]
	for {
		//nolint:gosec // rule 4 of unsafe.Pointer
		n, _, errno := syscall.RawSyscall(call, fd, uintptr(unsafe.Pointer(unsafe.SliceData(rest))), uintptr(len(rest)))
		if errno == syscall.EINTR {
			continue
		}
		if t.errno = errno; errno == 0 {
			t.done += int(n)
		}
		return
	}
}
