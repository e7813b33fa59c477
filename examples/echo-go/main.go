// Command echo-go is a backend without an SDK: it needs only hashicorp/go-plugin and the generated stubs. Tests and
// benchmarks use it, so `echo` does as little as possible.
//
// Try it: mcpbridge run -- echo-go
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"runtime/debug"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/experimental"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"

	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// poolBuffers makes gRPC keep buffers of more sizes. It has one for all messages from 32 KiB to 1 MiB, and clears the
// whole MiB for each; without that, a large call costs a fifth less.
func poolBuffers() {
	pool, err := mem.NewBinaryTieredBufferPool(8, 12, 14, 15, 16, 17, 18, 19, 20) // powers of two
	if err != nil {
		panic(err)
	}
	experimental.SetDefaultBufferPool(pool)
}

func main() {
	poolBuffers()
	if os.Getenv("GOGC") == "" {
		// the heap is small, also at five times its size, and is collected less often
		debug.SetGCPercent(400)
	}
	plugin.Serve(&plugin.ServeConfig{
		HandshakeConfig: plugin.HandshakeConfig{
			ProtocolVersion: 1, MagicCookieKey: "MCPBRIDGE_PLUGIN", MagicCookieValue: "mcpbridge.v1",
		},
		Plugins: plugin.PluginSet{"mcpbridge": &served{}},
		GRPCServer: func(opts []grpc.ServerOption) *grpc.Server {
			// Workers keep the stack that a call needs; without them each call has a new goroutine that must grow one.
			return grpc.NewServer(append(opts, grpc.MaxRecvMsgSize(64<<20), grpc.NumStreamWorkers(32))...)
		},
		Logger: hclog.NewNullLogger(),
	})
}

// served makes a server go-plugin's plugin.
type served struct{ plugin.NetRPCUnsupportedPlugin }

func (*served) GRPCServer(_ *plugin.GRPCBroker, s *grpc.Server) error { //nolint:unparam // the error is go-plugin's
	pb.RegisterMcpServiceServer(s, server{})
	return nil
}

func (*served) GRPCClient(context.Context, *plugin.GRPCBroker, *grpc.ClientConn) (any, error) {
	return nil, nil // the bridge has its own client
}

type server struct {
	pb.UnimplementedMcpServiceServer
}

func (server) Discover(context.Context, *pb.DiscoverRequest) (*pb.DiscoverResponse, error) {
	return &pb.DiscoverResponse{
		ContractVersion: 2,
		ServerInfo:      &pb.Implementation{Name: "echo-go", Version: "1"},
		Capabilities:    &pb.ServerCapabilities{Tools: &pb.ToolsCapability{}},
	}, nil
}

func (server) ListTools(context.Context, *pb.ListToolsRequest) (*pb.ListToolsResponse, error) {
	hour := time.Hour.Milliseconds()
	// the list never changes, so that clients need not request it for every call
	res := &pb.ListToolsResponse{TtlMs: &hour}
	for _, t := range [][2]string{
		{"echo", "Returns its arguments as text."},
		{"slow", "Takes ms milliseconds, or until it is cancelled, and reports progress."},
		{"ask", "Asks for a name and greets it."},
		{"crash", "Ends this process."},
	} {
		res.Tools = append(res.Tools, &pb.Tool{Name: t[0], Description: &t[1], InputSchema: `{"type":"object"}`})
	}
	return res, nil
}

func (server) CallTool(req *pb.CallToolRequest, stream grpc.ServerStreamingServer[pb.CallToolResponse]) error {
	switch req.GetName() {
	case "echo":
		return text(stream, string(req.GetArguments()))
	case "slow":
		return slow(req, stream)
	case "ask":
		return ask(req, stream)
	case "crash":
		os.Exit(3)
	}
	return status.Errorf(codes.NotFound, "there is no tool %q", req.GetName())
}

func slow(req *pb.CallToolRequest, stream grpc.ServerStreamingServer[pb.CallToolResponse]) error {
	var args struct{ Ms int }
	if err := json.Unmarshal(req.GetArguments(), &args); err != nil {
		return status.Errorf(codes.InvalidArgument, "arguments: %v", err)
	}
	end := time.After(time.Duration(args.Ms) * time.Millisecond)
	step := time.NewTicker(max(time.Duration(args.Ms)*time.Millisecond/10, time.Millisecond))
	defer step.Stop()
	for n := 1.0; ; n++ {
		total := 10.0
		p := &pb.Progress{Progress: n, Total: &total}
		if err := stream.Send(&pb.CallToolResponse{Event: &pb.CallToolResponse_Progress{Progress: p}}); err != nil {
			return err
		}
		select {
		case <-step.C:
		case <-end:
			return text(stream, "done")
		case <-stream.Context().Done():
			fmt.Fprintln(os.Stderr, "slow: cancelled")
			return stream.Context().Err()
		}
	}
}

func ask(req *pb.CallToolRequest, stream grpc.ServerStreamingServer[pb.CallToolResponse]) error {
	answer, ok := req.GetInputResponses()["name"]
	if !ok {
		form := &pb.ElicitForm{
			Message:         "What is your name?",
			RequestedSchema: `{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}`,
		}
		elicit := &pb.ElicitRequest{Mode: &pb.ElicitRequest_Form{Form: form}}
		needs := &pb.InputRequired{
			InputRequests: []*pb.InputRequest{{Key: "name", Request: &pb.InputRequest_Elicit{Elicit: elicit}}},
			RequestState:  []byte("asked"),
		}
		return stream.Send(&pb.CallToolResponse{Event: &pb.CallToolResponse_InputRequired{InputRequired: needs}})
	}
	var form struct{ Name string }
	if err := json.Unmarshal([]byte(answer.GetElicit().GetContent()), &form); err != nil {
		return text(stream, "Then not.")
	}
	return text(stream, "Hello, "+form.Name+"!")
}

// text ends a call with one piece of text.
func text(stream grpc.ServerStreamingServer[pb.CallToolResponse], text string) error {
	block := &pb.ContentBlock{Block: &pb.ContentBlock_Text{Text: &pb.TextContent{Text: text}}}
	result := &pb.CallToolResult{Content: []*pb.ContentBlock{block}}
	return stream.Send(&pb.CallToolResponse{Event: &pb.CallToolResponse_Result{Result: result}})
}
