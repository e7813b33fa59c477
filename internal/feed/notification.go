package feed

import (
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// The notifications of MCP that report events of a Listen call.
const (
	NotifyAcknowledged  = "notifications/subscriptions/acknowledged"
	NotifyElicitation   = "notifications/elicitation/complete"
	NotifyUpdated       = "notifications/resources/updated"
	NotifyToolsList     = "notifications/tools/list_changed"
	NotifyPromptsList   = "notifications/prompts/list_changed"
	NotifyResourcesList = "notifications/resources/list_changed"
)

var (
	oneof  = (&pb.ListenResponse{}).ProtoReflect().Descriptor().Oneofs().ByName("event")
	fields = [...]protoreflect.Name{
		"tools_list_changed", "prompts_list_changed", "resources_list_changed",
		"elicitation_completed", "resource_updated", "acknowledged",
	}
	methods = [...]string{
		NotifyToolsList, NotifyPromptsList, NotifyResourcesList, NotifyElicitation, NotifyUpdated, NotifyAcknowledged,
	}
)

// Notification returns the method and the params of the notification that reports an event.
func Notification(event *pb.ListenResponse) (method string, params proto.Message) {
	m := event.ProtoReflect()
	return methods[keyOf(event).kind], m.Get(m.WhichOneof(oneof)).Message().Interface()
}

// FromNotification returns an event that a notification of the method reports, and its params, which are empty. It
// returns nil if the method is another one.
func FromNotification(method string) (event *pb.ListenResponse, params proto.Message) {
	for k, name := range fields {
		if methods[k] == method {
			event = &pb.ListenResponse{}
			return event, event.ProtoReflect().Mutable(oneof.Fields().ByName(name)).Message().Interface()
		}
	}
	return nil, nil
}
