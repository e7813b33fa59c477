package grpcserver

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// TLS names the files of encrypted connections, all of them PEM.
type TLS struct {
	// Cert and Key are our certificate, with what leads to its root, and its private key.
	Cert, Key string
	// ClientCA is who vouches for clients, which then must have a certificate (mutual TLS). Empty: they need none.
	ClientCA string
}

// load reads the files.
func (t *TLS) load() (*tls.Config, error) {
	cert, err := tls.LoadX509KeyPair(t.Cert, t.Key)
	if err != nil {
		return nil, fmt.Errorf("TLS certificate %q and key %q: %w", t.Cert, t.Key, err)
	}
	c := &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}
	if t.ClientCA == "" {
		return c, nil
	}
	pem, err := os.ReadFile(t.ClientCA)
	if err != nil {
		return nil, fmt.Errorf("TLS client CA: %w", err)
	}
	c.ClientCAs, c.ClientAuth = x509.NewCertPool(), tls.RequireAndVerifyClientCert
	if !c.ClientCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("TLS client CA: %s has no certificate in PEM", t.ClientCA)
	}
	return c, nil
}

// usualMode lets nobody but the user connect.
const usualMode = 0o600

// Listen listens at an address: unix:PATH (also unix:///PATH), or HOST:PORT (also tcp:HOST:PORT). The file of a unix socket gets
// the given mode, 0600 if it is 0; from the beginning on Linux. One that is left over from a process that has ended is replaced;
// if somebody listens there, or it is no socket, that is an error.
func Listen(ctx context.Context, address string, mode fs.FileMode) (net.Listener, error) {
	path, ok := strings.CutPrefix(address, "unix:")
	if !ok {
		address = strings.TrimPrefix(strings.TrimPrefix(address, "tcp:"), "//")
		if _, port, err := net.SplitHostPort(address); err != nil || port == "" {
			return nil, fmt.Errorf("listen on %q: it must be unix:PATH or HOST:PORT", address)
		}
		return new(net.ListenConfig).Listen(ctx, "tcp", address)
	}
	path = strings.TrimPrefix(path, "//")
	if path == "" {
		return nil, fmt.Errorf("listen on %q: there is no path after %s", address, "unix:")
	}
	if mode == 0 {
		mode = usualMode
	}
	// Two that find the same socket left over must not both replace it, the second that of the first.
	unlock, err := lock(ctx, path)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	defer unlock()
	if err := makeRoom(ctx, path); err != nil {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	lc := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		// On Linux a socket's file gets the mode of the socket, so that nobody else can connect even for a moment. Elsewhere
		// this does nothing, and the mode is set below.
		return c.Control(func(fd uintptr) { _ = restrict(fd, mode) })
	}}
	ln, err := lc.Listen(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, mode); err != nil {
		ln.Close()
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	return ln, nil
}

// ErrInUse is the error of an address that somebody listens on.
var ErrInUse = errors.New("another process listens there; end it, or choose another path")

// makeRoom removes a socket that nobody listens on.
func makeRoom(ctx context.Context, path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().Type() != fs.ModeSocket:
		return errors.New("there is a file that is no socket; it is not removed")
	case alive(ctx, path):
		return ErrInUse
	}
	return os.Remove(path)
}

// alive reports whether somebody listens on a unix socket, or may.
func alive(ctx context.Context, path string) bool {
	c, err := new(net.Dialer).DialContext(ctx, "unix", path)
	if err == nil {
		c.Close() // nothing was sent
		return true
	}
	return !errors.Is(err, syscall.ECONNREFUSED) && !errors.Is(err, fs.ErrNotExist)
}

// A limited listener closes connections that are too many. They are not left waiting: whoever holds the others would decide for how
// long.
type limited struct {
	net.Listener
	s *Server
}

func (l *limited) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if counted := (&counted{Conn: c, s: l.s, most: max(unreadMessages*l.s.o.MaxMessage, leastUnread)}); l.s.conns.add(counted, l.s.o.MaxConns) {
			return counted, nil
		}
		c.Close() // nothing was read
	}
}

// A counted connection is one of those that there may be.
type counted struct {
	net.Conn
	s     *Server
	heard atomic.Bool // the client has said something

	most   int           // how many bytes may wait for the client
	mu     sync.Mutex    // guards what follows
	unread int           // how many do
	moved  time.Time     // when enough had been written, or the first of them came
	taken  int           // how many bytes were written since then
	room   chan struct{} // is closed when there is room for more; nil: nobody waits for that
}

// RemoteAddr returns where the client is. What gRPC says of who calls has it, and so calls find their connection.
func (c *counted) RemoteAddr() net.Addr { return origin{c.Conn.RemoteAddr(), c} }

// An origin is where a client is, and its connection.
type origin struct {
	net.Addr
	conn *counted
}

func (c *counted) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 && !c.heard.Load() {
		c.heard.Store(true)
	}
	return n, err
}

func (c *counted) Close() error {
	c.s.conns.remove(c)
	return c.Conn.Close()
}

// Write implements net.Conn. A client that takes nothing for as long as one may that says nothing has its connection closed as well.
func (c *counted) Write(b []byte) (int, error) {
	err := c.SetWriteDeadline(time.Now().Add(pingAfter + pingWithin))
	n := 0
	if err == nil {
		n, err = c.Conn.Write(b)
	}
	if err != nil {
		c.Conn.Close() // gRPC would go on reading
	}
	c.takes(n)
	return n, err
}

// A connections is those that there are.
type connections struct {
	mu  sync.Mutex
	all map[*counted]struct{}
}

// add adds one, unless there are as many as may be.
func (s *connections) add(c *counted, most int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.all) >= most {
		return false
	}
	if s.all == nil {
		s.all = map[*counted]struct{}{}
	}
	s.all[c] = struct{}{}
	return true
}

func (s *connections) remove(c *counted) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, c)
}

// close closes all of them, or only those whose clients have said nothing. Who serves them sees that, and removes them.
func (s *connections) close(silent bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.all {
		if !silent || !c.heard.Load() {
			c.Conn.Close() // whoever has one may be faster
		}
	}
}

// closeStuck closes those whose clients have left something unread for so long, and returns how many there were.
func (s *connections) closeStuck(limit time.Duration) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for c := range s.all {
		if c.stuck(limit) {
			c.Conn.Close() // as above
			n++
		}
	}
	return n
}
