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
	"github.com/mcpbridge/mcpbridge/internal/limits"
	"github.com/mcpbridge/mcpbridge/internal/wire"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// EnvFrames names the unix socket on which the bridge accepts calls of tools as frames, which cost less than gRPC:
// proto/mcpbridge/v1/frames.md.
const EnvFrames = "MCPBRIDGE_FRAMES"

const framesFile = "frames.sock"

// The kinds of frames. The backend sends those from 16 on.
const (
	frameCall   = 1
	frameCancel = 2
	frameTaken  = 3
	frameHello  = 16
	frameEvent  = 17
	frameResult = 18
	frameError  = 19
	frameGoAway = 20
)

const (
	// frameHeader is the size of a frame's header in bytes: the length of the payload, the call's ID, the kind.
	frameHeader = 9
	// framesVersion is the version in HELLO.
	framesVersion = 1
	// maxUnread is the maximum number of events of a call that the caller has not received yet.
	maxUnread = 64
	// maxQueued is the maximum size of queued calls in bytes. Above it, calls are made by gRPC.
	maxQueued = 8 << 20
	// maxControls is the maximum number of queued frames without a payload. A backend that reads needs at most
	// maxUnread+1 for each of its calls; any other loses the connection.
	maxControls = 1 << 20
)

// A frames is a connection on which a backend receives calls of tools, with the messages of gRPC. The zero value has no
// connection.
type frames struct {
	log        *zerolog.Logger
	maxPayload int // the maximum size of a payload
	dir        *runDir

	listener net.Listener
	wg       sync.WaitGroup

	// open reports whether calls can be made.
	open atomic.Bool
	// last is closed when the backend has announced that it accepts no more calls.
	last chan struct{}
	// connEnded is closed when the connection has ended.
	connEnded chan struct{}

	mu       sync.Mutex // guards the fields below
	conn     net.Conn
	calls    map[uint32]*framedCall
	id       uint32 // of the last call
	finished bool   // no more calls are sent to the backend
	// queue are the frames that write has not sent. A call was sent if write has removed its CALL from the queue, and
	// not if withdraw has.
	queue    []queuedFrame
	size     int // of the queued calls, in bytes
	controls int // number of queued frames without a payload
	wake     chan struct{}
	closed   bool
}

// A queuedFrame frame is to be sent.
type queuedFrame struct {
	frame *[]byte // nil if there is no payload
	id    uint32
	kind  byte
}

// A framedCall call was made by a frame.
type framedCall struct {
	// in are the frames received for the call. It is full only if the backend sends more than the protocol allows.
	in chan inbound
}

// An inbound frame belongs to a call. It has an answer, or an error in place of one.
type inbound struct {
	kind   byte
	answer *pb.CallToolResponse
	err    error
}

var framedCalls = sync.Pool{New: func() any { return &framedCall{in: make(chan inbound, maxUnread+1)} }}

// newFrames listens for a backend on a socket in dir. It returns nil where frames are not supported.
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
		log: log, maxPayload: most, dir: dir, listener: ln, last: make(chan struct{}), connEnded: make(chan struct{}),
		calls: map[uint32]*framedCall{}, wake: make(chan struct{}, 1),
	}
}

// env returns the environment variable that has the address for the backend.
func (f *frames) env() string { return EnvFrames + "=unix:" + filepath.Join(f.dir.path, framesFile) }

// serve serves one connection of the process group, until close. A panic while it processes a frame kills the backend.
func (f *frames) serve(pgid func() int, panics *contain.Panics, kill func()) {
	onPanic := func(*bridge.Error) { kill() }
	f.wg.Go(func() {
		defer close(f.connEnded)
		defer panics.Recover("the connection for frames", onPanic)
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
			defer panics.Recover("writing frames", onPanic)
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

// accept returns the backend's first connection, or nil if f is closed.
func (f *frames) accept(pgid func() int) net.Conn {
	defer f.listener.Close()
	for {
		conn, err := f.listener.Accept()
		if err != nil {
			return nil
		}
		if err := checkPeer(conn, pgid()); err != nil {
			f.log.Warn().Err(err).Msg("rejected another process on the socket for frames")
			conn.Close()
			continue
		}
		return conn
	}
}

// close ends the connection and waits for the goroutines of serve.
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

// write sends the queued frames in batches, until done is closed.
func (f *frames) write(conn net.Conn, done chan struct{}) {
	var queue []queuedFrame
	var out net.Buffers
	var headers []byte // the frames without a payload
	for {
		select {
		case <-f.wake:
		case <-done:
			return
		}
		f.mu.Lock()
		queue, f.queue = f.queue, queue[:0]
		headers = slices.Grow(headers[:0], f.controls*frameHeader)
		f.size, f.controls = 0, 0
		f.mu.Unlock()

		out = out[:0]
		for _, q := range queue {
			if q.frame != nil {
				out = append(out, *q.frame)
				continue
			}
			n := len(headers)
			headers = headers[:n+frameHeader]
			putHeader(headers[n:], 0, q.id, q.kind)
			out = append(out, headers[n:])
		}
		left := out // WriteTo consumes it
		_, err := left.WriteTo(conn)
		for i, q := range queue {
			if q.frame != nil {
				wire.Buffers.Put(q.frame)
			}
			queue[i] = queuedFrame{}
		}
		if err != nil {
			conn.Close() // ends read
			return
		}
	}
}

// put queues a frame. The caller holds mu.
func (f *frames) put(q queuedFrame) {
	f.queue = append(f.queue, q)
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// putControl queues a frame without a payload. It drops none, because the backend waits for each.
func (f *frames) putControl(kind byte, id uint32) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.controls == maxControls {
		f.conn.Close()
		return
	}
	f.controls++
	f.put(queuedFrame{id: id, kind: kind})
}

// withdraw removes a queued CALL. It returns false if write has removed it, so that the backend may receive it.
func (f *frames) withdraw(id uint32) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	i := slices.IndexFunc(f.queue, func(q queuedFrame) bool { return q.id == id && q.kind == frameCall })
	if i < 0 {
		return false
	}
	frame := f.queue[i].frame
	f.queue = slices.Delete(f.queue, i, i+1)
	f.size -= len(*frame)
	wire.Buffers.Put(frame)
	return true
}

// cancel cancels a call, which is withdrawn if it is still queued. It reports whether the backend may have received it.
func (f *frames) cancel(id uint32) (sent bool) {
	if f.withdraw(id) {
		return false
	}
	f.putControl(frameCancel, id)
	return true
}

func putHeader(to []byte, length int, id uint32, kind byte) {
	binary.BigEndian.PutUint32(to, uint32(length))
	binary.BigEndian.PutUint32(to[4:], id)
	to[8] = kind
}

// errFrameViolation is the error of a backend that violates the protocol of frames.
var errFrameViolation = errors.New("the backend sent a frame that it must not send")

// read processes received frames until the connection ends.
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
		if length > f.maxPayload {
			if err := f.skip(in, length, id, kind); err != nil {
				return err
			}
			continue
		}
		if err := f.payload(in, length,
			func(payload []byte) error { return f.handleFrame(kind, id, payload) }); err != nil {
			return err
		}
	}
}

