package oauth

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// pemKey returns a private key as PEM.
func pemKey(key any) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: must(x509.MarshalPKCS8PrivateKey(key))})
}

func TestClientCredentials(t *testing.T) {
	ec := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	ours := func(o *Options) {
		o.Grant, o.ClientID, o.Browser = ClientCredentials, "us", nil
	}
	secret := func(o *Options) { ours(o); o.ClientSecret = "s:/ canary" }
	key := func(o *Options) { ours(o); o.PrivateKey, o.KeyID = pemKey(ec), "k1" }
	for _, row := range []struct {
		name    string
		o       func(*Options)
		methods []string
		algs    []string
		check   func(*fixture, url.Values) bool
		err     string
	}{
		{"basic", secret, []string{"client_secret_basic"}, nil, func(_ *fixture, f url.Values) bool {
			return f.Get("(basic)") == "us:"+url.QueryEscape("s:/ canary") && !f.Has("client_secret") &&
				!f.Has("client_assertion")
		}, ""},
		{"post", secret, []string{"client_secret_post"}, nil, func(_ *fixture, f url.Values) bool {
			return f.Get("(basic)") == "" && f.Get("client_id") == "us" && f.Get("client_secret") == "s:/ canary"
		}, ""},
		{"key", key, []string{"private_key_jwt"}, []string{"ES256"}, func(w *fixture, f url.Values) bool {
			return isAssertion(t, f, "us", w.as.URL, &ec.PublicKey)
		}, ""},
		{
			"key, no methods declared", key, nil, nil,
			func(w *fixture, f url.Values) bool { return isAssertion(t, f, "us", w.as.URL, &ec.PublicKey) }, "",
		},
		{"key, unsupported", key, []string{"client_secret_basic"}, nil, nil, "instead of private_key_jwt"},
		{
			"algorithm, unsupported", key,
			[]string{"private_key_jwt"},
			[]string{"RS256"},
			nil,
			"instead of signatures with ES256",
		},
		{"secret, unsupported", secret, []string{"private_key_jwt"}, nil, nil, "uses a secret"},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := newFixture(t)
			w.canaries = []string{"s:/ canary"}
			w.noRefresh = true
			w.meta["authorization_endpoint"], w.meta["registration_endpoint"] = nil, nil
			w.meta["token_endpoint_auth_methods_supported"] = row.methods
			w.meta["token_endpoint_auth_signing_alg_values_supported"] = row.algs
			if row.methods == nil {
				w.meta["token_endpoint_auth_methods_supported"] = nil
			}
			w.challenge = func() string {
				return `Bearer scope="a b", resource_metadata="` + w.mcp.URL + metadataPath +
					`"`
			}
			tr := w.transport(row.o)
			if row.err != "" {
				w.mustFail(tr, row.err)
				return
			}
			w.mustSucceed(tr)
			if warned := strings.Contains(w.log.String(), "configure the issuer"); warned != (row.name == "basic" ||
				row.name == "post") {
				t.Errorf("warning about a secret without an issuer: got %t", warned)
			}
			f := w.tokenRequest()
			if f.Get("grant_type") != "client_credentials" || f.Get("scope") != "a b" ||
				f.Get("resource") != w.mcp.URL+"/mcp" || !row.check(w, f) {
				t.Errorf("token request: %v", f)
			}
			w.revoke()
			w.mustSucceed(tr)
		})
	}
}

// isAssertion reports whether a token request has a valid client assertion.
func isAssertion(t *testing.T, f url.Values, id, audience string, key any) bool {
	t.Helper()
	tok, err := jwt.ParseSigned(f.Get("client_assertion"), []jose.SignatureAlgorithm{jose.ES256})
	if err != nil {
		t.Error(err)
		return false
	}
	var c jwt.Claims
	if err := tok.Claims(key, &c); err != nil {
		t.Error(err)
	}
	if err := c.Validate(jwt.Expected{
		Issuer: id, Subject: id, AnyAudience: jwt.Audience{audience},
		Time: time.Now(),
	}); err != nil {
		t.Error(err)
	}
	return len(c.Audience) == 1 && c.ID != "" && c.Expiry.Time().Before(time.Now().Add(2*time.Minute)) &&
		tok.Headers[0].KeyID == "k1" &&
		f.Get("client_assertion_type") == "urn:ietf:params:oauth:client-assertion-type:jwt-bearer" &&
		!f.Has("client_secret") && f.Get("(basic)") == ""
}

