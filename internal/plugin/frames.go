package plugin

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/rs/zerolog"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/contain"
	"github.com/mcpbridge/mcpbridge/internal/wire"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// EnvFrames names the unix socket at which the bridge waits for a backend that can take calls of tools as frames, which
// costs less than gRPC: proto/mcpbridge/v1/frames.md.
const EnvFrames = "MCPBRIDGE_FRAMES"

const framesFile = "frames.sock"

// The kinds of frames. Those from 16 on are the backend's.
const (
	frameCall   = 1
	frameCancel = 2
	frameTaken  = 3
	frameHello  = 16
	frameEvent  = 17
	frameResult = 18
	frameError  = 19
	frameLast   = 20
)

const (
	// frameHeader is how many bytes there are before the payload: its length, the call's id, the kind.
	frameHeader = 9
	// framesVersion is what a HELLO says.
	framesVersion = 1
	// eventsAhead is how many events of a call a backend may send that the caller has not taken.
	eventsAhead = 64
	// mostWaiting is how many bytes of calls wait to be written at most. When there are more, calls go by gRPC.
	mostWaiting = 8 << 20
	// mostSaid is how many frames without a payload wait to be written at most. Of a backend that reads there are at
	// most eventsAhead+1 for each of its calls; one that does not loses the connection.
	mostSaid = 1 << 20
	// mostSkipped is how long an answer may be that is too long and only costs its own call, in bytes.
	mostSkipped = 64 << 20
)

// A frames is a connection by which a backend takes calls of tools, as gRPC does and with the same messages. The zero
// value has none yet.
type frames struct {
	log  *zerolog.Logger
	most int // the longest payload
	dir  *runDir

	listener net.Listener
	wg       sync.WaitGroup

	// open says that calls can be made.
	open atomic.Bool
	// last is closed when the backend has said that it begins no more calls.
	last chan struct{}
	// over is closed when the connection has ended, and no calls are made any more.
	over chan struct{}

	mu    sync.Mutex // guards what follows
	conn  net.Conn
	calls map[uint32]*framed
	id    uint32 // of the last call that was made
	left  bool   // nothing more comes to the backend
	// queue is what write has yet to take. Who sends a call and who tells that it was not sent agree by it: one of them
	// takes the CALL out.
	queue  []queued
	size   int // of the calls in it, in bytes
	said   int // how many frames without a payload are in it
	wake   chan struct{}
	closed bool
}

// A queued is a frame to be written.
type queued struct {
	frame *[]byte // nil: it has no payload
	id    uint32
	kind  byte
}

// A framed is a call that is made by a frame.
type framed struct {
	// in are the frames of the call. There is always room, unless the backend sends more than it may.
	in chan inbound
}

// An inbound is a frame of a call, or why there is none.
type inbound struct {
	kind   byte
	answer *pb.CallToolResponse
	err    error
}

var framedCalls = sync.Pool{New: func() any { return &framed{in: make(chan inbound, eventsAhead+1)} }}

// newFrames begins to wait for a backend at a socket in dir. It returns nil where that is of no use.
func newFrames(dir *runDir, most int, log *zerolog.Logger) *frames {
	if runtime.GOOS == "windows" {
		return nil
	}
	ln, err := net.Listen("unix", filepath.Join(dir.path, framesFile)) //nolint:noctx // nothing is waited for
	if err != nil {
		log.Debug().Err(err).Msg("there is no socket for frames; calls go by gRPC")
		return nil
	}
	return &frames{
		log: log, most: most, dir: dir, listener: ln, last: make(chan struct{}), over: make(chan struct{}),
		calls: map[uint32]*framed{}, wake: make(chan struct{}, 1),
	}
}

// env returns the variable that tells the backend of it.
func (f *frames) env() string { return EnvFrames + "=unix:" + filepath.Join(f.dir.path, framesFile) }

// serve takes one connection of the process group, until close. A bug that is met in what comes by it kills the
// backend.
func (f *frames) serve(pgid func() int, panics *contain.Panics, kill func()) {
	broke := func(*bridge.Error) { kill() }
	f.wg.Go(func() {
		defer close(f.over)
		defer panics.Recover("the connection for frames", broke)
		conn := f.accept(pgid)
		if conn == nil {
			return
		}
		f.mu.Lock()
		closed := f.closed
		f.conn = conn
		f.mu.Unlock()
		defer conn.Close()
		if closed {
			return
		}
		var writer sync.WaitGroup
		done := make(chan struct{})
		writer.Go(func() {
			defer panics.Recover("writing frames", broke)
			f.write(conn, done)
		})
		defer func() {
			f.open.Store(false)
			close(done)
			conn.Close()
			writer.Wait()
		}()
		err := f.read(conn)
		f.log.Debug().Err(err).Msg("the connection for frames ended")
	})
}

