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
	// keysFor is how long keys are good without having been fetched again.
	keysFor = time.Hour
	// keysAgain is how long it takes at least until keys are fetched again, whatever tokens name.
	keysAgain = 10 * time.Second
	// maxDocument bounds what an issuer may answer, in bytes, and maxKeys how many keys it may have.
	maxDocument = 1 << 20
	maxKeys     = 100
	// maxKeyID bounds the name of a key, in bytes.
	maxKeyID = 256
	// leastRSA is how many bits an RSA key has at least (RFC 7518, 3.3).
	leastRSA = 2048
)

// types are what a token may say that it is, with or without application/ before it. A proof, a logout and so on of the same issuer are
// JWTs, too, and no access tokens (RFC 8725, 3.11; RFC 9068, 4).
var types = []string{"jwt", "at+jwt", "jose"}

// algorithms are those by which a token may be signed: none that needs a shared secret, and not none at all.
var algorithms = []jose.SignatureAlgorithm{
	jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512, jose.ES256, jose.ES384, jose.ES512, jose.EdDSA,
}

// An issuer is an Issuer and what is known of it.
type issuer struct {
	Issuer

	// parts says that a token may be for a part of this server alone: what its audiences are is not said.
	parts  bool
	client *http.Client
	limits limits.Limits
	asked  introspections

	fetching chan struct{} // holds a token while somebody fetches keys

	mu      sync.Mutex // guards what follows
	keys    []jose.JSONWebKey
	fetched time.Time // when the keys were
	tried   time.Time // when somebody last began to fetch them
	failed  error     // why they could not be fetched then
}

func newIssuer(i Issuer, c *http.Client, l limits.Limits) *issuer {
	stays := *c
	stays.CheckRedirect = sameOrigin
	return &issuer{Issuer: i, client: &stays, limits: l, asked: introspections{asking: make(chan struct{}, maxAsking)}, fetching: make(chan struct{}, 1)}
}

// maxRedirects is how many redirections are followed.
const maxRedirects = 3

// sameOrigin keeps a request where the configuration or the issuer's metadata sends it: what it carries, a token that is asked about
// and our secret, or what it brings, keys, are nobody else's. A redirection that is not followed is no answer.
func sameOrigin(next *http.Request, via []*http.Request) error {
	first := via[0]
	if len(via) > maxRedirects || next.Method != first.Method || next.URL.Scheme != first.URL.Scheme || next.URL.Host != first.URL.Host {
		return http.ErrUseLastResponse
	}
	return nil
}

// peekIssuer returns what a token says its issuer is, if it is a JWT. Nothing of that is verified.
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

// read returns whose token it is, a JWT that says it is of this issuer, for a resource of this server.
func (i *issuer) read(ctx context.Context, token, resource string) (*pb.Principal, error) {
	t, err := jwt.ParseSigned(token, algorithms)
	if err != nil {
		return nil, invalidToken("the token cannot be read: %v", err)
	}
	head := t.Headers[0]
	if err := i.checkHeader(token); err != nil {
		return nil, invalidToken("the header of the token is no strict JSON: %v", err)
	}
	if _, ok := head.ExtraHeaders["crit"]; ok {
		return nil, invalidToken("the token has extensions that must be understood (crit), and there are none here")
	}
	if typ, ok := head.ExtraHeaders[jose.HeaderType]; ok {
		name, _ := typ.(string)
		if !slices.Contains(types, strings.TrimPrefix(strings.ToLower(name), "application/")) {
			return nil, invalidToken("the token is of type %q, and no access token", rawjson.Shorten(name))
		}
	}
	if len(head.KeyID) > maxKeyID {
		return nil, invalidToken("the name of the token's key has %d bytes, and at most %d are allowed", len(head.KeyID), maxKeyID)
	}
	keys, err := i.keysOf(ctx, head.KeyID)
	if err != nil {
		return nil, err
	}
	var text jsontext.Value
	if !slices.ContainsFunc(keys, func(k jose.JSONWebKey) bool {
		fits := (k.Algorithm == "" || k.Algorithm == head.Algorithm) && (k.Use == "" || k.Use == "sig")
		return fits && t.Claims(k.Key, &text) == nil
	}) {
		return nil, invalidToken("the token is signed by none of the keys of %s", i.URL)
	}
	c, err := readClaims(text, &i.limits)
	if err != nil {
		return nil, invalidToken("the claims of the token cannot be read: %v", err)
	}
	return i.accept(text, c, resource, false)
}

// checkHeader reports what of the header of a JWT parsers disagree about.
func (i *issuer) checkHeader(token string) error {
	encoded, _, _ := strings.Cut(token, ".")
	text, err := base64.RawURLEncoding.DecodeString(encoded)
	if err != nil {
		return err
	}
	return rawjson.CheckWithin(text, &i.limits)
}

// claims are what a token is judged by.
type claims struct {
	jwt.Claims

	Scope    string         `json:"scope"`
	Scp      jsontext.Value `json:"scp"`
	ClientID string         `json:"client_id"`
}

// readClaims reads what a token, or its issuer, says of it. l is nil if the text was checked.
func readClaims(text jsontext.Value, l *limits.Limits) (*claims, error) {
	if err := rawjson.CheckWithin(text, l); err != nil { // a backend gets them, and may be less patient
		return nil, err
	}
	// Strictly: what an issuer lets others name, such as SUB, is not taken for sub.
	c := &claims{}
	return c, json.Unmarshal(text, c)
}