// payload calls use with the next bytes, which are valid until use returns.
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

// skip discards an answer that is too long, and ends its call.
func (f *frames) skip(in *bufio.Reader, length int, id uint32, kind byte) error {
	if length > limits.MaxMessage {
		return fmt.Errorf("%w: it has %d bytes", errFrameViolation, length)
	}
	if _, err := in.Discard(length); err != nil {
		return err
	}
	return f.deliver(id, inbound{kind: kind, err: errTooLong})
}

var errTooLong = errors.New("the answer is too long")

// handleFrame processes a frame.
func (f *frames) handleFrame(kind byte, id uint32, payload []byte) error {
	switch kind {
	case frameHello:
		if len(payload) == 1 && payload[0] == framesVersion && !f.draining() {
			f.open.Store(true)
			f.log.Debug().Msg("calls of tools are made by frames")
		}
		return nil
	case frameEvent, frameResult:
		answer := &pb.CallToolResponse{}
		err := proto.Unmarshal(payload, answer) // it copies what it retains
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
	case frameGoAway:
		return f.drain(id)
	}
	return nil // an unknown kind, of a later version
}

// drain handles GOAWAY: the backend has accepted no call after last, and accepts no more.
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
		if int32(id-last) > 0 { // IDs wrap around
			err = errors.Join(err, f.deliverTo(c, id, inbound{kind: frameGoAway}))
		}
	}
	f.endIfDrained()
	return err
}

// drains returns a channel that is closed when the backend accepts no more calls.
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

// stopSending records that no more calls are sent to the backend, neither by frames nor by gRPC.
func (f *frames) stopSending() {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.finished = true
	f.endIfDrained()
}

// endIfDrained ends the connection when the backend accepts no more calls, all of its calls have ended, and no more are
// sent by gRPC. The backend waits for that. The caller holds mu.
func (f *frames) endIfDrained() {
	if f.finished && len(f.calls) == 0 && f.draining() {
		f.conn.Close()
	}
}

// deliver passes a frame to its call, if that is still in flight.
func (f *frames) deliver(id uint32, in inbound) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := f.calls[id]
	if c == nil {
		return nil
	}
	return f.deliverTo(c, id, in)
}

// deliverTo passes a frame to c. The caller holds mu.
func (f *frames) deliverTo(c *framedCall, id uint32, in inbound) error {
	if in.kind != frameEvent || in.err != nil {
		delete(f.calls, id) // it is the last one
		f.endIfDrained()
	}
	select {
	case c.in <- in:
		return nil
	default:
		return fmt.Errorf("%w: more than %d unread events of a call", errFrameViolation, maxUnread)
	}
}

// begin queues a call. It returns nil if the call cannot be made by frames now.
func (f *frames) begin(r *pb.CallToolRequest) (c *framedCall, id uint32) {
	if f == nil || !f.open.Load() {
		return nil, 0
	}
	size := proto.Size(r)
	if size > f.maxPayload {
		return nil, 0 // gRPC returns the error for it
	}
	frame := wire.Buffers.Get(frameHeader + size)
	data, err := proto.MarshalOptions{UseCachedSize: true}.MarshalAppend((*frame)[:frameHeader], r)
	if err != nil {
		wire.Buffers.Put(frame)
		return nil, 0 // as above
	}
	*frame = data
	c, _ = framedCalls.Get().(*framedCall)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.id++
	for f.calls[f.id] != nil {
		f.id++
	}
	id = f.id
	putHeader(*frame, len(data)-frameHeader, id, frameCall)
	if !f.open.Load() || f.size > 0 && f.size+len(data) > maxQueued {
		framedCalls.Put(c)
		return nil, 0
	}
	f.size += len(data)
	f.put(queuedFrame{frame, id, frameCall})
	f.calls[id] = c
	return c, id
}

// end removes a call.
func (f *frames) end(c *framedCall, id uint32) {
	f.mu.Lock()
	if f.calls[id] == c {
		delete(f.calls, id)
		f.endIfDrained()
	}
	f.mu.Unlock()
	for { // drain what was received
		select {
		case <-c.in:
		default:
			framedCalls.Put(c)
			return
		}
	}
}
