package feed

import (
	"cmp"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/mcpbridge/mcpbridge/bridge"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// A kind is the kind of a change.
type kind int

const (
	tools kind = iota
	prompts
	resources
	elicitations
	resource
	task
	other
)

// A key identifies an entry of a filter, or a change: changes with the same key are equal.
type key struct {
	kind kind
	of   string // the URI of the resource, or the ID of the elicitation or task; empty in a filter for all elicitations
}

func keyOf(change *pb.ListenResponse) key {
	switch e := change.GetEvent().(type) {
	case *pb.ListenResponse_ToolsListChanged:
		return key{kind: tools}
	case *pb.ListenResponse_PromptsListChanged:
		return key{kind: prompts}
	case *pb.ListenResponse_ResourcesListChanged:
		return key{kind: resources}
	case *pb.ListenResponse_ElicitationCompleted:
		return key{elicitations, e.ElicitationCompleted.GetElicitationId()}
	case *pb.ListenResponse_ResourceUpdated:
		return key{resource, e.ResourceUpdated.GetUri()}
	case *pb.ListenResponse_TaskChanged:
		return key{task, e.TaskChanged.GetTaskId()}
	}
	return key{kind: other}
}

// flagsOf returns the flags of a filter by kind.
func flagsOf(f *pb.SubscriptionFilter) [resource]bool {
	return [resource]bool{
		f.GetToolsListChanged(), f.GetPromptsListChanged(), f.GetResourcesListChanged(), f.GetElicitationsCompleted(),
	}
}

// keysOf returns the keys of a filter for which without returns false. Tasks have none: the bridge keeps them, and no
// Listen call of a backend reports them.
func keysOf(f *pb.SubscriptionFilter, without func(key) bool) []key {
	var keys []key
	for k, set := range flagsOf(f) {
		if set {
			keys = append(keys, key{kind: kind(k)})
		}
	}
	for _, uri := range f.GetResourceSubscriptions() {
		keys = append(keys, key{resource, uri})
	}
	return slices.DeleteFunc(keys, without)
}

func none(key) bool { return false }

// filterOf returns the filter with the keys.
func filterOf(keys []key) *pb.SubscriptionFilter {
	f := &pb.SubscriptionFilter{}
	flags := [resource]**bool{
		&f.ToolsListChanged, &f.PromptsListChanged, &f.ResourcesListChanged,
		&f.ElicitationsCompleted,
	}
	for _, k := range keys {
		if k.kind == resource {
			f.ResourceSubscriptions = append(f.ResourceSubscriptions, k.of)
		} else {
			*flags[k.kind] = proto.Bool(true)
		}
	}
	return f
}

func (k key) compare(other key) int {
	return cmp.Or(cmp.Compare(k.kind, other.kind), cmp.Compare(k.of, other.of))
}

// sorted returns the keys sorted, without duplicates.
func sorted(keys []key) []key {
	slices.SortFunc(keys, key.compare)
	return slices.Compact(keys)
}

// All returns every change that matches f, which reports that everything may have changed. Completed elicitations have
// no such change.
func All(f *pb.SubscriptionFilter) []*pb.ListenResponse {
	var all []*pb.ListenResponse
	for _, k := range keysOf(f, func(k key) bool { return k.kind == elicitations }) {
		event, params := FromNotification(methods[k.kind])
		if updated, ok := params.(*pb.ResourceUpdated); ok {
			updated.Uri = k.of
		}
		all = append(all, event)
	}
	for _, id := range f.GetTaskIds() {
		all = append(all, TaskChanged(id))
	}
	return all
}

// TaskChanged returns the change of a task. Its subscriber reads the task when it sends the change.
func TaskChanged(id string) *pb.ListenResponse {
	return &pb.ListenResponse{Event: &pb.ListenResponse_TaskChanged{TaskChanged: &pb.Task{TaskId: id}}}
}

// Matches reports whether f matches the change. A resource may be a part of a subscribed one, which only the backend
// can decide, so any URI below a subscribed one matches (every revision: server/resources, subscriptions).
func Matches(f *pb.SubscriptionFilter, change *pb.ListenResponse) bool {
	return matches(f, keyOf(change))
}

func matches(f *pb.SubscriptionFilter, k key) bool {
	switch {
	case k.kind < resource:
		return flagsOf(f)[k.kind]
	case k.kind == resource:
		return slices.ContainsFunc(f.GetResourceSubscriptions(), func(root string) bool { return isBelow(k.of, root) })
	}
	return false
}

// isBelow reports whether uri is root or a part of it.
func isBelow(uri, root string) bool {
	rest, ok := strings.CutPrefix(uri, root)
	return ok && (rest == "" || strings.HasSuffix(root, "/") || strings.ContainsRune("/#?", rune(rest[0])))
}

// ListOf returns the filter for the list of a method.
func ListOf(list *bridge.Method) *pb.SubscriptionFilter {
	switch list {
	case bridge.ListTools:
		return filterOf([]key{{kind: tools}})
	case bridge.ListPrompts:
		return filterOf([]key{{kind: prompts}})
	}
	return filterOf([]key{{kind: resources}})
}

// Lists returns the lists in f.
func Lists(f *pb.SubscriptionFilter) *pb.SubscriptionFilter {
	return filterOf(keysOf(f, func(k key) bool { return k.kind > resources }))
}

// Both returns the intersection of a and b.
func Both(a, b *pb.SubscriptionFilter) *pb.SubscriptionFilter {
	in := map[key]bool{}
	for _, k := range keysOf(b, none) {
		in[k] = true
	}
	return filterOf(keysOf(a, func(k key) bool { return !in[k] }))
}

// Either returns the union of the filters.
func Either(filters ...*pb.SubscriptionFilter) *pb.SubscriptionFilter {
	var keys []key
	for _, f := range filters {
		keys = append(keys, keysOf(f, none)...)
	}
	return filterOf(sorted(keys))
}

// Supported returns the part of f that a server with the capabilities reports. Completed elicitations have no
// capability: elicit reports whether the server sends them.
func Supported(f *pb.SubscriptionFilter, c *pb.ServerCapabilities, elicit bool) *pb.SubscriptionFilter {
	can := [other]bool{
		c.GetTools().GetListChanged(), c.GetPrompts().GetListChanged(), c.GetResources().GetListChanged(), elicit,
		c.GetResources().GetSubscribe(),
	}
	return filterOf(keysOf(f, func(k key) bool { return !can[k.kind] }))
}

// IsEmpty reports whether f is empty.
func IsEmpty(f *pb.SubscriptionFilter) bool { return len(keysOf(f, none)) == 0 }

// Acknowledgment returns the event that acknowledges a Listen call.
func Acknowledgment(f *pb.SubscriptionFilter) *pb.ListenResponse {
	return &pb.ListenResponse{
		Event: &pb.ListenResponse_Acknowledged{Acknowledged: &pb.SubscriptionsAcknowledged{Notifications: f}},
	}
}
