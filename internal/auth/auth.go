// Package auth lets in only those who prove who they are. It is an OAuth 2.1 resource server (2025-03-26 to 2026-07-28:
// basic/authorization): every HTTP request has a bearer token that one of the known issuers has made for this server. Small
// set-ups have tokens written down instead, or client certificates.
//
// What a caller presents ends here. What is known of it goes on: its name, its scopes and its claims.
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

// Options say who is let in.
type Options struct {
	// Resource is the URI by which clients know this server, such as "https://mcp.example.com/mcp". Tokens are made for it.
	Resource string
	// Endpoints are the parts of this server that clients may know by themselves: by the path of requests what follows Resource, such as
	// "/weather" for "/mcp/weather". Each has metadata of its own (RFC 9728, 3.3), and a token may be for one of them alone.
	Endpoints map[string]string
	// Issuers are whose tokens are good.
	Issuers []Issuer
	// Tokens are good by themselves.
	Tokens []Token
	// Certificates says that a client certificate, which the TLS server has verified, is good.
	Certificates bool
	// Scopes are what every caller must have. A certificate has none.
	Scopes []string
	// MoreScopes are what callers of some tools must have besides. They are told to whoever asks what there is.
	MoreScopes []string
	// Client fetches keys and asks about tokens. Nil: one with a timeout of 10 s.
	Client *http.Client
	// Limits are the limits of JSON in tokens. Zero fields are the defaults.
	Limits limits.Limits
	// Log receives why callers are refused, at most once a second. It never has a token.
	Log zerolog.Logger
}

// An Issuer makes tokens.
type Issuer struct {
	// URL is what tokens say in `iss`, to the letter.
	URL string
	// Audiences are what tokens may say in `aud`. Empty: Resource.
	Audiences []string
	// JWKS is where its keys are. Empty: where its metadata says.
	JWKS string
	// Introspection is how it is asked about tokens that cannot be read here (RFC 7662). Nil: there are none. Such a token does not
	// say whose it is, so one issuer at most has it.
	Introspection *Introspection
}

// Introspection is how an issuer is asked about a token (RFC 7662).
type Introspection struct {
	// URL is its introspection endpoint.
	URL string
	// ClientID and ClientSecret are who asks.
	ClientID, ClientSecret string
}

// A Token is one that is good by itself.
type Token struct {
	// Token is what the caller presents.
	Token string
	// Subject is who that is.
	Subject string
	// Scopes are what it may do.
	Scopes []string
}

// IssuerTokens is the issuer of those who have a Token.
const IssuerTokens = "mcpbridge:tokens" //nolint:gosec // a name, and no secret

const (
	// maxToken bounds a token, in bytes.
	maxToken = 16 << 10
	// skew is how far clocks may be apart.
	skew = time.Minute
	// logEvery is the minimum interval between lines of the log about refused callers.
	logEvery = time.Second
)

// An Auth knows who is let in. Its methods may be called concurrently.
type Auth struct {
	o       Options
	issuers []*issuer
	asked   *issuer // the one that has an Introspection; nil: none
	tokens  map[[sha256.Size]byte]*pb.Principal
	// whole is all of this server, parts are its Endpoints by their paths, and metadata is whose metadata is where.
	whole    part
	parts    map[string]part
	metadata map[string]part

	refused, refusedGRPC rate.Sometimes // pace what is logged of refused callers
}

// A part is this server, or an endpoint of it, as clients know it: by its resource. Its metadata says whom to ask for a token.
type part struct{ resource, metadataURL string }

// part returns what a request with the path is for.
func (a *Auth) part(path string) part {
	if p, ok := a.parts[path]; ok {
		return p
	}
	return a.whole
}

