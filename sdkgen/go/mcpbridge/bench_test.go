package mcpbridge_test

import (
	"context"
	"testing"

	"google.golang.org/grpc"

	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
	"github.com/mcpbridge/mcpbridge/sdkgen/go/mcpbridge"
	"github.com/mcpbridge/mcpbridge/sdkgen/go/mcpbridgetest"
)

// BenchmarkEcho measures the SDK without gRPC: arguments of about 200 bytes are validated, decoded and returned.
func BenchmarkEcho(b *testing.B) {
	type in struct {
		City  string   `json:"city" schema:"minLen=1"`
		Days  int      `json:"days,omitempty" schema:"min=1,max=14,default=3"`
		Notes []string `json:"notes"`
	}
	app := mcpbridge.New("bench", "1")
	mcpbridge.Tool(app, "text", "", func(_ context.Context, v in) (string, error) { return v.City, nil })
	mcpbridge.Tool(app, "structured", "", func(_ context.Context, v in) (in, error) { return v, nil })
	if err := app.Err(); err != nil {
		b.Fatal(err)
	}
	const args = `{"city":"Bern","days":7,"notes":["the quick brown fox jumps over the lazy dog","the quick brown fox jumps over the lazy dog","the quick brown fox jumps over the lazy dog"]}`
	service := app.Service()
	for _, name := range []string{"text", "structured"} {
		b.Run(name, func(b *testing.B) {
			req := &pb.CallToolRequest{Context: mcpbridgetest.Everything(), Name: name, Arguments: []byte(args)}
			stream := &none{ctx: b.Context()}
			b.ReportAllocs()
			for b.Loop() {
				if err := service.CallTool(req, stream); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// A none stream discards its events.
type none struct {
	grpc.ServerStream
	ctx context.Context
}

func (n *none) Context() context.Context        { return n.ctx }
func (n *none) Send(*pb.CallToolResponse) error { return nil }
