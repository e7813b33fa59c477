package plugin

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/bridgetest"
	"github.com/mcpbridge/mcpbridge/internal/limits"
	"github.com/mcpbridge/mcpbridge/internal/mtls"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

type stream = grpc.ServerStreamingServer[pb.CallToolResponse]

// A fake is a backend with scripted responses.
type fake struct {
	pb.UnimplementedMcpServiceServer
	call     func(*pb.CallToolRequest, stream) error
	list     func(context.Context) (*pb.ListToolsResponse, error)
	discover func() (*pb.DiscoverResponse, error)
	listen   func(grpc.ServerStreamingServer[pb.ListenResponse]) error
	health   *health.Server // if nil, no health service
}

func (f *fake) Listen(_ *pb.ListenRequest, s grpc.ServerStreamingServer[pb.ListenResponse]) error {
	return f.listen(s)
}

func (f *fake) CallTool(r *pb.CallToolRequest, s stream) error { return f.call(r, s) }

func (f *fake) ListTools(ctx context.Context, _ *pb.ListToolsRequest) (*pb.ListToolsResponse, error) {
	return f.list(ctx)
}

func (f *fake) Discover(context.Context, *pb.DiscoverRequest) (*pb.DiscoverResponse, error) {
	if f.discover == nil {
		return &pb.DiscoverResponse{ContractVersion: bridge.ContractVersion}, nil
	}
	d, err := f.discover()
	if d != nil && d.ContractVersion == 0 {
		d.ContractVersion = bridge.ContractVersion
	}
	return d, err
}

// serve serves f at a Unix socket or TCP port until the returned function is called.
func (f *fake) serve(t *testing.T, network, addr string, opts ...grpc.ServerOption) (stop func()) {
	t.Helper()
	listen, err := net.Listen(network, addr)
	if err != nil {
		t.Fatal(err)
	}
	return f.serveAt(t, listen, opts...)
}

func (f *fake) serveAt(t *testing.T, listen net.Listener, opts ...grpc.ServerOption) (stop func()) {
	t.Helper()
	s := grpc.NewServer(append(opts, grpc.MaxRecvMsgSize(64<<20))...)
	pb.RegisterMcpServiceServer(s, f)
	if f.health != nil {
		grpc_health_v1.RegisterHealthServer(s, f.health)
	}
	var wg sync.WaitGroup
	wg.Go(func() { _ = s.Serve(listen) })
	stop = sync.OnceFunc(func() {
		s.Stop()
		wg.Wait()
	})
	t.Cleanup(stop)
	return stop
}

// attach serves f and runs a Plugin that dials it.
func attach(t *testing.T, f *fake, o Options, set ...func(*intervals)) *running {
	t.Helper()
	sock := filepath.Join(t.TempDir(), "s")
	f.serve(t, "unix", sock)
	o.Address = "unix:" + sock
	return run(t, o, set...).ready(t)
}

func saying(text string) *pb.CallToolResponse {
	block := &pb.ContentBlock{Block: &pb.ContentBlock_Text{Text: &pb.TextContent{Text: text}}}
	result := &pb.CallToolResult{Content: []*pb.ContentBlock{block}}
	return &pb.CallToolResponse{Event: &pb.CallToolResponse_Result{Result: result}}
}

