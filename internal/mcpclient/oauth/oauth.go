// Package oauth lets the bridge use MCP servers that want an access token. Its Transport is an http.RoundTripper: it finds
// out where tokens for the server come from, gets one, renews it, and asks for more when the server wants more. It does what
// the authorization pages of 2025-03-26 to 2026-07-28 say, and trusts neither the server nor its authorization server.
package oauth

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"google.golang.org/grpc/codes"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/contain"
	"github.com/mcpbridge/mcpbridge/internal/mcphttp"
	"github.com/mcpbridge/mcpbridge/internal/nonblock"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// A Grant is how one comes by a token, as OAuth names it.
type Grant string

// The grants.
const (
	// AuthorizationCode asks a user, in a browser.
	AuthorizationCode Grant = "authorization_code"
	// ClientCredentials needs no user: the bridge acts for itself
	// (io.modelcontextprotocol/oauth-client-credentials).
	ClientCredentials Grant = "client_credentials"
	// JWTBearer shows an assertion that somebody else has signed (RFC 7523): a workload's identity, or an identity
	// provider's word for its user (io.modelcontextprotocol/enterprise-managed-authorization).
	JWTBearer Grant = "urn:ietf:params:oauth:grant-type:jwt-bearer" //nolint:gosec // a name
)

// Options say which MCP server it is and who we are to it. Only Server is required.
type Options struct {
	// Server is the URL of the MCP server. It has TLS, or is on this machine.
	Server string
	// Base sends requests to the MCP server. Nil: a transport of our own.
	Base http.RoundTripper
	// TLS is for what is fetched elsewhere: metadata, registrations, tokens. Nil: who the system trusts.
	TLS *tls.Config
	// AllowPrivate lets what is fetched elsewhere come from private, link-local and loopback addresses. Without it, only a
	// server on this machine may have its authorization server there too. The server's own address is always allowed.
	AllowPrivate bool

	// Dir is where credentials are kept, for other processes too: a file an authorization server, for our user only. Empty:
	// they end with the Transport.
	Dir string

	// Grant is how tokens are come by. Empty: AuthorizationCode.
	Grant Grant
	// Issuer is the authorization server that ClientID is registered at. Empty: the first that the server names, and from
	// then on that one.
	Issuer string
	// ClientID, ClientSecret: who we are there. An empty ID: ClientMetadataURL, or who it registers us as.
	ClientID, ClientSecret string
	// ClientMetadataURL is where a client ID metadata document of ours is. Its redirect_uris have Redirect.
	ClientMetadataURL string
	// PrivateKey, PEM without a password, shows who we are in place of a secret (private_key_jwt). KeyID is its kid, and
	// Algorithm what it signs with. Empty: none, and what is usual for the key.
	PrivateKey       []byte
	Algorithm, KeyID string
	// ClientName is what we are registered as. Empty: mcpbridge.
	ClientName string
	// Scopes are asked for besides what the server asks for.
	Scopes []string

	// Assertion returns the assertion of JWTBearer.
	Assertion func(context.Context, Target) (string, error)
	// IDP makes the assertion of JWTBearer, in place of Assertion.
	IDP *IDP

	// Browser shows a page to the user, with no shell involved: the address comes from the server. It returns when the
	// page is opened, or when ctx ends, which is when the login does. Nil: there is nobody to log in.
	Browser func(ctx context.Context, address string) error
	// Redirect is where the browser returns to, an address of this machine such as http://127.0.0.1:3000/callback; port 0 is
	// any. Empty: any port, or the one that we have registered with.
	Redirect string
	// LoginTimeout is how long a user may take. 0: 5 minutes.
	LoginTimeout time.Duration

	// Log is where logins and renewals are told. The zero value logs nothing. No secret is ever logged.
	Log zerolog.Logger
	// Panics counts the panics of the whole process. If nil, those of this package are counted alone.
	Panics *contain.Panics
}

// A Target is whom an assertion is for.
type Target struct {
	Issuer   string // its audience: the authorization server
	Resource string // the MCP server
}

