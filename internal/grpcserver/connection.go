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
		s:    l.s, most: max(min(unreadMessages*message, mostUnread), message, leastUnread), spare: 2*message + unreadAnswers,
	}
	l.s.conns.add(conn)
	return conn, nil
}

// A connection is one of a client.
type connection struct {
	*conns.Conn
	s     *Server
	heard atomic.Bool // the client has said something

	most   int           // how many bytes may wait for the client before calls do
	spare  int           // how many more, of answers
	mu     sync.Mutex    // guards what follows
	unread int           // how many do
	moved  time.Time     // when enough had been written, or the first of them came
	taken  int           // how many bytes were written since then
	room   chan struct{} // is closed when there is room for more; nil: nobody waits for that
}

// connectionOf returns the connection of a call.
func connectionOf(ctx context.Context) *connection {
	from, _ := peer.FromContext(ctx)
	return from.Addr.(origin).conn //nolint:forcetypeassert // all connections are of our listener
}

// RemoteAddr returns where the client is. What gRPC says of who calls has it, and so calls find their connection.
func (c *connection) RemoteAddr() net.Addr { return origin{c.Conn.RemoteAddr(), c} }

// An origin is where a client is, and its connection.
type origin struct {
	net.Addr
	conn *connection
}

func (c *connection) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 && !c.heard.Load() {
		c.heard.Store(true)
	}
	return n, err
}

func (c *connection) Close() error {
	c.s.conns.remove(c)
	return c.Conn.Close()
}

// Write implements net.Conn. A client that takes nothing for as long as one may that says nothing has its connection closed as well.
func (c *connection) Write(b []byte) (int, error) {
	err := c.SetWriteDeadline(time.Now().Add(pingAfter + pingWithin))
	n := 0
	if err == nil {
		n, err = c.Conn.Write(b)
	}
	if err != nil {
		c.cut() // gRPC would go on reading
	}
	c.takes(n)
	return n, err
}

// cut closes the connection for whoever serves it, who sees that and removes it. Whoever has it may be faster.
func (c *connection) cut() { _ = c.Conn.Conn.Close() }

// A watched credentials does the handshake of connections, logs those that fail, and has their frames counted.
type watched struct {
	credentials.TransportCredentials
	s *Server
}

// ServerHandshake implements credentials.TransportCredentials.
func (w *watched) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	c, info, err := w.TransportCredentials.ServerHandshake(raw)
	of := raw.(*connection) //nolint:forcetypeassert // all connections are of our listener
	if err != nil {
		w.s.refused(of, err)
		return c, info, err
	}
	if t, ok := info.(credentials.TLSInfo); ok && len(t.State.VerifiedChains) > 0 {
		of.Authenticated()
	}
	return of.Framed(c), info, nil
}

// Clone implements credentials.TransportCredentials.
func (w *watched) Clone() credentials.TransportCredentials {
	return &watched{w.TransportCredentials.Clone(), w.s}
}

// refused logs why a TLS handshake has failed, such as for a certificate that is not good. Whoever only looks whether
// the port is open leaves before it.
func (s *Server) refused(of *connection, err error) {
	if errors.Is(err, io.EOF) || errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, syscall.ECONNRESET) {
		return
	}
	s.refusals.Do(func() {
		e := s.log.Warn().Stringer("remote", of.RemoteAddr()).Err(err)
		if bad, ok := errors.AsType[*tls.CertificateVerificationError](err); ok && len(bad.UnverifiedCertificates) > 0 {
			cert := bad.UnverifiedCertificates[0]
			e.Stringer("subject", cert.Subject).Stringer("issuer", cert.Issuer).Time("not_after", cert.NotAfter)
		}
		e.Msg("refused a gRPC client: its TLS handshake failed; serve.grpc.tls says which certificates are accepted")
	})
}

// A connections is those that there are.
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

// close closes all of them, or only those whose clients have said nothing.
func (s *connections) close(silent bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.all {
		if !silent || !c.heard.Load() {
			c.cut()
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
			c.cut()
			n++
		}
	}
	return n
}