func progressing(n float64) *pb.CallToolResponse {
	return &pb.CallToolResponse{Event: &pb.CallToolResponse_Progress{Progress: &pb.Progress{Progress: n}}}
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// A dialed backend may start later and restart; calls wait for it.
func TestDialedBackendDisconnectsAndReconnects(t *testing.T) {
	port := freePort(t)
	sock := filepath.Join(t.TempDir(), "s")
	for address, at := range map[string][2]string{
		"unix:" + sock:   {"unix", sock},
		"unix://" + sock: {"unix", sock},
		"tcp:" + port:    {"tcp", port},
		"tcp://" + port:  {"tcp", port},
		"dns:///" + port: {"tcp", port},
		"dns:" + port:    {"tcp", port},
		"tcp:localhost" + port[strings.LastIndexByte(port, ':'):]: {"tcp", port},
	} {
		t.Run(address, func(t *testing.T) {
			f := &fake{call: func(r *pb.CallToolRequest, s stream) error {
				if r.GetName() == "hang" {
					if err := s.Send(progressing(1)); err != nil {
						return err
					}
					<-s.Context().Done()
					return s.Context().Err()
				}
				return s.Send(saying(r.GetName()))
			}}
			r := run(t, Options{Address: address})
			var wg sync.WaitGroup
			wg.Go(func() { // waits for the backend to start
				if res, err := r.Handle(t.Context(), tool("early", ""), ignore); err != nil || textOf(res) != "early" {
					t.Errorf("%v, %v", res, err)
				}
			})
			stop := f.serve(t, at[0], at[1])
			r.ready(t)
			wg.Wait()
			l := r.supervisor.Live()
			begun := make(chan struct{})
			wg.Go(func() {
				_, err := r.Handle(t.Context(), tool("hang", ""),
					func(context.Context, bridge.Event) error { close(begun); return nil })
				wantFailure(t, err, codes.Unknown, bridge.OutcomeUnknown, "BACKEND_CRASHED")
			})
			<-begun
			stop()
			<-l.done
			wg.Go(func() { // waits for the backend to restart
				if res, err := r.Handle(t.Context(), tool("again", ""), ignore); err != nil || textOf(res) != "again" {
					t.Errorf("%v, %v", res, err)
				}
			})
			stop = f.serve(t, at[0], at[1])
			wg.Wait()
			if err := r.stop(); err != nil {
				t.Error(err)
			}
			stop()
		})
	}
}

func TestUnreachableBackendFailsWithinItsTimeout(t *testing.T) {
	r := run(t, Options{Address: "tcp:" + freePort(t)}, func(p *intervals) { p.CallWait = time.Second })
	canceled, leave := context.WithCancel(t.Context())
	leave()
	_, err := r.Handle(canceled, tool("x", ""), ignore)
	wantFailure(t, err, codes.Canceled, bridge.OutcomeNotExecuted, "CANCELLED")
	for range 2 { // the first call waits, the second does not
		_, err := r.Handle(t.Context(), tool("x", ""), ignore)
		e := wantFailure(t, err, codes.Unavailable, bridge.OutcomeNotExecuted, "BACKEND_UNAVAILABLE")
		if e.RetryAfter == 0 {
			t.Error("the error has no retry time")
		}
	}
	began := time.Now()
	_, _ = r.Handle(t.Context(), tool("x", ""), ignore)
	if took := time.Since(began); took >= time.Second {
		t.Errorf("failed after %v", took)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := r.Ready(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Ready: %v", err)
	}
}

func TestCancelReachesTheBackend(t *testing.T) {
	begun, cancelled := make(chan struct{}), make(chan struct{})
	r := attach(t, &fake{call: func(_ *pb.CallToolRequest, s stream) error {
		close(begun)
		<-s.Context().Done()
		close(cancelled)
		return s.Context().Err()
	}}, Options{})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := r.Handle(ctx, tool("x", ""), ignore)
		done <- err
	}()
	<-begun
	cancel()
	wantFailure(t, <-done, codes.Canceled, bridge.OutcomeUnknown, "CANCELLED")
	<-cancelled
}

func TestDeadlineReportsAnUnknownOutcome(t *testing.T) {
	r := attach(t, &fake{call: func(_ *pb.CallToolRequest, s stream) error {
		<-s.Context().Done()
		return s.Context().Err()
	}}, Options{})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := r.Handle(ctx, tool("x", ""), ignore)
	wantFailure(t, err, codes.DeadlineExceeded, bridge.OutcomeUnknown, "DEADLINE")
}

// If the caller disconnects, the call is canceled at the backend too.
func TestEmitErrorEndsTheCall(t *testing.T) {
	ended := make(chan struct{})
	r := attach(t, &fake{call: func(_ *pb.CallToolRequest, s stream) error {
		defer close(ended)
		if err := s.Send(progressing(1)); err != nil {
			return err
		}
		<-s.Context().Done()
		return s.Context().Err()
	}}, Options{})
	disconnected := errors.New("the caller disconnected")
	if _, err := r.Handle(t.Context(), tool("x", ""),
		func(context.Context, bridge.Event) error { return disconnected }); !errors.Is(err, disconnected) {
		t.Errorf("got %v", err)
	}
	<-ended
}

func TestListenSendsChangesAndMayEnd(t *testing.T) {
	change := &pb.ListenResponse{Event: &pb.ListenResponse_ToolsListChanged{ToolsListChanged: &pb.ListChanged{}}}
	r := attach(t, &fake{listen: func(s grpc.ServerStreamingServer[pb.ListenResponse]) error { return s.Send(change) }},
		Options{})
	var got []*pb.ListenResponse
	res, err := r.Handle(t.Context(), &bridge.Call{Method: bridge.Listen, Request: &pb.ListenRequest{}},
		func(_ context.Context, e bridge.Event) error {
			got = append(got, e.Change)
			return nil
		})
	if err != nil || !proto.Equal(res.Complete, &pb.ListenResult{}) || len(got) != 1 || !proto.Equal(got[0], change) {
		t.Errorf("got %v, %v, %v", got, res, err)
	}
}

func TestProtocolViolationsAreNamed(t *testing.T) {
	for name, tc := range map[string]struct {
		send []*pb.CallToolResponse
		want string
	}{
		"no result":   {[]*pb.CallToolResponse{progressing(1)}, "ended without a result"},
		"empty event": {[]*pb.CallToolResponse{{}}, "an empty event"},
	} {
		t.Run(name, func(t *testing.T) {
			r := attach(t, &fake{call: func(_ *pb.CallToolRequest, s stream) error {
				for _, m := range tc.send {
					if err := s.Send(m); err != nil {
						return err
					}
				}
				return nil
			}}, Options{Name: "orders"})
			_, err := r.Handle(t.Context(), tool("x", ""), ignore)
			e := bridge.AsError(err)
			if e.Code != codes.Internal || e.Public() || e.Reason != bridge.ReasonProtocolViolation {
				t.Errorf("got %v %v", e.Code, e)
			}
			for _, want := range []string{tc.want, `"orders"`, "McpService/CallTool"} {
				if !strings.Contains(e.Error(), want) {
					t.Errorf("%q lacks %q", e, want)
				}
			}
		})
	}
}

// The first result is returned, whatever follows it, so that its effects are reported. Further messages are logged
// once.
func TestFirstResultIsTheResponse(t *testing.T) {
	bridgetest.SkipIfShort(t)
	for name, tc := range map[string]struct {
		warnAfterResult func(s stream) error
		notified        int
	}{
		"nothing":            {func(stream) error { return nil }, 0},
		"another result":     {func(s stream) error { return s.Send(saying("b")) }, 1},
		"an event":           {func(s stream) error { return s.Send(progressing(1)) }, 1},
		"an empty event":     {func(s stream) error { return s.Send(&pb.CallToolResponse{}) }, 1},
		"an error":           {func(stream) error { return status.Error(codes.Internal, "too late") }, 0},
		"an invalid message": {func(s stream) error { return s.SendMsg(wrapperspb.Bytes([]byte{0xff})) }, 0},
		"no end":             {func(s stream) error { <-s.Context().Done(); return nil }, 0},
		"no end, but more": {func(s stream) error {
			err := s.Send(saying("b"))
			<-s.Context().Done()
			return err
		}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			var shown atomic.Int32
			r := attach(t, &fake{call: func(_ *pb.CallToolRequest, s stream) error {
				return errors.Join(s.Send(saying("a")), tc.warnAfterResult(s))
			}}, Options{})
			for range 2 {
				res, err := r.Handle(t.Context(), tool("x", ""),
					func(context.Context, bridge.Event) error { shown.Add(1); return nil })
				if err != nil || textOf(res) != "a" {
					t.Fatalf("got %v, %v", res, err)
				}
			}
			log, _ := r.log.Read()
			if n := strings.Count(log, "messages after a result"); n != tc.notified || shown.Load() > 0 {
				t.Errorf("logged %d times, want %d; %d events", n, tc.notified, shown.Load())
			}
		})
	}
}

