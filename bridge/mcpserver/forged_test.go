package mcpserver

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/mcpbridge/mcpbridge/bridge"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// What a client may not say in `_meta` in its revision does not reach backends, and everything else does.
func TestForgedMetaIsDropped(t *testing.T) {
	const (
		own    = `{"a":1,"progressToken":2}`
		modern = `{"a":1,"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{}}`
		server = `{"io.modelcontextprotocol/serverInfo":{"name":"bank"},"a":1,"io.modelcontextprotocol/subscriptionId":1}`
	)
	for _, c := range []struct {
		rev        bridge.Revision
		said, want string
	}{
		{bridge.Rev20251125, own, own},
		{bridge.Rev20260728, own, own},
		{bridge.Rev20251125, modern, `{"a":1}`},
		{bridge.Rev20260728, modern, modern},
		{bridge.Rev20251125, server, `{"a":1}`},
		{bridge.Rev20260728, server, `{"a":1}`},
		{bridge.Rev20251125, "", ""},
	} {
		if got := string(withoutForged([]byte(c.said), c.rev)); got != c.want {
			t.Errorf("%s: %s became %s, want %s", c.rev, c.said, got, c.want)
		}
	}
}

// A client is asked to add the context of servers only if it says that it can, in revisions that let it say so.
func TestContextIsAskedOfClientsThatDeclareIt(t *testing.T) {
	declares := &pb.ClientCapabilities{Sampling: &pb.SamplingCapability{Context: &pb.Capability{}}}
	not := &pb.ClientCapabilities{Sampling: &pb.SamplingCapability{}}
	for _, c := range []struct {
		rev       bridge.Revision
		can       *pb.ClientCapabilities
		said, got *string
	}{
		{bridge.Rev20251125, declares, proto.String("allServers"), proto.String("allServers")},
		{bridge.Rev20251125, not, proto.String("allServers"), nil},
		{bridge.Rev20260728, not, proto.String("thisServer"), nil},
		{bridge.Rev20260728, not, proto.String("none"), proto.String("none")},
		{bridge.Rev20250618, not, proto.String("thisServer"), proto.String("thisServer")},
	} {
		needs := &pb.InputRequired{Requests: map[string]*pb.InputRequest{"k": {Request: &pb.InputRequest_CreateMessage{
			CreateMessage: &pb.CreateMessageRequest{MaxTokens: 1, IncludeContext: c.said},
		}}}}
		before := proto.Clone(needs)
		got := withoutContext(needs, c.can, c.rev).GetRequests()["k"].GetCreateMessage()
		want := &pb.CreateMessageRequest{MaxTokens: 1, IncludeContext: c.got}
		if !proto.Equal(got, want) || !proto.Equal(needs, before) {
			t.Errorf("%s: %v became %v", c.rev, before, got)
		}
	}
}