// A Transport adds an access token to requests to the MCP server, and to no others. It implements http.RoundTripper, and may
// be used concurrently: whatever many requests need is asked for once. Close ends it.
//
// A request that cannot be authorized ends with a *bridge.Error that says that it was not executed, and what to do. Requests
// are repeated with a new token if their bodies can be read again (GetBody); the server has refused them before.
type Transport struct {
	o        Options
	server   *url.URL
	redirect *url.URL // nil: any
	base     http.RoundTripper
	egress   *egress
	store    *store
	key      *signingKey // nil: none
	log      zerolog.Logger
	panics   *contain.Panics
	pause    time.Duration // after a failure, the same error is given for so long

	life context.Context // ends with Close
	end  context.CancelFunc
	wg   sync.WaitGroup

	mu     sync.Mutex // guards what follows
	closed bool
	grant  *grant  // what is used; nil: nothing
	site   *site   // where it comes from
	flight *flight // what is being done to get another; nil: nothing
	failed *failure
	steps  map[string]step // by scopes
}

// A flight is one attempt to get a grant, for all who need it.
type flight struct {
	need  need          // of whoever began it
	done  chan struct{} // closed when the others are set
	grant *grant
	err   error
}

// tries reports whether a flight tries all that a need wants.
func (f *flight) tries(n need) bool {
	switch {
	case f.need.kept:
		return n.more && n.step == f.need.step
	case f.need.soon:
		return n.soon
	}
	return true
}

// A failure is why there is no grant, until somebody may try again.
type failure struct {
	err   error
	until time.Time
}

// A step counts how often more scopes were granted, to no avail.
type step struct {
	count int
	last  time.Time
}

const (
	maxSteps  = 2                // with the login before, three authorizations
	maxKinds  = 64               // of steps that are remembered
	stepsLast = 10 * time.Minute // then they may be tried again
	maxRounds = 6                // of one request
	maxError  = 2 << 10          // bytes of an error
	maxIdle   = 256              // connections to the MCP server that are kept between requests
)

// New returns the Transport that o describes. It connects to nothing.
func New(o Options) (*Transport, error) {
	t := &Transport{o: o, base: o.Base, pause: 5 * time.Second, steps: map[string]step{}}
	wrong := func(format string, args ...any) (*Transport, error) {
		return nil, fmt.Errorf("OAuth for the server %q: %w", redactURL(o.Server), fmt.Errorf(format, args...))
	}
	var err error
	if t.server, err = url.Parse(o.Server); err != nil || t.server.Hostname() == "" {
		return wrong("it must be a URL")
	}
	if t.o.Grant == "" {
		t.o.Grant = AuthorizationCode
	}
	if t.o.ClientName == "" {
		t.o.ClientName = "mcpbridge"
	}
	if t.o.LoginTimeout == 0 {
		t.o.LoginTimeout = 5 * time.Minute
	}
	switch {
	case t.server.User != nil || t.server.Fragment != "":
		return wrong("it must be a URL without a user name and a fragment")
	case !isSafe(t.server):
		return wrong("a token must not be sent without TLS; use https://, or a server on this machine")
	case !slices.Contains([]Grant{AuthorizationCode, ClientCredentials, JWTBearer}, t.o.Grant):
		return wrong("there is no grant %q", o.Grant)
	case o.ClientID == "" && (o.ClientSecret != "" || o.PrivateKey != nil && o.ClientMetadataURL == ""):
		return wrong("a secret or private key without the client ID that it is for")
	case o.ClientSecret != "" && o.PrivateKey != nil:
		return wrong("both a client secret and a private key")
	case t.o.Grant == ClientCredentials && o.ClientSecret == "" && o.PrivateKey == nil:
		return wrong("client_credentials needs a client ID, and a secret or private key")
	case t.o.Grant == JWTBearer && (o.Assertion == nil) == (o.IDP == nil):
		return wrong("jwt-bearer needs an assertion, or an identity provider that makes one")
	case t.o.Grant == JWTBearer && o.ClientID == "" && o.ClientMetadataURL == "":
		return wrong("jwt-bearer needs a client ID")
	case o.LoginTimeout < 0:
		return wrong("the login timeout is negative")
	case len(union(o.Scopes)) != len(o.Scopes):
		return wrong("the scopes %q have one that is none, or is there twice, or is offline_access, which is asked for where it is known", o.Scopes)
	}
	if u, err := url.Parse(o.ClientMetadataURL); o.ClientMetadataURL != "" && (err != nil || u.Scheme != "https" || strings.Trim(u.Path, "/") == "") {
		return wrong("the client ID metadata document %q must be at an https:// address with a path", o.ClientMetadataURL)
	}
	if o.PrivateKey != nil {
		if t.key, err = parseKey(o.PrivateKey, o.Algorithm, o.KeyID); err != nil {
			return wrong("the private key: %w", err)
		}
	}
	if o.Redirect != "" {
		if t.redirect, err = parseRedirect(o.Redirect); err != nil {
			return wrong("%w", err)
		}
	}
	t.egress = newEgress(&t.o, t.server)
	if o.IDP != nil {
		if err := t.trust(o.IDP); err != nil {
			return wrong("%w", err)
		}
	}
	if t.base == nil {
		base := http.DefaultTransport.(*http.Transport).Clone() //nolint:forcetypeassert // nobody here changes it
		base.MaxResponseHeaderBytes = 256 << 10
		base.MaxIdleConns, base.MaxIdleConnsPerHost = 0, maxIdle // all of them are of one server
		base.DisableCompression = true
		base.HTTP2 = mcphttp.HTTP2Config()
		base.DialContext = nonblock.Dial(base.DialContext)
		t.base = base
	}
	t.log = o.Log.With().Str("server", redactURL(o.Server)).Logger()
	t.panics = o.Panics.With(t.log)
	if t.store, err = openStore(o.Dir, t.log); err != nil {
		return wrong("%w", err)
	}
	t.life, t.end = context.WithCancel(context.Background())
	return t, nil
}

