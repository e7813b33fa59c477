package grpcserver

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/wire"
)

const (
	// unreadOfCall is the maximum number of unread bytes of a call before its next event waits. Below it, gRPC accepts
	// messages without delay.
	unreadOfCall = 64 << 10
	// unreadMessages is the number of messages of the maximum size that may be unread on one connection before its
	// calls wait: between leastUnread and mostUnread bytes, and at least one message.
	unreadMessages, leastUnread, mostUnread = 4, 1 << 20, 16 << 20
	// unreadAnswers is the additional number of unread bytes, besides two messages of the maximum size, for the final
	// messages of calls in flight.
	unreadAnswers = 16 << 20
	// minRead is the number of bytes, or all if there are fewer, that a client must read within Limits.WriteTime while
	// memory is low.
	minRead = 256 << 10
	// leastBuffer is the size from which gRPC returns a buffer to its pool.
	leastBuffer = 2 << 10
	// prefix is the length of gRPC's message prefix.
	prefix = 5
)

// An outbox has the unread messages of one stream: gRPC accepts messages whether or not the client reads.
type outbox struct {
	conn *connection
	left chan struct{} // has an element when bytes were written
	// claimed is the part of unread for a final message that is not encoded yet; used by the sender.
	claimed int

	// The connection's lock guards what follows.
	unread int  // in bytes
	lost   bool // gRPC has discarded them
}

// outboxOf returns a new outbox for a stream.
func outboxOf(ss grpc.ServerStream) *outbox {
	// The size of a compressed message would be unknown. This fails only after a message was sent.
	_ = grpc.SetSendCompressor(ss.Context(), encoding.Identity)
	return &outbox{conn: connectionOf(ss.Context()), left: make(chan struct{}, 1)}
}

// await waits until the client has read enough for one more call. It returns an error on timeout or shutdown.
func (b *outbox) await(ctx, open context.Context, limit time.Duration) error {
	room := b.conn.full()
	if room == nil {
		return nil
	}
	late := time.NewTimer(limit)
	defer late.Stop()
	for ; room != nil; room = b.conn.full() {
		select {
		case <-room:
		case <-ctx.Done():
			return bridge.Canceled(ctx, false)
		case <-open.Done():
			return notExecuted()
		case <-late.C:
			e := bridge.Failed(codes.ResourceExhausted, bridge.OutcomeNotExecuted, "TOO_MUCH_UNREAD",
				"%d bytes of other calls of this connection have not been read: read them, or cancel the calls, "+
					"and call again", b.conn.maxUnread)
			e.RetryAfter = time.Second
			return e
		}
	}
	return nil
}

// sendEvent sends an event when there is room for it, unless ctx ends.
func (b *outbox) sendEvent(ctx context.Context, ss grpc.ServerStream, m any) error {
	for {
		var room <-chan struct{}
		if b.full() {
			room = b.left
		} else if room = b.conn.full(); room == nil {
			return b.send(ss, m)
		}
		select {
		case <-room:
		case <-ctx.Done():
			return ctx.Err()
		case <-ss.Context().Done():
			return ss.Context().Err()
		}
	}
}

// claim reserves room for the final message of a call before it is encoded. It returns an error if too much is unread:
// otherwise a client that never reads would accumulate the final messages of all its calls.
func (b *outbox) claim(m *bridge.Method, msg proto.Message) error {
	size, c := proto.Size(msg), b.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.unread+size > c.maxUnread+c.spare {
		return bridge.Failed(codes.ResourceExhausted, bridge.OutcomeExecuted, "TOO_MUCH_UNREAD",
			"%s: the call was executed, but its answer of %d bytes was dropped: %d bytes of other answers of this "+
				"connection have not been read; "+
				"read them, or make fewer calls at a time", m.Name, size, c.unread)
	}
	b.claimed = size
	b.count(size)
	return nil
}

// send sends a message. A final message must be claimed before. Calls must be sequential.
func (b *outbox) send(ss grpc.ServerStream, m any) error {
	err := ss.SendMsg(&parcel{message: m, box: b})
	if b.claimed > 0 { // it was not even encoded
		b.add(-b.unclaim())
	}
	if ss.Context().Err() != nil {
		b.discardUnread() // If the client has just ended the stream, gRPC drops the message without an error.
	}
	return err
}

func (b *outbox) full() bool {
	b.conn.mu.Lock()
	defer b.conn.mu.Unlock()
	return b.unread >= unreadOfCall
}

// add adds n, which may be negative, to the number of unread bytes.
func (b *outbox) add(n int) {
	b.conn.mu.Lock()
	defer b.conn.mu.Unlock()
	b.count(n)
}

// unclaim cancels the reservation and returns its size.
func (b *outbox) unclaim() int {
	n := b.claimed
	b.claimed = 0
	return n
}

// count is add for callers that hold the connection's lock.
func (b *outbox) count(n int) {
	c := b.conn
	if b.lost {
		return
	}
	if c.unread == 0 {
		c.resetProgress()
	}
	b.unread += n
	c.addUnread(n)
}

// discardUnread records that no bytes of the stream are unread.
func (b *outbox) discardUnread() {
	b.conn.mu.Lock()
	defer b.conn.mu.Unlock()
	b.conn.addUnread(-b.unread)
	b.unread, b.lost = 0, true
}

// addUnread adds n unread bytes. The caller holds mu.
func (c *connection) addUnread(n int) {
	if c.unread += n; c.room != nil && c.unread < c.maxUnread {
		close(c.room)
		c.room = nil
	}
}

// full returns nil, or a channel that is closed when the client has read enough.
func (c *connection) full() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.unread < c.maxUnread {
		return nil
	}
	if c.room == nil {
		c.room = make(chan struct{})
	}
	return c.room
}

// resetProgress records that the client reads. The caller holds mu.
func (c *connection) resetProgress() { c.progressAt, c.written = time.Now(), 0 }

// recordWrite records that n bytes were written to the client.
func (c *connection) recordWrite(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.written += n; c.written >= minRead {
		c.resetProgress()
	}
}

// stuck reports whether there are unread bytes, and the client has not read enough for longer than limit.
func (c *connection) stuck(limit time.Duration) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.unread > 0 && time.Since(c.progressAt) > limit
}

// relieve closes connections whose clients do not read. It is called when memory is low.
func (s *Server) relieve() {
	if n := s.conns.closeStuck(s.o.Limits.WriteTime); n > 0 {
		s.log.Warn().Int("connections", n).Stringer("unread", s.o.Limits.WriteTime).
			Msg("closed gRPC connections whose clients do not read their messages: memory is low")
	}
}

// A parcel is a message to send. It is also the pool of its buffer: gRPC returns the buffer when it is written.
type parcel struct {
	message any
	box     *outbox
}

// Get implements mem.BufferPool.
func (p *parcel) Get(n int) *[]byte {
	b := wire.Buffers.Get(max(n, leastBuffer))
	p.box.add(cap(*b) + prefix - p.box.unclaim())
	return b
}

// Put implements mem.BufferPool.
func (p *parcel) Put(b *[]byte) {
	p.box.add(-cap(*b) - prefix)
	select {
	case p.box.left <- struct{}{}:
	default:
	}
	wire.Buffers.Put(b)
}

// A codec is a wire.Codec that also encodes parcels.
type codec struct{ wire.Codec }

// Marshal implements encoding.CodecV2.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	p, ok := v.(*parcel)
	if !ok {
		return c.Codec.Marshal(v)
	}
	m := p.message
	p.message = nil // the message is not needed once it is encoded
	return wire.Marshal(m, p)
}
