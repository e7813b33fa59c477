package feed

import (
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/mcpbridge/mcpbridge/bridge"
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
	NotifyTask          = "notifications/tasks"
	// NotifyTaskStatus is NotifyTask in 2025-11-25.
	NotifyTaskStatus = "notifications/tasks/status"
)

var (
	oneof  = (&pb.ListenResponse{}).ProtoReflect().Descriptor().Oneofs().ByName("event")
	fields = [...]protoreflect.Name{
		"tools_list_changed", "prompts_list_changed", "resources_list_changed",
		"elicitation_completed", "resource_updated", "task_changed", "acknowledged",
	}
	methods = [...]string{
		NotifyToolsList, NotifyPromptsList, NotifyResourcesList, NotifyElicitation, NotifyUpdated, NotifyTask,
		NotifyAcknowledged,
	}
)

// Notification returns the method and the params of the notification that reports an event in a revision.
func Notification(event *pb.ListenResponse, rev bridge.Revision) (method string, params proto.Message) {
	m := event.ProtoReflect()
	method = methods[keyOf(event).kind]
	if method == NotifyTask && rev.HasTaskMetadata() {
		method = NotifyTaskStatus
	}
	return method, m.Get(m.WhichOneof(oneof)).Message().Interface()
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
