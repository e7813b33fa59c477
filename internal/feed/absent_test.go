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

// A backend that is absent has nobody told that what the others have may have changed, however often clients want something else.
func TestNobodyIsToldOfChangesBecauseABackendIsAbsent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		uris := []string{"test://0", "test://1", "test://2", "test://3"}
		there := bridge.HandlerFunc(func(ctx context.Context, call *bridge.Call, emit bridge.Emit) (*bridge.Result, error) {
			res := call.Method.NewResult()
			switch r := call.Request.(type) {
			case *pb.ListResourcesRequest:
				for _, uri := range uris {
					res.(*pb.ListResourcesResponse).Resources = append(res.(*pb.ListResourcesResponse).Resources, &pb.Resource{Uri: uri})
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
		r, err := router.New([]router.Route{{Name: "there", Handler: there}, {Name: "absent", Handler: absent}}, router.Options{})
		if err != nil {
			t.Fatal(err)
		}
		h := feed.NewHub(r, func(*pb.SubscriptionFilter) bool { return true }, zerolog.Nop())
		defer h.Close()
		var told []*pb.ListenResponse
		join := func(tell func(*pb.ListenResponse), uri string) {
			want := &pb.SubscriptionFilter{ToolsListChanged: proto.Bool(true), ResourceSubscriptions: []string{uri}}
			got, err := h.Subscribe(t.Context(), &feed.Subscriber{Want: func() *pb.SubscriptionFilter { return want }, Report: tell})
			if err != nil || !proto.Equal(got, want) {
				t.Errorf("it is told %v, %v, want %v", got, err, want)
			}
		}
		join(func(c *pb.ListenResponse) { told = append(told, c) }, uris[0])
		<-time.After(time.Minute)
		synctest.Wait()
		told = nil
		for _, uri := range uris[1:] { // while the Listen for the one before may still wait for the backend that is absent
			go join(func(*pb.ListenResponse) {}, uri)
			<-time.After(4 * time.Second)
		}
		<-time.After(time.Minute)
		synctest.Wait()
		if len(told) > 0 {
			t.Errorf("reported: %v", told)
		}
	})
}
