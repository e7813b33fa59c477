package oauth

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/go-json-experiment/json"
)

// A client is who we are to an authorization server.
type client struct {
	ID     string `json:"client_id"`
	Secret string `json:"client_secret,omitempty"`
	// Method is how it authenticates itself at the token endpoint, if the registration says so.
	Method string `json:"token_endpoint_auth_method,omitempty"`
	// Redirect is the address that it was registered with.
	Redirect string `json:"redirect_uri,omitempty"`
	// Expires is when the secret does, in seconds since 1970. 0: never.
	Expires int64 `json:"client_secret_expires_at,omitempty"`
}

// How a client authenticates itself at the token endpoint (RFC 7591, 2; OpenID Connect Core, 9).
const (
	methodNone  = "none"
	methodBasic = "client_secret_basic"
	methodPost  = "client_secret_post"
	methodKey   = "private_key_jwt"
)

// errUnregistered says that a client has to be registered by somebody.
var errUnregistered = errors.New("it takes neither client ID metadata documents nor registrations from us; register mcpbridge there by hand, and configure the client ID")

// client returns who we are to the site's authorization server: the configured client, or else the address of a document
// that says it, or else who it has registered us as (2026-07-28: client registration).
func (t *Transport) client(ctx context.Context, s *site, redirect string) (*client, error) {
	as := &s.as
	if t.o.ClientID != "" {
		old := t.store.told(t.o.Server, t.o.ClientID)
		if old != "" && old != as.Issuer {
			if t.o.Issuer != as.Issuer {
				return nil, fmt.Errorf("the server's authorization server is now %s, and the client %q is one of %s; if that is its new name, configure the new issuer, or else register at the new one, and configure its client ID and issuer", as.Issuer, t.o.ClientID, old)
			}
			if err := t.store.update(ctx, old, func(c *credentials) error {
				delete(c.Told, t.o.Server)
				return nil
			}); err != nil {
				return nil, err
			}
		}
		if old == "" && t.o.Issuer == "" && t.o.ClientSecret != "" {
			t.log.Warn().Str("issuer", as.Issuer).Msg("the client secret goes to the authorization server that the MCP server names; configure the issuer, so that it can name no other")
		}
		err := t.store.update(ctx, as.Issuer, func(c *credentials) error {
			c.Told[t.o.Server] = t.o.ClientID
			return nil
		})
		return &client{ID: t.o.ClientID, Secret: t.o.ClientSecret}, err
	}
	if t.o.ClientMetadataURL != "" && as.Documents {
		return &client{ID: t.o.ClientMetadataURL}, nil
	}
	var known *client
	if err := t.store.update(ctx, as.Issuer, func(c *credentials) error {
		known = c.Client
		return nil
	}); err != nil {
		return nil, err
	}
	if known != nil && known.Redirect == redirect && !known.expired() {
		return known, nil
	}
	if as.Registration == "" || t.o.Grant != AuthorizationCode {
		return nil, fmt.Errorf("authorization server %s: %w", as.Issuer, errUnregistered)
	}
	c, err := t.register(ctx, as, redirect)
	if err != nil {
		return nil, err
	}
	return c, t.store.update(ctx, as.Issuer, func(kept *credentials) error {
		kept.Client = c
		return nil
	})
}

func (c *client) expired() bool { return c.Expires != 0 && time.Now().Unix() >= c.Expires }

// A registration is what is sent to a registration endpoint (RFC 7591, 2).
type registration struct {
	Name      string   `json:"client_name"`
	Redirects []string `json:"redirect_uris"`
	Grants    []string `json:"grant_types"`
	Responses []string `json:"response_types"`
	// Kind must be said since 2026-07-28: an OpenID provider takes us for a web application else, and those have no
	// loopback addresses.
	Kind   string `json:"application_type"`
	Method string `json:"token_endpoint_auth_method,omitempty"`
}

// register registers us (RFC 7591). An authorization server that does not say which methods it takes may choose one.
func (t *Transport) register(ctx context.Context, as *serverMetadata, redirect string) (*client, error) {
	r := registration{
		Name: t.o.ClientName, Redirects: []string{redirect}, Grants: []string{string(AuthorizationCode), "refresh_token"},
		Responses: []string{"code"}, Kind: "native",
	}
	for _, m := range []string{methodNone, methodBasic, methodPost} {
		if slices.Contains(as.Methods, m) {
			r.Method = m
			break
		}
	}
	c := &client{}
	if err := t.egress.submit(ctx, as.Registration, r, c); err != nil {
		if no, ok := errors.AsType[*refusal](err); ok {
			return nil, fmt.Errorf("authorization server %s: it does not register us: %s; register mcpbridge there by hand, and configure the client ID", as.Issuer, no.oauth())
		}
		return nil, fmt.Errorf("authorization server %s: registration: %w", as.Issuer, err)
	}
	if c.ID == "" {
		return nil, fmt.Errorf("authorization server %s: it has registered us without a client ID", as.Issuer)
	}
	c.Redirect = redirect
	return c, nil
}

