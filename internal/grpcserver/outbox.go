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
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

const (
	// unreadOfCall is how many bytes of a call may wait for its client, before what the call says next waits in its Handler. With less, gRPC
	// takes what is sent at once.
	unreadOfCall = 64 << 10
	// unreadMessages is how many of the longest messages may wait for the client of one connection, before no call of it begins and none
	// says anything more: from leastUnread to mostUnread bytes, and one message in any case.
	unreadMessages, leastUnread, mostUnread = 4, 1 << 20, 16 << 20
	// unreadAnswers is how many bytes, and two of the longest messages, may wait besides of the answers of calls that had begun before.
	unreadAnswers = 16 << 20
	// enough is how many bytes a client has to read within Options.WriteTimeout, or all that there are, while memory is short.
	enough = 256 << 10
	// leastBuffer is how long memory has to be for gRPC to give it back.
	leastBuffer = 2 << 10
	// prefix is what gRPC puts before a message.
	prefix = 5
)

// An outbox is what one stream has sent and its client has not read: gRPC takes what is sent, whether the client reads or not.
type outbox struct {
	conn *connection
	left chan struct{} // has an element when something has left
	// claimed is how many of the unread bytes are of an answer that has yet to be encoded; of the one who sends.
	claimed int

	// The connection's lock guards what follows.
	unread int  // bytes
	lost   bool // gRPC has forgotten them
}

// outbox returns that of a stream.
func outboxOf(ss grpc.ServerStream) *outbox {
	// What is packed would not be known to have left. It only fails where a message was sent already.
	_ = grpc.SetSendCompressor(ss.Context(), encoding.Identity)
	return &outbox{conn: connectionOf(ss.Context()), left: make(chan struct{}, 1)}
}

// await waits until the client has read enough of other calls for one more. It is an error if it does not in time, or the server is cut.
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
			return notBegun()
		case <-late.C:
			e := bridge.Failed(codes.ResourceExhausted, pb.CallFailure_OUTCOME_NOT_EXECUTED, "TOO_MUCH_UNREAD",
				"%d bytes of other calls of this connection have not been read: read them, or cancel the calls, and call again", b.conn.most)
			e.Failure.RetryAfterMs = proto.Int64(1_000)
			return e
		}
	}
	return nil
}

// tell sends a message before the last one, as soon as there is room for it, unless ctx ends.
func (b *outbox) tell(ctx context.Context, ss grpc.ServerStream, m any) error {
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

// claim counts the last message of a call as one that waits for the client, before it is sent. It is an error if too much
// waits already: for a client that never reads, the answers of all its calls would.
func (b *outbox) claim(m *bridge.Method, msg proto.Message) error {
	size, c := proto.Size(msg), b.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.unread+size > c.most+c.spare {
		return bridge.Failed(codes.ResourceExhausted, pb.CallFailure_OUTCOME_EXECUTED, "TOO_MUCH_UNREAD",
			"%s: the call was executed, but its answer of %d bytes was dropped: %d bytes of other answers of this connection have not been read; "+
				"read them, or make fewer calls at a time", m.Name, size, c.unread)
	}
	b.claimed = size
	b.count(size)
	return nil
}

// send sends a message, the last one after claim. There must not be another one that is being sent.
func (b *outbox) send(ss grpc.ServerStream, m any) error {
	err := ss.SendMsg(&parcel{message: m, box: b})
	if b.claimed > 0 { // it was not even encoded
		b.add(-b.unclaim())
	}
	if ss.Context().Err() != nil {
		b.lose() // Where the client has ended the stream just before, gRPC forgets the message and tells nobody.
	}
	return err
}

func (b *outbox) full() bool {
	b.conn.mu.Lock()
	defer b.conn.mu.Unlock()
	return b.unread >= unreadOfCall
}

// add notes that so many more bytes wait for the client, or have left.
func (b *outbox) add(n int) {
	b.conn.mu.Lock()
	defer b.conn.mu.Unlock()
	b.count(n)
}

// unclaim returns what is claimed, and claims it no longer.
func (b *outbox) unclaim() int {
	n := b.claimed
	b.claimed = 0
	return n
}

// count is add for who holds the connection's lock.
func (b *outbox) count(n int) {
	c := b.conn
	if b.lost {
		return
	}
	if c.unread == 0 {
		c.moves()
	}
	b.unread += n
	c.waits(n)
}

// lose says that nothing of the stream waits any more.
func (b *outbox) lose() {
	b.conn.mu.Lock()
	defer b.conn.mu.Unlock()
	b.conn.waits(-b.unread)
	b.unread, b.lost = 0, true
}

// waits notes that so many more bytes wait for the client. The caller holds mu.
func (c *connection) waits(n int) {
	if c.unread += n; c.room != nil && c.unread < c.most {
		close(c.room)
		c.room = nil
	}
}

// full returns nil, or what is closed when the client has read enough for more to be sent.
func (c *connection) full() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.unread < c.most {
		return nil
	}
	if c.room == nil {
		c.room = make(chan struct{})
	}
	return c.room
}

// moves notes that the client reads. The caller holds mu.
func (c *connection) moves() { c.moved, c.taken = time.Now(), 0 }

// takes notes that so many bytes were written to the client.
func (c *connection) takes(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.taken += n; c.taken >= enough {
		c.moves()
	}
}

// stuck reports whether there was something for the client for so long, and it has not read enough of it.
func (c *connection) stuck(limit time.Duration) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.unread > 0 && time.Since(c.moved) > limit
}

// relieve closes connections whose clients do not read. It is for when memory is short.
func (s *Server) relieve() {
	if n := s.conns.closeStuck(s.o.Limits.WriteTime); n > 0 {
		s.log.Warn().Int("connections", n).Stringer("unread", s.o.Limits.WriteTime).
			Msg("closed gRPC connections whose clients do not read what they are told: memory is short")
	}
}

// A parcel is a message that is sent. It is the pool of the memory that it is in as well: gRPC gives that back when all of it has left.
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

// A codec is wire.Codec, for parcels as well.
type codec struct{ wire.Codec }

// Marshal implements encoding.CodecV2.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	p, ok := v.(*parcel)
	if !ok {
		return c.Codec.Marshal(v)
	}
	m := p.message
	p.message = nil // it need not be kept with what was made of it
	return wire.Marshal(m, p)
}
