// Package grpcserver is the front for gRPC clients: it serves a bridge.Handler as mcpbridge.v1.McpService, the same service
// that backends implement.
package grpcserver

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/mcpbridge/mcpbridge/bridge"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// Register makes s serve h. Errors are those of bridge.Error.GRPCStatus.
func Register(s grpc.ServiceRegistrar, h bridge.Handler) {
	desc := grpc.ServiceDesc{ServiceName: pb.McpService_ServiceDesc.ServiceName, HandlerType: (*bridge.Handler)(nil), Metadata: pb.McpService_ServiceDesc.Metadata}
	for _, m := range bridge.Methods() {
		name := m.GRPC[len("/"+desc.ServiceName+"/"):]
		if m.Streams {
			desc.Streams = append(desc.Streams, grpc.StreamDesc{StreamName: name, ServerStreams: true, Handler: stream(m)})
		} else {
			desc.Methods = append(desc.Methods, grpc.MethodDesc{MethodName: name, Handler: unary(m)})
		}
	}
	s.RegisterService(&desc, h)
}

// unary returns what answers a method with one message.
func unary(m *bridge.Method) grpc.MethodHandler {
	return func(srv any, ctx context.Context, decode func(any) error, intercept grpc.UnaryServerInterceptor) (any, error) {
		req := m.NewRequest(nil)
		if err := decode(req); err != nil {
			return nil, err
		}
		answer := func(ctx context.Context, req any) (any, error) {
			res, err := handle(ctx, srv, m, req, func(bridge.Event) error { return nil })
			if err != nil {
				return nil, err
			}
			if res.Complete == nil {
				return nil, bridge.Errorf(codes.Internal, "%s: the server asks for input, which this method cannot", m.Name)
			}
			return res.Complete, nil
		}
		if intercept == nil {
			return answer(ctx, req)
		}
		return intercept(ctx, req, &grpc.UnaryServerInfo{Server: srv, FullMethod: m.GRPC}, answer)
	}
}

// stream returns what answers a method with events.
func stream(m *bridge.Method) grpc.StreamHandler {
	return func(srv any, s grpc.ServerStream) error {
		req := m.NewRequest(nil)
		if err := s.RecvMsg(req); err != nil {
			return err
		}
		res, err := handle(s.Context(), srv, m, req, func(e bridge.Event) error { return s.SendMsg(m.Join(e, nil)) })
		if err != nil {
			return err
		}
		return s.SendMsg(m.Join(bridge.Event{}, res))
	}
}

// handle has srv, a bridge.Handler, answer a request. The request is of the type that m says.
func handle(ctx context.Context, srv any, m *bridge.Method, req any, emit bridge.Emit) (*bridge.Result, error) {
	res, err := srv.(bridge.Handler).Handle(ctx, &bridge.Call{Method: m, Request: req.(bridge.Request)}, emit)
	if err != nil {
		return nil, bridge.AsError(err) // which gRPC takes the status of
	}
	return res, nil
}
