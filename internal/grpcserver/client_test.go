package grpcserver_test

import (
	"context"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"

	"github.com/mcpbridge/mcpbridge/bridge"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// dial returns a connection of a standard gRPC client.
func dial(tb testing.TB, addr string, opts ...grpc.DialOption) *grpc.ClientConn {
	tb.Helper()
	opts = append([]grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())}, opts...)
	conn, err := grpc.NewClient(addr, opts...)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { conn.Close() })
	return conn
}

// client returns a standard gRPC client.
func client(tb testing.TB, addr string, opts ...grpc.DialOption) pb.McpServiceClient {
	tb.Helper()
	return pb.NewMcpServiceClient(dial(tb, addr, opts...))
}

func withCreds(c credentials.TransportCredentials) grpc.DialOption {
	return grpc.WithTransportCredentials(c)
}

// call calls a tool and returns all messages of the stream.
func call(ctx context.Context, c pb.McpServiceClient, req *pb.CallToolRequest) ([]*pb.CallToolResponse, error) {
	s, err := c.CallTool(ctx, req)
	if err != nil {
		return nil, err
	}
	var all []*pb.CallToolResponse
	for {
		m, err := s.Recv()
		if err != nil {
			if err.Error() == "EOF" {
				err = nil
			}
			return all, err
		}
		all = append(all, m)
	}
}

// callText calls a tool and returns the text of its result.
func callText(t *testing.T, c pb.McpServiceClient, req *pb.CallToolRequest) string {
	t.Helper()
	all, err := call(t.Context(), c, req)
	if err != nil {
		t.Fatal(err)
	}
	return all[len(all)-1].GetResult().GetContent()[0].GetText().GetText()
}

// textHandler returns a Handler whose tools return a text.
func textHandler(text string) bridge.Handler {
	return toolHandler(func(context.Context, *pb.CallToolRequest, bridge.Emit) (*bridge.Result, error) {
		return textResult(text), nil
	})
}

func textResult(text string) *bridge.Result {
	return &bridge.Result{Complete: &pb.CallToolResult{
		Content: []*pb.ContentBlock{{Block: &pb.ContentBlock_Text{Text: &pb.TextContent{Text: text}}}},
	}}
}

// toolHandler returns a Handler with tools only, which call f. It acknowledges Listens.
func toolHandler(f func(context.Context, *pb.CallToolRequest, bridge.Emit) (*bridge.Result, error)) bridge.Handler {
	return bridge.HandlerFunc(func(ctx context.Context, call *bridge.Call, emit bridge.Emit) (*bridge.Result, error) {
		switch r := call.Request.(type) {
		case *pb.CallToolRequest:
			return f(ctx, r, emit)
		case *pb.DiscoverRequest:
			return &bridge.Result{Complete: &pb.DiscoverResponse{
				Capabilities: &pb.ServerCapabilities{Tools: &pb.ToolsCapability{}},
			}}, nil
		case *pb.ListenRequest:
			ack := &pb.SubscriptionsAcknowledged{Notifications: r.GetNotifications()}
			if err := emit(ctx, bridge.Event{
				Change: &pb.ListenResponse{Event: &pb.ListenResponse_Acknowledged{Acknowledged: ack}},
			}); err != nil {
				return nil, err
			}
			<-ctx.Done()
			return nil, ctx.Err()
		}
		return nil, bridge.Errorf(codes.Unimplemented, "there is no %s", call.Method.Name)
	})
}

func clone[M proto.Message](m M, change func(M)) M {
	m = proto.CloneOf(m)
	change(m)
	return m
}