// redactURL returns an address without what may be secret in it.
func redactURL(s string) string {
	u, err := url.Parse(s)
	if err != nil {
		return "(no URL)"
	}
	u.RawQuery = ""
	return u.Redacted()
}

// Close ends what is being done and waits for it, and writes what could not be written before. Requests that need a token fail from
// then on.
func (t *Transport) Close() error {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	t.end()
	t.wg.Wait()
	ctx, stop := context.WithTimeout(context.Background(), settleTime)
	defer stop()
	t.store.settle(ctx)
	t.egress.transport.CloseIdleConnections()
	return nil
}

// CloseIdleConnections does what http.Client.CloseIdleConnections says.
func (t *Transport) CloseIdleConnections() {
	t.egress.transport.CloseIdleConnections()
	if c, ok := t.base.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// RoundTrip implements http.RoundTripper.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if origin(req.URL) != origin(t.server) || req.Header.Get("Authorization") != "" {
		return t.base.RoundTrip(req)
	}
	g := t.current(req.Context())
	var stepped string // the scopes that were asked for, for this request
	for round := 1; ; round++ {
		again, err := t.prepare(req, g, round > 1)
		if err != nil {
			closeBody(req)
			return nil, err
		}
		resp, err := t.base.RoundTrip(again)
		if err != nil {
			return nil, err
		}
		c, more := asks(resp)
		if g != nil && g.proof != nil && g.proof.note(req.URL, resp.Header) && c.code == "use_dpop_nonce" && round < maxRounds && repeatable(req) {
			discard(resp)
			continue
		}
		if resp.StatusCode != http.StatusUnauthorized && g != nil {
			g.worked.Store(true)
		}
		if !more {
			t.settle(stepped)
			return resp, nil
		}
		if !repeatable(req) {
			return resp, nil
		}
		discard(resp)
		n := need{challenge: c, had: g}
		if resp.StatusCode == http.StatusForbidden {
			n.step = strings.Join(slices.Sorted(slices.Values(c.scopes)), " ")
			n.more, stepped = true, n.step
		}
		if round == maxRounds {
			return nil, refused(codes.Unauthenticated, "the server refuses one token after another")
		}
		if g, err = t.get(req.Context(), n); err != nil {
			return nil, err
		}
	}
}

