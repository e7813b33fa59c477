package grpcserver_test

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/bridgetest"
	"github.com/mcpbridge/mcpbridge/internal/grpcserver"
	"github.com/mcpbridge/mcpbridge/internal/lifecycle"
	"github.com/mcpbridge/mcpbridge/internal/limit"
	"github.com/mcpbridge/mcpbridge/internal/limits"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// sizedHandler returns a Handler whose responses have n bytes or a little more.
func sizedHandler(n int) bridge.Handler {
	text := strings.Repeat("x", n)
	return toolHandler(func(context.Context, *pb.CallToolRequest, bridge.Emit) (*bridge.Result, error) {
		return textResult(text), nil
	})
}

// dialZeroWindow returns a client with a flow-control window of zero.
func dialZeroWindow(t *testing.T, addr string) *rawClient {
	t.Helper()
	c := rawDial(t, addr)
	if err := c.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0}); err != nil {
		t.Fatal(err)
	}
	return c
}

// request makes a call and reports whether it gets a response: a response begins with headers, and a rejection consists
// of trailers only.
func (c *rawClient) request(t *testing.T, number int, headers ...[2]string) (answered bool) {
	t.Helper()
	id := uint32(2*number + 1)
	if err := c.open(id, callTool, []byte{0, 0, 0, 0, 0}, headers...); err != nil {
		t.Fatal(err)
	}
	if err := c.until(t, func(f http2.Frame) bool {
		h, ok := f.(*http2.HeadersFrame)
		answered = ok && !h.StreamEnded()
		return ok && h.StreamID == id
	}); err != nil {
		t.Fatal(err)
	}
	return answered
}

// The unread data of a connection is limited. At the limit its calls are rejected until the client reads or cancels;
// other connections are unaffected.
func TestUnreadResponsesAreLimited(t *testing.T) {
	const limit = 1 << 20 // four messages of the maximum size
	for name, headers := range map[string][][2]string{
		"plain":      nil,
		"compressed": {{"grpc-encoding", "gzip"}, {"grpc-accept-encoding", "gzip"}},
	} {
		for size, text := range map[string]int{"nothing": 0, "much": 100_000} {
			for _, end := range []string{"read", "reset"} {
				t.Run(name+", "+size+", "+end, func(t *testing.T) {
					addr := serve(t, sizedHandler(text), nil,
						grpcserver.Options{
							MaxCalls: 1,
							Limits:   limits.Limits{ClientMessage: limit / 4, WriteTime: time.Millisecond},
						})
					c := dialZeroWindow(t, addr)
					n := 0
					for c.request(t, n, headers...) {
						n++
					}
					if each := max(text, 2<<10); n < limit/(each+each/3) || n > limit/each+1 {
						t.Errorf("got %d responses of %d bytes, want at most %d bytes", n, text, limit)
					}
					checkOtherClient(t, addr)
					switch end {
					case "read":
						if err := c.WriteSettings(
							http2.Setting{ID: http2.SettingInitialWindowSize, Val: 4 << 20}); err != nil {
							t.Fatal(err)
						}
						if err := c.WriteWindowUpdate(0, 1<<30); err != nil {
							t.Fatal(err)
						}
					case "reset":
						for i := range n {
							if err := c.WriteRSTStream(uint32(2*i+1), http2.ErrCodeCancel); err != nil {
								t.Fatal(err)
							}
						}
					}
					for n++; !c.request(t, n, headers...); n++ {
						if t.Context().Err() != nil {
							t.Fatal("no further response")
						}
					}
				})
			}
		}
	}
}

// If many calls start before the first response is buffered, the responses above the limit are dropped, and their calls
// fail.
func TestResponsesOfConcurrentCallsAreLimited(t *testing.T) {
	const calls, each, message = 200, 500_000, 1 << 20
	const most = 4*message + 2*message + 16<<20 // before calls wait, and for final messages
	begun, letGo := make(chan struct{}, calls), make(chan struct{})
	long := strings.Repeat("x", each)
	addr := serve(t, toolHandler(
		func(ctx context.Context, _ *pb.CallToolRequest, _ bridge.Emit) (*bridge.Result, error) {
			begun <- struct{}{}
			<-letGo
			return textResult(long), nil
		}), nil, grpcserver.Options{Limits: limits.Limits{ClientMessage: message}})
	c := dialZeroWindow(t, addr)
	for i := range calls {
		if err := c.begin(i); err != nil {
			t.Fatal(err)
		}
	}
	for range calls {
		<-begun
	}
	close(letGo)
	kept, dropped := 0, 0
	if err := c.until(t, func(f http2.Frame) bool {
		if h, ok := f.(*http2.HeadersFrame); ok && h.StreamEnded() {
			dropped++
		} else if ok {
			kept++
		}
		return kept+dropped == calls
	}); err != nil {
		t.Fatal(err)
	}
	if kept*each > most || kept*each < most/2 {
		t.Errorf("%d responses of %d bytes are buffered, want at most %d bytes", kept, each, most)
	}
	checkOtherClient(t, addr)
}