var notUTF8 = []byte{3<<3 | 2, 3, 14<<3 | 2, 1, 0xff}

// A response that gRPC cannot parse is a protocol violation, not an error returned by the backend.
func TestUnreadableResponsesAreProtocolViolations(t *testing.T) {
	for name, send := range map[string]func(s stream) error{
		"another message": func(s stream) error { return s.SendMsg(wrapperspb.Bytes([]byte{0xff})) },
		"after an event": func(s stream) error {
			return errors.Join(s.Send(progressing(1)), s.SendMsg(wrapperspb.Bytes([]byte{0xff})))
		},
		"invalid UTF-8": func(s stream) error {
			m := &emptypb.Empty{}
			m.ProtoReflect().SetUnknown(notUTF8)
			return s.SendMsg(m)
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := attach(t, &fake{call: func(_ *pb.CallToolRequest, s stream) error { return send(s) }}, Options{})
			_, err := r.Handle(t.Context(), tool("x", ""), ignore)
			if e := wantFailure(t, err, codes.Internal, bridge.OutcomeUnknown,
				bridge.ReasonProtocolViolation); e.Public() {
				t.Errorf("clients receive %v", e)
			}
		})
	}
}

// A DeadlineExceeded of the backend is not the caller's deadline.
func TestDeadlineExceededOfTheBackendIsItsOwnError(t *testing.T) {
	r := attach(t, &fake{call: func(*pb.CallToolRequest, stream) error {
		return status.Error(codes.DeadlineExceeded, "my database is slow")
	}}, Options{})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err := r.Handle(ctx, tool("x", ""), ignore)
	if e := bridge.AsError(err); e.Code != codes.DeadlineExceeded || e.Message != "my database is slow" ||
		e.Outcome != "" {
		t.Errorf("got %v %v %v", e.Code, e, e.Outcome)
	}
}

