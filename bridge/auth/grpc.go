package auth

import (
	"context"
	"errors"
	"net/http"

	"google.golang.org/grpc/codes"
	grpcmd "google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/mcpbridge/mcpbridge/bridge"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// Caller returns who makes a gRPC call with the given metadata: whose token its `authorization` is, as Wrap reads that of
// HTTP. It fails with a *bridge.Error if that is nobody: UNAUTHENTICATED, PERMISSION_DENIED where the token lacks scopes, and
// UNAVAILABLE where it cannot be checked at the moment. It may be called concurrently.
func (a *Auth) Caller(ctx context.Context, md grpcmd.MD) (*pb.Principal, error) {
	p, err := a.bearer(ctx, md.Get("authorization"), a.whole)
	if err == nil {
		return p, nil
	}
	no := &refusal{http.StatusServiceUnavailable, "", "who calls cannot be checked"}
	errors.As(err, &no)
	remote := ""
	if from, ok := peer.FromContext(ctx); ok {
		remote = from.Addr.String()
	}
	a.o.Log.Warn().Str("remote", remote).Int("status", no.status).Str("why", err.Error()).Msg("refused a gRPC caller")
	code, reason, why := codes.Unauthenticated, "UNAUTHENTICATED", no.why
	switch no.status {
	case http.StatusForbidden:
		code, reason = codes.PermissionDenied, "INSUFFICIENT_SCOPE"
	case http.StatusServiceUnavailable:
		code, reason, why = codes.Unavailable, "AUTH_UNAVAILABLE", cannotCheck
	}
	return nil, bridge.Failed(code, pb.CallFailure_OUTCOME_NOT_EXECUTED, reason, "%s; the call was not executed", why)
}