// A call waits until its client has read the responses of other calls.
func TestCallsWaitForOtherResponsesToBeRead(t *testing.T) {
	addr := serve(t, sizedHandler(100_000), nil,
		grpcserver.Options{Limits: limits.Limits{ClientMessage: 1 << 18, WriteTime: time.Hour}})
	c := dialZeroWindow(t, addr)
	const n = 8 // the limit for calls with 128 KiB of memory each
	for i := range n {
		if !c.request(t, i) {
			t.Fatal("a call was rejected")
		}
	}
	if err := c.open(2*n+1, callTool, []byte{0, 0, 0, 0, 0}); err != nil {
		t.Fatal(err)
	}
	answered := func(f http2.Frame) bool { return f.Header().StreamID == 2*n+1 }
	if err := c.WritePing(false, [8]byte{}); err != nil {
		t.Fatal(err)
	}
	if err := c.until(t, func(f http2.Frame) bool {
		if answered(f) {
			t.Error("the call got a response")
		}
		return f.Header().Type == http2.FramePing
	}); err != nil {
		t.Fatal(err)
	}
	if err := c.WriteRSTStream(1, http2.ErrCodeCancel); err != nil {
		t.Fatal(err)
	}
	if err := c.until(t, answered); err != nil {
		t.Fatal(err)
	}
}

// logLines receives the lines of a log.
type logLines chan string

func (l logLines) Write(b []byte) (int, error) {
	l <- string(b)
	return len(b), nil
}

// A connection with unread data is closed when others need its memory, and not before.
func TestUnreadConnectionIsClosedForNewOnes(t *testing.T) {
	const reflection = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
	listServices := []byte{0, 0, 0, 0, 2, 7<<3 | 2, 0}
	for name, tt := range map[string]struct {
		path    string
		request []byte
	}{
		"calls":           {callTool, []byte{0, 0, 0, 0, 0}},
		"with reflection": {reflection, listServices},
	} {
		t.Run(name, func(t *testing.T) {
			var taken atomic.Int64
			m := limit.NewMemory(1000, func(bool) int64 { return taken.Load() }, zerolog.Nop())
			log := make(logLines, 100)
			addr := serve(t, sizedHandler(100_000), nil,
				grpcserver.Options{Limits: limits.Limits{WriteTime: time.Nanosecond}, Memory: m, Log: zerolog.New(log)})
			good := client(t, addr)
			if _, err := call(t.Context(), good, &pb.CallToolRequest{}); err != nil {
				t.Fatal(err)
			}
			c := dialZeroWindow(t, addr)
			begun := 0
			for i := range 4 {
				if err := c.open(uint32(2*i+1), tt.path, tt.request); err != nil {
					t.Fatal(err)
				}
			}
			if err := c.until(t, func(f http2.Frame) bool {
				if _, ok := f.(*http2.HeadersFrame); ok {
					begun++
				}
				return begun == 4
			}); err != nil {
				t.Fatal(err)
			}
			closed := make(chan error, 1)
			go func() { closed <- c.until(t, func(http2.Frame) bool { return false }) }()
			taken.Store(1000)
			for m.Admit(limit.NewSessions) == nil { // the memory is read at intervals
				runtime.Gosched()
			}
			if err := <-closed; err == nil {
				t.Error("the connection stays open")
			}
			if _, err := call(t.Context(), good, &pb.CallToolRequest{}); err != nil {
				t.Errorf("connection that reads: %v", err)
			}
			for line := range log {
				if strings.Contains(line, "do not read their messages") {
					break
				}
			}
		})
	}
}

// A call ends at its deadline even if the client does not read its events, and the backend can execute the next call.
func TestUnreadEventsDoNotDelayTheEndOfACall(t *testing.T) {
	bridgetest.SkipIfShort(t)
	left := make(chan error, 1)
	message := strings.Repeat("x", 10_000)
	h := limit.New(toolHandler(
		func(ctx context.Context, r *pb.CallToolRequest, emit bridge.Emit) (*bridge.Result, error) {
			if r.GetName() == "quick" {
				return textResult("quick"), nil
			}
			for i := 0; ; i++ {
				if err := emit(ctx, bridge.Event{Progress: &pb.Progress{
					Progress: float64(i),
					Message:  &message,
				}}); err != nil {
					left <- err
					return nil, err
				}
			}
		}), limit.Options{Limits: limits.Limits{Calls: 1, CallTotal: 3 * time.Second}})
	addr := serve(t, h, nil, grpcserver.Options{})
	c := client(t, addr)
	s, err := c.CallTool(t.Context(), &pb.CallToolRequest{Context: &pb.CallContext{ProgressWanted: true}})
	if err != nil {
		t.Fatal(err)
	}
	if err := <-left; err == nil {
		t.Error("an event was sent after the end")
	}
	if got := callText(t, client(t, addr), &pb.CallToolRequest{Name: "quick"}); got != "quick" {
		t.Error(got)
	}
	for want := 0.; ; want++ { // buffered events, and then the error
		m, err := s.Recv()
		if err != nil {
			if status.Code(err) != codes.DeadlineExceeded || failure(err) != "DEADLINE unknown" {
				t.Errorf("%v, %s", err, failure(err))
			}
			break
		}
		if got := m.GetProgress().GetProgress(); got != want {
			t.Fatalf("progress %v after %v", got, want-1)
		}
	}
}

