package mcpserver

import (
	"context"
	"net"
	"net/http"
	"slices"
	"strconv"
	"time"
)

// A taken is the connection of a response that lasts, and the rest of that response. What net/http keeps for a connection that it
// serves is four times of what such a response needs: buffers of 10 KiB, the request, and a goroutine whose stack has grown to
// 16 KiB. So once the response has begun and only waits for something to say, its connection is taken over from net/http. That
// is possible in HTTP/1.1 alone, where the response is the last of its connection; others are served in place.
//
// It implements http.ResponseWriter for those who go on with the response. Nobody writes concurrently.
type taken struct {
	net.Conn

	s *Server
	// more says that the client has sent something after its request. It is not read, and so its end is not noticed before
	// something is written to it.
	more bool
}

var _ http.ResponseWriter = (*taken)(nil)

// takeable reports whether the connection of a request can be taken over. The response must say then that the connection ends
// with it.
func takeable(r *http.Request) bool { return r.ProtoMajor == 1 && r.ProtoMinor == 1 }

// takeOver takes over the connection of a response that has begun, and in which everything has been flushed. It returns nil if
// that cannot be done. Otherwise whoever calls it calls serve.
func (s *Server) takeOver(w http.ResponseWriter) *taken {
	s.mu.Lock()
	closed := s.ctx.Err() != nil
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
	return &taken{Conn: conn, s: s, more: buf.Reader.Buffered() > 0}
}

// serve returns, and has f write the rest of the response, under a context that ends when the client or the server does. The
// connection ends with f.
func (t *taken) serve(f func(ctx context.Context)) {
	go func() { // Close waits for it
		defer t.s.lasting.Done()
		ctx, cancel := context.WithCancel(t.s.ctx)
		defer cancel()
		gone := make(chan struct{})
		if t.more {
			close(gone)
		} else {
			go t.watch(cancel, gone)
		}
		t.run(ctx, f)
		_ = t.SetWriteDeadline(time.Now().Add(t.s.opts.WriteTimeout)) // an error of these means that the client has gone
		_, _ = t.Conn.Write([]byte("0\r\n\r\n"))
		_ = t.Close()
		<-gone
	}()
}

// run calls f. A bug in it must not end the bridge.
func (t *taken) run(ctx context.Context, f func(ctx context.Context)) {
	defer t.s.panics.Recover("a stream", nil)
	f(ctx)
}

// watch calls cancel when the client has gone. If it has sent something instead, nobody knows.
func (t *taken) watch(cancel func(), gone chan struct{}) {
	defer close(gone)
	var b [1]byte
	if n, _ := t.Read(b[:]); n == 0 {
		cancel()
	}
}

// Header implements http.ResponseWriter. The head has been sent.
func (t *taken) Header() http.Header { return http.Header{} }

// WriteHeader implements http.ResponseWriter. The head has been sent.
func (t *taken) WriteHeader(int) {}

// Write writes a chunk (RFC 9112, chunked transfer coding).
func (t *taken) Write(data []byte) (int, error) {
	if len(data) == 0 {
		return 0, nil // an empty chunk would be the last
	}
	chunk := strconv.AppendInt(make([]byte, 0, len(data)+16), int64(len(data)), 16)
	chunk = append(append(append(chunk, "\r\n"...), data...), "\r\n"...)
	if _, err := t.Conn.Write(chunk); err != nil {
		return 0, err
	}
	return len(data), nil
}

// Flush implements http.Flusher. Nothing is held back.
func (t *taken) Flush() {}

// An ending is what is to be done when a stream ends, the last first.
type ending []func()

func (e *ending) add(f func()) { *e = append(*e, f) }

func (e *ending) run() {
	for _, f := range slices.Backward(*e) {
		f()
	}
	*e = nil
}

// last answers a request with a stream that f writes, until f returns. Where the connection can be taken over, that may be later
// than last returns; then it also takes over what is to be done at the end.
func (s *Server) last(w http.ResponseWriter, r *http.Request, end *ending, f func(ctx context.Context, w http.ResponseWriter)) {
	if takeable(r) {
		w.Header().Set("Connection", "close")
	}
	if beginStream(w, s.opts.WriteTimeout) != nil {
		return
	}
	var t *taken
	if takeable(r) {
		t = s.takeOver(w)
	}
	if t == nil {
		f(r.Context(), w)
		return
	}
	its := *end
	*end = nil
	t.serve(func(ctx context.Context) {
		defer its.run()
		f(ctx, t)
	})
}