// accept returns the first connection that is the backend's, or nil when f is closed.
func (f *frames) accept(pgid func() int) net.Conn {
	defer f.listener.Close()
	for {
		conn, err := f.listener.Accept()
		if err != nil {
			return nil
		}
		if err := checkPeer(conn, pgid()); err != nil {
			f.log.Warn().Err(err).Msg("somebody else came to the socket for frames")
			conn.Close()
			continue
		}
		return conn
	}
}

// close ends the connection and waits for what serve has started.
func (f *frames) close() {
	if f == nil {
		return
	}
	f.listener.Close()
	f.mu.Lock()
	f.closed = true
	conn := f.conn
	f.mu.Unlock()
	if conn != nil {
		conn.Close()
	}
	f.wg.Wait()
}

// write writes what is queued, as much at once as there is, until done.
func (f *frames) write(conn net.Conn, done chan struct{}) {
	var queue []queued
	var out net.Buffers
	var heads []byte // the frames without a payload
	for {
		select {
		case <-f.wake:
		case <-done:
			return
		}
		f.mu.Lock()
		queue, f.queue = f.queue, queue[:0]
		heads = slices.Grow(heads[:0], f.said*frameHeader)
		f.size, f.said = 0, 0
		f.mu.Unlock()

		out = out[:0]
		for _, q := range queue {
			if q.frame != nil {
				out = append(out, *q.frame)
				continue
			}
			n := len(heads)
			heads = heads[:n+frameHeader]
			putHeader(heads[n:], 0, q.id, q.kind)
			out = append(out, heads[n:])
		}
		left := out // WriteTo consumes it
		_, err := left.WriteTo(conn)
		for i, q := range queue {
			if q.frame != nil {
				wire.Buffers.Put(q.frame)
			}
			queue[i] = queued{}
		}
		if err != nil {
			conn.Close() // which ends read
			return
		}
	}
}

// put queues a frame. Its caller has locked f.
func (f *frames) put(q queued) {
	f.queue = append(f.queue, q)
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// say queues a frame without a payload. None is left out: the backend would wait for it.
func (f *frames) say(kind byte, id uint32) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.said == mostSaid {
		f.conn.Close()
		return
	}
	f.said++
	f.put(queued{id: id, kind: kind})
}

// withdraw takes a CALL back. It reports false if it was taken to be written, and the backend may have it from then on.
func (f *frames) withdraw(id uint32) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	i := slices.IndexFunc(f.queue, func(q queued) bool { return q.id == id && q.kind == frameCall })
	if i < 0 {
		return false
	}
	frame := f.queue[i].frame
	f.queue = slices.Delete(f.queue, i, i+1)
	f.size -= len(*frame)
	wire.Buffers.Put(frame)
	return true
}

// cancel says that nobody wants the answer of a call, which is withdrawn if it can be. It reports whether the backend
// may have seen it.
func (f *frames) cancel(id uint32) (sent bool) {
	if f.withdraw(id) {
		return false
	}
	f.say(frameCancel, id)
	return true
}

func putHeader(to []byte, length int, id uint32, kind byte) {
	binary.BigEndian.PutUint32(to, uint32(length))
	binary.BigEndian.PutUint32(to[4:], id)
	to[8] = kind
}

// errBreach is why a connection ends whose backend does not keep to what a frame is.
var errBreach = errors.New("the backend sent a frame that it must not send")

// read takes frames until the connection ends.
func (f *frames) read(conn net.Conn) error {
	in := bufio.NewReaderSize(conn, 64<<10)
	for {
		header, err := in.Peek(frameHeader)
		if err != nil {
			return err
		}
		length, id, kind := int(binary.BigEndian.Uint32(header)), binary.BigEndian.Uint32(header[4:]), header[8]
		if _, err := in.Discard(frameHeader); err != nil {
			return err
		}
		if length > f.most {
			if err := f.skip(in, length, id, kind); err != nil {
				return err
			}
			continue
		}
		if err := f.payload(in, length, func(payload []byte) error { return f.take(kind, id, payload) }); err != nil {
			return err
		}
	}
}

// payload calls use with the next bytes, which are valid only until it returns.
func (f *frames) payload(in *bufio.Reader, length int, use func([]byte) error) error {
	if length <= in.Size() {
		payload, err := in.Peek(length)
		if err != nil {
			return err
		}
		if err := use(payload); err != nil {
			return err
		}
		_, err = in.Discard(length)
		return err
	}
	b := wire.Buffers.Get(length)
	defer wire.Buffers.Put(b)
	if _, err := io.ReadFull(in, *b); err != nil {
		return err
	}
	return use(*b)
}