// prepare returns the request with the token.
func (t *Transport) prepare(req *http.Request, g *grant, again bool) (*http.Request, error) {
	if g == nil && !again {
		return req, nil
	}
	r := req.Clone(req.Context())
	if again && req.GetBody != nil {
		body, err := req.GetBody()
		if err != nil {
			return nil, err
		}
		r.Body = body
	}
	if g == nil {
		return r, nil
	}
	if g.proof == nil {
		r.Header.Set("Authorization", "Bearer "+g.Access)
		return r, nil
	}
	proof, err := g.proof.prove(r.Method, r.URL, g.Access)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", "DPoP "+g.Access)
	r.Header.Set("Dpop", proof)
	return r, nil
}

func repeatable(req *http.Request) bool {
	return req.Body == nil || req.Body == http.NoBody || req.GetBody != nil
}

func closeBody(req *http.Request) {
	if req.Body != nil {
		req.Body.Close()
	}
}

// discard ends a response so that its connection can be used again, unless that takes too much.
func discard(resp *http.Response) {
	io.CopyN(io.Discard, resp.Body, 16<<10) //nolint:errcheck // the connection ends then
	resp.Body.Close()
}

// A need is why another grant is needed.
type need struct {
	challenge

	had  *grant // what was refused, or is about to expire; nil: nothing
	more bool   // it is good, but not for enough
	step string // the scopes of a need for more
	soon bool   // it still works: do no more than to renew it without the user
	kept bool   // what was granted for this step was in vain: only what others have been granted since may do
}

// current returns what to send a request with. What is about to expire is renewed before, if that needs nobody.
func (t *Transport) current(ctx context.Context) *grant {
	t.mu.Lock()
	g, s := t.grant, t.site
	t.mu.Unlock()
	if g == nil || !g.expired(early) || g.Refresh == "" && t.o.Grant == AuthorizationCode {
		return g
	}
	renewed, err := t.get(ctx, need{challenge: challenge{dpop: g.proof != nil}, had: g, soon: true})
	if err != nil {
		t.log.Debug().Err(err).Str("issuer", s.as.Issuer).Msg("the token cannot be renewed; the server will say whether it needs to be")
		return g
	}
	return renewed
}

// settle forgets that scopes were granted in vain: now they were not.
func (t *Transport) settle(step string) {
	if step == "" {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.steps, step)
}

// get returns another grant than n.had. Everybody who needs one at the same time gets the same.
func (t *Transport) get(ctx context.Context, n need) (*grant, error) {
	for {
		f, g, err := t.join(n)
		if f == nil {
			return g, err
		}
		select {
		case <-f.done:
			if f.err != nil && !f.tries(n) {
				continue
			}
			return f.grant, f.err
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.Canceled) {
				return nil, ctx.Err()
			}
			return nil, refused(codes.Unauthenticated, "authorization was not finished in time; it goes on, so call again when it is: %w", ctx.Err())
		}
	}
}

// join returns the flight that gets what is needed, which it begins if there is none. It returns no flight if there is a grant
// already, or none to be had.
func (t *Transport) join(n need) (*flight, *grant, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	switch {
	case t.closed:
		return nil, nil, refused(codes.Unauthenticated, "the bridge is ending")
	case t.grant != nil && t.grant != n.had:
		return nil, t.grant, nil // somebody has got another one since
	case t.flight != nil:
		return t.flight, nil, nil
	case t.failed != nil && now.Before(t.failed.until):
		return nil, nil, t.failed.err
	}
	if n.more {
		count := t.taken(n.step, now)
		n.kept = count >= maxSteps || len(t.steps) >= maxKinds && count == 0
	}
	f := &flight{need: n, done: make(chan struct{})}
	t.flight = f
	t.wg.Go(func() {
		var s *site
		var g *grant
		var err error
		defer func() { t.land(f, s, g, err) }()
		defer t.panics.Recover("getting a token", func(e *bridge.Error) { err = e })
		s, g, err = t.renew(t.life, n)
	})
	return f, nil, nil
}

