// Command conformance-go is the backend that the official MCP conformance suite requires: tools, prompts and resources
// with the names of the suite. Like echo-go it has no SDK, only hashicorp/go-plugin and the generated stubs. The bridge
// implements the other requirements of the suite: sessions, headers, sealed state, capability checks.
//
// Try it: mcpbridge run -- conformance-go
package main

import (
	"context"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

func main() {
	plugin.Serve(&plugin.ServeConfig{
		HandshakeConfig: plugin.HandshakeConfig{
			ProtocolVersion: 1, MagicCookieKey: "MCPBRIDGE_PLUGIN", MagicCookieValue: "mcpbridge.v1",
		},
		Plugins: plugin.PluginSet{"mcpbridge": &served{}},
		GRPCServer: func(opts []grpc.ServerOption) *grpc.Server {
			return grpc.NewServer(append(opts, grpc.UnaryInterceptor(refuseCursors))...)
		},
		Logger: hclog.NewNullLogger(),
	})
}

// refuseCursors rejects cursors, because every list has one page.
func refuseCursors(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	if m, ok := req.(proto.Message); ok {
		cursor := m.ProtoReflect().Descriptor().Fields().ByName("cursor")
		if cursor != nil && m.ProtoReflect().Has(cursor) {
			return nil, status.Error(codes.InvalidArgument, "there is one page only")
		}
	}
	return next(ctx, req)
}

// served makes a server go-plugin's plugin.
type served struct{ plugin.NetRPCUnsupportedPlugin }

func (*served) GRPCServer(_ *plugin.GRPCBroker, s *grpc.Server) error { //nolint:unparam // the error is go-plugin's
	pb.RegisterMcpServiceServer(s, &server{changes: newChanges()})
	return nil
}

func (*served) GRPCClient(context.Context, *plugin.GRPCBroker, *grpc.ClientConn) (any, error) {
	return nil, nil // the bridge has its own client
}

// A server is the backend.
type server struct {
	pb.UnimplementedMcpServiceServer

	changes *changes
}

func (*server) Discover(context.Context, *pb.DiscoverRequest) (*pb.DiscoverResponse, error) {
	return &pb.DiscoverResponse{
		ContractVersion: 2,
		ServerInfo:      &pb.Implementation{Name: "conformance-go", Version: "1"},
		Instructions:    proto.String("Answers the official MCP conformance suite."),
		Capabilities: &pb.ServerCapabilities{
			Tools:       &pb.ToolsCapability{ListChanged: proto.Bool(true)},
			Resources:   &pb.ResourcesCapability{Subscribe: proto.Bool(true)},
			Prompts:     &pb.PromptsCapability{ListChanged: proto.Bool(true)},
			Completions: &pb.Capability{},
			Logging:     &pb.Capability{},
			Extensions:  `{"io.modelcontextprotocol/tasks":{}}`,
		},
	}, nil
}

// Everything that can be listed is the same for every caller, and may change at any time.
var (
	listTTL   = proto.Int64(0)
	listScope = "public"
)
