package auth

import (
	"context"
	"crypto/rsa"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpbridge/mcpbridge/internal/limits"
	"github.com/mcpbridge/mcpbridge/internal/rawjson"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

const (
	// keysTTL is how long fetched keys are cached.
	keysTTL = time.Hour
	// minKeysRefresh is the minimum interval between fetches, even if tokens name unknown keys.
	minKeysRefresh = 10 * time.Second
	// maxDocument is the maximum size of a response in bytes, and maxKeys the maximum number of keys.
	maxDocument = 1 << 20
	maxKeys     = 100
	// maxKeyID is the maximum size of a key ID in bytes.
	maxKeyID = 256
	// minRSABits is the minimum size of an RSA key (RFC 7518, 3.3).
	minRSABits = 2048
)

// tokenTypes are the accepted `typ` of a token, with or without application/. Other JWTs of an issuer, such as proofs
// and logout tokens, are not access tokens (RFC 8725, 3.11; RFC 9068, 4).
var tokenTypes = []string{"jwt", "at+jwt", "jose"}

// algorithms are the accepted signature algorithms: no shared secrets, and not "none".
var algorithms = []jose.SignatureAlgorithm{
	jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512, jose.ES256, jose.ES384, jose.ES512,
	jose.EdDSA,
}

// An issuer is an Issuer with its keys and caches.
type issuer struct {
	Issuer

	// forEndpoints allows tokens whose audience is the endpoint of the request. It is false if Audiences are
	// configured.
	forEndpoints bool
	client       *http.Client
	limits       limits.Limits
	cache        introspectionCache

	fetching chan struct{} // semaphore of the fetch in flight

	mu      sync.Mutex // guards what follows
	keys    []jose.JSONWebKey
	fetched time.Time // time of the last successful fetch
	tried   time.Time // time of the last fetch, even if it failed
	failed  error     // its error
}

func newIssuer(i Issuer, c *http.Client, l limits.Limits) *issuer {
	client := *c
	client.CheckRedirect = sameOrigin
	return &issuer{
		Issuer: i, client: &client, limits: l,
		cache:    introspectionCache{inFlight: make(chan struct{}, limits.AuthRequests)},
		fetching: make(chan struct{}, 1),
	}
}

const maxRedirects = 3

// sameOrigin follows redirects within the origin only: requests contain tokens and the bridge's secret, and responses
// contain keys.
func sameOrigin(next *http.Request, via []*http.Request) error {
	first := via[0]
	if len(via) > maxRedirects || next.Method != first.Method ||
		next.URL.Scheme != first.URL.Scheme || next.URL.Host != first.URL.Host {
		return http.ErrUseLastResponse
	}
	return nil
}

// peekIssuer returns the unverified issuer of a JWT.
func peekIssuer(token string) (string, bool) {
	if strings.Count(token, ".") != 2 {
		return "", false
	}
	t, err := jwt.ParseSigned(token, algorithms)
	if err != nil {
		return "", false
	}
	var c struct {
		Issuer string `json:"iss"`
	}
	return c.Issuer, t.UnsafeClaimsWithoutVerification(&c) == nil && c.Issuer != ""
}

// verifyJWT returns the principal of a JWT of this issuer for a resource of this server.
func (i *issuer) verifyJWT(ctx context.Context, token, resource string) (*pb.Principal, error) {
	t, err := jwt.ParseSigned(token, algorithms)
	if err != nil {
		return nil, invalidToken("the token cannot be parsed: %v", err)
	}
	head := t.Headers[0]
	if err := i.checkHeader(token); err != nil {
		return nil, invalidToken("the header of the token is not strict JSON: %v", err)
	}
	if _, ok := head.ExtraHeaders["crit"]; ok {
		return nil, invalidToken("the token has critical extensions (crit), which are not supported")
	}
	if typ, ok := head.ExtraHeaders[jose.HeaderType]; ok {
		name, _ := typ.(string)
		if !slices.Contains(tokenTypes, strings.TrimPrefix(strings.ToLower(name), "application/")) {
			return nil, invalidToken("the token has the type %q, which is not an access token", rawjson.Shorten(name))
		}
	}
	if len(head.KeyID) > maxKeyID {
		return nil, invalidToken("the key ID of the token has %d bytes, limit %d",
			len(head.KeyID), maxKeyID)
	}
	keys, err := i.keysOf(ctx, head.KeyID)
	if err != nil {
		return nil, err
	}
	var text jsontext.Value
	if !slices.ContainsFunc(keys, func(k jose.JSONWebKey) bool {
		usable := (k.Algorithm == "" || k.Algorithm == head.Algorithm) && (k.Use == "" || k.Use == "sig")
		return usable && t.Claims(k.Key, &text) == nil
	}) {
		return nil, invalidToken("the token is signed by none of the keys of %s", i.URL)
	}
	c, err := readClaims(text, &i.limits)
	if err != nil {
		return nil, invalidToken("the claims of the token cannot be parsed: %v", err)
	}
	return i.checkClaims(text, c, resource, false)
}

// checkHeader rejects JWT headers that different parsers may read differently.
func (i *issuer) checkHeader(token string) error {
	encoded, _, _ := strings.Cut(token, ".")
	text, err := base64.RawURLEncoding.DecodeString(encoded)
	if err != nil {
		return err
	}
	return rawjson.CheckWithin(text, &i.limits)
}

// claims are the claims that are checked.
type claims struct {
	jwt.Claims

	Scope    string         `json:"scope"`
	Scp      jsontext.Value `json:"scp"`
	ClientID string         `json:"client_id"`
}

// readClaims parses claims. l is nil if the text was validated.
func readClaims(text jsontext.Value, l *limits.Limits) (*claims, error) {
	if err := rawjson.CheckWithin(text, l); err != nil { // backends receive the claims as well
		return nil, err
	}
	// Names are case-sensitive: SUB is not sub.
	c := &claims{}
	return c, json.Unmarshal(text, c)
}

// checkClaims returns the principal if the claims are valid now and for this server or the given resource of it. The
// response of an introspection may lack the issuer and the expiry.
func (i *issuer) checkClaims(
	text jsontext.Value, c *claims, resource string, introspected bool,
) (*pb.Principal, error) {
	switch {
	case c.Issuer != i.URL && (c.Issuer != "" || !introspected):
		return nil, invalidToken("the token is of issuer %q, want %q", rawjson.Shorten(c.Issuer), i.URL)
	case c.Expiry == nil && !introspected:
		return nil, invalidToken("the token has no expiry")
	case !slices.ContainsFunc(i.Audiences, c.Audience.Contains) && (!i.forEndpoints || !c.Audience.Contains(resource)):
		return nil, invalidToken("the audience of the token is %q, want %q",
			rawjson.Shorten(strings.Join(c.Audience, " ")), i.Audiences)
	}
	if err := c.ValidateWithLeeway(jwt.Expected{Time: time.Now()}, skew); err != nil {
		return nil, invalidToken("the token is not valid now: %v", err)
	}
	p := &pb.Principal{
		Issuer: i.URL, Subject: c.Subject, Scopes: scopes(c.Scope, c.Scp),
		Claims: rawjson.AsString(text),
	}
	if p.GetSubject() == "" {
		p.Subject = c.ClientID // of a client credentials grant
	}
	if p.GetSubject() == "" {
		return nil, invalidToken("the token has no subject")
	}
	return p, nil
}

// scopes returns the scopes of `scope`, a string (RFC 8693), or of `scp`, which may be a list.
func scopes(scope string, scp jsontext.Value) []string {
	out := splitScopes(scope)
	var list []string
	var text string
	switch {
	case json.Unmarshal(scp, &list) == nil:
		out = append(out, list...)
	case json.Unmarshal(scp, &text) == nil:
		out = append(out, splitScopes(text)...)
	}
	return out
}

// splitScopes splits a list of scopes at spaces (RFC 6749, 3.3).
func splitScopes(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ' ' })
}

