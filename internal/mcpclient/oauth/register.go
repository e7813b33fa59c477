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

// A client is mcpbridge as an authorization server identifies it.
type client struct {
	ID     string `json:"client_id"`
	Secret string `json:"client_secret,omitempty"`
	// Method is the authentication method at the token endpoint, if the registration has one.
	Method string `json:"token_endpoint_auth_method,omitempty"`
	// Redirect is the registered redirect URL.
	Redirect string `json:"redirect_uri,omitempty"`
	// Expires is the expiry of the secret in seconds since 1970. If zero, it does not expire.
	Expires int64 `json:"client_secret_expires_at,omitempty"`
}

// Authentication methods at the token endpoint (RFC 7591, 2; OpenID Connect Core, 9).
const (
	methodNone  = "none"
	methodBasic = "client_secret_basic"
	methodPost  = "client_secret_post"
	methodKey   = "private_key_jwt"
)

var errUnregistered = errors.New("supports neither client ID metadata documents nor registration of this client;" +
	" register mcpbridge there manually, and configure the client ID")

// client returns the configured client, or else the client ID metadata document, or else the registered client
// (2026-07-28: client registration).
func (t *Transport) client(ctx context.Context, s *resourceServer, redirect string) (*client, error) {
	as := &s.as
	if t.o.ClientID != "" {
		old := t.store.configuredIssuer(t.o.Server, t.o.ClientID)
		if old != "" && old != as.Issuer {
			if t.o.Issuer != as.Issuer {
				return nil, fmt.Errorf("the server's authorization server is now %s, but the client %q is registered"+
					" at %s; if only the name changed, configure the new issuer, or else register at the new one,"+
					" and configure its client ID and issuer", as.Issuer, t.o.ClientID, old)
			}
			if err := t.store.update(ctx, old, func(c *credentials) error {
				delete(c.Configured, t.o.Server)
				return nil
			}); err != nil {
				return nil, err
			}
		}
		if old == "" && t.o.Issuer == "" && t.o.ClientSecret != "" {
			t.log.Warn().Str("issuer", as.Issuer).Str("fix", "configure the issuer").
				Msg("sending the client secret to the authorization server that the MCP server names")
		}
		err := t.store.update(ctx, as.Issuer, func(c *credentials) error {
			c.Configured[t.o.Server] = t.o.ClientID
			return nil
		})
		return &client{ID: t.o.ClientID, Secret: t.o.ClientSecret}, err
	}
	if t.o.ClientMetadataURL != "" && as.MetadataDocuments {
		return &client{ID: t.o.ClientMetadataURL}, nil
	}
	var registered *client
	if err := t.store.update(ctx, as.Issuer, func(c *credentials) error {
		registered = c.Client
		return nil
	}); err != nil {
		return nil, err
	}
	if registered != nil && registered.Redirect == redirect && !registered.expired() {
		return registered, nil
	}
	if as.Registration == "" || t.o.Grant != AuthorizationCode {
		return nil, fmt.Errorf("authorization server %s: %w", as.Issuer, errUnregistered)
	}
	c, err := t.register(ctx, as, redirect)
	if err != nil {
		return nil, err
	}
	return c, t.store.update(ctx, as.Issuer, func(stored *credentials) error {
		stored.Client = c
		return nil
	})
}

func (c *client) expired() bool { return c.Expires != 0 && time.Now().Unix() >= c.Expires }

// A registration is the request to a registration endpoint (RFC 7591, 2).
type registration struct {
	Name          string   `json:"client_name"`
	Redirects     []string `json:"redirect_uris"`
	Grants        []string `json:"grant_types"`
	ResponseTypes []string `json:"response_types"`
	// ApplicationType is required since 2026-07-28: OpenID providers default to web applications, which must not have
	// loopback addresses.
	ApplicationType string `json:"application_type"`
	AuthMethod      string `json:"token_endpoint_auth_method,omitempty"`
}

