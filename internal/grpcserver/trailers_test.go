package grpcserver_test

import (
	"context"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/grpcserver"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// Clients in Java and Python accept 8 KiB of headers at most. Every error reaches them, with its outcome.
func TestErrorsFitSmallHeaderLimits(t *testing.T) {
	for _, letter := range []string{"x", "ä", "%"} {
		for _, n := range []int{100, 1 << 10, 8 << 10, 1 << 20} {
			text := strings.Repeat(letter, n/len(letter))
			failed := bridge.Failed(codes.Unknown, bridge.OutcomeExecuted, "REASON", "%s", text)
			exact := bridge.FromJSONRPC(&pb.JsonRpcError{Code: -7, Message: text, Data: strconv.Quote(text)},
				bridge.Rev20251125, bridge.CallTool)
			for what, e := range map[string]*bridge.Error{"failed": failed, "exact": exact} {
				addr := serve(t, toolHandler(func(context.Context, *pb.CallToolRequest, bridge.Emit) (*bridge.Result,
					error,
				) {
					return nil, e
				}), nil, grpcserver.Options{})
				_, err := call(t.Context(), client(t, addr, grpc.WithMaxHeaderListSize(8<<10)),
					&pb.CallToolRequest{Name: "x"})
				got := bridge.FromStatus(status.Convert(err))
				if got.Code != codes.Unknown || !strings.HasPrefix(text, strings.TrimSuffix(got.Message, "…")) ||
					len(got.Message) < 100 {
					t.Errorf("%s of %d %q: %v", what, n, letter, got)
				}
				if what == "failed" && (got.Reason != "REASON" ||
					got.Outcome != bridge.OutcomeExecuted) {
					t.Errorf("%s of %d %q: %v", what, n, letter, got.Outcome)
				}
				if what == "exact" && (got.RPC.GetCode() != -7 || n <= 1<<10 && !proto.Equal(got.RPC, e.RPC)) {
					t.Errorf("%s of %d %q: %v", what, n, letter, got.RPC)
				}
			}
		}
	}
}

// An error is sent in full as long as it fits.
func TestErrorSizeLimit(t *testing.T) {
	const most = 7.5 * (1 << 10)
	for n, whole := range map[int]bool{most - 1: true, most: true, most + 1: false} {
		text := strings.Repeat("x", n)
		addr := serve(t, toolHandler(func(context.Context, *pb.CallToolRequest, bridge.Emit) (*bridge.Result, error) {
			return nil, bridge.Errorf(codes.NotFound, "%s", text)
		}), nil, grpcserver.Options{})
		_, err := call(t.Context(), client(t, addr, grpc.WithMaxHeaderListSize(8<<10)), &pb.CallToolRequest{Name: "x"})
		if got := status.Convert(err); got.Code() != codes.NotFound || (got.Message() == text) != whole {
			t.Errorf("%d bytes: got %d, with %v", n, len(got.Message()), got.Code())
		}
	}
}
