package mcpbridge

import (
	"cmp"
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// contractVersion is the version of the contract of this SDK.
const contractVersion = 2

// checkContract returns an error for a request of a bridge with another version of the contract.
func checkContract(request any) error {
	r, ok := request.(interface{ GetContext() *pb.CallContext })
	if !ok {
		return nil // of another service
	}
	// A bridge that does not send its version has version 1.
	if v := cmp.Or(r.GetContext().GetVerified().GetContractVersion(), 1); v != contractVersion {
		return status.Errorf(codes.FailedPrecondition,
			"the bridge has version %d of the contract, and this SDK has version %d: "+
				"install an mcpbridge and an SDK of the same release", v, contractVersion)
	}
	return nil
}

func checkUnary(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	if err := checkContract(request); err != nil {
		return nil, err
	}
	return handle(ctx, request)
}

func checkStream(service any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	return handle(service, versioned{stream})
}

// A versioned stream fails if its request is of a bridge with another version of the contract.
type versioned struct{ grpc.ServerStream }

func (s versioned) RecvMsg(m any) error {
	if err := s.ServerStream.RecvMsg(m); err != nil {
		return err
	}
	return checkContract(m)
}
