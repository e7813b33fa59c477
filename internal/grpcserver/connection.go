package grpcserver

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"

	"github.com/mcpbridge/mcpbridge/internal/conns"
)

// A listener returns the connections of the server's port.
type listener struct {
	net.Listener
	s *Server
}

func (l *listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	message := l.s.o.Limits.ClientMessage
	conn := &connection{
		Conn: c.(*conns.Conn), //nolint:forcetypeassert // the listener is that of the port
		s:    l.s, maxUnread: max(min(unreadMessages*message, mostUnread), message, leastUnread),
		spare: 2*message + unreadAnswers,
	}
	l.s.conns.add(conn)
	return conn, nil
}

// A connection is a connection of a client.
type connection struct {
	*conns.Conn
	s        *Server
	received atomic.Bool // the client has sent something

	maxUnread  int           // maximum of unread bytes before calls wait
	spare      int           // additional maximum for final messages
	mu         sync.Mutex    // guards what follows
	unread     int           // number of unread bytes
	progressAt time.Time     // when the client last read enough, or the first unread bytes were sent
	written    int           // number of bytes written since then
	room       chan struct{} // closed when there is room for more; nil if nothing waits
}

// connectionOf returns the connection of a call.
func connectionOf(ctx context.Context) *connection {
	from, _ := peer.FromContext(ctx)
	return from.Addr.(origin).conn //nolint:forcetypeassert // all connections are of our listener
}

// RemoteAddr returns the client's address with the connection, by which calls find their connection.
func (c *connection) RemoteAddr() net.Addr { return origin{c.Conn.RemoteAddr(), c} }

// An origin is the address of a client, with its connection.
type origin struct {
	net.Addr
	conn *connection
}

func (c *connection) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 && !c.received.Load() {
		c.received.Store(true)
	}
	return n, err
}

func (c *connection) Close() error {
	c.s.conns.remove(c)
	return c.Conn.Close()
}

// Write implements net.Conn. It closes the connection if a write blocks for as long as an unresponsive connection is
// kept.
func (c *connection) Write(b []byte) (int, error) {
	err := c.SetWriteDeadline(time.Now().Add(pingAfter + pingWithin))
	n := 0
	if err == nil {
		n, err = c.Conn.Write(b)
	}
	if err != nil {
		c.closeNow() // gRPC would continue to read
	}
	c.recordWrite(n)
	return n, err
}

// closeNow closes the connection. Its serving goroutine notices and removes it.
func (c *connection) closeNow() { _ = c.Conn.Conn.Close() }

// A handshaker performs the TLS handshakes of connections, logs failures, and counts the frames of the connections.
type handshaker struct {
	credentials.TransportCredentials
	s *Server
}

// ServerHandshake implements credentials.TransportCredentials.
func (w *handshaker) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	c, info, err := w.TransportCredentials.ServerHandshake(raw)
	of := raw.(*connection) //nolint:forcetypeassert // all connections are of our listener
	if err != nil {
		w.s.logHandshakeError(of, err)
		return c, info, err
	}
	if t, ok := info.(credentials.TLSInfo); ok && len(t.State.VerifiedChains) > 0 {
		of.Authenticated()
	}
	return of.Framed(c), info, nil
}

// Clone implements credentials.TransportCredentials.
func (w *handshaker) Clone() credentials.TransportCredentials {
	return &handshaker{w.TransportCredentials.Clone(), w.s}
}

// logHandshakeError logs why a TLS handshake failed, such as for an untrusted certificate. A client that disconnects
// before, such as a port scan, is not logged.
func (s *Server) logHandshakeError(of *connection, err error) {
	if errors.Is(err, io.EOF) || errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, syscall.ECONNRESET) {
		return
	}
	s.refusals.Do(func() {
		e := s.log.Warn().Stringer("remote", of.RemoteAddr()).Err(err)
		if bad, ok := errors.AsType[*tls.CertificateVerificationError](err); ok && len(bad.UnverifiedCertificates) > 0 {
			cert := bad.UnverifiedCertificates[0]
			e.Stringer("subject", cert.Subject).Stringer("issuer", cert.Issuer).Time("not_after", cert.NotAfter)
		}
		e.Msg("refused a gRPC client: its TLS handshake failed; serve.grpc.tls configures the accepted certificates")
	})
}

// A connections is the set of open connections.
type connections struct {
	mu  sync.Mutex
	all map[*connection]struct{}
}

func (s *connections) add(c *connection) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = map[*connection]struct{}{}
	}
	s.all[c] = struct{}{}
}

func (s *connections) remove(c *connection) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, c)
}

// close closes all connections, or only those whose clients have sent nothing.
func (s *connections) close(silent bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.all {
		if !silent || !c.received.Load() {
			c.closeNow()
		}
	}
}

// closeStuck closes the connections whose clients have not read for the given time, and returns their number.
func (s *connections) closeStuck(limit time.Duration) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for c := range s.all {
		if c.stuck(limit) {
			c.closeNow()
			n++
		}
	}
	return n
}
