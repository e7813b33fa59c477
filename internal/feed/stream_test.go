package feed_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/mcpbridge/mcpbridge/internal/feed"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// A stream begins when every source has acknowledged, is omitted, or is late. A source that is late or acknowledges
// again reports that everything may have changed; one that was omitted has missed nothing.
func TestStreamBeginsWhenItsSourcesAcknowledge(t *testing.T) {
	want := &pb.SubscriptionFilter{ToolsListChanged: proto.Bool(true), ResourceSubscriptions: []string{"a", "b"}}
	part := func(uris ...string) *pb.SubscriptionFilter {
		return &pb.SubscriptionFilter{ResourceSubscriptions: uris}
	}
	for name, c := range map[string]struct {
		do     func(a, b *feed.Source)
		after  time.Duration
		acked  *pb.SubscriptionFilter
		then   func(a, b *feed.Source)
		report []*pb.ListenResponse
	}{
		"both acknowledge": {
			do: func(a, b *feed.Source) {
				a.Acknowledge(part("a"))
				b.Report(updated("b"))
				b.Acknowledge(part("b"))
			},
			acked: part("a", "b"), report: []*pb.ListenResponse{updated("b")},
		},
		"one is late": {
			do: func(a, _ *feed.Source) { a.Acknowledge(part("a")) }, after: time.Second, acked: part("a", "b"),
			then: func(_, b *feed.Source) { b.Acknowledge(part("b")) }, report: []*pb.ListenResponse{updated("b")},
		},
		"one is omitted": {
			do: func(a, b *feed.Source) { a.Acknowledge(part("a")); b.Omit() }, acked: part("a"),
			then: func(_, b *feed.Source) { b.Acknowledge(part("b")) },
		},
		"one acknowledges again, and something else": {
			do:    func(a, b *feed.Source) { a.Acknowledge(part("a")); b.Omit() },
			acked: part("a"), then: func(a, _ *feed.Source) { a.Acknowledge(part("b")) },
			report: []*pb.ListenResponse{updated("a"), updated("b")},
		},
		"none acknowledges": {do: func(_, _ *feed.Source) {}, after: time.Second, acked: part("a", "b")},
		"a change is reported twice before it is read": {
			do:    func(a, b *feed.Source) { a.Acknowledge(part("a")); b.Acknowledge(part("a")) },
			acked: part("a"), then: func(a, b *feed.Source) { a.Report(updated("a")); b.Report(updated("a")) },
			report: []*pb.ListenResponse{updated("a")},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				s := feed.NewStream(func() *pb.SubscriptionFilter { return want })
				a, b := s.Source(part("a")), s.Source(part("b"))
				go c.do(a, b)
				began := time.Now()
				if acked := s.Begin(ctx, time.After(time.Second)); !proto.Equal(acked, c.acked) ||
					time.Since(began) != c.after {
					t.Errorf("got acknowledgment %v after %v, want %v after %v",
						acked, time.Since(began), c.acked, c.after)
				}
				if c.then != nil {
					c.then(a, b)
				}
				var got []*pb.ListenResponse
				go func() {
					_ = s.Run(ctx, func(change *pb.ListenResponse) error { got = append(got, change); return nil })
				}()
				synctest.Wait()
				if len(got) != len(c.report) {
					t.Fatalf("got changes %v, want %v", got, c.report)
				}
				for i, change := range got {
					if !proto.Equal(change, c.report[i]) {
						t.Errorf("got change %v, want %v", change, c.report[i])
					}
				}
			})
		})
	}
}

func TestStreamOfACanceledContextDoesNotBegin(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s := feed.NewStream(func() *pb.SubscriptionFilter { return nil })
	s.Source(nil)
	if acked := s.Begin(ctx, nil); acked != nil {
		t.Errorf("got acknowledgment %v, want none", acked)
	}
}