// taken returns how often a step was taken lately. The caller holds t.mu.
func (t *Transport) taken(name string, now time.Time) int {
	s := t.steps[name]
	if now.Sub(s.last) > stepsLast {
		return 0
	}
	return s.count
}

// land tells everybody what has come of a flight.
func (t *Transport) land(f *flight, s *site, g *grant, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.flight = nil
	if err != nil {
		f.err = asError(err)
		// Nobody's browser, and no authorization server, is to be kept busy with what does not work. What was only to be
		// renewed still works, and what is kept was only looked at.
		if !f.need.soon && !f.need.kept {
			t.failed = &failure{f.err, time.Now().Add(t.pause)}
			t.log.Warn().Err(f.err).Msg("not authorized")
		}
	} else {
		f.grant, t.grant, t.site, t.failed = g, g, s, nil
		if now := time.Now(); f.need.more && g.from == issued {
			t.steps[f.need.step] = step{t.taken(f.need.step, now) + 1, now}
		}
	}
	close(f.done)
}

// renew gets another grant: a kept one, or with a refresh token, or from the beginning.
func (t *Transport) renew(ctx context.Context, n need) (*site, *grant, error) {
	quiet, stop := context.WithTimeout(ctx, quietTime)
	defer stop()
	s, err := t.find(quiet, n)
	if err != nil {
		return nil, nil, err
	}
	kept, before, err := t.keep(quiet, s, n)
	if err != nil || kept != nil {
		return s, kept, err
	}
	if n.kept {
		return nil, nil, refused(codes.PermissionDenied, "the server wants the scopes %q, and wants them still after they were granted; ask who runs it", clean(n.step, maxError))
	}
	if n.soon && t.o.Grant == AuthorizationCode {
		return nil, nil, errors.New("there is no refresh token that works")
	}
	if n.had.failed(issued) && !n.soon {
		return nil, nil, fmt.Errorf("the server refuses a token that its authorization server %s has only just issued", s.as.Issuer)
	}
	g, err := t.begin(s, n.challenge, t.scopes(s, n.challenge, before))
	if err != nil {
		return nil, nil, err
	}
	if t.o.Grant == AuthorizationCode {
		g, err = t.login(ctx, s, g)
	} else {
		g, err = t.obtain(quiet, s, g)
	}
	if err != nil {
		return nil, nil, errors.Join(err, t.forget(ctx, s, err))
	}
	g.from = issued
	t.log.Info().Str("issuer", s.as.Issuer).Str("scopes", clean(strings.Join(g.Scopes, " "), maxError)).Time("expires", g.Expiry).Msg("authorized")
	if err := t.store.update(ctx, s.as.Issuer, func(c *credentials) error {
		c.Grants[t.o.Server] = g
		return nil
	}); err != nil {
		t.log.Warn().Err(err).Msg("the login cannot be written down: it is used, and ends with this process")
	}
	return s, g, nil
}

// find returns the site. What is renewed before anybody has refused it, and what was granted lately in vain, needs no look at whether
// it is still the same.
func (t *Transport) find(ctx context.Context, n need) (*site, error) {
	t.mu.Lock()
	s := t.site
	t.mu.Unlock()
	if s != nil && (n.soon || n.kept) {
		return s, nil
	}
	if n.metadata == "" && s != nil {
		return t.discover(ctx, s.metadata) // not every challenge says it
	}
	return t.discover(ctx, n.metadata)
}

// keep returns a grant that is kept, if there is one that may do: another process, or a time before, has got it; or it can
// be refreshed. It also returns the scopes that were asked for before. Nobody else refreshes it meanwhile: a refresh token is
// good for once.
func (t *Transport) keep(ctx context.Context, s *site, n need) (g *grant, before []string, err error) {
	err = t.store.update(ctx, s.as.Issuer, func(c *credentials) error {
		k := c.Grants[t.o.Server]
		if k == nil || k.Resource != s.resource || t.grantee(c, k) == nil {
			delete(c.Grants, t.o.Server)
			return nil
		}
		before = k.Scopes
		if k.Key != nil && k.proof == nil {
			if k.proof, err = newProofKey(k.Key); err != nil {
				delete(c.Grants, t.o.Server)
				return nil //nolint:nilerr // it cannot be used
			}
		}
		enough := !n.more || len(union(k.Scopes, n.scopes)) == len(union(k.Scopes))
		other := n.had == nil || n.had.Access != k.Access
		if other && enough && !k.expired(early) {
			g = k
			return nil
		}
		if !enough || k.Refresh == "" || !other && (n.more || n.had.failed(refreshed)) {
			return nil
		}
		g, err = t.again(ctx, s, c, k)
		if g != nil {
			c.Grants[t.o.Server] = g
		}
		return err
	})
	return g, before, err
}