// The limit applies to the decompressed size of a response.
func TestMessageLimitCountsDecompressedBytes(t *testing.T) {
	const limit = 100_000
	r := attach(t, &fake{call: func(_ *pb.CallToolRequest, s stream) error {
		return errors.Join(grpc.SetSendCompressor(s.Context(), gzip.Name),
			s.Send(saying(strings.Repeat("x", 20*limit))))
	}}, Options{Limits: limits.Limits{Message: limit}})
	_, err := r.Handle(t.Context(), tool("x", ""), ignore)
	// it may have been an event
	wantFailure(t, err, codes.ResourceExhausted, bridge.OutcomeUnknown, "RESPONSE_TOO_LARGE")
}

// An error returned by the backend is kept, even if it looks like a broken connection.
func TestBackendsOwnErrorsAreKept(t *testing.T) {
	for _, code := range []codes.Code{
		codes.NotFound, codes.InvalidArgument, codes.Unavailable, codes.Canceled, codes.Internal,
		codes.Unknown, codes.ResourceExhausted, codes.Unimplemented, codes.DeadlineExceeded,
	} {
		calls := 0
		s, err := status.New(code, "mine").WithDetails(&pb.JsonRpcError{Code: -31999})
		if err != nil {
			t.Fatal(err)
		}
		r := attach(t, &fake{
			call: func(*pb.CallToolRequest, stream) error { calls++; return s.Err() },
			list: func(context.Context) (*pb.ListToolsResponse, error) { calls++; return nil, s.Err() },
		}, Options{})
		for _, call := range []*bridge.Call{
			tool("x", ""),
			{Method: bridge.ListTools, Request: &pb.ListToolsRequest{}},
		} {
			_, err := r.Handle(t.Context(), call, ignore)
			e := bridge.AsError(err)
			if e.Code != code || e.Message != "mine" || e.RPC.GetCode() != -31999 || e.Outcome != "" {
				t.Errorf("%v, %s: got %v %v", code, call.Method.Name, e.Code, e)
			}
		}
		if calls != 2 {
			t.Errorf("%v: %d of 2 calls were sent", code, calls)
		}
	}
}

