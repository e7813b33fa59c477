package feed_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"google.golang.org/protobuf/proto"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/feed"
	"github.com/mcpbridge/mcpbridge/internal/router"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// New subscriptions while a backend is absent do not make the others report that everything may have changed.
func TestAbsentBackendDoesNotCauseChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		uris := []string{"test://0", "test://1", "test://2", "test://3"}
		there := bridge.HandlerFunc(
			func(ctx context.Context, call *bridge.Call, emit bridge.Emit) (*bridge.Result, error) {
				res := call.Method.NewResult()
				switch r := call.Request.(type) {
				case *pb.ListResourcesRequest:
					for _, uri := range uris {
						res.(*pb.ListResourcesResponse).
							Resources = append(res.(*pb.ListResourcesResponse).Resources, &pb.Resource{Uri: uri})
					}
				case *pb.ListenRequest:
					err := emit(ctx, bridge.Event{Change: feed.Acknowledgment(r.GetNotifications())})
					<-ctx.Done()
					return nil, errors.Join(err, ctx.Err())
				}
				return &bridge.Result{Complete: res}, nil
			})
		absent := bridge.HandlerFunc(func(ctx context.Context, _ *bridge.Call, _ bridge.Emit) (*bridge.Result, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		})
		r, err := router.New([]router.Route{{Name: "there", Handler: there}, {Name: "absent", Handler: absent}},
			router.Options{})
		if err != nil {
			t.Fatal(err)
		}
		h := feed.NewHub(r, func(*pb.SubscriptionFilter) bool { return true }, zerolog.Nop())
		defer h.Close()
		var reported []*pb.ListenResponse
		subscribe := func(report func(*pb.ListenResponse), uri string) {
			want := &pb.SubscriptionFilter{ToolsListChanged: proto.Bool(true), ResourceSubscriptions: []string{uri}}
			got, err := h.Subscribe(t.Context(),
				&feed.Subscriber{Want: func() *pb.SubscriptionFilter { return want }, Report: report})
			if err != nil || !proto.Equal(got, want) {
				t.Errorf("got %v, %v, want %v", got, err, want)
			}
		}
		subscribe(func(c *pb.ListenResponse) { reported = append(reported, c) }, uris[0])
		<-time.After(time.Minute)
		synctest.Wait()
		reported = nil
		for _, uri := range uris[1:] { // while the Listen call before may still wait for the absent backend
			go subscribe(func(*pb.ListenResponse) {}, uri)
			<-time.After(4 * time.Second)
		}
		<-time.After(time.Minute)
		synctest.Wait()
		if len(reported) > 0 {
			t.Errorf("got changes %v, want none", reported)
		}
	})
}
