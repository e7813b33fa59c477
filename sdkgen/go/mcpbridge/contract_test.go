package mcpbridge_test

import (
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// Calls of a bridge with another version of the contract fail, with both versions and the fix in the error.
func TestBridgesOfAnotherContractVersionAreRefused(t *testing.T) {
	_, conn := attached(t)
	for version, text := range map[int32]string{0: "1", 1: "1", 3: "3"} {
		want := "the bridge has version " + text +
			" of the contract, and this SDK has version 2: install an mcpbridge and an SDK of the same release"
		caller := &pb.CallContext{Verified: &pb.VerifiedCaller{ContractVersion: version}}
		stream, err := pb.NewMcpServiceClient(conn).CallTool(t.Context(),
			&pb.CallToolRequest{Context: caller, Name: "echo", Arguments: []byte(`{"Text":"hello"}`)})
		if err == nil {
			_, err = stream.Recv()
		}
		if s := status.Convert(err); s.Code() != codes.FailedPrecondition || s.Message() != want {
			t.Errorf("CallTool: got %v", err)
		}
		_, err = pb.NewMcpServiceClient(conn).Discover(t.Context(), &pb.DiscoverRequest{Context: caller})
		if s := status.Convert(err); s.Code() != codes.FailedPrecondition || s.Message() != want {
			t.Errorf("Discover: got %v", err)
		}
	}
}
