package grpcserver_test

import (
	"context"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/bridge/grpcserver"
	"github.com/mcpbridge/mcpbridge/bridge/limit"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// verbose is a Handler whose answers have so many bytes, or a little more, and that counts them.
func verbose(n int) (h bridge.Handler, answered *atomic.Int64) {
	answered = new(atomic.Int64)
	text := strings.Repeat("x", n)
	return tool(func(context.Context, *pb.CallToolRequest, bridge.Emit) (*bridge.Result, error) {
		answered.Add(1)
		return said(text), nil
	}), answered
}

// shut is a client that lets nobody send it any data.
func shut(t *testing.T, addr string) *rawClient {
	t.Helper()
	c := rawDial(t, addr)
	if err := c.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0}); err != nil {
		t.Fatal(err)
	}
	return c
}

// ask makes n calls, from the one that has this number on.
func (c *rawClient) ask(t *testing.T, from, n int, headers ...[2]string) {
	t.Helper()
	for i := range n {
		if err := c.open(uint32(2*(from+i)+1), callTool, []byte{0, 0, 0, 0, 0}, headers...); err != nil {
			t.Fatal(err)
		}
	}
}

// ended reads until so many calls have ended.
func (c *rawClient) ended(t *testing.T, n int) {
	t.Helper()
	if err := c.until(t, func(f http2.Frame) bool {
		if h, ok := f.(*http2.HeadersFrame); ok && h.StreamEnded() {
			n--
		}
		return n == 0
	}); err != nil {
		t.Fatal(err)
	}
}

// served makes calls until one is answered: others may be refused.
func served(t *testing.T, c pb.McpServiceClient) {
	t.Helper()
	for t.Context().Err() == nil {
		_, err := call(t.Context(), c, &pb.CallToolRequest{})
		if err == nil {
			return
		}
		if status.Code(err) != codes.ResourceExhausted {
			t.Fatal(err)
		}
	}
}

// An answer that its client does not read takes memory: it has one of the places that calls have until it is read, or nobody can any more.
func TestAnswersThatAreNotReadKeepTheirPlaces(t *testing.T) {
	const most, calls = 4, 300
	for name, headers := range map[string][][2]string{
		"plain":      nil,
		"compressed": {{"grpc-encoding", "gzip"}, {"grpc-accept-encoding", "gzip"}},
	} {
		for size, text := range map[string]int{"nothing": 0, "much": 1 << 20} {
			for _, end := range []string{"read", "reset", "closed"} {
				t.Run(name+", "+size+", "+end, func(t *testing.T) {
					h, answered := verbose(text)
					addr := serve(t, h, nil, grpcserver.Options{MaxCalls: most, WriteTimeout: time.Hour})
					c := shut(t, addr)
					c.ask(t, 0, calls, headers...)
					c.ended(t, calls-most) // they are refused
					if n := answered.Load(); n != most {
						t.Errorf("%d calls were answered, and %d may be", n, most)
					}
					other := client(t, addr)
					if _, err := call(t.Context(), other, &pb.CallToolRequest{}); reason(err) != "TOO_MANY_CALLS" {
						t.Error(err)
					}
					switch end {
					case "read":
						if err := c.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 4 << 20}); err != nil {
							t.Fatal(err)
						}
						if err := c.WriteWindowUpdate(0, 1<<30); err != nil {
							t.Fatal(err)
						}
						c.ended(t, most)
					case "reset":
						for i := range calls {
							if err := c.WriteRSTStream(uint32(2*i+1), http2.ErrCodeCancel); err != nil {
								t.Fatal(err)
							}
						}
					case "closed":
						c.Close()
					}
					served(t, other)
				})
			}
		}
	}
}

// lines are those of a log.
type lines chan string

func (l lines) Write(b []byte) (int, error) {
	l <- string(b)
	return len(b), nil
}

