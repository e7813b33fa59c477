package auth

import (
	"context"
	"errors"
	"net/http"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	grpcmd "google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/mcpbridge/mcpbridge/bridge"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// Caller authenticates a gRPC call by the token in `authorization`, or without one by the verified client
// certificate. It returns a *bridge.Error: UNAUTHENTICATED, PERMISSION_DENIED if scopes are missing, or UNAVAILABLE
// if a token cannot be checked at the moment. It may be called concurrently.
func (a *Auth) Caller(ctx context.Context, md grpcmd.MD) (*pb.Principal, error) {
	p, err := a.identify(ctx, md)
	if err == nil {
		return p, nil
	}
	r := &refusal{http.StatusServiceUnavailable, "", "the caller cannot be authenticated"}
	errors.As(err, &r)
	a.refusedGRPC.Do(func() {
		remote := ""
		if from, ok := peer.FromContext(ctx); ok {
			remote = from.Addr.String()
		}
		a.o.Log.Warn().Str("remote", remote).Int("status", r.status).Str("why", err.Error()).
			Msg("refused a gRPC caller; further ones in the next second are not logged")
	})
	code, reason, why := codes.Unauthenticated, "UNAUTHENTICATED", r.why
	switch r.status {
	case http.StatusForbidden:
		code, reason = codes.PermissionDenied, "INSUFFICIENT_SCOPE"
	case http.StatusServiceUnavailable:
		code, reason, why = codes.Unavailable, "AUTH_UNAVAILABLE", issuerUnavailable
	}
	return nil, bridge.Failed(code, bridge.OutcomeNotExecuted, reason, "%s; the call was not executed", why)
}

func (a *Auth) identify(ctx context.Context, md grpcmd.MD) (*pb.Principal, error) {
	values := md.Get("authorization")
	if from, ok := peer.FromContext(ctx); ok && len(values) == 0 {
		if info, ok := from.AuthInfo.(credentials.TLSInfo); ok {
			if p := bridge.CertificatePrincipal(&info.State); p != nil {
				return p, a.checkCertificate(p)
			}
		}
	}
	return a.bearer(ctx, values, a.whole)
}