// keysOf returns the keys with the ID, or all keys if the token has no ID.
func (i *issuer) keysOf(ctx context.Context, id string) ([]jose.JSONWebKey, error) {
	for {
		keys, fetch, err := i.cachedKeys(id)
		if !fetch {
			return keys, err
		}
		select {
		case i.fetching <- struct{}{}:
		case <-ctx.Done():
			return nil, unavailable("waiting for the keys of %s: %v", i.URL, ctx.Err())
		}
		if _, fetch, _ := i.cachedKeys(id); fetch { // another caller may have fetched them meanwhile
			i.refresh(ctx)
		}
		<-i.fetching
	}
}

// cachedKeys returns the cached keys with the ID, or reports that they must be fetched first.
func (i *issuer) cachedKeys(id string) (keys []jose.JSONWebKey, fetch bool, err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, k := range i.keys {
		if id == "" || k.KeyID == id {
			keys = append(keys, k)
		}
	}
	now := time.Now()
	switch fresh := !i.fetched.IsZero() && now.Sub(i.fetched) < keysTTL; {
	case fresh && len(keys) > 0:
		return keys, false, nil
	case i.tried.IsZero() || now.Sub(i.tried) >= minKeysRefresh:
		return nil, true, nil
	case i.failed != nil || !fresh:
		return nil, false, unavailable("the keys of %s are unavailable: %v", i.URL, i.failed)
	}
	return nil, false, invalidToken("the token is signed by a key that %s does not have", i.URL)
}

