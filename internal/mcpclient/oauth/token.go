package oauth

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"
)

// A grant has the tokens that an authorization server issued for one MCP server.
type grant struct {
	Resource string `json:"resource"`
	Client   string `json:"client_id"`
	// Registered is the client, if it was registered dynamically. There may be a later registration.
	Registered *client   `json:"registration,omitempty"`
	Scopes     []string  `json:"scopes,omitempty"`
	Access     string    `json:"access_token"`
	Refresh    string    `json:"refresh_token,omitempty"`
	Expiry     time.Time `json:"expiry,omitzero"`
	Key        []byte    `json:"key,omitempty"` // that the tokens are bound to

	proof    *proofKey // Key
	source   source
	accepted atomic.Bool // by the server
}

// copy returns a copy of the stored fields, because the grant itself may be in use.
func (g *grant) copy() *grant {
	return &grant{
		Resource: g.Resource, Client: g.Client, Registered: g.Registered, Scopes: g.Scopes, Access: g.Access,
		Refresh: g.Refresh, Expiry: g.Expiry, Key: g.Key, proof: g.proof,
	}
}

// A source is how a grant was obtained. After a rejected grant, one of a higher source is needed.
type source int

const (
	sourceStored source = iota // by an earlier or another process
	sourceRefreshed
	sourceIssued // for a new authorization
)

const (
	maxToken      = 32 << 10         // bytes
	refreshMargin = 30 * time.Second // before the expiry
	noUserTimeout = time.Minute      // for everything but a login
)

func (g *grant) expired(margin time.Duration) bool {
	return !g.Expiry.IsZero() && !time.Now().Before(g.Expiry.Add(-margin))
}

// rejected reports whether the server rejected a grant of at least the given source before it expired.
func (g *grant) rejected(from source) bool {
	return g != nil && g.source >= from && !g.accepted.Load() && !g.expired(0)
}

// A tokenError is an OAuth error response of an authorization server.
type tokenError struct{ code, text string }

func (e *tokenError) Error() string { return sanitizeError(e.code, e.text) }

// request sends a token request. The result has the key and the scopes of g.
func (t *Transport) request(
	ctx context.Context, s *resourceServer, c *client, params url.Values, g *grant,
) (*grant, error) {
	method, err := t.authMethod(&s.as, c)
	if err != nil {
		return nil, err
	}
	params.Set("resource", s.resource)
	// Despite its name, this configuration supports every grant.
	config := clientcredentials.Config{ClientID: c.ID, TokenURL: s.as.Token, AuthStyle: oauth2.AuthStyleInParams}
	switch method {
	case methodBasic:
		config.ClientSecret, config.AuthStyle = c.Secret, oauth2.AuthStyleInHeader
	case methodPost:
		config.ClientSecret = c.Secret
	case methodKey:
		if err := t.key.authenticate(params, &s.as, c.ID); err != nil {
			return nil, err
		}
	}
	config.EndpointParams = params
	httpClient := *t.egress.post
	if g.proof != nil {
		httpClient.Transport = &proofTransport{key: g.proof, base: httpClient.Transport}
	}
	ctx = context.WithValue(ctx, oauth2.HTTPClient, &httpClient)
	tok, err := config.Token(ctx)
	if e, ok := errors.AsType[*oauth2.RetrieveError](err); ok && e.ErrorCode == "use_dpop_nonce" && g.proof != nil {
		if method == methodKey { // an assertion may be used only once
			if err := t.key.authenticate(params, &s.as, c.ID); err != nil {
				return nil, err
			}
		}
		tok, err = config.Token(ctx) // with the nonce of the response
	}
	if e, ok := errors.AsType[*oauth2.RetrieveError](err); ok {
		status := e.Response.StatusCode
		isOAuth := status == http.StatusBadRequest || status == http.StatusUnauthorized // RFC 6749, 5.2
		if status >= http.StatusInternalServerError || isTemporary[status] || e.ErrorCode == "" && !isOAuth {
			return nil, fmt.Errorf("token endpoint %s: status %s", s.as.Token, e.Response.Status)
		}
		if e.ErrorCode == "" {
			e.ErrorCode = fmt.Sprintf("status %d", status)
		}
		return nil, &tokenError{e.ErrorCode, redact(e.ErrorDescription, params, c.Secret)}
	}
	if err != nil {
		return nil, fmt.Errorf("token endpoint %s: %s", s.as.Token,
			sanitizeError(redact(libraryError(err), params, c.Secret), ""))
	}
	if err := checkToken(tok, g.proof != nil); err != nil {
		return nil, fmt.Errorf("token endpoint %s: %w", s.as.Token, err)
	}
	granted := &grant{
		Resource: s.resource, Client: c.ID, Scopes: g.Scopes, Key: g.Key, proof: g.proof,
		Access: tok.AccessToken, Refresh: tok.RefreshToken, Expiry: tok.Expiry,
	}
	if c.Redirect != "" {
		granted.Registered = c
	}
	return granted, nil
}

