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

// A grant is what an authorization server has given us for one MCP server.
type grant struct {
	Resource string `json:"resource"`
	Client   string `json:"client_id"` // who has been granted it
	// Registered is that client, if we have registered it. We may have registered another one since.
	Registered *client   `json:"registration,omitempty"`
	Scopes     []string  `json:"scopes,omitempty"`
	Access     string    `json:"access_token"`
	Refresh    string    `json:"refresh_token,omitempty"`
	Expiry     time.Time `json:"expiry,omitzero"`
	Key        []byte    `json:"key,omitempty"` // that the tokens are bound to

	proof  *proofKey   // Key
	from   source      // how we have come by it
	worked atomic.Bool // the server has accepted it
}

// copy returns what is kept of a grant, to be changed: the grant itself may be in use.
func (g *grant) copy() *grant {
	return &grant{
		Resource: g.Resource, Client: g.Client, Registered: g.Registered, Scopes: g.Scopes, Access: g.Access, Refresh: g.Refresh,
		Expiry: g.Expiry, Key: g.Key, proof: g.proof,
	}
}

// A source is how a grant has been come by, the best last: what a server has refused needs a better one.
type source int

const (
	kept      source = iota // from before, or another process
	refreshed               // with a refresh token
	issued                  // from the beginning
)

const (
	maxToken  = 32 << 10         // bytes
	early     = 30 * time.Second // tokens are renewed so long before they expire
	quietTime = time.Minute      // the most that it takes to get a token without a user
)

func (g *grant) expired(margin time.Duration) bool {
	return !g.Expiry.IsZero() && !time.Now().Before(g.Expiry.Add(-margin))
}

// failed reports whether the server has refused a grant, although it is new and comes from at least a source.
func (g *grant) failed(from source) bool {
	return g != nil && g.from >= from && !g.worked.Load() && !g.expired(0)
}

// A tokenError is an authorization server's no.
type tokenError struct{ code, text string }

func (e *tokenError) Error() string { return words(e.code, e.text) }

// request asks the token endpoint for a token. A grant's key is used if there is one, and what it has been granted is kept
// where the response says nothing new.
func (t *Transport) request(ctx context.Context, s *site, c *client, params url.Values, g *grant) (*grant, error) {
	method, err := t.method(&s.as, c)
	if err != nil {
		return nil, err
	}
	params.Set("resource", s.resource)
	// The library's name says less than it does: it is the one that lets a request for any grant be made whole.
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
	poster := *t.egress.post
	if g.proof != nil {
		poster.Transport = &prover{key: g.proof, via: poster.Transport}
	}
	ctx = context.WithValue(ctx, oauth2.HTTPClient, &poster)
	tok, err := config.Token(ctx)
	if no, ok := errors.AsType[*oauth2.RetrieveError](err); ok && no.ErrorCode == "use_dpop_nonce" && g.proof != nil {
		if method == methodKey { // an assertion is good for one request
			if err := t.key.authenticate(params, &s.as, c.ID); err != nil {
				return nil, err
			}
		}
		tok, err = config.Token(ctx) // the prover has noted the nonce
	}
	if no, ok := errors.AsType[*oauth2.RetrieveError](err); ok {
		status := no.Response.StatusCode
		ours := status == http.StatusBadRequest || status == http.StatusUnauthorized // what an authorization server's no has (RFC 6749, 5.2)
		if status >= http.StatusInternalServerError || isForNow[status] || no.ErrorCode == "" && !ours {
			return nil, fmt.Errorf("token endpoint %s: it answers %s", s.as.Token, no.Response.Status)
		}
		if no.ErrorCode == "" {
			no.ErrorCode = fmt.Sprintf("status %d", status)
		}
		return nil, &tokenError{no.ErrorCode, redact(no.ErrorDescription, params, c.Secret)}
	}
	if err != nil {
		return nil, fmt.Errorf("token endpoint %s: %s", s.as.Token, words(redact(cause(err), params, c.Secret), ""))
	}
	if err := usable(tok, g.proof != nil); err != nil {
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

// cause returns what an error of the library says, without what it says of itself.
func cause(err error) string { return strings.TrimPrefix(err.Error(), "oauth2: ") }

// redact takes secrets out of what an authorization server says: some repeat what they do not like.
func redact(text string, params url.Values, secret string) string {
	secrets := []string{secret}
	for _, name := range []string{"code", "code_verifier", "refresh_token", "assertion", "client_assertion", "subject_token"} {
		secrets = append(secrets, params.Get(name))
	}
	for _, s := range secrets {
		if s != "" {
			text = strings.ReplaceAll(text, s, "(withheld)")
		}
	}
	return text
}

// usable says why a token cannot be used, if that is so.
func usable(tok *oauth2.Token, bound bool) error {
	want := "Bearer"
	if bound {
		want = "DPoP"
	}
	switch {
	case !strings.EqualFold(tok.TokenType, want) && (bound || tok.TokenType != ""):
		return fmt.Errorf("it has issued a token of the type %q, and not %s", words(tok.TokenType, ""), want)
	case len(tok.AccessToken) > maxToken || len(tok.RefreshToken) > maxToken:
		return fmt.Errorf("it has issued a token of more than %d bytes", maxToken)
	case strings.ContainsFunc(tok.AccessToken, func(c rune) bool { return c <= ' ' || c > '~' }):
		return errors.New("it has issued a token that no header can carry")
	}
	return nil
}

// scopes returns what to ask for: what the server's challenge says, or else what the configuration says, or else what the
// server says one usually needs; and whatever has been asked for before, so that it is not lost (2026-07-28: authorization,
// scope selection strategy and step-up authorization flow).
func (t *Transport) scopes(s *site, c challenge, before []string) []string {
	first := c.scopes
	if len(first) == 0 && len(t.o.Scopes) == 0 {
		first = s.scopes
	}
	return union(before, first, t.o.Scopes)
}

// begin returns the beginning of a grant: what is asked for, and the key that its tokens will be bound to, if they will.
func (t *Transport) begin(s *site, c challenge, scopes []string) (*grant, error) {
	g := &grant{Scopes: scopes}
	if !c.dpop && !s.dpop {
		return g, nil
	}
	if !slices.Contains(s.as.DPoP, "ES256") {
		if s.dpop {
			return nil, fmt.Errorf("the server wants tokens that are bound to a key (DPoP), and its authorization server %s does not make them for ES256", s.as.Issuer)
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

// refresh renews a grant without the user.
func (t *Transport) refresh(ctx context.Context, s *site, c *client, g *grant) (*grant, error) {
	// Without a new refresh token the old one stays good; the library keeps it.
	renewed, err := t.request(ctx, s, c, url.Values{"grant_type": {"refresh_token"}, "refresh_token": {g.Refresh}}, g)
	if err == nil {
		renewed.from = refreshed
	}
	return renewed, err
}

// obtain gets a grant without a user, for ourselves.
func (t *Transport) obtain(ctx context.Context, s *site, g *grant) (*grant, error) {
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