// New returns an Auth. It fetches nothing yet.
func New(o Options) (*Auth, error) {
	if o.Client == nil {
		o.Client = &http.Client{Timeout: 10 * time.Second}
	}
	a := &Auth{
		o: o, tokens: map[[sha256.Size]byte]*pb.Principal{},
		refused: rate.Sometimes{Interval: logEvery}, refusedGRPC: rate.Sometimes{Interval: logEvery},
	}
	for i, t := range o.Tokens {
		if t.Token == "" || t.Subject == "" {
			return nil, fmt.Errorf("token %d: it needs both a token and a subject", i+1)
		}
		a.tokens[sha256.Sum256([]byte(t.Token))] = &pb.Principal{Issuer: IssuerTokens, Subject: t.Subject, Scopes: t.Scopes}
	}
	if len(o.Issuers) > 0 {
		u, err := url.Parse(o.Resource)
		if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.Fragment != "" {
			return nil, fmt.Errorf("the resource is %q: it must be the URL by which clients know this server, such as https://mcp.example.com/mcp", o.Resource)
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
			return nil, fmt.Errorf("the issuer is %q: it must be the URL that its tokens say in `iss`", i.URL)
		}
		known := newIssuer(i, o.Client, o.Limits.OrDefaults())
		if len(i.Audiences) == 0 {
			known.Audiences, known.parts = []string{o.Resource}, true
		}
		a.issuers = append(a.issuers, known)
		if i.Introspection == nil {
			continue
		}
		if a.asked != nil {
			return nil, fmt.Errorf("both %s and %s are to be asked about tokens that are no JWT (introspection), and such a token does not say which of them it may be shown to: leave one of them without introspection, and let it issue JWTs",
				a.asked.URL, i.URL)
		}
		a.asked = known
	}
	if len(a.tokens) == 0 && len(a.issuers) == 0 {
		switch {
		case !o.Certificates:
			return nil, errors.New("nobody is let in: name an issuer, a token, or say that certificates are good")
		case len(o.Scopes) > 0:
			return nil, errors.New("nobody is let in: callers must have scopes, and certificates have none; name an issuer or a token, or no scopes")
		}
	}
	return a, nil
}

// A refusal is why somebody is not let in.
type refusal struct {
	status int
	// code is the error of the challenge (RFC 6750, 3.1). Empty: the caller has presented nothing.
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

// Verify returns whose token it is. It fails if nobody is let in by it.
func (a *Auth) Verify(ctx context.Context, token string) (*pb.Principal, error) {
	return a.verifyFor(ctx, token, a.whole)
}

// verifyFor is Verify at a part of this server.
func (a *Auth) verifyFor(ctx context.Context, token string, at part) (*pb.Principal, error) {
	p, err := a.verify(ctx, token, at)
	if err != nil {
		return nil, err
	}
	return p, a.checkScopes(p, "the token lacks the scopes")
}

// checkScopes returns why a caller is not let in who lacks some of the scopes that every caller must have.
func (a *Auth) checkScopes(p *pb.Principal, why string) error {
	if missing := lacks(p, a.o.Scopes); len(missing) > 0 {
		return &refusal{http.StatusForbidden, "insufficient_scope", why + " " + strings.Join(missing, " ")}
	}
	return nil
}

// checkCertificate is checkScopes for who has shown a certificate, and no token.
func (a *Auth) checkCertificate(p *pb.Principal) error {
	return a.checkScopes(p, "a certificate has no scopes: send a token that has")
}

func (a *Auth) verify(ctx context.Context, token string, at part) (*pb.Principal, error) {
	if token == "" || len(token) > maxToken {
		return nil, invalidToken("the token has %d bytes, and at most %d are allowed", len(token), maxToken)
	}
	sum := sha256.Sum256([]byte(token))
	for known, p := range a.tokens {
		if subtle.ConstantTimeCompare(known[:], sum[:]) == 1 {
			return p, nil
		}
	}
	if iss, ok := peekIssuer(token); ok {
		for _, i := range a.issuers {
			if i.URL == iss {
				return i.read(ctx, token, at.resource)
			}
		}
	} else if a.asked != nil {
		return a.asked.introspect(ctx, token, at.resource)
	}
	return nil, invalidToken("the token is not of an issuer that is known here")
}

// lacks returns the scopes that a caller needs and does not have.
func lacks(p *pb.Principal, need []string) []string {
	var missing []string
	for _, s := range need {
		if !slices.Contains(p.GetScopes(), s) {
			missing = append(missing, s)
		}
	}
	return missing
}

// Handler returns a bridge.Handler that lets callers call only those tools of next that they have the scopes for, which are by
// the tool's name. Whoever lacks some is told of always, too, which are what every caller must have. A caller whom nobody was asked to
// verify, on stdio or a socket of the user's own, may call all of them.
func Handler(next bridge.Handler, always []string, scopes map[string][]string) bridge.Handler {
	return bridge.HandlerFunc(func(ctx context.Context, call *bridge.Call, emit bridge.Emit) (*bridge.Result, error) {
		if p := call.Context().GetPrincipal(); p != nil && call.Method == bridge.CallTool {
			need := scopes[call.Method.Target(call.Request)]
			if missing := lacks(p, need); len(missing) > 0 {
				e := bridge.Failed(codes.PermissionDenied, pb.CallFailure_OUTCOME_NOT_EXECUTED, "INSUFFICIENT_SCOPE",
					"%s: tool %q needs the scopes %s, and the token lacks %s", call.Method.Name, call.Method.Target(call.Request),
					strings.Join(need, " "), strings.Join(missing, " "))
				e.Scopes = slices.Concat(always, need)
				return nil, e
			}
		}
		return next.Handle(ctx, call, emit)
	})
}
