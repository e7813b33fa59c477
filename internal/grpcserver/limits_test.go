package grpcserver_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/bridgetest"
	"github.com/mcpbridge/mcpbridge/internal/grpcserver"
	"github.com/mcpbridge/mcpbridge/internal/limit"
	"github.com/mcpbridge/mcpbridge/internal/limits"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// holding returns a Handler whose tools send to begun when they start, and return when letGo is closed.
func holding() (h bridge.Handler, begun, letGo chan struct{}) {
	begun, letGo = make(chan struct{}, 20_000), make(chan struct{})
	return toolHandler(func(ctx context.Context, _ *pb.CallToolRequest, _ bridge.Emit) (*bridge.Result, error) {
		begun <- struct{}{}
		select {
		case <-letGo:
			return textResult("done"), nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}), begun, letGo
}

// messageOfSize returns a message whose encoding has n bytes. It calls give with the length of a text in the message,
// which it corrects until the size is right.
func messageOfSize[M proto.Message](n int, give func(n int) M) M {
	put := n
	for {
		m := give(put)
		over := proto.Size(m) - n
		if over == 0 {
			return m
		}
		put -= over
	}
}

func TestMessagesAreLimited(t *testing.T) {
	for limit, o := range map[int]grpcserver.Options{
		100_000: {Limits: limits.Limits{ClientMessage: 100_000}},
		4 << 20: {},
	} {
		called, answer := 0, 0
		c := client(t, serve(t, toolHandler(
			func(context.Context, *pb.CallToolRequest, bridge.Emit) (*bridge.Result, error) {
				called++
				if answer == 0 {
					return textResult("ok"), nil
				}
				m := messageOfSize(answer, func(
					n int,
				) proto.Message {
					return bridge.CallTool.Join(bridge.Event{}, textResult(strings.Repeat("x", n)))
				})
				return &bridge.Result{Complete: m.(*pb.CallToolResponse).GetResult()}, nil
			}), nil, o), grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(2*limit)))
		for n := limit - 1; n <= limit+1; n++ {
			_, err := call(t.Context(), c,
				messageOfSize(n, func(n int) *pb.CallToolRequest {
					return &pb.CallToolRequest{Name: strings.Repeat("x", n)}
				}))
			if n <= limit && err != nil || n > limit && (status.Code(err) != codes.ResourceExhausted || called != 2) {
				t.Errorf("request of %d bytes, limit %d: %v, called %d times", n, limit, err, called)
			}
		}
		for answer = limit - 1; answer <= limit+1; answer++ {
			_, err := call(t.Context(), c, &pb.CallToolRequest{})
			if answer <= limit && err != nil || answer > limit &&
				(status.Code(err) != codes.ResourceExhausted || failure(err) != "RESPONSE_TOO_LARGE executed") {
				t.Errorf("response of %d bytes, limit %d: %v", answer, limit, err)
			}
		}
	}
}

// The limit applies to the decompressed size. A decompression bomb is expanded only up to the limit.
func TestCompressedMessagesHaveTheSameLimit(t *testing.T) {
	bridgetest.SkipIfShort(t)
	const limit = 1 << 20
	called := 0
	c := client(t, serve(t, toolHandler(
		func(_ context.Context, r *pb.CallToolRequest, _ bridge.Emit) (*bridge.Result, error) {
			called++
			return textResult(r.GetName()), nil
		}), nil, grpcserver.Options{Limits: limits.Limits{ClientMessage: limit}}),
		grpc.WithDefaultCallOptions(grpc.UseCompressor(gzip.Name), grpc.MaxCallRecvMsgSize(2*limit)))
	res, err := call(t.Context(), c, &pb.CallToolRequest{Name: strings.Repeat("x", 1000)})
	if err != nil || len(res[0].GetResult().GetContent()[0].GetText().GetText()) != 1000 {
		t.Fatalf("%v %v", res, err)
	}
	if _, err := call(t.Context(), c,
		messageOfSize(limit, func(n int) *pb.CallToolRequest {
			return &pb.CallToolRequest{Name: strings.Repeat("x",
				n)}
		})); failure(err) != "RESPONSE_TOO_LARGE executed" {
		t.Errorf("at the limit: %v", err) // the response has the same text
	}
	bomb := &pb.CallToolRequest{Name: strings.Repeat("x", 64<<20)} // a sixteenth of a MiB when compressed
	var before, after runtime.MemStats
	sent, err := proto.Marshal(bomb)
	if err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&before)
	_, err = call(t.Context(), c, bomb)
	runtime.ReadMemStats(&after)
	if status.Code(err) != codes.ResourceExhausted || called != 2 {
		t.Errorf("decompression bomb: %v, called %d times", err, called)
	}
	// The client in this process encodes it once.
	if took := after.TotalAlloc - before.TotalAlloc; took > uint64(len(sent)+len(sent)/2) {
		t.Errorf("allocated %d MiB for a bomb of %d", took>>20, len(sent)>>20)
	}
}

