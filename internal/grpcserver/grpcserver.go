package grpcserver

import (
	"context"
	"encoding/base64"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/feed"
	"github.com/mcpbridge/mcpbridge/internal/lifecycle"
	"github.com/mcpbridge/mcpbridge/internal/rawjson"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// MetadataServer is the metadata key for the name of the backend.
const MetadataServer = "mcpbridge-server"

// register registers the contract's service. Its methods come from the method table, so none can be forgotten.
func (s *Server) register() {
	desc := grpc.ServiceDesc{
		ServiceName: pb.McpService_ServiceDesc.ServiceName, HandlerType: (*any)(nil),
		Metadata: pb.McpService_ServiceDesc.Metadata,
	}
	for _, m := range bridge.Methods() {
		// All methods are streams for gRPC, so that serve itself sends the response of a unary method.
		desc.Streams = append(desc.Streams, grpc.StreamDesc{
			StreamName: m.GRPC[len("/"+desc.ServiceName+"/"):], ServerStreams: m.Streams,
			Handler: func(_ any, ss grpc.ServerStream) error { return s.serve(m, ss) },
		})
	}
	s.grpc.RegisterService(&desc, s)
}

// serve executes a call. A slow client delays only its own call.
func (s *Server) serve(m *bridge.Method, ss grpc.ServerStream) error {
	req := m.NewRequest(nil)
	if err := ss.RecvMsg(req); err != nil {
		return err // gRPC has already set the status, such as for a request above the limit
	}
	ctx, out := ss.Context(), outboxOf(ss)
	if err := out.await(ctx, s.life.Until(lifecycle.Closing), s.o.Limits.WriteTime); err != nil {
		return s.clientError(m, err)
	}
	if m == bridge.Listen || m == bridge.GetTask { // a GetTask call may wait
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(s.life.Until(lifecycle.Draining), cancel)()
	}
	msg, err := s.answer(ctx, m, req, func(ctx context.Context, e bridge.Event) error {
		if !m.Streams || !isRequested(req.GetContext(), e) {
			return nil
		}
		msg := m.Join(e, nil)
		if size := proto.Size(msg); size > s.o.Limits.ClientMessage {
			return bridge.Failed(codes.ResourceExhausted, bridge.OutcomeUnknown, "RESPONSE_TOO_LARGE",
				"%s: an event has %d bytes, and the limit is %d (max message); the call has begun, and was ended",
				m.Name, size, s.o.Limits.ClientMessage)
		}
		return out.sendEvent(ctx, ss, msg)
	})
	if err != nil && m == bridge.Listen && ss.Context().Err() == nil && s.life.Phase() >= lifecycle.Draining {
		msg, err = m.Join(bridge.Event{}, &bridge.Result{Complete: m.NewResult()}), nil // a normal end
	}
	if err != nil {
		return s.clientError(m, err)
	}
	if err := out.claim(m, msg); err != nil {
		return s.clientError(m, err)
	}
	return out.send(ss, msg)
}

// isRequested reports whether the caller requested an event.
func isRequested(cc *pb.CallContext, e bridge.Event) bool {
	switch {
	case e.Progress != nil:
		return cc.GetProgressWanted()
	case e.Log != nil:
		return cc.GetLogLevel() != pb.LogLevel_LOG_LEVEL_UNSPECIFIED && e.Log.GetLevel() >= cc.GetLogLevel()
	}
	return e.Change.GetEvent() != nil
}

// longMessage is the size of a request in bytes from which it needs memory from Options.Memory.
const longMessage = 128 << 10

// reserveMemory reserves the memory for a request, and returns the function that frees it, or the error if memory is
// low.
func (s *Server) reserveMemory(req bridge.Request) (give func(), err error) {
	n := int64(proto.Size(req))
	if n <= longMessage {
		return func() {}, nil
	}
	return func() { s.o.Memory.ReleaseBody(n) }, s.o.Memory.ReserveBody(n)
}

// answer executes a call, and returns its final message, within the size limit. It recovers panics of the Handler.
func (s *Server) answer(ctx context.Context, m *bridge.Method, req bridge.Request,
	emit bridge.Emit,
) (msg proto.Message, err error) {
	defer s.panics.Recover(m.Name, func(e *bridge.Error) { msg, err = nil, e })
	defer s.calls.Add(-1)
	if s.calls.Add(1) > int64(s.o.MaxCalls) {
		e := bridge.Failed(codes.ResourceExhausted, bridge.OutcomeNotExecuted, "TOO_MANY_CALLS",
			"%d calls are in flight, which is the limit; the call was not executed; try again in 1s", s.o.MaxCalls)
		e.RetryAfter = time.Second
		return nil, e
	}
	if m == bridge.Listen {
		if err := feed.CheckListen(proto.Size(req)); err != nil {
			return nil, err
		}
	}
	if s.o.Memory != nil {
		give, err := s.reserveMemory(req)
		if err != nil {
			return nil, err
		}
		defer give()
	}
	if s.life.Phase() == lifecycle.Closing {
		return nil, notExecuted()
	}
	ctx, cut := context.WithCancelCause(ctx)
	defer cut(nil)
	defer context.AfterFunc(s.life.Until(lifecycle.Closing), func() { cut(lifecycle.ErrClosing) })()
	who, err := s.principal(ctx)
	if err != nil {
		return nil, err
	}
	conn := connectionOf(ctx)
	conn.Begin(who != nil)
	defer conn.End()
	if m == bridge.Listen {
		done, err := s.o.Streams.Open(who)
		if err != nil {
			return nil, err
		}
		defer done()
		if until := s.accessExpiry(who); !until.IsZero() {
			var stop context.CancelFunc
			ctx, stop = bridge.WithWallDeadline(ctx, until, errAccessExpired)
			defer stop()
		}
	}

	h, err := s.handler(ctx)
	if err != nil {
		return nil, err
	}
	call := &bridge.Call{Method: m, Request: req}
	if err := check(call, who, &s.o.Limits); err != nil {
		return nil, err
	}
	round, err := h.seal.Open(call)
	if err != nil {
		return nil, err
	}
	res, err := s.call(ctx, h.Handler, call, emit)
	switch {
	case err != nil && context.Cause(ctx) == errAccessExpired: //nolint:errorlint // the cause is not wrapped
		return m.Join(bridge.Event{}, &bridge.Result{Complete: m.NewResult()}), nil // a normal end
	case err != nil:
		return nil, err
	case res.InputRequired != nil:
		needs, err := h.seal.Seal(call, res.InputRequired, round+1)
		if err != nil {
			return nil, err
		}
		res = &bridge.Result{InputRequired: needs}
	}
	return s.final(m, res)
}

// final returns the final message of a call, within the size limit.
func (s *Server) final(m *bridge.Method, res *bridge.Result) (msg proto.Message, err error) {
	switch {
	case res.InputRequired != nil, res.Task != nil && m == bridge.CallTool:
		msg = m.Join(bridge.Event{}, res)
	case res.Complete == nil || !res.Complete.ProtoReflect().IsValid() ||
		res.Complete.ProtoReflect().Descriptor() != m.NewResult().ProtoReflect().Descriptor():
		return nil, bridge.ProtocolViolation(bridge.OutcomeExecuted, "%s: the result of another method", m.Name)
	case m.Streams:
		msg = m.Join(bridge.Event{}, res)
	default:
		msg = res.Complete
	}
	if d, ok := msg.(*pb.DiscoverResponse); ok {
		d = bridge.ShallowCopy(d)
		d.ContractVersion = bridge.ContractVersion
		msg = d
	}
	if size := proto.Size(msg); size > s.o.Limits.ClientMessage {
		return nil, bridge.Failed(codes.ResourceExhausted, bridge.OutcomeExecuted, "RESPONSE_TOO_LARGE",
			"%s: the answer has %d bytes, and the limit is %d (max message); the call was executed",
			m.Name, size, s.o.Limits.ClientMessage)
	}
	return msg, nil
}

// call executes a call with h, and counts it as in flight.
func (s *Server) call(ctx context.Context, h bridge.Handler, call *bridge.Call,
	emit bridge.Emit,
) (*bridge.Result, error) {
	end, err := s.life.Begin(call)
	if err != nil {
		return nil, err
	}
	defer end()
	res, err := s.o.Tasks.HandlerOf(call, h).Handle(ctx, call, emit)
	if err == nil || context.Cause(ctx) != lifecycle.ErrClosing { //nolint:errorlint // the cause is never wrapped
		return res, err
	}
	if bridge.AsError(err).Outcome == bridge.OutcomeNotExecuted {
		return nil, notExecuted()
	}
	return nil, bridge.Failed(codes.Unavailable, bridge.OutcomeUnknown, "SHUTTING_DOWN",
		"%s was ended: %w; whether it was executed is not known", call.Method.Name, lifecycle.ErrClosing)
}

// notExecuted returns the error of a call that was not executed because of the shutdown.
func notExecuted() error {
	return bridge.Failed(codes.Unavailable, bridge.OutcomeNotExecuted, "SHUTTING_DOWN", "%w; call again",
		lifecycle.ErrClosing)
}

// handler returns the backend of a call.
func (s *Server) handler(ctx context.Context) (sealedHandler, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	names := md.Get(MetadataServer)
	switch len(names) {
	case 0:
		return s.merged, nil
	case 1:
		if h, ok := s.byName[names[0]]; ok {
			return h, nil
		}
		return sealedHandler{}, bridge.Failed(codes.NotFound, bridge.OutcomeNotExecuted, "UNKNOWN_SERVER",
			"there is no server %q (metadata %s); there are: %s", rawjson.Shorten(names[0]), MetadataServer, s.names)
	}
	return sealedHandler{}, bridge.Errorf(codes.InvalidArgument,
		"the metadata %s occurs %d times: send it once, or omit it for all servers together", MetadataServer,
		len(names))
}

// clientError returns the error for the client, and logs it with the parts that clients must not see.
func (s *Server) clientError(m *bridge.Method, err error) error {
	e := bridge.AsError(err)
	log := s.log.Debug()
	if !e.Public() {
		log = s.log.Error()
	}
	log.Str("method", m.Name).Stringer("code", e.Code).Str("error", e.Message).Msg("call failed")
	public := e.Redacted()
	switch {
	case e.Code == codes.Unavailable && e.Outcome != "" &&
		e.Outcome != bridge.OutcomeNotExecuted:
		public.Code = codes.Unknown // stock clients retry UNAVAILABLE
	case e.Code == codes.OK:
		public.Code = codes.Internal // an error must not have the status OK
	}
	return fitStatus(public).Err()
}

// maxTrailer is the maximum size in bytes of an error in the trailers. Clients in Java and Python accept 8 KiB of
// headers, and would drop a longer error.
const maxTrailer = 15 << 9

// fitStatus returns the status of an error, with its texts shortened to fit. Data that does not fit is dropped.
func fitStatus(e *bridge.Error) *status.Status {
	st := e.GRPCStatus()
	for most := 4 << 10; trailer(st) > maxTrailer; most /= 2 {
		short := *e
		short.Message = rawjson.ShortenTo(e.Message, most)
		if e.RPC != nil {
			short.RPC = &pb.JsonRpcError{
				Code: e.RPC.GetCode(), Message: rawjson.ShortenTo(e.RPC.GetMessage(), most),
			}
			if len(e.RPC.GetData()) <= most {
				short.RPC.Data = e.RPC.GetData()
			}
		}
		st = short.GRPCStatus()
	}
	return st
}

// trailer returns the size of a status in the trailers: its text, with three bytes for each byte that is not ASCII,
// and, if there are details, all of it in base64.
func trailer(st *status.Status) int {
	size := 0
	for _, c := range []byte(st.Message()) {
		size++
		if c < ' ' || c > '~' || c == '%' {
			size += 2
		}
	}
	if p := st.Proto(); len(p.GetDetails()) > 0 {
		size += base64.RawStdEncoding.EncodedLen(proto.Size(p))
	}
	return size
}
