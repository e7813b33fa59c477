package feed

import (
	"google.golang.org/grpc/codes"

	"github.com/mcpbridge/mcpbridge/bridge"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// What a client can subscribe to at a time, whatever it speaks.
const (
	// MaxSubscriptions bounds how many resources a client can subscribe to at a time.
	MaxSubscriptions = 1000
	// MaxURI bounds how long a URI to subscribe to may be, in bytes, and MaxURIs how long all of a client's may be.
	MaxURI  = 8 << 10
	MaxURIs = 64 << 10
	// MaxListen bounds how many bytes a request to listen may have. It is being answered for as long as its client likes, and until then
	// longer ones would have memory that calls need.
	MaxListen = 128 << 10
	// MaxTogether is how many times what one client can subscribe to all clients of a server together can.
	MaxTogether = 10
)

// CheckListen returns an error if a request to listen may not have so many bytes.
func CheckListen(size int) error {
	if size <= MaxListen {
		return nil
	}
	return bridge.Errorf(codes.InvalidArgument, "%s: the request has %d bytes, and at most %d are allowed: say what to listen to, and little else",
		bridge.Listen.Name, size, MaxListen)
}

// CheckSubscriptions returns an error if a client cannot subscribe to the resources at a time.
func CheckSubscriptions(uris []string) error {
	size := 0
	for _, uri := range uris {
		if len(uri) > MaxURI {
			return bridge.Errorf(codes.InvalidArgument, "a URI to subscribe to has %d bytes; at most %d are allowed", len(uri), MaxURI)
		}
		size += len(uri)
	}
	if len(uris) > MaxSubscriptions || size > MaxURIs {
		return bridge.Failed(codes.ResourceExhausted, pb.CallFailure_OUTCOME_NOT_EXECUTED, bridge.ReasonTooMany, "a client can subscribe to %d resources of together %d bytes at a time, "+
			"and this would be %d of %d: end a subscription first", MaxSubscriptions, MaxURIs, len(uris), size)
	}
	return nil
}

// CheckTogether returns an error if all clients of a server together cannot subscribe to so many resources, whose URIs have so many bytes
// in JSON. They are listened to in one request, for which any backend of the contract has room. A server that takes less of one client, as
// another mcpbridge does, refuses it: then what was listened to before goes on.
func CheckTogether(uris, size int) error {
	if uris <= MaxTogether*MaxSubscriptions && size <= MaxTogether*MaxURIs {
		return nil
	}
	return bridge.Failed(codes.ResourceExhausted, pb.CallFailure_OUTCOME_NOT_EXECUTED, bridge.ReasonTooMany, "all clients of this server together can "+
		"subscribe to %d resources of together %d bytes at a time, and this would be %d of %d: subscribe when others have ended theirs, "+
		"or read the resource again when it is needed", MaxTogether*MaxSubscriptions, MaxTogether*MaxURIs, uris, size)
}
