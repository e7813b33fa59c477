package feed_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/mcpbridge/mcpbridge/internal/feed"
	"github.com/mcpbridge/mcpbridge/internal/limits"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

func updated(uri string) *pb.ListenResponse {
	return &pb.ListenResponse{Event: &pb.ListenResponse_ResourceUpdated{ResourceUpdated: &pb.ResourceUpdated{Uri: uri}}}
}

func completed(id string) *pb.ListenResponse {
	return &pb.ListenResponse{
		Event: &pb.ListenResponse_ElicitationCompleted{
			ElicitationCompleted: &pb.ElicitationCompleted{ElicitationId: id},
		},
	}
}

func TestPendingChangesAreKeptOnceAndBounded(t *testing.T) {
	t.Parallel()
	for most, size := range map[int]int{limits.PendingChanges: limits.PendingChangesBytes, 6: 300, 3: 100} {
		checkPendingIsBounded(t, most, size)
	}
}

func checkPendingIsBounded(t *testing.T, most, mostSize int) {
	t.Helper()
	want := &pb.SubscriptionFilter{ResourceSubscriptions: []string{"a", "b"}, ToolsListChanged: proto.Bool(true)}
	p := feed.NewPending(most, mostSize, func() *pb.SubscriptionFilter { return want })
	for range 3 {
		p.Add(updated("a"))
	}
	<-p.Ready()
	if got := p.Take(); len(got) != 1 {
		t.Errorf("got the same change %d times, want once", len(got))
	}
	done := completed("e")
	all := append([]*pb.ListenResponse{done}, feed.All(want)...)
	sized := func(n int) *pb.ListenResponse {
		c := updated("a/" + strings.Repeat("x", n))
		return updated("a/" + strings.Repeat("x", n-(proto.Size(c)-n)))
	}
	for over := -1; over <= 1; over++ {
		for what, changes := range map[string][]*pb.ListenResponse{
			"changes":               {done},
			"bytes":                 {done, sized(mostSize/2 - proto.Size(done)), sized(mostSize/2 + over)},
			"bytes of a single one": {done, sized(mostSize - proto.Size(done) + over)},
			"changes of no resource": {
				done,
				{Event: &pb.ListenResponse_ToolsListChanged{ToolsListChanged: &pb.ListChanged{}}},
			},
		} {
			for n := len(changes); strings.HasPrefix(what, "changes") && n < most+over; n++ {
				changes = append(changes, updated("a/"+strconv.Itoa(n)))
			}
			kept := changes
			if over > 0 {
				kept = all
			}
			for _, c := range changes {
				p.Add(c)
			}
			same := func(a, b *pb.ListenResponse) bool { return proto.Equal(a, b) }
			if got := p.Take(); !slices.EqualFunc(got, kept, same) {
				t.Errorf("%+d %s: got %d pending changes, want %d: %.500v", over, what, len(got), len(kept), got)
			}
		}
	}
	// Completed elicitations are kept apart from the changes of subscriptions.
	for n := range most + 2 {
		p.Add(completed(strconv.Itoa(n)))
	}
	if got := p.Take(); len(got) != most+len(feed.All(want)) {
		t.Errorf("got %d pending changes, want %d", len(got), most+len(feed.All(want)))
	}
}

// In any order and number, each added change is reported once, by itself or by a change of a subscription that includes
// it, and nothing else is reported, also while subscriptions are added.
func TestPendingChangesAreAllReported(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 0))
		want := &pb.SubscriptionFilter{ResourceSubscriptions: []string{"a:0"}, ElicitationsCompleted: proto.Bool(true)}
		most := 1 + r.IntN(20)
		p := feed.NewPending(most, 10_000, func() *pb.SubscriptionFilter { return proto.CloneOf(want) })
		var added []*pb.ListenResponse
		for range 200 {
			switch r.IntN(20) {
			case 0:
				want.ResourceSubscriptions = append(want.ResourceSubscriptions,
					fmt.Sprint("a:", len(want.GetResourceSubscriptions())))
			case 1:
				checkReported(t, p.Take(), added, want, most)
				added = nil
			case 2:
				added = append(added, completed(strconv.Itoa(r.IntN(5))))
				p.Add(added[len(added)-1])
			default:
				c := updated(fmt.Sprintf("a:%d/%d", r.IntN(len(want.GetResourceSubscriptions())), r.IntN(30)))
				if r.IntN(3) == 0 {
					c.GetResourceUpdated().Meta = `{"a":1}`
				}
				added = append(added, c)
				p.Add(c)
			}
		}
		checkReported(t, p.Take(), added, want, most)
	}
}

// checkReported checks that got reports all of added and nothing else, in at most most changes besides one for each
// subscription.
func checkReported(t *testing.T, got, added []*pb.ListenResponse, want *pb.SubscriptionFilter, most int) {
	t.Helper()
	all := feed.All(want)
	if len(got) > most+len(all) {
		t.Errorf("got %d changes, want at most %d and %d of subscriptions", len(got), most, len(all))
	}
	in := func(list []*pb.ListenResponse, c *pb.ListenResponse) bool {
		return slices.ContainsFunc(list, func(o *pb.ListenResponse) bool { return proto.Equal(o, c) })
	}
	for i, c := range got {
		if in(got[:i], c) || !in(added, c) && !in(all, c) {
			t.Errorf("got %v, which is repeated or was not added", c)
		}
	}
	for _, c := range added {
		whole := func(o *pb.ListenResponse) bool {
			root := &pb.SubscriptionFilter{ResourceSubscriptions: []string{o.GetResourceUpdated().GetUri()}}
			return o.GetResourceUpdated() != nil && feed.Matches(root, c)
		}
		switch {
		case in(got, c) || slices.ContainsFunc(got, whole):
		case c.GetElicitationCompleted() != nil && most < 5: // there are five
		default:
			t.Errorf("got %v, want %v too", got, c)
		}
	}
}
