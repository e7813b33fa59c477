package mcpclient_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/jsonrpc"
	"github.com/mcpbridge/mcpbridge/internal/mcpclient"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// A subscriber that falls behind by more changes than the buffer holds receives one notification that everything has
// changed. Otherwise it receives every change. The outcome depends on when it begins to read. The Client subscribes
// again at most once, if it has not received a message of the server in time.
func TestSlowSubscriberMissesNoChange(t *testing.T) {
	const updates = 2200 // above the buffer's capacity, unless the subscriber begins to read in the middle
	listen, listens := "", make(chan struct{}, 10)
	s := &script{on: func(m *jsonrpc.Message, send func(...string)) bool {
		note := func(method, more string) {
			send(`{"jsonrpc":"2.0","method":"` + method + `","params":{` + more +
				`"_meta":{"io.modelcontextprotocol/subscriptionId":` + listen + `}}}`)
		}
		switch m.Method {
		case "server/discover":
			send(discoverResponse)
		case "subscriptions/listen":
			listen = string(m.ID)
			listens <- struct{}{}
			note("notifications/subscriptions/acknowledged",
				`"notifications":{"toolsListChanged":true,"resourceSubscriptions":["a://"]},`)
		case "tools/call":
			for i := range updates {
				note("notifications/resources/updated", fmt.Sprintf(`"uri":"a://%d",`, i))
			}
			note("notifications/tools/list_changed", "")
			send(helloResponse)
		}
		return true
	}}
	c := run(t, mcpclient.Options{Command: []string{"pipe"}, Revision: bridge.Rev20260728},
		func(c *mcpclient.Client) { c.Pipe(s.serve); c.Hasten() })
	ctx, cancel := context.WithCancel(t.Context())
	changes, done := make(chan *pb.ListenResponse), make(chan struct{})
	go func() {
		defer close(done)
		_, _ = c.Handle(ctx, &bridge.Call{Method: bridge.Listen, Request: &pb.ListenRequest{
			Context: &pb.CallContext{},
			Notifications: &pb.SubscriptionFilter{
				ToolsListChanged:      proto.Bool(true),
				ResourceSubscriptions: []string{"a://"},
			},
		}}, func(ctx context.Context, e bridge.Event) error {
			select {
			case changes <- e.Change:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	}()
	defer func() { cancel(); <-done }()
	<-changes // the acknowledgment
	<-listens
	call(t, c, "t", "{}") // sends every change, while nothing reads them
	limit := time.After(10 * time.Second)
	received := map[string]bool{} // URIs of resources
	for tools := false; !tools || !received["a://"] && len(received) < updates; {
		select {
		case change := <-changes:
			tools = tools || change.GetToolsListChanged() != nil
			if updated := change.GetResourceUpdated(); updated != nil {
				received[updated.GetUri()] = true
			}
		case <-limit:
			t.Fatalf("received the change of the tools: %t, of all resources: %t, of %d resources; subscribed %d "+
				"times more",
				tools, received["a://"], len(received), len(listens))
		}
	}
	if len(listens) > 1 {
		t.Errorf("subscribed %d times more", len(listens))
	}
}