// An event above the limit ends its call. The outcome is unknown, because the call has started.
func TestEventsAreLimited(t *testing.T) {
	const limit = 100_000
	var event int
	c := client(t, serve(t, toolHandler(
		func(ctx context.Context, _ *pb.CallToolRequest, emit bridge.Emit) (*bridge.Result, error) {
			m := messageOfSize(event, func(n int) proto.Message {
				return bridge.CallTool.Join(
					bridge.Event{Progress: &pb.Progress{Message: proto.String(strings.Repeat("x", n))}}, nil)
			})
			if err := emit(ctx, bridge.Event{Progress: m.(*pb.CallToolResponse).GetProgress()}); err != nil {
				return nil, err
			}
			return textResult("ok"), nil
		}), nil, grpcserver.Options{Limits: limits.Limits{ClientMessage: limit}}))
	for event = limit - 1; event <= limit+1; event++ {
		got, err := call(t.Context(), c, &pb.CallToolRequest{Context: &pb.CallContext{ProgressWanted: true}})
		if event <= limit {
			if err != nil || len(got) != 2 || proto.Size(got[0]) != event {
				t.Errorf("event of %d bytes, limit %d: %d messages, %v", event, limit, len(got), err)
			}
			continue
		}
		if status.Code(err) != codes.ResourceExhausted || failure(err) != "RESPONSE_TOO_LARGE unknown" {
			t.Errorf("event of %d bytes, limit %d: %v, %s", event, limit, err, failure(err))
		}
	}
}

func TestCallsAreLimited(t *testing.T) {
	h, begun, letGo := holding()
	c := client(t, serve(t, h, nil, grpcserver.Options{MaxCalls: 3}))
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			if _, err := call(t.Context(), c, &pb.CallToolRequest{}); err != nil {
				t.Error(err)
			}
		})
	}
	for range 3 {
		<-begun
	}
	_, err := call(t.Context(), c, &pb.CallToolRequest{})
	if status.Code(err) != codes.ResourceExhausted || reason(err) != "TOO_MANY_CALLS" ||
		len(status.Convert(err).Details()) != 2 {
		t.Error(err)
	}
	close(letGo)
	wg.Wait()
	if got := callText(t, c, &pb.CallToolRequest{}); got != "done" { // there is a free slot again
		t.Error(got)
	}
}

// Each Listen counts as a stream, toward the limit of all streams and toward the quota of its caller.
func TestListensAreLimited(t *testing.T) {
	ada := func(context.Context, metadata.MD) (*pb.Principal, error) { return &pb.Principal{Subject: "ada"}, nil }
	for name, tt := range map[string]struct {
		o      grpcserver.Options
		reason string
	}{
		"of all": {
			grpcserver.Options{Streams: limit.StreamsOf(limits.Limits{Streams: 3}, nil)},
			"OVERLOADED not_executed",
		},
		"of one caller": {grpcserver.Options{
			Streams:   limit.StreamsOf(limits.Limits{StreamsPerCaller: 3}, nil),
			Principal: ada,
		}, "TOO_MANY not_executed"},
	} {
		c := client(t, serve(t, lasting(), nil, tt.o))
		for n := 1; n <= 4; n++ {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			s, err := c.Listen(ctx, &pb.ListenRequest{})
			if err == nil {
				_, err = s.Recv()
			}
			if n <= 3 && err != nil || n > 3 &&
				(status.Code(err) != codes.ResourceExhausted || failure(err) != tt.reason) {
				t.Errorf("%s, number %d of 3: %v, %s", name, n, err, failure(err))
			}
		}
	}
}