// Without a user, a new token is requested before the old one expires.
func TestClientCredentialsExpire(t *testing.T) {
	w := newFixture(t)
	w.noRefresh, w.lifetime = true, 1
	tr := w.transport(func(o *Options) {
		o.Grant, o.ClientID, o.ClientSecret, o.Issuer = ClientCredentials, "us", "s", w.as.URL
	})
	w.update(func() { w.meta["token_endpoint_auth_methods_supported"] = []string{"client_secret_post"} })
	for range 3 {
		w.mustSucceed(tr)
	}
	if w.count("POST mcp /mcp") != 4 || len(w.tokenRequests) != 3 {
		t.Errorf("%v", w.requests())
	}
	// If that fails, the old token is used as long as the server accepts it.
	w.update(func() {
		w.token = func(url.Values, string) (int, map[string]any) { return 500, map[string]any{} }
	})
	w.mustSucceed(tr)
	w.revoke()
	w.mustFail(tr, "500")
}

func TestWrongSecretIsSentOnce(t *testing.T) {
	w := newFixture(t)
	w.token = func(url.Values, string) (int, map[string]any) { return 401, map[string]any{"error": "invalid_client"} }
	tr := w.transport(func(o *Options) { o.Grant, o.ClientID, o.ClientSecret = ClientCredentials, "us", "s" })
	w.update(func() { w.meta["token_endpoint_auth_methods_supported"] = []string{"client_secret_post"} })
	tr.pause = time.Hour
	for range 3 {
		w.mustFail(tr, "invalid_client")
	}
	if len(w.tokenRequests) != 1 {
		t.Errorf("got %d token requests", len(w.tokenRequests))
	}
}

func TestKeys(t *testing.T) {
	rs := must(rsa.GenerateKey(rand.Reader, 2048))
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	ec384 := must(ecdsa.GenerateKey(elliptic.P384(), rand.Reader))
	for _, row := range []struct {
		name, algorithm string
		key             []byte
		want            string // the algorithm
		err             string
	}{
		{"RSA", "", pemKey(rs), "RS256", ""},
		{"RSA, PS", "PS512", pemKey(rs), "PS512", ""},
		{"RSA, PKCS 1", "", pem.EncodeToMemory(
			&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(rs)}), "RS256", ""},
		{"P-384", "", pemKey(ec384), "ES384", ""},
		{"P-384, SEC 1", "", pem.EncodeToMemory(
			&pem.Block{Type: "EC PRIVATE KEY", Bytes: must(x509.MarshalECPrivateKey(ec384))}), "ES384", ""},
		{"Ed25519", "", pemKey(ed), "EdDSA", ""},
		{"another algorithm", "ES256", pemKey(rs), "", "ES256"},
		{"no algorithm", "none", pemKey(rs), "", "none"},
		{"symmetric", "HS256", pemKey(rs), "", "HS256"},
		{"no PEM", "", []byte("x"), "", "not PEM"},
		{"a certificate", "", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE"}), "", "CERTIFICATE"},
		{
			"encrypted", "", pem.EncodeToMemory(&pem.Block{Type: "ENCRYPTED PRIVATE KEY"}), "",
			"not an unencrypted private key",
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			k, err := parseKey(row.key, row.algorithm, "")
			if row.err != "" {
				if err == nil || !strings.Contains(err.Error(), row.err) {
					t.Errorf("got %v, want %q", err, row.err)
				}
				return
			}
			if err != nil || string(k.algorithm) != row.want {
				t.Errorf("got %v, %v", k, err)
			}
		})
	}
}

func TestAssertion(t *testing.T) {
	w := newFixture(t)
	calls := 0
	us := func(o *Options) {
		o.Grant, o.ClientID, o.Browser = JWTBearer, "workload", nil
		o.Assertion = func(_ context.Context, to Target) (string, error) {
			calls++
			if to != (Target{Issuer: w.as.URL, Resource: w.mcp.URL + "/mcp"}) {
				t.Errorf("got the target %v", to)
			}
			return "assertion-canary", nil
		}
	}
	w.canaries = []string{"assertion-canary"}
	w.mustSucceed(w.transport(us))
	f := w.tokenRequest()
	if f.Get("grant_type") != string(JWTBearer) || f.Get("assertion") != "assertion-canary" ||
		f.Get("client_id") != "workload" || f.Get("resource") == "" {
		t.Errorf("token request: %v", f)
	}
	w.token = func(f url.Values, _ string) (int, map[string]any) {
		return 400, map[string]any{"error": "invalid_grant", "error_description": f.Get("assertion") + " is expired"}
	}
	tr := w.transport(us)
	tr.pause = time.Hour
	w.mustFail(tr, "invalid_grant: (withheld) is expired")
	w.mustFail(tr, "invalid_grant")
	if calls != 2 || len(w.tokenRequests) != 2 {
		t.Errorf("got %d assertions, %d token requests", calls, len(w.tokenRequests))
	}
	w.mustFail(w.transport(func(o *Options) {
		us(o)
		o.Assertion = func(context.Context, Target) (string, error) { return "", errors.New("no such file") }
	}), "no such file")
}