// If a backend declares tools and implements CallTool only, its lists are empty.
func TestUnimplementedListsAreEmpty(t *testing.T) {
	r := attach(t, &fake{
		call: func(*pb.CallToolRequest, stream) error { return status.Error(codes.Unimplemented, "") },
		list: func(context.Context) (*pb.ListToolsResponse, error) {
			return nil, status.Error(codes.Unimplemented, "")
		},
	}, Options{})
	for _, m := range []*bridge.Method{
		bridge.ListTools, bridge.ListResources, bridge.ListResourceTemplates,
		bridge.ListPrompts,
	} {
		res, err := r.Handle(t.Context(), &bridge.Call{Method: m, Request: m.NewRequest(nil)}, ignore)
		if err != nil || !proto.Equal(res.Complete, m.NewResult()) {
			t.Errorf("%s: got %v, %v", m.Name, res, err)
		}
	}
	for _, call := range []*bridge.Call{tool("x", ""), {Method: bridge.Complete, Request: &pb.CompleteRequest{}}} {
		_, err := r.Handle(t.Context(), call, ignore)
		if e := bridge.AsError(err); e.Code != codes.Unimplemented {
			t.Errorf("%s: got %v", call.Method.Name, err)
		}
	}
}

// gRPC assigns a call to a connection that has just failed, finds that it was not sent, and returns an error because it
// cannot connect again. That is not a response of the backend.
func TestCallOnABrokenConnectionIsLost(t *testing.T) {
	r := attach(t, &fake{
		call: func(*pb.CallToolRequest, stream) error { return status.Error(codes.Unavailable, "connection refused") },
	}, Options{})
	l := r.supervisor.Live()
	if a := r.attemptGRPC(t.Context(), l, tool("x", ""), ignore); a.lost {
		t.Errorf("the backend's error was classified as a lost connection: %v", a.err)
	}
	var at peer.Peer
	if err := l.check(t.Context(), "", grpc.Peer(&at)); err != nil || broken(&at) {
		t.Fatalf("before the connection failed: %v", err)
	}
	at.AuthInfo.(connInfo).conn.(*trackedConn).ended.Store(true)
	if a := r.attemptGRPC(t.Context(), l, tool("x", ""), ignore); !a.lost || !a.sent {
		t.Errorf("lost %v, sent %v, %v: a lost connection was classified as the backend's error", a.lost, a.sent, a.err)
	}
}

// The GOAWAY of a draining backend contains the last call that it processes. Later calls are not executed, even if no
// other connection can be established and the old one stays open.
func TestCallRefusedByADrainingServerIsNotSent(t *testing.T) {
	sock := filepath.Join(t.TempDir(), "s")
	ln, err := new(net.ListenConfig).Listen(t.Context(), "unix", sock)
	if err != nil {
		t.Fatal(err)
	}
	taken := make(chan struct{})
	var server sync.WaitGroup
	defer server.Wait()
	defer ln.Close()
	server.Go(func() {
		conn, err := ln.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		if err := drainingServer(conn, taken, func() { ln.Close() }); err != nil && !errors.Is(err, io.EOF) {
			t.Error(err)
		}
	})
	r := run(t, Options{Address: "unix:" + sock}).ready(t)
	l := r.supervisor.Live()
	ctx, cancel := context.WithCancel(t.Context())
	var first sync.WaitGroup
	first.Go(func() { r.attemptGRPC(ctx, l, tool("first", ""), ignore) })
	<-taken
	if a := r.attemptGRPC(t.Context(), l, tool("second", ""), ignore); !a.lost || a.sent {
		t.Errorf("lost %v, sent %v: %v", a.lost, a.sent, a.err)
	}
	cancel()
	first.Wait()
	if err := r.stop(); err != nil {
		t.Error(err)
	}
}

