// Package grpcserver serves bridge.Handlers to gRPC clients as mcpbridge.v1.McpService, the same service that backends
// implement, with reflection (grpc.reflection.v1 and v1alpha) and health (grpc.health.v1). Requests may be compressed
// with gzip; responses are not, so that the number of unread bytes is known.
//
// The metadata mcpbridge-server selects the backend; without it, a call is for all of them together. Errors are those
// of bridge.Error.GRPCStatus, as listed in docs/errors.md. Identity is never taken from a request: the principal and
// headers in a CallContext are dropped. A backend's state is sealed, as for MCP clients: the contract guarantees that a
// client can neither read nor change it.
package grpcserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/time/rate"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	_ "google.golang.org/grpc/encoding/gzip" // clients may compress
	"google.golang.org/grpc/experimental"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/conns"
	"github.com/mcpbridge/mcpbridge/internal/contain"
	"github.com/mcpbridge/mcpbridge/internal/lifecycle"
	"github.com/mcpbridge/mcpbridge/internal/limit"
	"github.com/mcpbridge/mcpbridge/internal/limits"
	"github.com/mcpbridge/mcpbridge/internal/seal"
	"github.com/mcpbridge/mcpbridge/internal/tasks"
	"github.com/mcpbridge/mcpbridge/internal/wire"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// Options configure a Server. The zero value is a server for clients on the same machine.
type Options struct {
	// Log receives the events of the server. The zero value logs nothing.
	Log zerolog.Logger
	// Panics counts panics. If nil, those of this package are counted separately.
	Panics *contain.Panics
	// TLS encrypts connections. If nil, they are not encrypted.
	TLS *TLS
	// Principal returns the principal of a call with the metadata, or the error for a client that is not authenticated.
	// It may be called concurrently. If nil, the principal is that of the client's certificate, if any.
	Principal func(context.Context, metadata.MD) (*pb.Principal, error)
	// AccessExpiry returns the time at which a principal's access ends, or zero if it does not end. At that time,
	// Listen calls end, and other calls in flight continue. If nil, access never ends.
	AccessExpiry func(*pb.Principal) time.Time
	// Limits are the limits of requests and responses. Defaults replace zero fields.
	Limits limits.Limits
	// MaxStreams is the maximum number of calls in flight of one connection. If zero, limits.ConnectionCalls is used.
	MaxStreams int
	// MaxConns is the maximum number of connections, as in conns.Port. If zero, limits.Connections is used.
	MaxConns int
	// MaxCalls is the maximum number of calls in flight of all clients. If zero, limits.GRPCCalls is used.
	MaxCalls int
	// Streams limits the number of Listen calls. It may be shared. If nil, the server has its own, which uses Memory.
	Streams *limit.Streams
	// Memory is the available memory: while it is low, long requests are rejected. If nil, it is not limited.
	Memory *limit.Memory
	// Lifecycle is the phase of the bridge and its calls in flight. If nil, the server has its own.
	Lifecycle *lifecycle.Lifecycle
	// NoReflection disables the reflection service.
	NoReflection bool
	// StateKeys are those of mcpserver.Options: fronts and replicas with the same keys can continue each other's calls.
	StateKeys [][32]byte
	// Tasks keeps the tasks of the handlers. If nil, they have none.
	Tasks *tasks.Tasks
}

const (
	// An idle connection is pinged, and closed if the client does not respond.
	pingAfter, pingWithin = 60 * time.Second, 20 * time.Second
	// logEvery is the minimum interval between log lines that any client can cause.
	logEvery = time.Second
	// watchGrace is the time for health watchers to receive NOT_SERVING at shutdown.
	watchGrace = 250 * time.Millisecond
	// responseGrace is the time to write the responses of interrupted calls.
	responseGrace = 500 * time.Millisecond
	// Windows are as large as those of connections to backends: 64 KiB of arguments fit.
	streamWindow, connWindow = 1 << 20, 4 << 20
)