func TestIdentityProvider(t *testing.T) {
	w := newFixture(t)
	var got url.Values
	var response map[string]any
	status := 200
	idp := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		r.ParseForm()
		got = r.PostForm
		reply(rw, status, response)
	}))
	defer idp.Close()
	w.canaries = []string{"id-token-canary", "jag-canary"}
	us := func(o *Options) {
		o.Grant, o.ClientID, o.Browser = JWTBearer, "us", nil
		o.IDP = &IDP{
			TokenEndpoint: idp.URL, ClientID: "idp-us",
			IDToken: func(context.Context) (string, error) { return "id-token-canary", nil },
		}
	}
	response = map[string]any{
		"access_token":      "jag-canary",
		"issued_token_type": "urn:ietf:params:oauth:token-type:id-jag", "token_type": "N_A",
	}
	w.mustSucceed(w.transport(us))
	for name, want := range map[string]string{
		"grant_type":           "urn:ietf:params:oauth:grant-type:token-exchange",
		"requested_token_type": "urn:ietf:params:oauth:token-type:id-jag",
		"subject_token_type":   "urn:ietf:params:oauth:token-type:id_token",
		"subject_token":        "id-token-canary", "audience": w.as.URL, "resource": w.mcp.URL + "/mcp",
		"client_id": "idp-us",
	} {
		if got.Get(name) != want {
			t.Errorf("exchange: %s is %q, want %q", name, got.Get(name), want)
		}
	}
	if f := w.tokenRequest(); f.Get("assertion") != "jag-canary" || f.Get("grant_type") != string(JWTBearer) {
		t.Errorf("token request: %v", f)
	}
	response["issued_token_type"] = "urn:ietf:params:oauth:token-type:access_token"
	w.mustFail(w.transport(us), "want an ID-JAG")
	status, response = 400, map[string]any{"error": "invalid_request", "error_description": "id-token-canary is old"}
	w.mustFail(w.transport(us), "the identity provider: invalid_request: (withheld) is old")
}