// register registers a client (RFC 7591). An authorization server that declares no authentication methods may choose
// one.
func (t *Transport) register(ctx context.Context, as *serverMetadata, redirect string) (*client, error) {
	r := registration{
		Name: t.o.ClientName, Redirects: []string{redirect},
		Grants:        []string{string(AuthorizationCode), "refresh_token"},
		ResponseTypes: []string{"code"}, ApplicationType: "native",
	}
	for _, m := range []string{methodNone, methodBasic, methodPost} {
		if slices.Contains(as.AuthMethods, m) {
			r.AuthMethod = m
			break
		}
	}
	c := &client{}
	if err := t.egress.postJSON(ctx, as.Registration, r, c); err != nil {
		if e, ok := errors.AsType[*statusError](err); ok {
			return nil, fmt.Errorf("authorization server %s rejected the registration: %s;"+
				" register mcpbridge there manually, and configure the client ID", as.Issuer, e.oauthError())
		}
		return nil, fmt.Errorf("authorization server %s: registration: %w", as.Issuer, err)
	}
	if c.ID == "" {
		return nil, fmt.Errorf("authorization server %s: registration response without a client ID", as.Issuer)
	}
	c.Redirect = redirect
	return c, nil
}

// oauthError returns the OAuth error in the body, or the status.
func (e *statusError) oauthError() string {
	var body struct {
		Code string `json:"error"`
		Text string `json:"error_description"`
	}
	if json.Unmarshal(e.body, &body) != nil || body.Code == "" {
		return fmt.Sprintf("status %d", e.status)
	}
	return sanitizeError(body.Code, body.Text)
}

// printable returns the characters of s that RFC 6749, 5.2 allows in errors, up to a limit, for logs and terminals.
func printable(s string, limit int) string {
	b := make([]byte, 0, min(len(s), limit))
	for i := 0; i < len(s) && len(b) < limit; i++ {
		if ' ' <= s[i] && s[i] <= '~' {
			b = append(b, s[i])
		}
	}
	return string(b)
}

// sanitizeError returns an error code and its description for logs and terminals.
func sanitizeError(code, text string) string {
	if text = printable(text, 300); text != "" {
		return printable(code, 64) + ": " + text
	}
	return printable(code, 64)
}

// authMethod returns the authentication method of the registration, or else one that the authorization server supports.
func (t *Transport) authMethod(as *serverMetadata, c *client) (string, error) {
	supported := as.AuthMethods
	if supported == nil {
		supported = []string{methodBasic} // RFC 8414, 2
	}
	switch {
	case t.key != nil:
		if as.AuthMethods != nil && !slices.Contains(supported, methodKey) {
			return "", fmt.Errorf("authorization server %s: a private key is configured,"+
				" but instead of private_key_jwt it supports %q", as.Issuer, supported)
		}
		if as.AuthAlgorithms != nil && !slices.Contains(as.AuthAlgorithms, string(t.key.algorithm)) {
			return "", fmt.Errorf("authorization server %s: instead of signatures with %s it supports %q",
				as.Issuer, t.key.algorithm, as.AuthAlgorithms)
		}
		return methodKey, nil
	case c.Secret == "":
		return methodNone, nil
	case c.Method != "":
		supported = []string{c.Method}
	}
	for _, m := range []string{methodBasic, methodPost, methodNone} {
		if slices.Contains(supported, m) {
			return m, nil
		}
	}
	return "", fmt.Errorf("authorization server %s: none of its authentication methods %q uses a secret",
		as.Issuer, supported)
}

// A signingKey signs assertions that authenticate the client.
type signingKey struct {
	private   any
	algorithm jose.SignatureAlgorithm
	id        string
}

// parseKey parses a private key in PEM. If algorithm is empty, the usual one of the key's type is used.
func parseKey(text []byte, algorithm, id string) (*signingKey, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, errors.New("not PEM")
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
		err = fmt.Errorf("PEM block of type %q", block.Type)
	}
	if err != nil {
		return nil, fmt.Errorf("not an unencrypted private key: %w", err)
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
	_, err = k.sign(jwt.Claims{}) // an error if key and algorithm do not match
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

// authenticate adds a client assertion to the parameters of a token request (RFC 7523, 2.2).
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
