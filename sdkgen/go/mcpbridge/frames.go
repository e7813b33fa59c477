package mcpbridge

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// The kinds of frames. A bridge that launched this program sends tool calls as frames instead of gRPC calls, because
// they cost less. proto/mcpbridge/v1/frames.md describes the protocol.
const (
	frameCall   = 1
	frameCancel = 2
	frameTaken  = 3
	frameHello  = 16
	frameEvent  = 17
	frameResult = 18
	frameError  = 19
	frameLast   = 20

	frameHeader = 9  // bytes before the payload
	maxUnread   = 64 // maximum number of unread events of a call
)

// frames is the connection to the bridge for frames.
type frames struct {
	service *service
	conn    net.Conn
	calls   sync.WaitGroup // calls in flight
	ended   chan struct{}  // closed when the connection has ended

	mu       sync.Mutex // guards the rest
	running  map[uint32]*framedCall
	last     uint32      // the id of the last call that was started
	draining bool        // refuse new calls
	out      net.Buffers // to be written
	writing  bool        // a goroutine is writing out
}

// A framedCall is a call that was received as a frame. The service uses it as a stream.
type framedCall struct {
	grpc.ServerStream // not used

	frames *frames
	id     uint32
	ctx    context.Context //nolint:containedctx // the context of a stream
	cancel context.CancelFunc
	unread chan struct{} // has an entry for every unread event; nil before the first
	once   sync.Once
	last   *pb.CallToolResponse
}

// dialFrames connects to the bridge for frames. It returns nil if the bridge does not support them.
func dialFrames(ctx context.Context, s *service) *frames {
	path, ok := strings.CutPrefix(os.Getenv("MCPBRIDGE_FRAMES"), "unix:")
	_ = os.Unsetenv("MCPBRIDGE_FRAMES") // child processes must not inherit it
	if !ok {
		return nil
	}
	conn, err := new(net.Dialer).DialContext(ctx, "unix", path)
	if err != nil {
		logger().Debug(fmt.Sprintf("the bridge calls tools over gRPC only: %v", err))
		return nil
	}
	f := &frames{service: s, conn: conn, running: map[uint32]*framedCall{}, ended: make(chan struct{})}
	return f
}

// serve receives frames until the connection is closed.
func (f *frames) serve() {
	defer close(f.ended)
	f.put(frameHello, 0, func(to []byte) []byte { return append(to, 1) })
	if err := f.read(); !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) {
		logger().Debug(fmt.Sprintf("the bridge calls tools over gRPC from now on: %v", err))
	}
	_ = f.conn.Close()
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.running {
		c.cancel()
	}
}

func (f *frames) read() error {
	in := bufio.NewReaderSize(f.conn, 64<<10)
	header := make([]byte, frameHeader)
	for {
		if _, err := io.ReadFull(in, header); err != nil {
			return err
		}
		length, id, kind := binary.BigEndian.Uint32(header), binary.BigEndian.Uint32(header[4:]), header[8]
		if length > maxMessage {
			return fmt.Errorf("frame of %d bytes exceeds %d bytes", length, maxMessage)
		}
		payload := make([]byte, length)
		if _, err := io.ReadFull(in, payload); err != nil {
			return err
		}
		if err := f.handleFrame(kind, id, payload); err != nil {
			return err
		}
	}
}

// handleFrame handles a frame. It returns an error for a protocol violation.
func (f *frames) handleFrame(kind byte, id uint32, payload []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := f.running[id]
	switch kind {
	case frameCall:
		if c != nil {
			return fmt.Errorf("call %d is already running", id)
		}
		if f.draining {
			return nil // The LAST frame has informed the bridge.
		}
		f.last = id
		c = &framedCall{frames: f, id: id}
		c.ctx, c.cancel = context.WithCancel(context.Background())
		f.running[id] = c
		f.calls.Go(func() { c.serve(payload) })
	case frameCancel:
		if c != nil {
			c.cancel()
		}
	case frameTaken:
		if c != nil && c.unread != nil {
			select {
			case <-c.unread:
			default: // there is no unread event
			}
		}
	}
	return nil
}

