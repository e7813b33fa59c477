package feed_test

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/mcpbridge/mcpbridge/internal/feed"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

func TestFiltersMatchOnlyTheChangesThatTheyName(t *testing.T) {
	t.Parallel()
	yes := proto.Bool(true)
	filters := []*pb.SubscriptionFilter{
		{ToolsListChanged: yes},
		{PromptsListChanged: yes},
		{ResourcesListChanged: yes},
		{ResourceSubscriptions: []string{"a:1"}},
		{ResourceSubscriptions: []string{"a:2", "a:3"}},
		{ElicitationsCompleted: yes},
		{},
		nil,
	}
	for i, f := range filters {
		changes := feed.All(f)
		if want := []int{1, 1, 1, 1, 2, 0, 0, 0}[i]; len(changes) != want {
			t.Errorf("All(%v): got %d changes, want %d", f, len(changes), want)
		}
		for _, change := range changes {
			for j, other := range filters {
				if got := feed.Matches(other, change); got != (i == j) {
					t.Errorf("Wants(%v, %v): got %t, want %t", other, change, got, i == j)
				}
			}
		}
	}
	completed := &pb.ListenResponse{
		Event: &pb.ListenResponse_ElicitationCompleted{ElicitationCompleted: &pb.ElicitationCompleted{}},
	}
	for i, f := range filters {
		if got := feed.Matches(f, completed); got != (i == 5) {
			t.Errorf("Wants(%v, %v): got %t, want %t", f, completed, got, i == 5)
		}
	}
}

func TestSubscriptionsIncludeThePartsOfAResource(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		uri, root string
		want      bool
	}{
		{"file:///a", "file:///a", true},
		{"file:///a/b", "file:///a", true},
		{"file:///a/b", "file:///a/", true},
		{"file:///a#b", "file:///a", true},
		{"file:///a?b", "file:///a", true},
		{"file:///ab", "file:///a", false},
		{"file:///", "file:///a", false},
		{"file:///a", "", false},
	} {
		change := &pb.ListenResponse{
			Event: &pb.ListenResponse_ResourceUpdated{ResourceUpdated: &pb.ResourceUpdated{Uri: c.uri}},
		}
		if got := feed.Matches(&pb.SubscriptionFilter{ResourceSubscriptions: []string{c.root}}, change); got != c.want {
			t.Errorf("a subscription to %q matches %q: got %t, want %t", c.root, c.uri, got, c.want)
		}
	}
}
