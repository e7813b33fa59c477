package mcpserver

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/mcpbridge/mcpbridge/bridge"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

func updated(uri string) *pb.ListenResponse {
	return &pb.ListenResponse{Event: &pb.ListenResponse_ResourceUpdated{ResourceUpdated: &pb.ResourceUpdated{Uri: uri}}}
}

func TestPendingChangesAreKeptOnceAndBounded(t *testing.T) {
	for _, o := range []Options{{}, {MaxChanges: 6, MaxChangesSize: 300}, {MaxChanges: 3, MaxChangesSize: 100}} {
		changesAreKeptOnceAndBounded(t, o.withDefaults())
	}
}

func changesAreKeptOnceAndBounded(t *testing.T, o Options) {
	t.Helper()
	want := &pb.SubscriptionFilter{ResourceSubscriptions: []string{"a", "b"}, ToolsListChanged: proto.Bool(true)}
	p := (&Server{opts: o}).newPending(func() *pb.SubscriptionFilter { return want })
	for range 3 {
		p.add(updated("a"))
	}
	<-p.ready
	if got := p.take(); len(got) != 1 {
		t.Errorf("the same change is kept %d times", len(got))
	}
	done := &pb.ListenResponse{Event: &pb.ListenResponse_ElicitationCompleted{ElicitationCompleted: &pb.ElicitationCompleted{ElicitationId: "e"}}}
	all := append([]*pb.ListenResponse{done}, bridge.ChangesOf(want)...)
	sized := func(n int) *pb.ListenResponse {
		c := updated("a/" + strings.Repeat("x", n))
		return updated("a/" + strings.Repeat("x", n-(proto.Size(c)-n)))
	}
	for over := -1; over <= 1; over++ {
		for what, changes := range map[string][]*pb.ListenResponse{
			"changes":                {done},
			"bytes":                  {done, sized(o.MaxChangesSize/2 - proto.Size(done)), sized(o.MaxChangesSize/2 + over)},
			"bytes of a single one":  {done, sized(o.MaxChangesSize - proto.Size(done) + over)},
			"changes of no resource": {done, {Event: &pb.ListenResponse_ToolsListChanged{ToolsListChanged: &pb.ListChanged{}}}},
		} {
			for n := len(changes); strings.HasPrefix(what, "changes") && n < o.MaxChanges+over; n++ {
				changes = append(changes, updated("a/"+strconv.Itoa(n)))
			}
			kept := changes
			if over > 0 {
				kept = all
			}
			for _, c := range changes {
				p.add(c)
			}
			same := func(a, b *pb.ListenResponse) bool { return proto.Equal(a, b) }
			if got := p.take(); !slices.EqualFunc(got, kept, same) {
				t.Errorf("%s, %+d: %d are kept, want %d: %.500v", what, over, len(got), len(kept), got)
			}
		}
	}
	// What a client listens to is told besides, however little is kept otherwise.
	for n := range o.MaxChanges + 2 {
		p.add(&pb.ListenResponse{Event: &pb.ListenResponse_ElicitationCompleted{ElicitationCompleted: &pb.ElicitationCompleted{ElicitationId: strconv.Itoa(n)}}})
	}
	if got := p.take(); len(got) != o.MaxChanges+len(bridge.ChangesOf(want)) {
		t.Errorf("of what cannot be told otherwise, %d are kept", len(got))
	}
}
