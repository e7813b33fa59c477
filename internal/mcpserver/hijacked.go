package mcpserver

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"time"
)

// A hijackedConn is the hijacked connection of a long response, and the rest of that response. For a connection that it
// serves, net/http needs four times as much memory as such a response: buffers of 10 KiB, the request, and a goroutine
// whose stack has grown to 16 KiB. So once the response has begun and only waits for messages, its connection is
// hijacked, and returned to the server when the response is complete. Clients see no difference: with Connection: close
// they would treat the end of the connection as the end of the response, and not resume (undici, and so every client in
// Node, does).
//
// It implements http.ResponseWriter for the rest of the response. Writes must be sequential.
type hijackedConn struct {
	net.Conn

	s      *Server
	server *http.Server // the server of the connection
	// pipelined is data that the client has sent after its request. Once there is some, no more is read, and a
	// disconnect is noticed only by the next write.
	pipelined    []byte
	disconnected bool // the client has disconnected; read only after watch has ended
	writeFailed  bool // a write has failed
}

var _ http.ResponseWriter = (*hijackedConn)(nil)

// hijackable returns the server of a request whose connection can be hijacked, or nil: only HTTP/1.1 has one request
// per connection, and delimits the response.
func hijackable(r *http.Request) *http.Server {
	if r.ProtoMajor != 1 || r.ProtoMinor != 1 || r.Close {
		return nil
	}
	server, _ := r.Context().Value(http.ServerContextKey).(*http.Server)
	return server
}

// hijack hijacks the connection of a response from server. The response must have begun, and be flushed. If server is
// nil or the connection cannot be hijacked, takeOver returns nil. Otherwise the caller must call serve.
func (s *Server) hijack(w http.ResponseWriter, server *http.Server) *hijackedConn {
	if server == nil || w.Header().Get("Connection") != "" { // the connection is about to end
		return nil
	}
	s.mu.Lock()
	closed := s.closing().Err() != nil
	if !closed {
		s.lasting.Add(1)
	}
	s.mu.Unlock()
	if closed {
		return nil
	}
	conn, buf, err := http.NewResponseController(w).Hijack()
	if err != nil {
		s.lasting.Done()
		return nil
	}
	early, _ := buf.Reader.Peek(buf.Reader.Buffered()) // no error: these bytes are buffered
	return &hijackedConn{Conn: conn, s: s, server: server, pipelined: slices.Clone(early)}
}

// serve starts f, which writes the rest of the response, and returns. The context of f ends when the client disconnects
// or the server closes.
func (t *hijackedConn) serve(f func(ctx context.Context)) {
	go func() { // Close waits for it
		defer t.s.lasting.Done()
		ctx, cancel := context.WithCancel(t.s.closing())
		defer cancel()
		watched := make(chan struct{})
		if len(t.pipelined) > 0 {
			close(watched)
		} else {
			go t.watch(cancel, watched)
		}
		if !t.run(ctx, f) {
			t.writeFailed = true
		}
		_ = t.SetReadDeadline(time.Unix(1, 0)) // an error means that the connection is closed, which ends watch as well
		<-watched
		t.finish()
	}()
}

// run calls f, and reports whether it has returned. It recovers panics.
func (t *hijackedConn) run(ctx context.Context, f func(ctx context.Context)) (whole bool) {
	defer t.s.panics.Recover("a stream", nil)
	f(ctx)
	return true
}

// watch calls cancel when the client disconnects. Once the client has sent data, a disconnect is not noticed.
func (t *hijackedConn) watch(cancel func(), watched chan struct{}) {
	defer close(watched)
	var b [1]byte
	n, err := t.Read(b[:])
	t.pipelined = slices.Clone(b[:n])
	if n == 0 && !errors.Is(err, os.ErrDeadlineExceeded) {
		t.disconnected = true
		cancel()
	}
}

