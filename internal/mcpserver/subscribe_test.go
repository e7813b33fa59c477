package mcpserver_test

import (
	"context"
	"net/http"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/mcpserver"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// A filteringHandler does not acknowledge unknown URIs, but reports changes of all. It records the requested URIs.
type filteringHandler struct {
	bridge.Handler

	unknown  string
	requests chan []string
}

func (h *filteringHandler) Handle(ctx context.Context, call *bridge.Call, emit bridge.Emit) (*bridge.Result, error) {
	if call.Method != bridge.Listen {
		return h.Handler.Handle(ctx, call, emit)
	}
	return h.Handler.Handle(ctx, call, func(ctx context.Context, e bridge.Event) error {
		ack := e.Change.GetAcknowledged()
		if ack == nil {
			return emit(ctx, e)
		}
		h.requests <- ack.GetNotifications().GetResourceSubscriptions()
		f := proto.CloneOf(ack.GetNotifications())
		f.ResourceSubscriptions = slices.DeleteFunc(f.ResourceSubscriptions,
			func(uri string) bool { return uri == h.unknown })
		return emit(ctx, bridge.Event{Change: &pb.ListenResponse{Event: &pb.ListenResponse_Acknowledged{
			Acknowledged: &pb.SubscriptionsAcknowledged{Notifications: f},
		}}})
	})
}

// For a resource that the backend does not acknowledge, a legacy client receives an error. A modern client's
// acknowledgment does not contain it. Its changes are not sent (2026-07-28: basic/patterns/subscriptions).
func TestUnsupportedSubscriptions(t *testing.T) {
	h := &filteringHandler{unknown: "test:gone", requests: make(chan []string, 10)}
	expectRequest := func(want ...string) {
		t.Helper()
		select {
		case got := <-h.requests:
			if !slices.Equal(got, want) {
				t.Errorf("the backend received %q, want %q", got, want)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("the backend did not receive %q", want)
		}
	}
	f := newFrontOf(t, mcpserver.Options{}, func(inner bridge.Handler) bridge.Handler {
		h.Handler = inner
		return h
	})
	legacy := f.initialize("2025-11-25", clientCaps)
	expectRequest()
	subscribe := func(uri string) string {
		return read(t, legacy.send(`{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"`+uri+
			`"}}`)).
			next()
	}
	want(t, subscribe("test:gone"), "error.code", "-32602", "error.message",
		`"resources/subscribe: the backend does not report changes of \"test:gone\", `+
			`or does not have it: use a URI of resources/list, or read the resource again when needed"`)
	expectRequest("test:gone")
	expectRequest()
	want(t, subscribe("test:b"), "error", "null")
	expectRequest("test:b")

	body, head := modern(1, "subscriptions/listen",
		`"notifications":{"toolsListChanged":true,"resourceSubscriptions":["test:a","test:gone"]}`, noCaps)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s := read(t, f.do(ctx, http.MethodPost, f.url, body, head))
	want(t, s.next(), "method", `"notifications/subscriptions/acknowledged"`,
		"params.notifications", `{"resourceSubscriptions":["test:a"],"toolsListChanged":true}`)
	expectRequest("test:a", "test:b", "test:gone")
	expectRequest("test:a", "test:b")
}