// oauth returns what a refusal says in OAuth's own words, made harmless.
func (r *refusal) oauth() string {
	var e struct {
		Code string `json:"error"`
		Text string `json:"error_description"`
	}
	if json.Unmarshal(r.text, &e) != nil || e.Code == "" {
		return fmt.Sprintf("status %d", r.status)
	}
	return words(e.Code, e.Text)
}

// clean returns what may go to a log or a terminal of what a stranger says: the characters that RFC 6749, 5.2 allows in
// errors, and not too many.
func clean(s string, most int) string {
	b := make([]byte, 0, min(len(s), most))
	for i := 0; i < len(s) && len(b) < most; i++ {
		if ' ' <= s[i] && s[i] <= '~' {
			b = append(b, s[i])
		}
	}
	return string(b)
}

// words returns an error code and its description, clean.
func words(code, text string) string {
	if text = clean(text, 300); text != "" {
		return clean(code, 64) + ": " + text
	}
	return clean(code, 64)
}

// method returns how a client authenticates itself: as its registration says, or else as the authorization server takes it.
func (t *Transport) method(as *serverMetadata, c *client) (string, error) {
	takes := as.Methods
	if takes == nil {
		takes = []string{methodBasic} // RFC 8414, 2
	}
	var ways []string
	switch {
	case t.key != nil:
		if as.Methods != nil && !slices.Contains(takes, methodKey) {
			return "", fmt.Errorf("authorization server %s: a private key is configured, and it does not take private_key_jwt but %q", as.Issuer, takes)
		}
		if as.Algorithms != nil && !slices.Contains(as.Algorithms, string(t.key.algorithm)) {
			return "", fmt.Errorf("authorization server %s: it does not take signatures with %s but %q", as.Issuer, t.key.algorithm, as.Algorithms)
		}
		return methodKey, nil
	case c.Secret == "":
		return methodNone, nil
	case c.Method != "":
		takes, ways = []string{c.Method}, []string{methodBasic, methodPost, methodNone}
	default:
		ways = []string{methodBasic, methodPost, methodNone}
	}
	for _, m := range ways {
		if slices.Contains(takes, m) {
			return m, nil
		}
	}
	return "", fmt.Errorf("authorization server %s: none of %q, by which it lets clients authenticate themselves, can be done with a secret", as.Issuer, takes)
}

// A signingKey is a private key and what it signs with.
type signingKey struct {
	private   any
	algorithm jose.SignatureAlgorithm
	id        string
}

// parseKey reads a private key in PEM. An empty algorithm is the usual one of the key.
func parseKey(text []byte, algorithm, id string) (*signingKey, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, errors.New("it is not PEM")
	}
	var private any
	var err error
	switch block.Type {
	case "PRIVATE KEY":
		private, err = x509.ParsePKCS8PrivateKey(block.Bytes)
	case "EC PRIVATE KEY":
		private, err = x509.ParseECPrivateKey(block.Bytes)
	case "RSA PRIVATE KEY":
		private, err = x509.ParsePKCS1PrivateKey(block.Bytes)
	default:
		err = fmt.Errorf("it is a %q", block.Type)
	}
	if err != nil {
		return nil, fmt.Errorf("it is not a private key that is not encrypted: %w", err)
	}
	usual := map[string]jose.SignatureAlgorithm{"P-256": jose.ES256, "P-384": jose.ES384, "P-521": jose.ES512}
	k := &signingKey{private: private, algorithm: jose.SignatureAlgorithm(algorithm), id: id}
	if algorithm == "" {
		switch private := private.(type) {
		case *ecdsa.PrivateKey:
			k.algorithm = usual[private.Params().Name]
		case *rsa.PrivateKey:
			k.algorithm = jose.RS256
		case ed25519.PrivateKey:
			k.algorithm = jose.EdDSA
		}
	}
	_, err = k.sign(jwt.Claims{}) // whether the key can do it
	return k, err
}

func (k *signingKey) sign(claims jwt.Claims) (string, error) {
	options := (&jose.SignerOptions{}).WithType("JWT")
	if k.id != "" {
		options.WithHeader(jose.HeaderKey("kid"), k.id)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: k.algorithm, Key: k.private}, options)
	if err != nil {
		return "", fmt.Errorf("signing with %s: %w", k.algorithm, err)
	}
	return jwt.Signed(signer).Claims(claims).Serialize()
}

// authenticate adds to the parameters of a token request what shows that we are the client (RFC 7523, 2.2).
func (k *signingKey) authenticate(params url.Values, as *serverMetadata, id string) error {
	now := time.Now()
	assertion, err := k.sign(jwt.Claims{
		Issuer: id, Subject: id, Audience: jwt.Audience{as.Issuer}, ID: rand.Text(),
		IssuedAt: jwt.NewNumericDate(now), Expiry: jwt.NewNumericDate(now.Add(time.Minute)),
	})
	params.Set("client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer")
	params.Set("client_assertion", assertion)
	return err
}
