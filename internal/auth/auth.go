// Package auth authenticates callers. It is an OAuth 2.1 resource server (2025-03-26 to 2026-07-28:
// basic/authorization): each HTTP request has a bearer token that a trusted issuer has issued for this server. Small
// installations can use static tokens or client certificates instead.
//
// Credentials are not forwarded. Backends receive the caller's name, scopes and claims.
package auth

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/time/rate"
	"google.golang.org/grpc/codes"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/limits"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// Options configure an Auth.
type Options struct {
	// Resource is the URI of this server, such as "https://mcp.example.com/mcp", which is the audience of tokens.
	Resource string
	// Endpoints maps request paths to the suffix of Resource that identifies the endpoint, such as "/weather" for
	// "/mcp/weather". Each endpoint has its own metadata (RFC 9728, 3.3), and can be the audience of a token.
	Endpoints map[string]string
	// Issuers are the trusted issuers.
	Issuers []Issuer
	// Tokens are the static tokens.
	Tokens []Token
	// Certificates allows client certificates, which the TLS server has verified.
	Certificates bool
	// Scopes are the scopes that every caller needs. A certificate has none.
	Scopes []string
	// MoreScopes are further scopes for some tools, which the metadata lists.
	MoreScopes []string
	// Client fetches keys and introspects tokens. If nil, a client with a timeout of 10 s is used.
	Client *http.Client
	// Limits are the limits of JSON in tokens. If a field is zero, its default is used.
	Limits limits.Limits
	// Log receives rejections, at most one per second, without tokens.
	Log zerolog.Logger
}

// An Issuer issues tokens.
type Issuer struct {
	// URL is the exact `iss` of its tokens.
	URL string
	// Audiences are the accepted values of `aud`. If empty, Resource is used.
	Audiences []string
	// JWKS is the URL of its keys. If empty, its metadata is used.
	JWKS string
	// Introspection introspects tokens that are not JWTs (RFC 7662). If nil, there are none. At most one issuer may
	// have it, since such a token does not name its issuer.
	Introspection *Introspection
}

// Introspection configures token introspection (RFC 7662).
type Introspection struct {
	// URL is the introspection endpoint.
	URL string
	// ClientID and ClientSecret authenticate the bridge.
	ClientID, ClientSecret string
}

// A Token is a static token.
type Token struct {
	Token string
	// Subject is the caller's name.
	Subject string
	Scopes  []string
}

// IssuerTokens is the issuer in the principal of a static token.
const IssuerTokens = "mcpbridge:tokens" //nolint:gosec // not a secret

const (
	// maxToken is the maximum size of a token in bytes.
	maxToken = 16 << 10
	// skew is the tolerated clock skew.
	skew = time.Minute
	// logInterval is the minimum interval between log lines about rejections.
	logInterval = time.Second
)

// An Auth authenticates callers. Its methods may be called concurrently.
type Auth struct {
	o            Options
	issuers      []*issuer
	introspector *issuer // the one with Introspection, or nil
	tokens       map[[sha256.Size]byte]*pb.Principal
	// whole is the server, parts are its endpoints by path, and metadata are both by the path of their metadata.
	whole    part
	parts    map[string]part
	metadata map[string]part

	refusedHTTP, refusedGRPC rate.Sometimes // rate limits of log lines
}

// A part is the server or one of its endpoints, with a resource and metadata (RFC 9728) of its own.
type part struct{ resource, metadataURL string }

// part returns the part that a request path belongs to.
func (a *Auth) part(path string) part {
	if p, ok := a.parts[path]; ok {
		return p
	}
	return a.whole
}

// New returns an Auth. It fetches keys when they are needed.
func New(o Options) (*Auth, error) {
	if o.Client == nil {
		o.Client = &http.Client{Timeout: limits.AuthTimeout}
	}
	a := &Auth{
		o: o, tokens: map[[sha256.Size]byte]*pb.Principal{},
		refusedHTTP: rate.Sometimes{Interval: logInterval}, refusedGRPC: rate.Sometimes{Interval: logInterval},
	}
	for i, t := range o.Tokens {
		if t.Token == "" || t.Subject == "" {
			return nil, fmt.Errorf("token %d: needs both a token and a subject", i+1)
		}
		principal := &pb.Principal{Issuer: IssuerTokens, Subject: t.Subject, Scopes: t.Scopes}
		a.tokens[sha256.Sum256([]byte(t.Token))] = principal
	}
	if len(o.Issuers) > 0 {
		u, err := url.Parse(o.Resource)
		if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.Fragment != "" {
			return nil, fmt.Errorf("resource %q: must be the URL that clients use for this server, "+
				"such as https://mcp.example.com/mcp", o.Resource)
		}
		at := func(path string) string {
			return (&url.URL{Scheme: u.Scheme, User: u.User, Host: u.Host, Path: path}).String()
		}
		base := strings.TrimSuffix(u.Path, "/")
		a.whole = part{o.Resource, at(wellKnown + base)}
		a.metadata = map[string]part{wellKnown: a.whole, wellKnown + base: a.whole}
		a.parts = map[string]part{}
		for path, rest := range o.Endpoints {
			p := part{at(base + rest), at(wellKnown + base + rest)}
			a.parts[path], a.metadata[wellKnown+base+rest] = p, p
		}
	}
	for _, i := range o.Issuers {
		if u, err := url.Parse(i.URL); err != nil || u.Host == "" {
			return nil, fmt.Errorf("issuer %q: must be the URL in the `iss` of its tokens", i.URL)
		}
		iss := newIssuer(i, o.Client, o.Limits.OrDefaults())
		if len(i.Audiences) == 0 {
			iss.Audiences, iss.forEndpoints = []string{o.Resource}, true
		}
		a.issuers = append(a.issuers, iss)
		if i.Introspection == nil {
			continue
		}
		if a.introspector != nil {
			return nil, fmt.Errorf("introspection at both %s and %s: a token other than a JWT names no issuer,"+
				" so only one of them can have it; let the other one issue JWTs", a.introspector.URL, i.URL)
		}
		a.introspector = iss
	}
	if len(a.tokens) == 0 && len(a.issuers) == 0 {
		switch {
		case !o.Certificates:
			return nil, errors.New("every caller would be rejected: configure an issuer, a token, or certificates")
		case len(o.Scopes) > 0:
			return nil, errors.New("every caller would be rejected: certificates have no scopes; " +
				"configure an issuer or a token, or no scopes")
		}
	}
	return a, nil
}