// serve handles a call.
func (c *framedCall) serve(payload []byte) {
	defer c.cancel()
	req := &pb.CallToolRequest{}
	err := proto.Unmarshal(payload, req)
	if err != nil {
		err = status.Errorf(codes.Internal, "the request cannot be read: %v", err)
	} else if err = checkContract(req); err == nil {
		err = protect(func() error { return c.frames.service.CallTool(req, c) })
	}
	if c.last == nil && err == nil {
		err = status.Error(codes.Internal, "the call ended without a result")
	}
	c.frames.mu.Lock()
	delete(c.frames.running, c.id)
	c.frames.mu.Unlock()
	if err == nil {
		err = c.frames.send(frameResult, c.id, c.last)
	}
	if err == nil {
		return
	}
	if err := c.frames.send(frameError, c.id, status.Convert(err).Proto()); err != nil {
		_ = c.frames.send(frameError, c.id, status.Convert(err).Proto()) // a short message
	}
}

// Context implements grpc.ServerStream.
func (c *framedCall) Context() context.Context { return c.ctx }

// Send implements grpc.ServerStreamingServer.
func (c *framedCall) Send(m *pb.CallToolResponse) error {
	if m.GetProgress() == nil && m.GetLog() == nil && m.GetTaskStarted() == nil {
		c.last = m // the end of the call
		return nil
	}
	c.once.Do(func() {
		c.frames.mu.Lock()
		defer c.frames.mu.Unlock()
		c.unread = make(chan struct{}, maxUnread)
	})
	select {
	case c.unread <- struct{}{}:
	case <-c.ctx.Done():
		return c.ctx.Err()
	}
	return c.frames.send(frameEvent, c.id, m)
}

// send sends a message. It returns an error, and sends nothing, if the message cannot be encoded or exceeds the
// bridge's limit, which would end the connection.
func (f *frames) send(kind byte, id uint32, m proto.Message) error {
	if size := proto.Size(m); size > maxMessage {
		what := "the event"
		if kind == frameResult {
			what = "the call was executed, and its result"
		}
		return status.Errorf(codes.ResourceExhausted, "%s has %d bytes, more than the %d of a message", what, size,
			maxMessage)
	}
	var failed error
	f.put(kind, id, func(to []byte) []byte {
		out, err := proto.MarshalOptions{UseCachedSize: true}.MarshalAppend(to, m)
		failed = err
		return out
	})
	if failed != nil {
		return status.Errorf(codes.Internal, "the response cannot be encoded: %v", failed)
	}
	return nil
}

// put writes a frame, unless payload fails. If another goroutine is writing, that one writes this frame as well.
func (f *frames) put(kind byte, id uint32, payload func(to []byte) []byte) {
	frame := payload(make([]byte, frameHeader, 512))
	if len(frame) < frameHeader {
		return
	}
	binary.BigEndian.PutUint32(frame, uint32(len(frame)-frameHeader))
	binary.BigEndian.PutUint32(frame[4:], id)
	frame[8] = kind
	f.mu.Lock()
	defer f.mu.Unlock()
	f.out = append(f.out, frame)
	if f.writing {
		return
	}
	f.writing = true
	for len(f.out) > 0 {
		out := f.out
		f.out = nil
		f.mu.Unlock()
		_, err := out.WriteTo(f.conn)
		f.mu.Lock()
		if err != nil {
			_ = f.conn.Close() // which ends serve
			f.out = nil
		}
	}
	f.writing = false
}

// drain refuses new calls, and waits until the bridge has received the responses of calls in flight.
func (f *frames) drain() {
	if f == nil {
		return
	}
	f.mu.Lock()
	f.draining = true
	last := f.last
	f.mu.Unlock()
	f.put(frameLast, last, func(to []byte) []byte { return to })
	<-f.ended // The bridge then closes the connection.
	f.calls.Wait()
}

// close closes the connection, and cancels its calls.
func (f *frames) close() {
	if f != nil {
		_ = f.conn.Close()
	}
}