// A Listen ends without an error when its caller's access expires, and a call in flight completes.
func TestListenEndsWhenItsCallersAccessEnds(t *testing.T) {
	over := make(chan struct{})
	h := toolHandler(func(ctx context.Context, _ *pb.CallToolRequest, _ bridge.Emit) (*bridge.Result, error) {
		select {
		case <-over:
			return textResult("done"), nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	})
	c := client(t, serve(t, h, nil, grpcserver.Options{
		Principal: func(context.Context, metadata.MD) (*pb.Principal, error) {
			return &pb.Principal{Subject: "ada"},
				nil
		},
		AccessExpiry: func(*pb.Principal) time.Time { return time.Now().Add(20 * time.Millisecond) },
	}))
	called := make(chan error, 1)
	go func() {
		_, err := call(t.Context(), c, &pb.CallToolRequest{})
		called <- err
	}()
	s, err := c.Listen(t.Context(), &pb.ListenRequest{})
	if err != nil {
		t.Fatal(err)
	}
	var last *pb.ListenResponse
	for r, err := s.Recv(); err == nil; r, err = s.Recv() {
		last = r
	}
	close(over)
	if err := <-called; last.GetResult() == nil || err != nil {
		t.Errorf("Listen ended with %v, call with %v", last, err)
	}
}

// A Listen subscribes to at most limits.Subscriptions resources.
func TestSubscriptionsAreLimited(t *testing.T) {
	c := client(t, serve(t, lasting(), nil, grpcserver.Options{}))
	for n, want := range map[int]string{limits.Subscriptions: "", limits.Subscriptions + 1: "TOO_MANY not_executed"} {
		s, err := c.Listen(t.Context(),
			&pb.ListenRequest{Notifications: &pb.SubscriptionFilter{ResourceSubscriptions: make([]string, n)}})
		if err == nil {
			_, err = s.Recv()
		}
		if (err != nil) != (want != "") || err != nil &&
			(status.Code(err) != codes.ResourceExhausted || failure(err) != want) {
			t.Errorf("%d resources: %v", n, err)
		}
	}
}

// The request of a Listen has at most limits.ListenRequest bytes. Requests up to that size do not count as memory, so
// that open streams leave the memory to calls.
func TestListenRequestsAreLimited(t *testing.T) {
	const room = 512 << 10
	m := limit.NewMemory(8*room, func(bool) int64 { return 0 }, zerolog.Nop())
	c := client(t, serve(t, lasting(), nil, grpcserver.Options{Memory: m}))
	for over := -1; over <= 1; over++ {
		for range 2 * room / limits.ListenRequest {
			s, err := c.Listen(t.Context(), messageOfSize(limits.ListenRequest+over, func(n int) *pb.ListenRequest {
				return &pb.ListenRequest{
					Context: &pb.CallContext{ClientInfo: &pb.Implementation{Name: strings.Repeat("x", n)}},
				}
			}))
			if err == nil {
				_, err = s.Recv()
			}
			const why = "the request has 131073 bytes, and at most 131072 are allowed"
			if over <= 0 && err != nil || over > 0 &&
				(status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), why)) {
				t.Errorf("%+d: %v", over, err)
			}
		}
	}
	if err := errors.Join(m.ReserveBody(1), m.ReserveBody(room-1)); err != nil {
		t.Errorf("while streams are open: %v", err)
	}
}

