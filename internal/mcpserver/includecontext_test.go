package mcpserver

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/mcpbridge/mcpbridge/bridge"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// A client receives a request for the context of servers only if it declares support, in revisions with such a
// declaration.
func TestIncludeContextNeedsTheClientsCapability(t *testing.T) {
	declares := &pb.ClientCapabilities{Sampling: &pb.SamplingCapability{Context: &pb.Capability{}}}
	not := &pb.ClientCapabilities{Sampling: &pb.SamplingCapability{}}
	for _, c := range []struct {
		rev           bridge.Revision
		can           *pb.ClientCapabilities
		received, got *string
	}{
		{bridge.Rev20251125, declares, proto.String("allServers"), proto.String("allServers")},
		{bridge.Rev20251125, not, proto.String("allServers"), nil},
		{bridge.Rev20260728, not, proto.String("thisServer"), nil},
		{bridge.Rev20260728, not, proto.String("none"), proto.String("none")},
		{bridge.Rev20250618, not, proto.String("thisServer"), proto.String("thisServer")},
	} {
		required := &pb.InputRequired{
			InputRequests: []*pb.InputRequest{{Key: "k", Request: &pb.InputRequest_CreateMessage{
				CreateMessage: &pb.CreateMessageRequest{MaxTokens: 1, IncludeContext: c.received},
			}}},
		}
		before := proto.Clone(required)
		got := withoutContext(required, c.can, c.rev).GetInputRequests()[0].GetCreateMessage()
		want := &pb.CreateMessageRequest{MaxTokens: 1, IncludeContext: c.got}
		if !proto.Equal(got, want) || !proto.Equal(required, before) {
			t.Errorf("%s: %v became %v", c.rev, before, got)
		}
	}
}