// refresh fetches the keys, and removes those that the issuer no longer publishes.
func (i *issuer) refresh(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limits.AuthTimeout) // others wait for the keys
	defer cancel()
	keys, err := i.fetch(ctx)
	i.mu.Lock()
	defer i.mu.Unlock()
	i.tried, i.failed = time.Now(), err
	if err == nil {
		i.keys, i.fetched = keys, i.tried
	}
}

func (i *issuer) fetch(ctx context.Context) ([]jose.JSONWebKey, error) {
	at := i.JWKS
	if at == "" {
		var err error
		if at, err = i.discover(ctx); err != nil {
			return nil, err
		}
	}
	var set struct {
		Keys []jsontext.Value `json:"keys"`
	}
	if err := i.get(ctx, at, &set); err != nil {
		return nil, err
	}
	if len(set.Keys) > maxKeys {
		return nil, fmt.Errorf("%s: %d keys, limit %d", at, len(set.Keys), maxKeys)
	}
	var keys []jose.JSONWebKey
	for _, text := range set.Keys {
		var k jose.JSONWebKey
		// Unusable keys are ignored (RFC 7517, 5).
		if k.UnmarshalJSON(text) == nil && k.IsPublic() && k.Valid() && verifies(text, k.Key) {
			keys = append(keys, k)
		}
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("%s: no usable key", at)
	}
	return keys, nil
}

// verifies reports whether a key may be used to verify signatures.
func verifies(text jsontext.Value, key any) bool {
	var uses struct {
		Operations []string `json:"key_ops"`
	}
	if json.Unmarshal(text, &uses) != nil || uses.Operations != nil && !slices.Contains(uses.Operations, "verify") {
		return false
	}
	k, ok := key.(*rsa.PublicKey)
	return !ok || k.N.BitLen() >= minRSABits
}

// discover returns the URL of the keys in the issuer's metadata (RFC 8414, 3.1; OpenID Connect Discovery, 4).
func (i *issuer) discover(ctx context.Context) (string, error) {
	base, err := url.Parse(i.URL)
	if err != nil {
		return "", err
	}
	path := strings.TrimSuffix(base.Path, "/")
	var errs []error
	for _, p := range []string{
		"/.well-known/oauth-authorization-server" + path,
		"/.well-known/openid-configuration" + path,
		path + "/.well-known/openid-configuration",
	} {
		at := *base
		at.Path = p
		var m struct {
			Issuer string `json:"issuer"`
			JWKS   string `json:"jwks_uri"`
		}
		err := i.get(ctx, at.String(), &m)
		switch {
		case err == nil && m.Issuer != i.URL:
			err = fmt.Errorf("%s: metadata of another issuer, %q", at.String(), m.Issuer)
		case err == nil && m.JWKS == "":
			err = fmt.Errorf("%s: metadata without jwks_uri", at.String())
		case err == nil && base.Scheme == "https" && !strings.HasPrefix(m.JWKS, "https://"):
			err = fmt.Errorf("%s: jwks_uri is %q, must begin with https://", at.String(), rawjson.Shorten(m.JWKS))
		case err == nil:
			return m.JWKS, nil
		}
		errs = append(errs, err)
	}
	return "", errors.Join(errs...)
}

func (i *issuer) get(ctx context.Context, at string, to any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at, http.NoBody)
	if err != nil {
		return err
	}
	return i.exchange(req, to)
}

// exchange sends a request to the issuer, and decodes the JSON object of the response.
func (i *issuer) exchange(req *http.Request, to any) error {
	req.Header.Set("Accept", "application/json")
	res, err := i.client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxDocument+1))
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", req.URL.Redacted(), err)
	case res.StatusCode != http.StatusOK:
		return fmt.Errorf("%s: %s", req.URL.Redacted(), res.Status)
	case len(body) > maxDocument:
		return fmt.Errorf("%s: response body exceeds %d bytes", req.URL.Redacted(), maxDocument)
	}
	if err := json.Unmarshal(body, to); err != nil {
		return fmt.Errorf("%s: %w", req.URL.Redacted(), err)
	}
	return nil
}
