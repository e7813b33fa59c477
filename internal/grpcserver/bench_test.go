package grpcserver_test

import (
	"context"
	"strconv"
	"strings"
	"testing"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/grpcserver"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// BenchmarkCall calls a tool that returns its arguments, with a stock client over a Unix socket.
func BenchmarkCall(b *testing.B) {
	h := bridge.HandlerFunc(func(_ context.Context, call *bridge.Call, _ bridge.Emit) (*bridge.Result, error) {
		return textResult(string(call.Request.(*pb.CallToolRequest).GetArguments())), nil
	})
	for _, size := range []int{200, 64 << 10} {
		b.Run(strconv.Itoa(size), func(b *testing.B) {
			c := client(b, serve(b, h, nil, grpcserver.Options{}))
			req := &pb.CallToolRequest{Name: "echo", Arguments: []byte(`{"a":"` + strings.Repeat("x", size) + `"}`)}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := call(b.Context(), c, req); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
