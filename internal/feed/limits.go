package feed

import (
	"google.golang.org/grpc/codes"

	"github.com/mcpbridge/mcpbridge/bridge"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// What a client can subscribe to at a time, whatever it speaks.
const (
	// MaxSubscriptions is the maximum number of resources that a client can be subscribed to.
	MaxSubscriptions = 1000
	// MaxURI is the maximum length of a URI in bytes, and MaxURIs that of all URIs of a client together.
	MaxURI  = 8 << 10
	MaxURIs = 64 << 10
	// MaxListen is the maximum size of a Listen request in bytes. The request stays in memory as long as its stream.
	MaxListen = 128 << 10
	// MaxTogether is the maximum for all clients of a server together, as a multiple of that for one client.
	MaxTogether = 10
)

// CheckListen returns an error if a Listen request of size bytes is too large.
func CheckListen(size int) error {
	if size <= MaxListen {
		return nil
	}
	return bridge.Errorf(codes.InvalidArgument,
		"%s: the request has %d bytes, and at most %d are allowed: say what to listen to, and little else",
		bridge.Listen.Name, size, MaxListen)
}

// CheckSubscriptions returns an error if the URIs are too many or too long for one client.
func CheckSubscriptions(uris []string) error {
	size := 0
	for _, uri := range uris {
		if len(uri) > MaxURI {
			return bridge.Errorf(codes.InvalidArgument,
				"a URI to subscribe to has %d bytes; at most %d are allowed", len(uri), MaxURI)
		}
		size += len(uri)
	}
	if len(uris) > MaxSubscriptions || size > MaxURIs {
		return bridge.Failed(codes.ResourceExhausted, pb.CallFailure_OUTCOME_NOT_EXECUTED, bridge.ReasonTooMany,
			"a client can subscribe to %d resources of together %d bytes at a time, and this would be %d of %d: "+
				"end a subscription first", MaxSubscriptions, MaxURIs, len(uris), size)
	}
	return nil
}

// CheckTogether returns an error if the subscriptions of all clients of a server together are too many, or the size of
// their URIs in JSON too large. They are sent in one Listen request, which every backend of the contract accepts. An
// upstream with a smaller limit per client, such as another mcpbridge, rejects it; the previous Listen then continues.
func CheckTogether(uris, size int) error {
	if uris <= MaxTogether*MaxSubscriptions && size <= MaxTogether*MaxURIs {
		return nil
	}
	return bridge.Failed(codes.ResourceExhausted, pb.CallFailure_OUTCOME_NOT_EXECUTED, bridge.ReasonTooMany,
		"all clients of this server together can subscribe to %d resources of together %d bytes at a time, "+
			"and this would be %d of %d: subscribe when others have ended theirs, or read the resource again when "+
			"needed", MaxTogether*MaxSubscriptions, MaxTogether*MaxURIs, uris, size)
}