// finish ends the response, and returns the connection to the server. If that is useless, it closes the connection.
func (t *hijackedConn) finish() {
	_, protected := t.Conn.(*tls.Conn)
	switch {
	case t.disconnected || t.writeFailed:
	case t.SetWriteDeadline(time.Now().Add(t.s.opts.Limits.WriteTime)) != nil:
	case writeAll(t.Conn, "0\r\n\r\n") != nil:
	case protected && len(t.pipelined) > 0: // the server must see that it is TLS, so no bytes can be prepended
	case t.SetDeadline(time.Time{}) == nil:
		back := &singleListener{conn: t.Conn}
		if len(t.pipelined) > 0 {
			back.conn = &prefixedConn{t.Conn, io.MultiReader(bytes.NewReader(t.pipelined), t.Conn)}
		}
		_ = t.server.Serve(back) // it always returns an error
		if back.conn == nil {
			return
		}
	}
	_ = t.Close() // the client may have closed it
}

// writeAll writes a text.
func writeAll(w io.Writer, text string) error {
	_, err := io.WriteString(w, text)
	return err
}

// A singleListener is a listener with one connection.
type singleListener struct{ conn net.Conn } // nil once it is accepted

// Accept implements net.Listener.
func (l *singleListener) Accept() (net.Conn, error) {
	if l.conn == nil {
		return nil, io.EOF
	}
	c := l.conn
	l.conn = nil
	return c, nil
}

// Close implements net.Listener.
func (l *singleListener) Close() error { return nil }

// Addr implements net.Listener.
func (l *singleListener) Addr() net.Addr { return &net.TCPAddr{} }

// A prefixedConn is a connection whose first bytes have been read.
type prefixedConn struct {
	net.Conn

	r io.Reader
}

// NetConn returns the connection.
func (b *prefixedConn) NetConn() net.Conn { return b.Conn }

// Read implements net.Conn.
func (b *prefixedConn) Read(p []byte) (int, error) { return b.r.Read(p) }

// Header implements http.ResponseWriter. The header has been sent.
func (t *hijackedConn) Header() http.Header { return http.Header{} }

// WriteHeader implements http.ResponseWriter. The header has been sent.
func (t *hijackedConn) WriteHeader(int) {}

// Write writes a chunk (RFC 9112, chunked transfer coding).
func (t *hijackedConn) Write(data []byte) (int, error) {
	switch {
	case len(data) == 0:
		return 0, nil // an empty chunk would be the last
	case t.writeFailed:
		return 0, errDisconnected // a chunk is incomplete, and each further one would wait for the client again
	}
	chunk := strconv.AppendInt(make([]byte, 0, len(data)+16), int64(len(data)), 16)
	chunk = append(append(append(chunk, "\r\n"...), data...), "\r\n"...)
	if _, err := t.Conn.Write(chunk); err != nil {
		t.writeFailed = true
		return 0, err
	}
	return len(data), nil
}

// Flush implements http.Flusher. Writes are not buffered.
func (t *hijackedConn) Flush() {}

// An cleanup has the functions to call when a stream ends, the last first.
type cleanup []func()

func (e *cleanup) add(f func()) { *e = append(*e, f) }

func (e *cleanup) run() {
	for _, f := range slices.Backward(*e) {
		f()
	}
	*e = nil
}

// respondStream responds to a request with a stream that f writes until it returns. If the connection can be hijacked,
// f runs after last has returned; then the functions of end are called after f, and end becomes empty.
func (s *Server) respondStream(w http.ResponseWriter, r *http.Request, end *cleanup,
	f func(ctx context.Context, w http.ResponseWriter),
) {
	if beginStream(w, s.opts.Limits.WriteTime) != nil {
		return
	}
	t := s.hijack(w, hijackable(r))
	if t == nil {
		f(r.Context(), w)
		return
	}
	rest := *end
	*end = nil
	t.serve(func(ctx context.Context) {
		defer rest.run()
		f(ctx, t)
	})
}