// RFC 9449: this test verifies proofs as a server does.
func TestProofs(t *testing.T) {
	w := newFixture(t)
	w.meta["dpop_signing_alg_values_supported"] = []string{"RS256", "ES256"}
	w.challenge = func() string { return `DPoP resource_metadata="` + w.mcp.URL + metadataPath + `"` }
	var seen, nonces []string
	var refusals atomic.Int32
	check := func(header, method, target, token string) string {
		p, err := jwt.ParseSigned(header, []jose.SignatureAlgorithm{jose.ES256})
		if err != nil {
			t.Errorf("proof %q: %v", header, err)
			return ""
		}
		k := p.Headers[0].JSONWebKey
		var c proof
		if err := p.Claims(k, &c); err != nil || !k.IsPublic() || p.Headers[0].ExtraHeaders["typ"] != "dpop+jwt" {
			t.Errorf("%v: %v", err, p.Headers[0])
		}
		hash := ""
		if token != "" {
			sum := sha256.Sum256([]byte(token))
			hash = base64.RawURLEncoding.EncodeToString(sum[:])
		}
		if c.Method != method || c.Target != target || c.TokenHash != hash ||
			time.Since(c.IssuedAt.Time()) > time.Minute {
			t.Errorf("proof %+v for %s %s", c, method, target)
		}
		for _, id := range seen {
			if id == c.ID {
				t.Error("a proof was used twice")
			}
		}
		seen, nonces = append(seen, c.ID), append(nonces, c.Nonce)
		return string(must(k.Thumbprint(5))) // crypto.SHA256
	}
	bound := map[string]string{}
	w.token = func(f url.Values, _ string) (int, map[string]any) {
		thumb := check(f.Get("(dpop)"), "POST", w.as.URL+"/token", "")
		if nonces[len(nonces)-1] == "" {
			return 400, map[string]any{"error": "use_dpop_nonce"}
		}
		token := w.secret("access")
		bound[token] = thumb
		w.refresh["r"] = ""
		return 200, map[string]any{"access_token": token, "token_type": "DPoP", "refresh_token": "r"}
	}
	inner := w.as.Config.Handler
	w.as.Config.Handler = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Dpop-Nonce", "as-nonce")
		inner.ServeHTTP(rw, r)
	})
	mcp := w.mcp.Config.Handler
	w.mcp.Config.Handler = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "DPoP ")
		if !ok {
			mcp.ServeHTTP(rw, r)
			return
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		thumb, known := bound[token]
		if !known {
			rw.Header().Set("WWW-Authenticate", w.challenge()+`, error="invalid_token"`)
			rw.WriteHeader(401)
			return
		}
		if check(r.Header.Get("Dpop"), "POST", w.mcp.URL+"/mcp", token) != thumb {
			t.Error("the proof has another key than the token")
		}
		if nonces[len(nonces)-1] != "rs-nonce" {
			refusals.Add(1)
			rw.Header().Set("Dpop-Nonce", "rs-nonce")
			rw.Header().Set("WWW-Authenticate", `DPoP error="use_dpop_nonce"`)
			rw.WriteHeader(401)
			return
		}
		rw.WriteHeader(200)
	})
	dir := filepath.Join(t.TempDir(), "c")
	tr := w.transport(func(o *Options) { o.Dir = dir })
	w.mustSucceed(tr)
	w.mustSucceed(tr)
	if len(w.authRequests) != 1 || len(w.tokenRequests) != 2 || refusals.Load() != 1 {
		t.Errorf("got %d logins, %d token requests, %d refusals", len(w.authRequests), len(w.tokenRequests),
			refusals.Load())
	}
	// Another process refreshes with the same key.
	w.mustSucceed(w.transport(func(o *Options) { o.Dir = dir }))
	w.update(func() { clear(bound) })
	w.mustSucceed(w.transport(func(o *Options) { o.Dir = dir; o.Browser = nil }))
	if w.tokenRequest().Get("grant_type") != "refresh_token" {
		t.Errorf("%v", w.tokenRequest())
	}
	// A token that is not bound is rejected.
	w.update(func() {
		clear(bound)
		w.token = func(url.Values, string) (int, map[string]any) {
			return 200, map[string]any{"access_token": "x", "token_type": "Bearer"}
		}
	})
	w.mustFail(w.transport(nil), `type "Bearer", want DPoP`)
}

func TestUnsupportedProofs(t *testing.T) {
	w := newFixture(t)
	w.prm[metadataPath].(map[string]any)["dpop_bound_access_tokens_required"] = true
	w.mustFail(w.transport(nil), "does not support with ES256")
	// A server that also accepts Bearer gets a token without.
	w = newFixture(t)
	w.challenge = func() string {
		return `Bearer resource_metadata="` + w.mcp.URL + metadataPath + `", DPoP algs="ES256", resource_metadata="` +
			w.mcp.URL + metadataPath + `"`
	}
	w.mustSucceed(w.transport(nil))
	if w.tokenRequest().Get("(dpop)") != "" {
		t.Error("got a proof for a token that is not bound")
	}
}

func TestNonceIsLimited(t *testing.T) {
	k := must(newProofKey(nil))
	at := must(url.Parse("https://x.example/"))
	long := strings.Repeat("n", maxNonce)
	if k.updateNonce(at, http.Header{"Dpop-Nonce": {long + "n"}}) ||
		!k.updateNonce(at, http.Header{"Dpop-Nonce": {long}}) || k.updateNonce(at, http.Header{"Dpop-Nonce": {long}}) {
		t.Errorf("want a nonce of %d bytes stored once, and a longer one ignored", maxNonce)
	}
}

// Only clients of users are registered.
func TestNoRegistrationWithoutUser(t *testing.T) {
	w := newFixture(t)
	w.mustFail(w.transport(func(o *Options) {
		o.Grant, o.ClientMetadataURL = JWTBearer, "https://us.example/client.json"
		o.Assertion = func(context.Context, Target) (string, error) { return "x", nil }
	}), "configure the client ID")
	if len(w.registrations) > 0 {
		t.Error("the client was registered")
	}
}
