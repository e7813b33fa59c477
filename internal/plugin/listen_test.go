package plugin

import (
	"context"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/mcpbridge/mcpbridge/bridge"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// A Listen that the backend does not acknowledge in time is acknowledged with the declarations of Discover. A late
// acknowledgment causes a resync.
func TestUnacknowledgedListenIsAssumed(t *testing.T) {
	late := make(chan struct{})
	r := attach(t, &fake{
		discover: func() (*pb.DiscoverResponse, error) {
			return &pb.DiscoverResponse{
				Capabilities: &pb.ServerCapabilities{Tools: &pb.ToolsCapability{ListChanged: proto.Bool(true)}},
			}, nil
		},
		listen: func(s grpc.ServerStreamingServer[pb.ListenResponse]) error {
			select {
			case <-late:
			case <-s.Context().Done():
				return s.Context().Err()
			}
			ack := &pb.SubscriptionsAcknowledged{
				Notifications: &pb.SubscriptionFilter{ToolsListChanged: proto.Bool(true)},
			}
			err := s.Send(&pb.ListenResponse{Event: &pb.ListenResponse_Acknowledged{Acknowledged: ack}})
			<-s.Context().Done()
			return err
		},
	}, Options{}, func(p *intervals) { p.acknowledge, p.busy = 10*time.Millisecond, 10*time.Millisecond })
	ctx, cancel := context.WithCancel(t.Context())
	events, ended := make(chan *pb.ListenResponse, 10), make(chan struct{})
	go func() {
		defer close(ended)
		filter := &pb.SubscriptionFilter{ToolsListChanged: proto.Bool(true), PromptsListChanged: proto.Bool(true)}
		_, _ = r.Handle(ctx, &bridge.Call{Method: bridge.Listen, Request: &pb.ListenRequest{Notifications: filter}},
			func(_ context.Context, e bridge.Event) error { events <- e.Change; return nil })
	}()
	if f := (<-events).GetAcknowledged().GetNotifications(); !f.GetToolsListChanged() || f.GetPromptsListChanged() {
		t.Errorf("assumed: %v", f)
	}
	r.log.wait(t, `"method":"/mcpbridge.v1.McpService/Listen","fix":"send the event`)
	close(late)
	if e := <-events; e.GetToolsListChanged() == nil {
		t.Errorf("late acknowledgment: %v", e)
	}
	cancel()
	<-ended
}