// accept returns whom claims are about, if they are for this server or the given resource of it, and now. When the issuer was asked about the
// token, it need not say who it is, nor when the token ends.
func (i *issuer) accept(text jsontext.Value, c *claims, resource string, asked bool) (*pb.Principal, error) {
	switch {
	case c.Issuer != i.URL && (c.Issuer != "" || !asked):
		return nil, invalidToken("the token is of issuer %q, which is not %q", rawjson.Shorten(c.Issuer), i.URL)
	case c.Expiry == nil && !asked:
		return nil, invalidToken("the token does not say when it ends")
	case !slices.ContainsFunc(i.Audiences, c.Audience.Contains) && (!i.parts || !c.Audience.Contains(resource)):
		return nil, invalidToken("the token is for %q, and not for %q", rawjson.Shorten(strings.Join(c.Audience, " ")), i.Audiences)
	}
	if err := c.ValidateWithLeeway(jwt.Expected{Time: time.Now()}, skew); err != nil {
		return nil, invalidToken("the token is not good now: %v", err)
	}
	p := &pb.Principal{Issuer: i.URL, Subject: c.Subject, Scopes: scopes(c.Scope, c.Scp), Claims: text}
	if p.GetSubject() == "" {
		p.Subject = c.ClientID // of a token that is a program's own
	}
	if p.GetSubject() == "" {
		return nil, invalidToken("the token does not say whom it is about")
	}
	return p, nil
}

// scopes returns what a token allows: `scope` is a string with spaces (RFC 8693), and some issuers have a list, `scp`.
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

// splitScopes returns the scopes in a text. Only spaces are between them (RFC 6749, 3.3).
func splitScopes(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ' ' })
}

// keysOf returns the keys that a token may be signed by: those of the name, or all if it names none.
func (i *issuer) keysOf(ctx context.Context, id string) ([]jose.JSONWebKey, error) {
	for {
		keys, fetch, err := i.known(id)
		if !fetch {
			return keys, err
		}
		select {
		case i.fetching <- struct{}{}:
		case <-ctx.Done():
			return nil, unavailable("waiting for the keys of %s: %v", i.URL, ctx.Err())
		}
		if _, still, _ := i.known(id); still { // nobody has fetched them meanwhile
			i.refresh(ctx)
		}
		<-i.fetching
	}
}

// known returns the keys of a name as far as they are known, or that they must be fetched first.
func (i *issuer) known(id string) (keys []jose.JSONWebKey, fetch bool, err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, k := range i.keys {
		if id == "" || k.KeyID == id {
			keys = append(keys, k)
		}
	}
	now := time.Now()
	switch good := !i.fetched.IsZero() && now.Sub(i.fetched) < keysFor; {
	case good && len(keys) > 0:
		return keys, false, nil
	case i.tried.IsZero() || now.Sub(i.tried) >= keysAgain:
		return nil, true, nil
	case i.failed != nil || !good:
		return nil, false, unavailable("the keys of %s cannot be had: %v", i.URL, i.failed)
	}
	return nil, false, invalidToken("the token is signed by a key that %s does not have", i.URL)
}

// refresh fetches the keys. One that cannot be fetched any more is good no longer.
func (i *issuer) refresh(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second) // others wait for them, too
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
		return nil, fmt.Errorf("%s: %d keys, and at most %d are allowed", at, len(set.Keys), maxKeys)
	}
	var keys []jose.JSONWebKey
	for _, text := range set.Keys {
		var k jose.JSONWebKey
		if k.UnmarshalJSON(text) == nil && k.IsPublic() && k.Valid() && verifies(text, k.Key) { // others are to be ignored (RFC 7517, 5)
			keys = append(keys, k)
		}
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("%s: there is no key that can be used", at)
	}
	return keys, nil
}

// verifies reports whether a key may be used to verify what is signed.
func verifies(text jsontext.Value, key any) bool {
	var may struct {
		Operations []string `json:"key_ops"`
	}
	if json.Unmarshal(text, &may) != nil || may.Operations != nil && !slices.Contains(may.Operations, "verify") {
		return false
	}
	k, ok := key.(*rsa.PublicKey)
	return !ok || k.N.BitLen() >= leastRSA
}

// discover returns where the issuer's metadata says that its keys are (RFC 8414, 3.1; OpenID Connect Discovery, 4).
func (i *issuer) discover(ctx context.Context) (string, error) {
	base, err := url.Parse(i.URL)
	if err != nil {
		return "", err
	}
	path := strings.TrimSuffix(base.Path, "/")
	var errs []error
	for _, p := range []string{"/.well-known/oauth-authorization-server" + path, "/.well-known/openid-configuration" + path, path + "/.well-known/openid-configuration"} {
		at := *base
		at.Path = p
		var m struct {
			Issuer string `json:"issuer"`
			JWKS   string `json:"jwks_uri"`
		}
		err := i.get(ctx, at.String(), &m)
		switch {
		case err == nil && m.Issuer != i.URL:
			err = fmt.Errorf("%s: the metadata is of %q", at.String(), m.Issuer)
		case err == nil && m.JWKS == "":
			err = fmt.Errorf("%s: the metadata does not say where the keys are", at.String())
		case err == nil && base.Scheme == "https" && !strings.HasPrefix(m.JWKS, "https://"):
			err = fmt.Errorf("%s: the keys are said to be at %q, where anybody could put others: they must be at https://", at.String(), rawjson.Shorten(m.JWKS))
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

// exchange makes a request of the issuer, which answers with a JSON object.
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
		return fmt.Errorf("%s: more than %d bytes", req.URL.Redacted(), maxDocument)
	}
	if err := json.Unmarshal(body, to); err != nil {
		return fmt.Errorf("%s: %w", req.URL.Redacted(), err)
	}
	return nil
}
