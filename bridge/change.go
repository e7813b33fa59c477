package bridge

import (
	"slices"

	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// ChangesOf returns every change that f names: what is to be told of a time in which nobody knows what has changed. Elicitations that
// were completed then cannot be named.
func ChangesOf(f *pb.SubscriptionFilter) []*pb.ListenResponse {
	var all []*pb.ListenResponse
	if f.GetToolsListChanged() {
		all = append(all, &pb.ListenResponse{Event: &pb.ListenResponse_ToolsListChanged{ToolsListChanged: &pb.ListChanged{}}})
	}
	if f.GetPromptsListChanged() {
		all = append(all, &pb.ListenResponse{Event: &pb.ListenResponse_PromptsListChanged{PromptsListChanged: &pb.ListChanged{}}})
	}
	if f.GetResourcesListChanged() {
		all = append(all, &pb.ListenResponse{Event: &pb.ListenResponse_ResourcesListChanged{ResourcesListChanged: &pb.ListChanged{}}})
	}
	for _, uri := range f.GetResourceSubscriptions() {
		all = append(all, &pb.ListenResponse{Event: &pb.ListenResponse_ResourceUpdated{ResourceUpdated: &pb.ResourceUpdated{Uri: uri}}})
	}
	return all
}

// Wants reports whether f names the change. A resource may be a part of one that is named, which only the backend knows, so
// that any URI below a named one counts (every revision: server/resources, subscriptions).
func Wants(f *pb.SubscriptionFilter, change *pb.ListenResponse) bool {
	switch e := change.GetEvent().(type) {
	case *pb.ListenResponse_ToolsListChanged:
		return f.GetToolsListChanged()
	case *pb.ListenResponse_PromptsListChanged:
		return f.GetPromptsListChanged()
	case *pb.ListenResponse_ResourcesListChanged:
		return f.GetResourcesListChanged()
	case *pb.ListenResponse_ResourceUpdated:
		return slices.ContainsFunc(f.GetResourceSubscriptions(), func(uri string) bool { return below(e.ResourceUpdated.GetUri(), uri) })
	case *pb.ListenResponse_ElicitationCompleted:
		return f.GetElicitationsCompleted()
	}
	return false
}

// below reports whether uri is root or a part of it.
func below(uri, root string) bool {
	if len(uri) < len(root) || uri[:len(root)] != root {
		return false
	}
	if len(uri) == len(root) || root != "" && root[len(root)-1] == '/' {
		return true
	}
	switch uri[len(root)] {
	case '/', '#', '?':
		return true
	}
	return false
}