// A Backend is a server that clients select by name.
type Backend struct {
	// Name is its name in the metadata mcpbridge-server and in the health service.
	Name string
	// Handler is the server.
	Handler bridge.Handler
}

// A Server serves Handlers to gRPC clients. Its methods may be called concurrently.
type Server struct {
	o      Options
	log    zerolog.Logger
	panics *contain.Panics
	merged sealedHandler
	byName map[string]sealedHandler
	names  string // for errors
	grpc   *grpc.Server
	health *health.Server
	calls  atomic.Int64
	port   conns.Port
	conns  connections

	refusals rate.Sometimes // limits the log lines about failed TLS handshakes

	life *lifecycle.Lifecycle
}

// A sealedHandler is a Handler with the Sealer for the states of its backend.
type sealedHandler struct {
	bridge.Handler
	seal *seal.Sealer
}

// errAccessExpired is the cause of the end of a Listen whose caller's access has ended.
var errAccessExpired = errors.New("the caller's access has expired")

// New returns a Server of merged, for calls without a backend name, and of backends. With a single backend, merged is
// its Handler.
func New(merged bridge.Handler, backends []Backend, o Options) (*Server, error) {
	o.Limits = o.Limits.OrDefaults()
	o.MaxStreams = cmp.Or(o.MaxStreams, limits.ConnectionCalls)
	o.MaxConns = cmp.Or(o.MaxConns, limits.Connections)
	o.MaxCalls = cmp.Or(o.MaxCalls, limits.GRPCCalls)
	if o.Lifecycle == nil {
		o.Lifecycle = lifecycle.New()
	}
	if o.Streams == nil {
		o.Streams = limit.StreamsOf(o.Limits, o.Memory)
	}
	switch {
	case o.Limits.ClientMessage < 0 || o.Limits.ClientMessage > limits.MaxMessage:
		return nil, fmt.Errorf("gRPC server: the maximum size of a message is %d: it must be 1 to %d",
			o.Limits.ClientMessage, limits.MaxMessage)
	case o.MaxStreams < 0 || o.MaxStreams > math.MaxUint32 || o.MaxConns < 0 || o.MaxCalls < 0 ||
		o.Limits.ConnectionIdle < 0 || o.Limits.WriteTime < 0:
		return nil, errors.New("gRPC server: a limit is negative, or too large")
	}
	s := &Server{
		o: o, log: o.Log, merged: sealedHandler{merged, seal.New(o.StateKeys, o.Limits.StateTTL, o.Limits.State)},
		byName: map[string]sealedHandler{},
		health: health.NewServer(), port: conns.Port{Name: "gRPC", MaxConns: o.MaxConns, Log: o.Log},
		refusals: rate.Sometimes{Interval: logEvery}, life: o.Lifecycle,
	}
	s.panics = o.Panics.With(o.Log)
	var names []string
	for _, b := range backends {
		if _, again := s.byName[b.Name]; again || b.Name == "" {
			return nil, fmt.Errorf("gRPC server: backend name %q is empty or a duplicate", b.Name)
		}
		s.byName[b.Name] = sealedHandler{b.Handler, s.merged.seal.ForBackend(b.Name)}
		names = append(names, b.Name)
		s.health.SetServingStatus(b.Name, grpc_health_v1.HealthCheckResponse_NOT_SERVING)
	}
	s.names = strings.Join(names, ", ")
	s.setOverall(len(backends) == 0)
	opts := []grpc.ServerOption{
		grpc.MaxRecvMsgSize(o.Limits.ClientMessage),
		grpc.MaxSendMsgSize(math.MaxInt32), // it is checked before, to report the outcome
		grpc.MaxConcurrentStreams(uint32(o.MaxStreams)),
		grpc.MaxHeaderListSize(4 * limits.Metadata),
		grpc.InTapHandle(limitMetadata),
		grpc.ConnectionTimeout(limits.HandshakeTimeout),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{
			MinTime: limits.PingInterval, PermitWithoutStream: true,
		}),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			MaxConnectionIdle: o.Limits.ConnectionIdle, Time: pingAfter,
			Timeout: pingWithin,
		}),
		grpc.InitialWindowSize(streamWindow), grpc.InitialConnWindowSize(connWindow),
		grpc.ChainUnaryInterceptor(s.containUnary), grpc.ChainStreamInterceptor(s.containStream, s.endIdleStreams),
		grpc.WaitForHandlers(true),
		grpc.ForceServerCodecV2(codec{}), experimental.BufferPool(wire.Buffers),
	}
	creds := insecure.NewCredentials()
	if o.TLS != nil {
		config, err := o.TLS.load()
		if err != nil {
			return nil, fmt.Errorf("gRPC server: %w", err)
		}
		creds = credentials.NewTLS(config)
	}
	s.grpc = grpc.NewServer(append(opts, grpc.Creds(&handshaker{creds, s}))...)
	o.Memory.OnPressure(s.relieve)
	s.register()
	grpc_health_v1.RegisterHealthServer(s.grpc, s.health)
	if !o.NoReflection {
		reflection.Register(s.grpc)
	}
	return s, nil
}

