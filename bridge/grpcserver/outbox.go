package grpcserver

import (
	"context"
	"runtime"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/peer"

	"github.com/mcpbridge/mcpbridge/bridge/wire"
)

const (
	// unreadBytes is how much of a call may wait for its client, before what the call says next waits in its Handler. With less, gRPC
	// takes what is sent at once.
	unreadBytes = 64 << 10
	// relieveEvery is how often it is looked for clients that do not read.
	relieveEvery = time.Second
	// leastBuffer is how long memory has to be for gRPC to give it back.
	leastBuffer = 2 << 10
	// prefix is what gRPC puts before a message.
	prefix = 5
)

// An outbox is what a call has sent and its client has not read. It takes memory, whether the Handler has returned or not, and so the call
// keeps its place among those that there may be until all of it has left.
type outbox struct {
	s    *Server
	conn *counted
	end  func()        // is called once there is nothing any more
	room chan struct{} // has an element when something has left

	mu       sync.Mutex // guards what follows
	messages int        // those that have not left
	bytes    int        // theirs
	moved    time.Time  // when one left, or the first of them came
	closed   bool       // none will come
	lost     bool       // gRPC has forgotten them
	over     bool       // the place is given back
}

// outbox returns that of a call. When all of it has left, over is called.
func (s *Server) outbox(ctx context.Context, over func()) *outbox {
	// What is packed would not be known to have left. It only fails where a message was sent already.
	_ = grpc.SetSendCompressor(ctx, encoding.Identity)
	from, _ := peer.FromContext(ctx)
	conn := from.Addr.(origin).conn //nolint:forcetypeassert // all connections are of our listener
	b := &outbox{s: s, conn: conn, end: over, room: make(chan struct{}, 1)}
	conn.keep(b)
	return b
}

// tell sends a message before the last one, as soon as there is room for it, unless ctx ends.
func (b *outbox) tell(ctx context.Context, ss grpc.ServerStream, m any) error {
	for b.full() {
		select {
		case <-b.room:
		case <-ctx.Done():
			return ctx.Err()
		case <-ss.Context().Done():
			return ss.Context().Err()
		}
	}
	return b.send(ss, m)
}

func (b *outbox) full() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.bytes >= unreadBytes
}

// send sends a message. There must not be another one that is being sent.
func (b *outbox) send(ss grpc.ServerStream, m any) error {
	p := &parcel{message: m, box: b}
	err := ss.SendMsg(p)
	if err == nil && ss.Context().Err() != nil {
		// Where the client has ended the stream just before, gRPC forgets the message and tells nobody. If it has not, all will have
		// left by the time.
		runtime.AddCleanup(p, (*outbox).lose, b)
	}
	return err
}

// change changes the outbox, and ends it if that is due.
func (b *outbox) change(f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f()
	if !b.over && b.closed && (b.lost || b.messages == 0) {
		b.over = true
		b.conn.forget(b)
		b.end()
	}
}

// close says that no message comes any more.
func (b *outbox) close() { b.change(func() { b.closed = true }) }

// lose says that no message leaves any more.
func (b *outbox) lose() { b.change(func() { b.lost = true }) }

// unread reports whether something has been waiting for its client for long.
func (b *outbox) unread() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.messages > 0 && time.Since(b.moved) > b.s.o.WriteTimeout
}

// A parcel is a message that is sent. It is the pool of the memory that it is in as well: gRPC gives that back when all of it has left.
type parcel struct {
	message any
	box     *outbox
}

// Get implements mem.BufferPool.
func (p *parcel) Get(n int) *[]byte {
	b := wire.Buffers.Get(max(n, leastBuffer))
	p.box.change(func() {
		if p.box.messages++; p.box.messages == 1 {
			p.box.moved = time.Now()
		}
		p.box.bytes += cap(*b) + prefix
	})
	return b
}

// Put implements mem.BufferPool.
func (p *parcel) Put(b *[]byte) {
	p.box.change(func() {
		p.box.messages--
		p.box.bytes -= cap(*b) + prefix
		p.box.moved = time.Now()
	})
	select {
	case p.box.room <- struct{}{}:
	default:
	}
	wire.Buffers.Put(b)
}

// A codec is wire.Codec, for parcels as well.
type codec struct{ wire.Codec }

// Marshal implements encoding.CodecV2.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	if p, ok := v.(*parcel); ok {
		return wire.Marshal(p.message, p)
	}
	return c.Codec.Marshal(v)
}

// relieve closes connections whose clients leave something unread for long. It is for when there is no room for others.
func (s *Server) relieve() {
	if n := s.conns.closeUnread(); n > 0 {
		s.log.Warn().Int("connections", n).Stringer("unread", s.o.WriteTimeout).
			Msg("closed gRPC connections whose clients do not read what they are told: it took the room of others")
	}
}