// A refusal is the error of a rejected request.
type refusal struct {
	status int
	// code is the error of the challenge (RFC 6750, 3.1). It is empty if the request has no credentials.
	code string
	why  string
}

func (r *refusal) Error() string { return r.why }

func invalidToken(format string, args ...any) error {
	return &refusal{http.StatusUnauthorized, "invalid_token", fmt.Sprintf(format, args...)}
}

func unavailable(format string, args ...any) error {
	return &refusal{status: http.StatusServiceUnavailable, why: fmt.Sprintf(format, args...)}
}

// Verify returns the principal of a token.
func (a *Auth) Verify(ctx context.Context, token string) (*pb.Principal, error) {
	return a.verifyFor(ctx, token, a.whole)
}

// verifyFor returns the principal of a token for a part of the server.
func (a *Auth) verifyFor(ctx context.Context, token string, at part) (*pb.Principal, error) {
	p, err := a.verify(ctx, token, at)
	if err != nil {
		return nil, err
	}
	return p, a.checkScopes(p, "the token lacks the scopes")
}

// checkScopes returns an error if the caller lacks scopes that every caller needs.
func (a *Auth) checkScopes(p *pb.Principal, why string) error {
	if missing := missingScopes(p, a.o.Scopes); len(missing) > 0 {
		return &refusal{http.StatusForbidden, "insufficient_scope", why + " " + strings.Join(missing, " ")}
	}
	return nil
}

// checkCertificate is checkScopes for a caller with a certificate.
func (a *Auth) checkCertificate(p *pb.Principal) error {
	return a.checkScopes(p, "a certificate has no scopes: send a token with the scopes")
}

func (a *Auth) verify(ctx context.Context, token string, at part) (*pb.Principal, error) {
	if token == "" || len(token) > maxToken {
		return nil, invalidToken("token of %d bytes exceeds %d bytes", len(token), maxToken)
	}
	sum := sha256.Sum256([]byte(token))
	for hash, p := range a.tokens {
		if subtle.ConstantTimeCompare(hash[:], sum[:]) == 1 {
			return p, nil
		}
	}
	if iss, ok := peekIssuer(token); ok {
		for _, i := range a.issuers {
			if i.URL == iss {
				return i.verifyJWT(ctx, token, at.resource)
			}
		}
	} else if a.introspector != nil {
		return a.introspector.introspect(ctx, token, at.resource)
	}
	return nil, invalidToken("the issuer of the token is not trusted")
}

func missingScopes(p *pb.Principal, need []string) []string {
	var missing []string
	for _, s := range need {
		if !slices.Contains(p.GetScopes(), s) {
			missing = append(missing, s)
		}
	}
	return missing
}

// Handler returns a Handler that rejects a call of a tool if the caller lacks scopes that the tool requires. scopes has
// these by tool name, and always has the scopes that every caller needs: the error lists both. Callers without a
// principal, on stdio or on a socket of the user, may call all tools.
func Handler(next bridge.Handler, always []string, scopes map[string][]string) bridge.Handler {
	return bridge.HandlerFunc(func(ctx context.Context, call *bridge.Call, emit bridge.Emit) (*bridge.Result, error) {
		if p := call.Context().GetVerified().GetPrincipal(); p != nil && call.Method == bridge.CallTool {
			need := scopes[call.Method.Target(call.Request)]
			if missing := missingScopes(p, need); len(missing) > 0 {
				e := bridge.Failed(codes.PermissionDenied, bridge.OutcomeNotExecuted, "INSUFFICIENT_SCOPE",
					"%s: tool %q needs the scopes %s, and the token lacks %s",
					call.Method.Name, call.Method.Target(call.Request),
					strings.Join(need, " "), strings.Join(missing, " "))
				e.Scopes = slices.Concat(always, need)
				return nil, e
			}
		}
		return next.Handle(ctx, call, emit)
	})
}