// lasting returns a Handler whose Listens start and stay open.
func lasting() bridge.Handler {
	return bridge.HandlerFunc(func(ctx context.Context, _ *bridge.Call, emit bridge.Emit) (*bridge.Result, error) {
		if err := emit(ctx, bridge.Event{
			Change: &pb.ListenResponse{
				Event: &pb.ListenResponse_Acknowledged{Acknowledged: &pb.SubscriptionsAcknowledged{}},
			},
		}); err != nil {
			return nil, err
		}
		<-ctx.Done()
		return nil, ctx.Err()
	})
}

// When memory is low, calls are rejected with an error that has the delay for a retry.
func TestRequestsAreRejectedWhileMemoryIsLow(t *testing.T) {
	for taken, refused := range map[int64]struct{ listen, call bool }{
		919: {}, 920: {listen: true}, 921: {listen: true}, 969: {listen: true}, 970: {true, true}, 971: {true, true},
	} {
		m := limit.NewMemory(1000, func(bool) int64 { return taken }, zerolog.Nop())
		h := limit.New(textHandler("ok"), limit.Options{Memory: m})
		c := client(t, serve(t, h, nil, grpcserver.Options{Memory: m}))
		_, err := call(t.Context(), c, &pb.CallToolRequest{})
		checkRefused(t, err, refused.call)
		ctx, cancel := context.WithCancel(t.Context())
		s, err := c.Listen(ctx, &pb.ListenRequest{})
		if err == nil {
			_, err = s.Recv()
		}
		checkRefused(t, err, refused.listen)
		cancel()
	}
}

// Concurrent long requests take at most an eighth of the memory.
func TestLongRequestsAreBounded(t *testing.T) {
	const room = 512 << 10
	for n, refused := range map[int]bool{room/2 - 1: false, room / 2: false, room/2 + 1: true, 128 << 10: false} {
		m := limit.NewMemory(8*room, func(bool) int64 { return 0 }, zerolog.Nop())
		if err := m.ReserveBody(room / 2); err != nil { // of another request
			t.Fatal(err)
		}
		c := client(t, serve(t, textHandler("ok"), nil, grpcserver.Options{Memory: m}))
		for range 3 { // each releases what it reserved
			_, err := call(t.Context(), c,
				messageOfSize(n, func(n int) *pb.CallToolRequest {
					return &pb.CallToolRequest{Name: strings.Repeat("x", n)}
				}))
			checkRefused(t, err, refused)
		}
	}
}

// checkRefused checks that err reports an overload and the delay for a retry if refused, and otherwise that err is nil.
func checkRefused(t *testing.T, err error, refused bool) {
	t.Helper()
	if !refused {
		if err != nil {
			t.Error(err)
		}
		return
	}
	var retry *errdetails.RetryInfo
	for _, d := range status.Convert(err).Details() {
		if r, ok := d.(*errdetails.RetryInfo); ok {
			retry = r
		}
	}
	if status.Code(err) != codes.ResourceExhausted || reason(err) != bridge.ReasonOverloaded ||
		retry.GetRetryDelay().AsDuration() != time.Second {
		t.Errorf("%v, retry after %v", err, retry)
	}
}

// At the limit of connections, a new connection is closed if all others have calls in flight. Otherwise, one of those
// without a call is closed instead.
func TestConnectionsAreLimited(t *testing.T) {
	bridgetest.SkipIfShort(t)
	h, begun, letGo := holding()
	addr := serve(t, h, nil, grpcserver.Options{MaxConns: 2})
	ended := make(chan error, 2)
	for range 2 {
		c := client(t, addr)
		go func() {
			_, err := call(t.Context(), c, &pb.CallToolRequest{})
			ended <- err
		}()
		<-begun
	}
	third := client(t, addr)
	if _, err := third.Discover(t.Context(), &pb.DiscoverRequest{}); status.Code(err) != codes.Unavailable {
		t.Error(err)
	}
	close(letGo)
	if err := errors.Join(<-ended, <-ended); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := third.Discover(ctx, &pb.DiscoverRequest{}, grpc.WaitForReady(true)); err != nil {
		t.Error(err)
	}
}