// drainingServer accepts the first call of a tool without a response. At the second it calls drain and sends a GOAWAY
// that excludes it.
func drainingServer(conn net.Conn, taken chan<- struct{}, drain func()) error {
	if _, err := io.ReadFull(conn, make([]byte, len(http2.ClientPreface))); err != nil {
		return err
	}
	f := http2.NewFramer(conn, conn)
	f.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	if err := f.WriteSettings(); err != nil {
		return err
	}
	var last uint32
	for {
		frame, err := f.ReadFrame()
		if err != nil {
			return err
		}
		h, ok := frame.(*http2.MetaHeadersFrame)
		switch {
		case !ok:
		case h.PseudoValue("path") != bridge.CallTool.GRPC: // it has no health service
			var b bytes.Buffer
			enc := hpack.NewEncoder(&b)
			for _, field := range []hpack.HeaderField{
				{Name: ":status", Value: "200"},
				{Name: "content-type", Value: "application/grpc"},
				{Name: "grpc-status", Value: "12"},
			} {
				if err := enc.WriteField(field); err != nil {
					return err
				}
			}
			p := http2.HeadersFrameParam{
				StreamID: h.StreamID, BlockFragment: b.Bytes(), EndHeaders: true,
				EndStream: true,
			}
			if err := f.WriteHeaders(p); err != nil {
				return err
			}
		case last == 0:
			last = h.StreamID
			close(taken)
		default:
			drain()
			if err := f.WriteGoAway(last, http2.ErrCodeNo, nil); err != nil {
				return err
			}
		}
	}
}

// A backend that restarts gracefully ends its calls on the old connection, while new calls use another. The end of the
// old connection does not change the classification of responses on the new one.
func TestOldConnectionDoesNotAffectTheNewOne(t *testing.T) {
	sock := filepath.Join(t.TempDir(), "s")
	begun, hold := make(chan struct{}), make(chan struct{})
	exactly, err := status.New(codes.Unknown, "mine").WithDetails(&pb.JsonRpcError{Code: -31999})
	if err != nil {
		t.Fatal(err)
	}
	f := &fake{call: func(r *pb.CallToolRequest, s stream) error {
		if r.GetName() != "slow" {
			return exactly.Err()
		}
		close(begun)
		<-hold
		return s.Send(saying("ok"))
	}}
	start := func() *grpc.Server {
		ln, err := new(net.ListenConfig).Listen(t.Context(), "unix", sock)
		if err != nil {
			t.Fatal(err)
		}
		s := grpc.NewServer()
		pb.RegisterMcpServiceServer(s, f)
		go func() { _ = s.Serve(ln) }()
		t.Cleanup(s.Stop)
		return s
	}
	old := start()
	r := run(t, Options{Address: "unix:" + sock}).ready(t)
	slow := make(chan error, 1)
	go func() { _, err := r.Handle(t.Context(), tool("slow", ""), ignore); slow <- err }()
	<-begun
	before := r.supervisor.Live()
	stopped := make(chan struct{})
	go func() { old.GracefulStop(); close(stopped) }()
	<-before.done
	start()
	r.ready(t)
	close(hold)
	if err := <-slow; err != nil {
		t.Error(err)
	}
	<-stopped
	for range 200 { // meanwhile the bridge notices the end
		_, err := r.Handle(t.Context(), tool("x", ""), ignore)
		if e := bridge.AsError(err); e.RPC.GetCode() != -31999 || e.Outcome != "" {
			t.Fatalf("%v %v, want the backend's error", e.Outcome, e)
		}
	}
}

