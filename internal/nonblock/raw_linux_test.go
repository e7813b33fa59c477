package nonblock

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"testing/iotest"
	"time"

	"golang.org/x/net/nettest"
)

// pair returns both ends of a connection of TCP.
func pair(t *testing.T) (a, b *net.TCPConn) {
	t.Helper()
	ln, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	dialled, err := new(net.Dialer).DialContext(t.Context(), "tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	accepted, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dialled.Close(); accepted.Close() })
	return dialled.(*net.TCPConn), accepted.(*net.TCPConn)
}

// It is a net.Conn in everything that golang.org/x/net holds against one: deadlines, closing, who may call
// concurrently.
func TestConnIsANetConn(t *testing.T) {
	nettest.TestConn(t, func() (net.Conn, net.Conn, func(), error) {
		a, b := pair(t)
		c, d := newConn(a), newConn(b)
		return c, d, func() { c.Close(); d.Close() }, nil
	})
}

// Data arrives whole, in pieces of any length, even if it is longer than the buffers of the system and than a write
// that bypasses the scheduler.
func TestConnTransfersAnyLength(t *testing.T) {
	for _, piece := range []int{1, 100, maxSize - 1, maxSize, maxSize + 1, 1 << 20} {
		a, b := pair(t)
		if err := errors.Join(a.SetWriteBuffer(64<<10), b.SetReadBuffer(64<<10)); err != nil {
			t.Fatal(err)
		}
		c, d := newConn(a), newConn(b)
		whole := make([]byte, min(2<<20, 20_000*piece))
		for i := range whole {
			whole[i] = byte(i * 7 >> 3)
		}
		go func() {
			defer c.Close()
			for rest := whole; len(rest) > 0; {
				n := min(piece, len(rest))
				if m, err := c.Write(rest[:n]); m != n || err != nil {
					t.Errorf("wrote %d of %d: %v", m, n, err)
					return
				}
				rest = rest[n:]
			}
		}()
		var got bytes.Buffer
		buf := make([]byte, piece)
		_, err := io.CopyBuffer(&got, struct{ io.Reader }{d}, buf)
		if err != nil || !bytes.Equal(got.Bytes(), whole) {
			t.Errorf("in pieces of %d: got %d of %d bytes, the same: %v, error %v", piece, got.Len(), len(whole),
				bytes.Equal(got.Bytes(), whole), err)
		}
	}
}

// ReadFrom, which net/http calls, writes everything, and returns the error of the reader or the connection.
func TestReadFrom(t *testing.T) {
	a, b := pair(t)
	c := newConn(a).(io.ReaderFrom)
	whole := bytes.Repeat([]byte("0123456789"), 100_000)
	got := make(chan []byte)
	go func() {
		all, _ := io.ReadAll(b)
		got <- all
	}()
	broken := errors.New("broken")
	n, err := c.ReadFrom(io.MultiReader(io.LimitReader(bytes.NewReader(whole), 1<<20), iotest.ErrReader(broken)))
	if n != int64(len(whole)) || !errors.Is(err, broken) {
		t.Errorf("wrote %d of %d: %v", n, len(whole), err)
	}
	a.Close()
	if all := <-got; !bytes.Equal(all, whole) {
		t.Errorf("%d of %d bytes arrived", len(all), len(whole))
	}
	if n, err := c.ReadFrom(bytes.NewReader(whole)); n != 0 || !errors.Is(err, net.ErrClosed) {
		t.Errorf("wrote %d when it was closed: %v", n, err)
	}
}

// Errors are those of package net, in its words.
func TestErrorsOfConn(t *testing.T) {
	reset := func(t *testing.T, _, other *net.TCPConn) {
		t.Helper()
		if err := errors.Join(other.SetLinger(0), other.Close()); err != nil {
			t.Fatal(err)
		}
	}
	for name, tt := range map[string]struct {
		before func(t *testing.T, own, other *net.TCPConn)
		do     func(c net.Conn) error
		want   error
	}{
		"reading what was reset": {reset, read, syscall.ECONNRESET},
		"writing what was reset": {reset, func(c net.Conn) error { _ = read(c); return write(c) }, syscall.EPIPE},
		"reading too late": {
			func(_ *testing.T, own, _ *net.TCPConn) { _ = own.SetDeadline(time.Unix(1, 0)) },
			read, os.ErrDeadlineExceeded,
		},
		"waiting too long": {func(_ *testing.T, own, _ *net.TCPConn) {
			_ = own.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
		}, read, os.ErrDeadlineExceeded},
		"writing too late": {
			func(_ *testing.T, own, _ *net.TCPConn) { _ = own.SetDeadline(time.Unix(1, 0)) },
			write, os.ErrDeadlineExceeded,
		},
		"reading after closing": {func(_ *testing.T, own, _ *net.TCPConn) { own.Close() }, read, net.ErrClosed},
		"writing after closing": {func(_ *testing.T, own, _ *net.TCPConn) { own.Close() }, write, net.ErrClosed},
		"reading to the end":    {func(_ *testing.T, _, other *net.TCPConn) { other.Close() }, read, io.EOF},
	} {
		t.Run(name, func(t *testing.T) {
			var texts [2]string
			for i, as := range []func(*net.TCPConn) net.Conn{func(c *net.TCPConn) net.Conn { return c }, newConn} {
				own, other := pair(t)
				c := as(own)
				from, to := own.LocalAddr().String(), own.RemoteAddr().String()
				tt.before(t, own, other)
				err := tt.do(c)
				if !errors.Is(err, tt.want) {
					t.Errorf("error %v, want %v", err, tt.want)
				}
				texts[i] = string(bytes.ReplaceAll(bytes.ReplaceAll([]byte(err.Error()), []byte(from), []byte("own")),
					[]byte(to), []byte("other")))
			}
			if texts[0] != texts[1] {
				t.Errorf("error %q, of package net %q", texts[1], texts[0])
			}
		})
	}
}

func read(c net.Conn) error {
	_, err := c.Read(make([]byte, 10))
	return err
}

func write(c net.Conn) error {
	_, err := c.Write(make([]byte, 10))
	return err
}