func TestMetadataIsLimited(t *testing.T) {
	c := client(t, serve(t, textHandler("ok"), nil, grpcserver.Options{}))
	with := func(n int) error {
		_, err := call(metadata.AppendToOutgoingContext(t.Context(), "x", strings.Repeat("y", n)), c,
			&pb.CallToolRequest{})
		return err
	}
	const limit = 64 << 10
	var size int // as the server counts it, of a call with that many bytes in a value
	if _, err := fmt.Sscanf(status.Convert(with(limit)).Message(), "the call has %d bytes", &size); err != nil {
		t.Fatal(err)
	}
	most := limit - (size - limit)
	for n, ok := range map[int]bool{most - 1: true, most: true, most + 1: false, 100 << 10: false, 200 << 10: false} {
		if err := with(n); ok && err != nil || !ok && status.Code(err) != codes.ResourceExhausted {
			t.Errorf("%d bytes of %d: %v", n, most, err)
		}
	}
	if with(1<<20) == nil {
		t.Error("a MiB was accepted")
	}
	if got := callText(t, c, &pb.CallToolRequest{}); got != "ok" {
		t.Error(got)
	}
}

// A client that does not read blocks only its own call, which stops emitting events.
func TestSlowClientsHoldUpOnlyTheirOwnCalls(t *testing.T) {
	made := make(chan int, 1)
	h := toolHandler(func(ctx context.Context, r *pb.CallToolRequest, emit bridge.Emit) (*bridge.Result, error) {
		if r.GetName() == "quick" {
			return textResult("quick"), nil
		}
		message := strings.Repeat("x", 10_000)
		for i := range 100_000 {
			if err := emit(ctx, bridge.Event{Progress: &pb.Progress{
				Progress: float64(i),
				Message:  &message,
			}}); err != nil {
				made <- i
				return nil, err
			}
		}
		made <- 100_000
		return textResult("all"), nil
	})
	addr := serve(t, h, nil, grpcserver.Options{})
	conn := dial(t, addr, grpc.WithInitialWindowSize(64<<10), grpc.WithInitialConnWindowSize(64<<10))
	ctx, cancel := context.WithCancel(t.Context())
	s, err := pb.NewMcpServiceClient(conn).
		CallTool(ctx, &pb.CallToolRequest{Context: &pb.CallContext{ProgressWanted: true}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Recv(); err != nil { // started, and not read any further
		t.Fatal(err)
	}
	other := client(t, addr)
	for range 100 {
		if got := callText(t, other, &pb.CallToolRequest{Name: "quick"}); got != "quick" {
			t.Error(got)
		}
		// The same connection.
		if got := callText(t, pb.NewMcpServiceClient(conn), &pb.CallToolRequest{Name: "quick"}); got != "quick" {
			t.Error(got)
		}
	}
	cancel()
	if n := <-made; n > 1_000 {
		t.Errorf("%d events were emitted for a client that read one", n)
	}
}

// A rawClient sends HTTP/2 frames that a gRPC client would not.
type rawClient struct {
	net.Conn
	*http2.Framer
	headers bytes.Buffer
	enc     *hpack.Encoder
	writing sync.Mutex
}

func rawDial(t *testing.T, addr string) *rawClient {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "unix", strings.TrimPrefix(addr, "unix:"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	c := &rawClient{Conn: conn, Framer: http2.NewFramer(conn, conn)}
	c.enc = hpack.NewEncoder(&c.headers)
	if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	if err := c.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	return c
}

// open sends the headers of a call with additional ones, and its request unless that is nil.
func (c *rawClient) open(id uint32, path string, request []byte, others ...[2]string) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	c.headers.Reset()
	for _, h := range append([][2]string{
		{":method", "POST"},
		{":scheme", "http"},
		{":path", path},
		{":authority", "x"},
		{"content-type", "application/grpc"},
		{"te", "trailers"},
	}, others...) {
		if err := c.enc.WriteField(hpack.HeaderField{Name: h[0], Value: h[1]}); err != nil {
			return err
		}
	}
	if err := c.WriteHeaders(
		http2.HeadersFrameParam{StreamID: id, BlockFragment: c.headers.Bytes(), EndHeaders: true}); err != nil {
		return err
	}
	if request == nil {
		return nil
	}
	return c.WriteData(id, true, request)
}

const callTool = "/mcpbridge.v1.McpService/CallTool"

// until reads frames until f returns true or the connection ends.
func (c *rawClient) until(t *testing.T, f func(http2.Frame) bool) error {
	t.Helper()
	if err := c.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	for {
		frame, err := c.ReadFrame()
		if err != nil {
			return err
		}
		if s, ok := frame.(*http2.SettingsFrame); ok && !s.IsAck() {
			c.writing.Lock()
			err := c.WriteSettingsAck()
			c.writing.Unlock()
			if err != nil {
				return err
			}
		}
		if f(frame) {
			return nil
		}
	}
}

// checkOtherClient checks that a new client is served.
func checkOtherClient(t *testing.T, addr string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := client(t, addr).Discover(ctx, &pb.DiscoverRequest{}); err != nil {
		t.Error(err)
	}
}

// Of 900 streams on a connection, only the allowed number run at a time. The rest is rejected, and other clients are
// served.
func TestStreamsPerConnectionAreLimited(t *testing.T) {
	h, begun, _ := holding()
	addr := serve(t, h, nil, grpcserver.Options{MaxStreams: 50})
	c := rawDial(t, addr)
	const streams = 900
	sent := make(chan error, 1)
	go func() {
		for i := range streams {
			if err := c.open(uint32(2*i+1), callTool, []byte{0, 0, 0, 0, 0}); err != nil {
				sent <- err
				return
			}
		}
		sent <- nil
	}()
	refused := 0
	err := c.until(t, func(f http2.Frame) bool {
		if r, ok := f.(*http2.RSTStreamFrame); ok && r.ErrCode == http2.ErrCodeRefusedStream {
			refused++
		}
		return refused == streams-50
	})
	if err != nil {
		t.Fatalf("%v after %d rejections", err, refused)
	}
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
	checkOtherClient(t, addr)
	for range 50 {
		<-begun
	}
	select {
	case <-begun:
		t.Error("more calls than allowed started")
	default:
	}
}

// Streams that are opened and reset at once (CVE-2023-44487) do not affect other clients and leak nothing.
func TestRapidResetsLeakNothing(t *testing.T) {
	ended := make(chan struct{}, 20_000)
	var active, most int
	var mu sync.Mutex
	h := toolHandler(func(ctx context.Context, _ *pb.CallToolRequest, _ bridge.Emit) (*bridge.Result, error) {
		mu.Lock()
		active++
		most = max(most, active)
		mu.Unlock()
		<-ctx.Done()
		mu.Lock()
		active--
		mu.Unlock()
		ended <- struct{}{}
		return nil, ctx.Err()
	})
	addr := serve(t, h, nil, grpcserver.Options{MaxStreams: 50})
	c := rawDial(t, addr)
	closed := make(chan error, 1)
	go func() { closed <- c.until(t, func(http2.Frame) bool { return false }) }()
	for i := range 5_000 {
		id := uint32(2*i + 1)
		if err := c.open(id, callTool, []byte{0, 0, 0, 0, 0}); err != nil {
			break // the server may have closed the connection
		}
		c.writing.Lock()
		err := c.WriteRSTStream(id, http2.ErrCodeCancel)
		c.writing.Unlock()
		if err != nil {
			break
		}
	}
	checkOtherClient(t, addr)
	c.Close()
	<-closed
	left := func() int {
		mu.Lock()
		defer mu.Unlock()
		return active
	}
	for left() > 0 { // requests in flight may still start, and end at once
		<-ended
	}
	mu.Lock()
	defer mu.Unlock()
	if most > 100 {
		t.Errorf("got %d concurrent calls", most)
	}
}

func TestOtherProtocolsAreRejected(t *testing.T) {
	bridgetest.SkipIfShort(t)
	addr := serve(t, textHandler("ok"), nil, grpcserver.Options{})
	t.Run("endless pings", func(t *testing.T) {
		c := rawDial(t, addr)
		var wg sync.WaitGroup
		wg.Go(func() {
			for err := error(nil); err == nil; {
				c.writing.Lock()
				err = c.WritePing(false, [8]byte{})
				c.writing.Unlock()
			}
		})
		if err := c.until(t, func(f http2.Frame) bool {
			g, ok := f.(*http2.GoAwayFrame)
			return ok && g.ErrCode == http2.ErrCodeEnhanceYourCalm
		}); err != nil {
			t.Error(err)
		}
		c.Close()
		wg.Wait()
	})
	t.Run("HTTP/1.1", func(t *testing.T) {
		conn, err := new(net.Dialer).DialContext(t.Context(), "unix", strings.TrimPrefix(addr, "unix:"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		if err := conn.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, conn); err != nil && errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	})
	t.Run("nothing", func(t *testing.T) {
		conn, err := new(net.Dialer).DialContext(t.Context(), "unix", strings.TrimPrefix(addr, "unix:"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if err := conn.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, conn); err != nil {
			t.Errorf("the connection was not closed: %v", err)
		}
	})
	for name, s := range map[string]struct {
		path    string
		request []byte
		want    string // grpc-status
	}{
		"no slash":         {"mcpbridge.v1.McpService/CallTool", []byte{0, 0, 0, 0, 0}, "12"},
		"no such service":  {"/x.Y/Z", []byte{0, 0, 0, 0, 0}, "12"},
		"no such method":   {"/mcpbridge.v1.McpService/Z", []byte{0, 0, 0, 0, 0}, "12"},
		"no request":       {callTool, []byte{}, "13"},
		"half a request":   {callTool, []byte{0, 0, 0, 0, 9, 1}, "13"},
		"a lie of 4 GiB":   {callTool, []byte{0, 255, 255, 255, 255, 1}, "8"},
		"no protobuf":      {callTool, []byte{0, 0, 0, 0, 3, 255, 255, 255}, "13"},
		"list, no proto":   {"/mcpbridge.v1.McpService/ListTools", []byte{0, 0, 0, 0, 3, 255, 255, 255}, "13"},
		"compressed":       {callTool, []byte{1, 0, 0, 0, 1, 0}, "13"},
		"list, no request": {"/mcpbridge.v1.McpService/ListTools", []byte{}, "13"},
	} {
		t.Run(name, func(t *testing.T) {
			c := rawDial(t, addr)
			if err := c.open(1, s.path, s.request); err != nil {
				t.Fatal(err)
			}
			got := ""
			dec := hpack.NewDecoder(4096, func(f hpack.HeaderField) {
				if f.Name == "grpc-status" {
					got = f.Value
				}
			})
			if err := c.until(t, func(f http2.Frame) bool {
				if h, ok := f.(*http2.HeadersFrame); ok {
					if _, err := dec.Write(h.HeaderBlockFragment()); err != nil {
						t.Error(err)
					}
				}
				return got != ""
			}); err != nil || got != s.want {
				t.Errorf("grpc-status %q, %v", got, err)
			}
		})
	}
	checkOtherClient(t, addr)
}

// Requests with JSON text nested beyond the limit are rejected. The limit is configurable.
func TestJSONOfRequestsIsLimited(t *testing.T) {
	for depth, o := range map[int]grpcserver.Options{20: {Limits: limits.Limits{JSONDepth: 20}}, 256: {}} {
		c := client(t, serve(t, toolHandler(
			func(context.Context, *pb.CallToolRequest, bridge.Emit) (*bridge.Result, error) {
				return textResult("ok"), nil
			}), nil, o))
		for n := depth - 1; n <= depth+1; n++ {
			text := strings.Repeat(`{"a":`, n-1) + `{}` + strings.Repeat(`}`, n-1)
			if _, err := call(t.Context(), c,
				&pb.CallToolRequest{Name: "x", Arguments: []byte(text)}); status.Code(err) != codes.OK && n <= depth ||
				status.Code(err) != codes.InvalidArgument && n > depth {
				t.Errorf("%d levels, limit %d: %v", n, depth, err)
			}
		}
	}
}