// A response followed by an exit is a response, whatever its code: errors that gRPC creates have no details.
func TestErrorWithDetailsIsNotALostCall(t *testing.T) {
	for _, code := range []codes.Code{codes.Unavailable, codes.Canceled, codes.Internal, codes.Unknown} {
		for _, answer := range []struct {
			details []protoadapt.MessageV1
			lost    bool
		}{{[]protoadapt.MessageV1{&pb.JsonRpcError{Code: -31999}}, false}, {nil, true}} {
			lastError, err := status.New(code, "mine").WithDetails(answer.details...)
			if err != nil {
				t.Fatal(err)
			}
			sock := filepath.Join(t.TempDir(), "s")
			listen, err := new(net.ListenConfig).Listen(t.Context(), "unix", sock)
			if err != nil {
				t.Fatal(err)
			}
			server := grpc.NewServer()
			pb.RegisterMcpServiceServer(server, &fake{call: func(_ *pb.CallToolRequest, s stream) error {
				if err := s.Send(progressing(1)); err != nil {
					return err
				}
				return lastError.Err()
			}})
			go func() { _ = server.Serve(listen) }()
			t.Cleanup(server.Stop)
			r := run(t, Options{Address: "unix:" + sock}).ready(t)
			var at peer.Peer
			if err := r.supervisor.Live().check(t.Context(), "", grpc.Peer(&at)); err != nil {
				t.Fatal(err)
			}
			// the response waits behind it until the backend has exited
			_, err = r.Handle(t.Context(), tool("x", ""), func(context.Context, bridge.Event) error {
				server.GracefulStop()
				for !broken(&at) {
					runtime.Gosched()
				}
				return nil
			})
			if e := bridge.AsError(err); answer.lost {
				wantFailure(t, err, codes.Unknown, bridge.OutcomeUnknown, "BACKEND_CRASHED")
			} else if e.Code != code || e.RPC.GetCode() != -31999 || e.Outcome != "" {
				t.Errorf("%v: got %v %v %v, want the backend's error", code, e.Code, e.Outcome, e)
			}
		}
	}
}

func TestMessageLimitIsExactAndNamed(t *testing.T) {
	const limit = 100_000
	filled := func(extra int) *pb.CallToolRequest { // a request of limit+extra bytes
		r := &pb.CallToolRequest{
			Context: &pb.CallContext{Verified: bridge.Verified(bridge.Rev20260728, nil, nil)}, Name: "x",
			Arguments: make([]byte, limit/2),
		}
		r.Arguments = make([]byte, limit/2+limit+extra-proto.Size(r))
		if got := proto.Size(r); got != limit+extra {
			t.Fatalf("%d bytes", got)
		}
		return r
	}
	answer := func(extra int) *pb.CallToolResponse {
		m := saying(strings.Repeat("x", limit/2))
		text := m.GetResult().GetContent()[0].GetText()
		for proto.Size(m) < limit+extra {
			text.Text += strings.Repeat("x", limit+extra-proto.Size(m))
		}
		for proto.Size(m) > limit+extra {
			text.Text = text.Text[:len(text.Text)-(proto.Size(m)-limit-extra)]
		}
		if got := proto.Size(m); got != limit+extra {
			t.Fatalf("%d bytes", got)
		}
		return m
	}
	extra := 0
	r := attach(t, &fake{call: func(q *pb.CallToolRequest, s stream) error {
		if q.GetName() == "big" {
			return s.Send(answer(extra))
		}
		return s.Send(saying("ok"))
	}}, Options{Limits: limits.Limits{Message: limit}})
	for _, extra = range []int{-1, 0, 1} {
		_, err := r.Handle(t.Context(), &bridge.Call{Method: bridge.CallTool, Request: filled(extra)}, ignore)
		_, err2 := r.Handle(t.Context(), tool("big", ""), ignore)
		if extra <= 0 {
			if err != nil || err2 != nil {
				t.Errorf("%+d: %v, %v", extra, err, err2)
			}
			continue
		}
		e := wantFailure(t, err, codes.ResourceExhausted, bridge.OutcomeNotExecuted, "REQUEST_TOO_LARGE")
		if !strings.Contains(e.Error(), "100001 bytes, and the limit is 100000 (max message)") {
			t.Error(e)
		}
		wantFailure(t, err2, codes.ResourceExhausted, bridge.OutcomeUnknown, "RESPONSE_TOO_LARGE")
	}
}