// again refreshes a grant. It returns nil if a grant is to be got from the beginning: the refresh token is not good any more, or it is
// we who are refused, and there is somebody to ask.
func (t *Transport) again(ctx context.Context, s *site, c *credentials, k *grant) (*grant, error) {
	g, err := t.refresh(ctx, s, t.grantee(c, k), k)
	no, refuses := errors.AsType[*tokenError](err)
	switch {
	case refuses && no.code == "invalid_grant": // nothing else says it of the refresh token (RFC 6749, 5.2)
		t.log.Info().Str("issuer", s.as.Issuer).Str("why", no.Error()).Msg("the refresh token is not good any more")
		spent := k.copy()
		spent.Refresh = ""
		c.Grants[t.o.Server] = spent
		return nil, nil //nolint:nilnil // then from the beginning
	case refuses && (t.o.Browser != nil || t.o.Grant != AuthorizationCode):
		t.log.Info().Str("issuer", s.as.Issuer).Str("why", no.Error()).Msg("the token cannot be refreshed; it is got from the beginning")
		return nil, nil //nolint:nilnil // then from the beginning
	case err != nil:
		return nil, fmt.Errorf("refreshing the token at %s: %w", s.as.Issuer, err)
	default:
		t.log.Debug().Str("issuer", s.as.Issuer).Time("expires", g.Expiry).Msg("the token is renewed")
		return g, nil
	}
}

// grantee returns who a grant is for, or nil if that is not who we are. Grants that were written before they had their registration are of the
// last one there was.
func (t *Transport) grantee(c *credentials, g *grant) *client {
	switch {
	case t.o.ClientID != "":
		if g.Client == t.o.ClientID {
			return &client{ID: g.Client, Secret: t.o.ClientSecret}
		}
	case g.Registered != nil:
		return g.Registered
	case g.Client != "" && g.Client == t.o.ClientMetadataURL:
		return &client{ID: g.Client}
	case c.Client != nil && c.Client.ID == g.Client:
		return c.Client
	}
	return nil
}

// forget forgets what an authorization server does not know any more, so that it is not said again: the scopes, or us.
func (t *Transport) forget(ctx context.Context, s *site, err error) error {
	no, ok := errors.AsType[*tokenError](err)
	if !ok {
		return nil
	}
	return t.store.update(ctx, s.as.Issuer, func(c *credentials) error {
		switch no.code {
		case "invalid_scope":
			if k := c.Grants[t.o.Server]; k != nil {
				k = k.copy()
				k.Scopes = nil
				c.Grants[t.o.Server] = k
			}
		case "invalid_client", "unauthorized_client":
			c.Client = nil
		}
		return nil
	})
}

// refused returns the error of a request that was not executed, because it was not authorized.
func refused(code codes.Code, format string, args ...any) *bridge.Error {
	reason := "UPSTREAM_UNAUTHENTICATED"
	if code == codes.PermissionDenied {
		reason = "UPSTREAM_FORBIDDEN"
	}
	return bridge.Failed(code, pb.CallFailure_OUTCOME_NOT_EXECUTED, reason, format, args...)
}

// asError returns err as the error of a request. If somebody did not log in or answer in time, that is not to be taken for the time of whoever
// has made the request.
func asError(err error) error {
	if e, ok := errors.AsType[*bridge.Error](err); ok {
		return e
	}
	e := refused(codes.Unauthenticated, "not authorized: %s", clean(err.Error(), maxError)) // much of it is what strangers say
	if !errors.Is(err, context.DeadlineExceeded) {
		e.Cause = err
	}
	return e
}