// SetServing sets the health status of a backend, which initially is NOT_SERVING. The server as a whole, "" and
// mcpbridge.v1.McpService, is SERVING if any backend is, or if there are no named backends. Once the server drains,
// every status is NOT_SERVING.
func (s *Server) SetServing(name string, serving bool) {
	if _, ok := s.byName[name]; !ok {
		return
	}
	if s.serves(name) == serving { // the usual case, in which not all backends need to be checked
		return
	}
	s.health.SetServingStatus(name, servingStatus(serving))
	s.setOverall(slices.ContainsFunc(slices.Collect(maps.Keys(s.byName)), s.serves))
}

// serves reports whether the health status of a backend is SERVING.
func (s *Server) serves(name string) bool {
	r, err := s.health.Check(context.Background(), &grpc_health_v1.HealthCheckRequest{Service: name})
	return err == nil && r.GetStatus() == grpc_health_v1.HealthCheckResponse_SERVING
}

// Check returns when the health service has responded. It hangs if the service does.
func (s *Server) Check() { _ = s.serves("") }

func (s *Server) setOverall(serving bool) {
	for _, name := range []string{"", pb.McpService_ServiceDesc.ServiceName} {
		s.health.SetServingStatus(name, servingStatus(serving))
	}
}

func servingStatus(serving bool) grpc_health_v1.HealthCheckResponse_ServingStatus {
	if serving {
		return grpc_health_v1.HealthCheckResponse_SERVING
	}
	return grpc_health_v1.HealthCheckResponse_NOT_SERVING
}

// Serve serves the connections of ln, which it closes, until the server has ended. From the phase LameDuck on, the
// health service reports NOT_SERVING. In Draining, clients receive GOAWAY, new calls are refused and Listen calls end.
// In Closing, Serve calls Close. No call is in flight when it returns. There may be several listeners.
func (s *Server) Serve(ln net.Listener) error {
	served := make(chan error, 1)
	go func() { served <- s.grpc.Serve(&listener{Listener: s.port.Listener(ln), s: s}) }()
	lameDuck, draining := s.life.Until(lifecycle.LameDuck).Done(), s.life.Until(lifecycle.Draining).Done()
	for s.life.Phase() < lifecycle.Draining {
		select {
		case err := <-served:
			return s.why(err)
		case <-lameDuck:
			s.health.Shutdown()
			lameDuck = nil
		case <-draining:
		}
	}
	s.health.Shutdown()
	stopped := make(chan struct{})
	go func() {
		s.conns.close(true) // gRPC would wait until the clients send something
		s.grpc.GracefulStop()
		close(stopped)
	}()
	select {
	case <-s.life.Until(lifecycle.Closing).Done():
		s.Close()
		<-stopped
	case <-stopped:
	}
	return s.why(<-served)
}