// The result of Discover is cached per connection, and an error is not cached.
func TestDiscoverIsCalledOncePerConnection(t *testing.T) {
	requests := 0
	r := attach(t, &fake{discover: func() (*pb.DiscoverResponse, error) {
		requests++
		if requests == 1 {
			return nil, status.Error(codes.Internal, "not yet")
		}
		return &pb.DiscoverResponse{Instructions: proto.String("be kind")}, nil
	}}, Options{})
	call := &bridge.Call{Method: bridge.Discover, Request: &pb.DiscoverRequest{}}
	if _, err := r.Handle(t.Context(), call, nil); err == nil {
		t.Error("the error is lost")
	}
	for range 3 {
		res, err := r.Handle(t.Context(), call, nil)
		if err != nil {
			t.Fatal(err)
		}
		d := res.Complete.(*pb.DiscoverResponse)
		if d.GetInstructions() != "be kind" {
			t.Errorf("got %v", d)
		}
		d.Instructions = proto.String("changed by the caller")
	}
	if requests != 2 {
		t.Errorf("got %d Discover requests", requests)
	}
}

func TestDialedBackendWithMutualTLS(t *testing.T) {
	dir := t.TempDir()
	keys, err := mtls.New()
	if err != nil {
		t.Fatal(err)
	}
	server, err := tls.X509KeyPair(keys.Server, keys.Server)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(keys.Client.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{
		"ca":   keys.Authority,
		"cert": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: keys.Client.Certificate[0]}),
		"key":  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	clients := x509.NewCertPool()
	clients.AppendCertsFromPEM(keys.Authority)
	port := freePort(t)
	f := &fake{call: func(_ *pb.CallToolRequest, s stream) error { return s.Send(saying("secret")) }}
	f.serve(t, "tcp", port, grpc.Creds(credentials.NewTLS(&tls.Config{
		Certificates: []tls.Certificate{server}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: clients,
	})))
	files := &TLS{
		CA: filepath.Join(dir, "ca"), Cert: filepath.Join(dir, "cert"), Key: filepath.Join(dir, "key"),
		ServerName: "localhost",
	}
	r := run(t, Options{Address: "tcp:" + port, TLS: files}).ready(t)
	if got := r.text(t, "x", ""); got != "secret" {
		t.Errorf("got %q", got)
	}
	r = run(t, Options{Address: "tcp:" + port, TLS: &TLS{CA: files.CA, ServerName: "localhost"}},
		func(p *intervals) { p.health = 100 * time.Millisecond })
	r.log.wait(t, "does not answer yet")
}

func TestOptionsAreValidated(t *testing.T) {
	for want, o := range map[string]Options{
		"neither a command":         {Name: "b"},
		"both a command":            {Command: []string{"x"}, Address: "unix:/x"},
		"first word is empty":       {Command: []string{""}},
		"must begin with unix:":     {Address: "http://x"},
		"must be host:port":         {Address: "tcp:8080"},
		"no path after unix:":       {Address: "unix:"},
		"name server":               {Address: "dns://8.8.8.8/x:1"},
		"is not K=V":                {Command: []string{"x"}, Env: []string{"A"}},
		"negative":                  {Command: []string{"x"}, Limits: limits.Limits{Message: -1}},
		"TLS options are for":       {Command: []string{"x"}, TLS: &TLS{}},
		"TLS CA: ":                  {Address: "tcp:x:1", TLS: &TLS{CA: "/nowhere"}},
		`TLS certificate "/nowhere`: {Address: "tcp:x:1", TLS: &TLS{Cert: "/nowhere"}},
	} {
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: got %v, want %q", o, err, want)
		}
	}
}
