package mcpclient_test

import (
	"context"
	"io"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/catalog"
	"github.com/mcpbridge/mcpbridge/internal/jsonrpc"
	"github.com/mcpbridge/mcpbridge/internal/mcpclient"
	"github.com/mcpbridge/mcpbridge/internal/rawjson"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// If a program lists other tools for clients with more capabilities, each client receives its own list, even with
// caching.
func TestListsDependOnClientCapabilities(t *testing.T) {
	serve := func(ctx context.Context, in io.Reader, out io.Writer) {
		name := "plain"
		(&script{on: func(m *jsonrpc.Message, send func(...string)) bool {
			switch m.Method {
			case "initialize":
				if rawjson.Get(rawjson.Get(m.Params, "capabilities"), "elicitation") != nil {
					name = "asking"
				}
				send(strings.Replace(strings.Replace(initializeResponse, "2024-11-05", "2025-11-25", 1), `"tools":{}`,
					`"tools":{"listChanged":true}`, 1))
			case "tools/list":
				send(`{"jsonrpc":"2.0","id":ID,"result":{"tools":[{"name":"` + name +
					`","inputSchema":{"type":"object"}}]}}`)
			}
			return true
		}}).serve(ctx, in, out)
	}
	bubble(t, mcpclient.Options{}, serve, func(t *testing.T, c *mcpclient.Client) {
		t.Helper()
		h := catalog.New(c, catalog.Options{})
		listen := &bridge.Call{
			Method:  bridge.Listen,
			Request: &pb.ListenRequest{Notifications: &pb.SubscriptionFilter{ToolsListChanged: proto.Bool(true)}},
		}
		acknowledged := make(chan bridge.Event, 1)
		ctx, leave := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_, _ = h.Handle(ctx, listen,
				func(_ context.Context, e bridge.Event) error { acknowledged <- e; return nil })
		}()
		<-acknowledged
		for range 2 {
			for want, can := range map[string]*pb.ClientCapabilities{
				"plain":  nil,
				"asking": {Elicitation: &pb.ElicitationCapability{}},
			} {
				list := &bridge.Call{
					Method:  bridge.ListTools,
					Request: &pb.ListToolsRequest{Context: &pb.CallContext{ClientCapabilities: can}},
				}
				res, err := h.Handle(ctx, list, ignore)
				if err != nil {
					t.Fatal(err)
				}
				if tools := res.Complete.(*pb.ListToolsResponse).GetTools(); len(tools) != 1 ||
					tools[0].GetName() != want {
					t.Errorf("got tools %v, want %s", tools, want)
				}
			}
		}
		leave()
		<-ended
	})
}