// why returns the error that ended Serve, unless that was a shutdown.
func (s *Server) why(err error) error {
	if err == nil || errors.Is(err, grpc.ErrServerStopped) || s.life.Phase() >= lifecycle.Draining {
		return nil // the listener was closed by the shutdown
	}
	return fmt.Errorf("gRPC server: %w", err)
}

// Close begins the phase Closing, cancels all calls, whose outcome is then unknown, and waits for them. A client that
// does not read the response in time is disconnected.
func (s *Server) Close() {
	s.life.Advance(lifecycle.Closing)
	s.health.Shutdown()
	hard := time.AfterFunc(responseGrace, func() {
		s.conns.close(false) // gRPC would wait for connections before the preface
		s.grpc.Stop()
	})
	defer hard.Stop()
	s.grpc.GracefulStop()
}

// limitMetadata rejects a call with too much metadata before any other work.
func limitMetadata(ctx context.Context, call *tap.Info) (context.Context, error) {
	size := 0
	for name, values := range call.Header {
		for _, v := range values {
			size += len(name) + len(v) + 32
		}
	}
	if size > limits.Metadata {
		return nil, status.Errorf(codes.ResourceExhausted,
			"the call has %d bytes of metadata, and the limit is %d: send the data in its arguments", size,
			limits.Metadata)
	}
	return ctx, nil
}

// containUnary and containStream are interceptors that recover panics outside a Handler.
func (s *Server) containUnary(ctx context.Context, req any, info *grpc.UnaryServerInfo,
	handler grpc.UnaryHandler,
) (resp any, err error) {
	defer s.panics.Recover(info.FullMethod, func(e *bridge.Error) { resp, err = nil, e })
	return handler(ctx, req)
}

func (s *Server) containStream(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo,
	handler grpc.StreamHandler,
) (err error) {
	defer s.panics.Recover(info.FullMethod, func(e *bridge.Error) { err = e })
	return handler(srv, ss)
}

// endIdleStreams is an interceptor that ends health watches and reflection streams when the server drains, shortly
// after their last message.
func (s *Server) endIdleStreams(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo,
	handler grpc.StreamHandler,
) error {
	if strings.HasPrefix(info.FullMethod, "/"+pb.McpService_ServiceDesc.ServiceName+"/") {
		return handler(srv, ss)
	}
	// health checks are allowed even while memory is low
	if !strings.HasPrefix(info.FullMethod, "/"+grpc_health_v1.Health_ServiceDesc.ServiceName+"/") {
		if err := s.o.Memory.Admit(limit.NewStreams); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithCancel(ss.Context())
	defer cancel()
	defer context.AfterFunc(s.life.Until(lifecycle.Draining), func() { time.AfterFunc(watchGrace, cancel) })()
	defer context.AfterFunc(s.life.Until(lifecycle.Closing), cancel)()
	return handler(srv, &shutdownStream{ServerStream: ss, ctx: ctx, panics: s.panics, out: outboxOf(ss)})
}

// A shutdownStream ends at the shutdown. Its messages wait while the client does not read.
type shutdownStream struct {
	grpc.ServerStream
	ctx    context.Context //nolint:containedctx // it is the stream's
	panics *contain.Panics
	out    *outbox
}

func (h *shutdownStream) Context() context.Context { return h.ctx }

func (h *shutdownStream) SendMsg(m any) error { return h.out.sendEvent(h.ctx, h.ServerStream, m) }

func (h *shutdownStream) RecvMsg(m any) error {
	received := make(chan error, 1)
	go func() { // ends with the stream, which ends when the handler returns
		defer h.panics.Recover("a message", func(e *bridge.Error) { received <- e })
		received <- h.ServerStream.RecvMsg(m)
	}()
	select {
	case err := <-received:
		return err
	case <-h.ctx.Done():
		return h.ctx.Err()
	}
}
