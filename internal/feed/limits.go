package feed

import (
	"google.golang.org/grpc/codes"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/limits"
)

// CheckListen returns an error if a Listen request of size bytes is too large.
func CheckListen(size int) error {
	if size <= limits.ListenRequest {
		return nil
	}
	return bridge.Errorf(codes.InvalidArgument,
		"%s: the request has %d bytes, and at most %d are allowed: send only the filter",
		bridge.Listen.Name, size, limits.ListenRequest)
}

// CheckSubscriptions returns an error if the URIs are too many or too long for one client.
func CheckSubscriptions(uris []string) error {
	size := 0
	for _, uri := range uris {
		if len(uri) > limits.URI {
			return bridge.Errorf(codes.InvalidArgument,
				"a URI to subscribe to has %d bytes; at most %d are allowed", len(uri), limits.URI)
		}
		size += len(uri)
	}
	if len(uris) > limits.Subscriptions || size > limits.URIs {
		return bridge.Failed(codes.ResourceExhausted, bridge.OutcomeNotExecuted, bridge.ReasonTooMany,
			"a client can subscribe to at most %d resources, whose URIs have at most %d bytes in total; this would be "+
				"%d and %d: end a subscription first", limits.Subscriptions, limits.URIs, len(uris), size)
	}
	return nil
}

// CheckAllSubscriptions returns an error if the subscriptions of all clients of a server together are too many, or the
// size of their URIs in JSON too large. They are sent in one Listen request, which every backend of the contract
// accepts. An upstream with a smaller limit per client, such as another mcpbridge, rejects it; the previous Listen then
// continues.
func CheckAllSubscriptions(uris, size int) error {
	const maxURIs, maxSize = limits.AllClientsFactor * limits.Subscriptions, limits.AllClientsFactor * limits.URIs
	if uris <= maxURIs && size <= maxSize {
		return nil
	}
	return bridge.Failed(codes.ResourceExhausted, bridge.OutcomeNotExecuted, bridge.ReasonTooMany,
		"all clients of this server together can subscribe to at most %d resources, whose URIs have at most %d "+
			"bytes in total; this would be %d and %d: subscribe when others have ended theirs, or read the resource "+
			"again when needed", maxURIs, maxSize, uris, size)
}