// Data of canceled calls does not count as unread.
func TestCanceledCallsFreeTheirBuffers(t *testing.T) {
	bridgetest.SkipIfShort(t)
	// bytes: of the client's window, of the limit, and of a message
	const window, most, each = 64<<10 - 1, 1 << 20, 64<<10 + 5
	message := strings.Repeat("x", 33_000)
	long := messageOfSize(window, func(n int) proto.Message {
		return bridge.CallTool.Join(bridge.Event{}, textResult(strings.Repeat("x", n)))
	}).(*pb.CallToolResponse)
	h := toolHandler(func(ctx context.Context, r *pb.CallToolRequest, emit bridge.Emit) (*bridge.Result, error) {
		if r.GetName() == "long" {
			return &bridge.Result{Complete: long.GetResult()}, nil
		}
		if err := emit(ctx, bridge.Event{Progress: &pb.Progress{Progress: 1, Message: &message}}); err != nil {
			return nil, err
		}
		return textResult(message), nil
	})
	addr := serve(t, h, nil,
		grpcserver.Options{Limits: limits.Limits{ClientMessage: most / 4, WriteTime: time.Nanosecond}})
	c := client(t, addr, grpc.WithStaticStreamWindowSize(window+1))
	var wg sync.WaitGroup
	for w := range 16 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(1, uint64(w)))
			for range 500 { // more would count as a flood
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(r.IntN(2_000))*time.Microsecond)
				_, err := call(ctx, c, &pb.CallToolRequest{Context: &pb.CallContext{ProgressWanted: true}})
				switch status.Code(err) {
				case codes.OK, codes.DeadlineExceeded, codes.Canceled, codes.ResourceExhausted:
				default:
					t.Error(err)
				}
				cancel()
			}
		})
	}
	wg.Wait()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	callUntilAnswered := func(name string) pb.McpService_CallToolClient {
		for {
			s, err := c.CallTool(ctx, &pb.CallToolRequest{Name: name})
			if err != nil {
				t.Fatal(err)
			}
			if md, err := s.Header(); err == nil && md != nil {
				return s
			}
			// until the server has processed the cancellations
			if _, err := s.Recv(); reason(err) != "TOO_MUCH_UNREAD" {
				t.Fatal(err)
			}
		}
	}
	for range most / each { // one more would exceed the limit
		callUntilAnswered("long")
	}
	if _, err := callUntilAnswered("").Recv(); err != nil {
		t.Error(err)
	}
}

// A singleListener accepts the connections that are sent to it.
type singleListener chan net.Conn

func (p singleListener) Accept() (net.Conn, error) {
	if c, ok := <-p; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}

func (p singleListener) Close() error   { return nil }
func (p singleListener) Addr() net.Addr { return &net.UnixAddr{} }

// A connection whose client reads nothing is closed even if the client keeps sending.
func TestConnectionThatReadsNothingIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		life := lifecycle.New()
		s, err := grpcserver.New(sizedHandler(0), nil, grpcserver.Options{Lifecycle: life})
		if err != nil {
			t.Fatal(err)
		}
		clientConn, serverConn := net.Pipe()
		ln := make(singleListener, 1)
		ln <- serverConn
		served := make(chan error, 1)
		go func() { served <- s.Serve(ln) }()
		c := &rawClient{Conn: clientConn, Framer: http2.NewFramer(clientConn, clientConn)}
		sent := make(chan error, 1)
		go func() {
			_, err := io.WriteString(clientConn, http2.ClientPreface)
			sent <- errors.Join(err, c.WriteSettings())
		}()
		for acked := false; !acked; { // the last frame that the client reads
			f, err := c.ReadFrame()
			if err != nil {
				t.Fatal(err)
			}
			settings, ok := f.(*http2.SettingsFrame)
			acked = ok && settings.IsAck()
		}
		if err := <-sent; err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		for err == nil {
			err = c.WritePing(false, [8]byte{})
			bridgetest.Pass(20 * time.Second)
		}
		if took := time.Since(began); took != 100*time.Second {
			t.Errorf("the connection stayed open for %v", took)
		}
		life.Advance(lifecycle.Draining)
		close(ln)
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
}
