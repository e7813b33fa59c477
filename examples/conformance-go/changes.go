package main

import (
	"slices"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// changes has the state that test_trigger_tool_change and test_trigger_prompt_change toggle, and its listeners.
type changes struct {
	mu           sync.Mutex // guards what is below
	tool, prompt bool
	count        int
	listeners    map[chan *pb.ListenResponse]struct{}
}

func newChanges() *changes { return &changes{listeners: map[chan *pb.ListenResponse]struct{}{}} }

func (c *changes) hasTool() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.tool
}

func (c *changes) hasPrompt() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.prompt
}

func (c *changes) times() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.count
}

func (c *changes) toggleTool() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tool = !c.tool
	c.notify(&pb.ListenResponse{Event: &pb.ListenResponse_ToolsListChanged{ToolsListChanged: &pb.ListChanged{}}})
}

func (c *changes) togglePrompt() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.prompt = !c.prompt
	c.notify(&pb.ListenResponse{Event: &pb.ListenResponse_PromptsListChanged{PromptsListChanged: &pb.ListChanged{}}})
}

// notify sends a change of a list, which also changes the watched resource, to all listeners. The caller holds mu.
func (c *changes) notify(list *pb.ListenResponse) {
	c.count++
	watched := &pb.ListenResponse{
		Event: &pb.ListenResponse_ResourceUpdated{ResourceUpdated: &pb.ResourceUpdated{Uri: watchedURI}},
	}
	for l := range c.listeners {
		for _, change := range []*pb.ListenResponse{list, watched} {
			select {
			case l <- change:
			default: // the listener has pending changes, and lists everything again
			}
		}
	}
}

// addListener adds a listener. leave removes it.
func (c *changes) addListener() (changes <-chan *pb.ListenResponse, leave func()) {
	l := make(chan *pb.ListenResponse, 64)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.listeners[l] = struct{}{}
	return l, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.listeners, l)
	}
}

func (s *server) Listen(req *pb.ListenRequest, stream grpc.ServerStreamingServer[pb.ListenResponse]) error {
	changes, leave := s.changes.addListener()
	defer leave()
	// All requested notifications are acknowledged, also those of lists that never change.
	ack := &pb.SubscriptionsAcknowledged{Notifications: req.GetNotifications()}
	if err := stream.Send(&pb.ListenResponse{Event: &pb.ListenResponse_Acknowledged{Acknowledged: ack}}); err != nil {
		return err
	}
	for {
		select {
		case change := <-changes:
			if !matches(req.GetNotifications(), change) {
				continue
			}
			if err := stream.Send(change); err != nil {
				return err
			}
		case <-stream.Context().Done():
			return status.FromContextError(stream.Context().Err()).Err()
		}
	}
}

func matches(f *pb.SubscriptionFilter, change *pb.ListenResponse) bool {
	switch e := change.GetEvent().(type) {
	case *pb.ListenResponse_ToolsListChanged:
		return f.GetToolsListChanged()
	case *pb.ListenResponse_PromptsListChanged:
		return f.GetPromptsListChanged()
	case *pb.ListenResponse_ResourceUpdated:
		return slices.Contains(f.GetResourceSubscriptions(), e.ResourceUpdated.GetUri())
	}
	return false
}
