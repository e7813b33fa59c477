package interop

import (
	"context"
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/mcpclient"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// BenchmarkClients compares the bridge's client with the SDK's, each with the same server of the SDK, by cpu-ns/op:
// the CPU time of both sides.
func BenchmarkClients(b *testing.B) {
	for name, o := range map[string]*mcp.StreamableHTTPOptions{"sessions": nil, "stateless": {Stateless: true}} {
		s := sdkServer()
		h := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, o)
		b.Run(name+"/sdk", func(b *testing.B) {
			session, err := mcp.NewClient(&mcp.Implementation{Name: "b", Version: "1"}, nil).
				Connect(b.Context(), &mcp.StreamableClientTransport{Endpoint: served(b, h)}, nil)
			if err != nil {
				b.Fatal(err)
			}
			defer session.Close()
			measure(b, func(ctx context.Context) error {
				_, err := session.CallTool(ctx,
					&mcp.CallToolParams{Name: "echo", Arguments: map[string]any{"text": "hello"}})
				return err
			})
		})
		b.Run(name+"/bridge", func(b *testing.B) {
			c := started(b, mcpclient.Options{URL: served(b, h)})
			call := &bridge.Call{
				Method:  bridge.CallTool,
				Request: &pb.CallToolRequest{Name: "echo", Arguments: []byte(`{"text":"hello"}`)},
			}
			measure(b, func(ctx context.Context) error {
				_, err := c.Handle(ctx, call, nil)
				return err
			})
		})
	}
}

func measure(b *testing.B, call func(context.Context) error) {
	b.Helper()
	b.ReportAllocs()
	before := processorTime()
	for b.Loop() {
		if err := call(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(processorTime()-before)/float64(b.N), "cpu-ns/op")
}

func processorTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