func libraryError(err error) string { return strings.TrimPrefix(err.Error(), "oauth2: ") }

// redact removes secrets from an error of an authorization server, which may quote the request.
func redact(text string, params url.Values, secret string) string {
	secrets := []string{secret}
	for _, name := range []string{
		"code", "code_verifier", "refresh_token", "assertion", "client_assertion", "subject_token",
	} {
		secrets = append(secrets, params.Get(name))
	}
	for _, s := range secrets {
		if s != "" {
			text = strings.ReplaceAll(text, s, "(withheld)")
		}
	}
	return text
}

// checkToken returns an error if a token cannot be used.
func checkToken(tok *oauth2.Token, bound bool) error {
	want := "Bearer"
	if bound {
		want = "DPoP"
	}
	switch {
	case !strings.EqualFold(tok.TokenType, want) && (bound || tok.TokenType != ""):
		return fmt.Errorf("token of type %q, want %s", sanitizeError(tok.TokenType, ""), want)
	case len(tok.AccessToken) > maxToken || len(tok.RefreshToken) > maxToken:
		return fmt.Errorf("token exceeds %d bytes", maxToken)
	case strings.ContainsFunc(tok.AccessToken, func(c rune) bool { return c <= ' ' || c > '~' }):
		return errors.New("token has characters that are invalid in a header")
	}
	return nil
}

// scopes returns the scopes to request: those that were requested before, those of the challenge, and the configured
// ones; scopes_supported if neither the challenge nor the configuration has any (2026-07-28: authorization, scope
// selection strategy and step-up authorization flow).
func (t *Transport) scopes(s *resourceServer, c challenge, before []string) []string {
	first := c.scopes
	if len(first) == 0 && len(t.o.Scopes) == 0 {
		first = s.scopes
	}
	return mergeScopes(before, first, t.o.Scopes)
}

// requestedGrant returns a grant with the scopes to request, and with a new key if its tokens are to be bound to one.
func (t *Transport) requestedGrant(s *resourceServer, c challenge, scopes []string) (*grant, error) {
	g := &grant{Scopes: scopes}
	if !c.dpop && !s.dpop {
		return g, nil
	}
	if !slices.Contains(s.as.DPoPAlgorithms, "ES256") {
		if s.dpop {
			return nil, fmt.Errorf("the server requires tokens that are bound to a key (DPoP),"+
				" which its authorization server %s does not support with ES256", s.as.Issuer)
		}
		return g, nil
	}
	var err error
	if g.proof, err = newProofKey(nil); err != nil {
		return nil, err
	}
	g.Key, err = g.proof.bytes()
	return g, err
}

func (t *Transport) refresh(ctx context.Context, s *resourceServer, c *client, g *grant) (*grant, error) {
	// If the response has no refresh token, the library keeps the old one, which stays valid.
	renewed, err := t.request(ctx, s, c, url.Values{"grant_type": {"refresh_token"}, "refresh_token": {g.Refresh}}, g)
	if err == nil {
		renewed.source = sourceRefreshed
	}
	return renewed, err
}

// requestWithoutUser obtains a grant by client credentials or an assertion.
func (t *Transport) requestWithoutUser(ctx context.Context, s *resourceServer, g *grant) (*grant, error) {
	c, err := t.client(ctx, s, "")
	if err != nil {
		return nil, err
	}
	params := url.Values{"grant_type": {string(t.o.Grant)}}
	if len(g.Scopes) > 0 {
		params.Set("scope", strings.Join(g.Scopes, " "))
	}
	if t.o.Grant == JWTBearer {
		assertion, err := t.o.Assertion(ctx, Target{Issuer: s.as.Issuer, Resource: s.resource})
		if err != nil {
			return nil, fmt.Errorf("the assertion for %s: %w", s.as.Issuer, err)
		}
		params.Set("assertion", assertion)
	}
	return t.request(ctx, s, c, params, g)
}
