package mcpjson

import (
	"google.golang.org/grpc/codes"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/rawjson"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// MissingCapability returns the error for a client that lacks capabilities which its request needs (2026-07-28: schema,
// MissingRequiredClientCapabilityError).
func MissingCapability(missing *pb.ClientCapabilities, format string, args ...any) *bridge.Error {
	e := bridge.Errorf(codes.FailedPrecondition, format, args...)
	data, err := Append([]byte(`{"requiredCapabilities":`), missing, bridge.Rev20260728)
	if err != nil {
		return bridge.Errorf(codes.Internal, "the missing capabilities cannot be written as MCP: %w", err)
	}
	e.RPC = &pb.JsonRpcError{Code: bridge.CodeMissingCapability, Data: rawjson.AsString(append(data, '}'))}
	return e
}

// MissingTasks returns the error for a client that does not declare the extension for tasks (2026-07-28: extension
// tasks, capability negotiation). what is the part of its request that needs it.
func MissingTasks(what string) *bridge.Error {
	return MissingCapability(bridge.DeclareTasks(&pb.ClientCapabilities{}),
		"%s: the client does not declare the extension %s in its capabilities", what, bridge.TasksExtension)
}