// Who does not read makes room when others need it, and not before.
func TestWhoDoesNotReadMakesRoom(t *testing.T) {
	const reflection = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
	listServices := []byte{0, 0, 0, 0, 2, 7<<3 | 2, 0}
	others := func(t *testing.T, addr string, _ *limit.Memory) {
		t.Helper()
		served(t, client(t, addr))
	}
	memory := func(t *testing.T, _ string, m *limit.Memory) {
		t.Helper()
		if m.Full(limit.NewSessions) == nil {
			t.Error("memory is not short")
		}
	}
	for name, tt := range map[string]struct {
		path    string
		request []byte
		need    func(t *testing.T, addr string, m *limit.Memory)
	}{
		"calls":                                 {callTool, []byte{0, 0, 0, 0, 0}, others},
		"memory, for calls":                     {callTool, []byte{0, 0, 0, 0, 0}, memory},
		"memory, for who asks for the contract": {reflection, listServices, memory},
	} {
		t.Run(name, func(t *testing.T) {
			h, _ := verbose(100_000)
			m := limit.NewMemory(1000, func(bool) int64 { return 900 }, zerolog.Nop())
			log := make(lines, 100)
			addr := serve(t, h, nil, grpcserver.Options{MaxCalls: 4, WriteTimeout: time.Nanosecond, Memory: m, Log: zerolog.New(log)})
			c := shut(t, addr)
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
			over := make(chan error, 1)
			go func() { over <- c.until(t, func(http2.Frame) bool { return false }) }()
			tt.need(t, addr, m)
			if err := <-over; err == nil {
				t.Error("the connection goes on")
			}
			for line := range log {
				if strings.Contains(line, "do not read what they are told") {
					break
				}
			}
		})
	}
}

// However a client that does not read events goes on, its call has an end, and the backend's place is another's.
func TestEventsThatAreNotReadDoNotPutOffTheEndOfACall(t *testing.T) {
	left := make(chan error, 1)
	message := strings.Repeat("x", 10_000)
	h := limit.New(tool(func(ctx context.Context, r *pb.CallToolRequest, emit bridge.Emit) (*bridge.Result, error) {
		if r.GetName() == "quick" {
			return said("quick"), nil
		}
		for i := 0; ; i++ {
			if err := emit(ctx, bridge.Event{Progress: &pb.Progress{Progress: float64(i), Message: &message}}); err != nil {
				left <- err
				return nil, err
			}
		}
	}), limit.Options{Calls: 1, Total: time.Second})
	addr := serve(t, h, nil, grpcserver.Options{})
	c := client(t, addr)
	s, err := c.CallTool(t.Context(), &pb.CallToolRequest{Context: &pb.CallContext{ProgressWanted: true}})
	if err != nil {
		t.Fatal(err)
	}
	if err := <-left; err == nil {
		t.Error("an event was passed on after the end")
	}
	if got := text(t, client(t, addr), &pb.CallToolRequest{Name: "quick"}); got != "quick" {
		t.Error(got)
	}
	for want := 0.; ; want++ { // what was told is read, and then why there is no more
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

// Clients that give up at any moment leave no place taken.
func TestCallsThatAreGivenUpLeaveTheirPlaces(t *testing.T) {
	const most = 16
	begun, letGo := make(chan struct{}, most), make(chan struct{})
	message := strings.Repeat("x", 20_000)
	h := tool(func(ctx context.Context, r *pb.CallToolRequest, emit bridge.Emit) (*bridge.Result, error) {
		if r.GetName() == "hold" {
			begun <- struct{}{}
			<-letGo
			return said("held"), nil
		}
		if err := emit(ctx, bridge.Event{Progress: &pb.Progress{Progress: 1, Message: &message}}); err != nil {
			return nil, err
		}
		return said(message), nil
	})
	addr := serve(t, h, nil, grpcserver.Options{MaxCalls: most, WriteTimeout: time.Hour})
	c := client(t, addr, grpc.WithStaticStreamWindowSize(64<<10))
	var wg sync.WaitGroup
	for w := range most {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(1, uint64(w)))
			for range 500 {
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
	for range most {
		wg.Go(func() {
			for t.Context().Err() == nil {
				_, err := call(t.Context(), c, &pb.CallToolRequest{Name: "hold"})
				if err == nil {
					return
				}
				if reason(err) != "TOO_MANY_CALLS" {
					t.Error(err)
					return
				}
				runtime.GC() // some are known to be left only then
			}
		})
	}
	for range most {
		<-begun
	}
	close(letGo)
	wg.Wait()
}