// skip reads over an answer that is too long, which is the end of its call.
func (f *frames) skip(in *bufio.Reader, length int, id uint32, kind byte) error {
	if length > mostSkipped {
		return fmt.Errorf("%w: it has %d bytes", errBreach, length)
	}
	if _, err := in.Discard(length); err != nil {
		return err
	}
	return f.deliver(id, inbound{kind: kind, err: errTooLong})
}

var errTooLong = errors.New("the answer is too long")

// take does what a frame says.
func (f *frames) take(kind byte, id uint32, payload []byte) error {
	switch kind {
	case frameHello:
		if len(payload) == 1 && payload[0] == framesVersion && !f.draining() {
			f.open.Store(true)
			f.log.Debug().Msg("calls of tools are made by frames")
		}
		return nil
	case frameEvent, frameResult:
		answer := &pb.CallToolResponse{}
		err := proto.Unmarshal(payload, answer) // which copies what it keeps
		return f.deliver(id, inbound{kind: kind, answer: answer, err: err})
	case frameError:
		s := &spb.Status{}
		err := proto.Unmarshal(payload, s)
		if err == nil {
			err = status.FromProto(s).Err()
		}
		if err == nil {
			err = status.Error(codes.Internal, "the backend failed the call with status OK")
		}
		return f.deliver(id, inbound{kind: kind, err: err})
	case frameLast:
		return f.drain(id)
	}
	return nil // of a later version
}

// drain is told that the backend has begun no call that was made after last, and begins no more.
func (f *frames) drain(last uint32) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.draining() {
		return nil
	}
	f.open.Store(false)
	close(f.last)
	var err error
	for id, c := range f.calls {
		if int32(id-last) > 0 { // ids begin anew after the highest
			err = errors.Join(err, f.hand(c, id, inbound{kind: frameLast}))
		}
	}
	f.endIfDrained()
	return err
}

// drains returns what is closed when the backend begins no more calls.
func (f *frames) drains() <-chan struct{} {
	if f == nil {
		return nil
	}
	return f.last
}

func (f *frames) draining() bool {
	select {
	case <-f.drains():
		return true
	default:
		return false
	}
}

// leave says that nothing more comes to the backend, over gRPC either.
func (f *frames) leave() {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.left = true
	f.endIfDrained()
}

// endIfDrained ends the connection of a backend that begins no more calls, when it has ended those that it has begun
// and nothing more comes to it. It waits for that. Its caller has locked f.
func (f *frames) endIfDrained() {
	if f.left && len(f.calls) == 0 && f.draining() {
		f.conn.Close()
	}
}

// deliver gives a frame to its call, if there is still one.
func (f *frames) deliver(id uint32, in inbound) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := f.calls[id]
	if c == nil {
		return nil
	}
	return f.hand(c, id, in)
}

// hand gives a frame to c. Its caller has locked f.
func (f *frames) hand(c *framed, id uint32, in inbound) error {
	if in.kind != frameEvent || in.err != nil {
		delete(f.calls, id) // nothing comes after it
		f.endIfDrained()
	}
	select {
	case c.in <- in:
		return nil
	default:
		return fmt.Errorf("%w: more than %d events of a call that nobody has taken", errBreach, eventsAhead)
	}
}

// begin makes a call. It returns nil if it cannot be made by frames now.
func (f *frames) begin(r *pb.CallToolRequest) (c *framed, id uint32) {
	if f == nil || !f.open.Load() {
		return nil, 0
	}
	size := proto.Size(r)
	if size > f.most {
		return nil, 0 // which gRPC has the words for
	}
	frame := wire.Buffers.Get(frameHeader + size)
	data, err := proto.MarshalOptions{UseCachedSize: true}.MarshalAppend((*frame)[:frameHeader], r)
	if err != nil {
		wire.Buffers.Put(frame)
		return nil, 0 // as above
	}
	*frame = data
	c, _ = framedCalls.Get().(*framed)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.id++
	for f.calls[f.id] != nil {
		f.id++
	}
	id = f.id
	putHeader(*frame, len(data)-frameHeader, id, frameCall)
	if !f.open.Load() || f.size > 0 && f.size+len(data) > mostWaiting {
		framedCalls.Put(c)
		return nil, 0
	}
	f.size += len(data)
	f.put(queued{frame, id, frameCall})
	f.calls[id] = c
	return c, id
}

// end forgets a call.
func (f *frames) end(c *framed, id uint32) {
	f.mu.Lock()
	if f.calls[id] == c {
		delete(f.calls, id)
		f.endIfDrained()
	}
	f.mu.Unlock()
	for { // nothing more comes
		select {
		case <-c.in:
		default:
			framedCalls.Put(c)
			return
		}
	}
}
