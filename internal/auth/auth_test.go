package auth_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/auth"
	"github.com/mcpbridge/mcpbridge/internal/bridgetest"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	resource = "https://mcp.example.com/mcp"
	issuer   = "https://issuer.example.com/tenant"
)

var (
	rsaKey   = must(rsa.GenerateKey(rand.Reader, 2048))
	otherKey = must(rsa.GenerateKey(rand.Reader, 2048))
	ecKey    = must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// A fakeIssuer has the endpoints of an issuer that resource servers use. It is an http.RoundTripper, because tests with
// synctest have no sockets.
type fakeIssuer struct {
	mu            sync.Mutex
	keys          []jose.JSONWebKey
	down          bool
	body          string // if set, replaces the keys
	introspection any
	requests      atomic.Int32
}

func newIssuer() *fakeIssuer {
	return &fakeIssuer{keys: []jose.JSONWebKey{
		{Key: &rsaKey.PublicKey, KeyID: "rsa", Use: "sig"},
		{Key: &ecKey.PublicKey, KeyID: "ec", Algorithm: "ES256"},
		{Key: &otherKey.PublicKey, KeyID: "enc", Use: "enc"},
	}}
}

func (a *fakeIssuer) set(f func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	f()
}

func (a *fakeIssuer) RoundTrip(r *http.Request) (*http.Response, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.requests.Add(1)
	w := httptest.NewRecorder()
	switch {
	case a.down:
		w.WriteHeader(http.StatusInternalServerError)
	case r.URL.String() == "https://issuer.example.com/.well-known/openid-configuration/tenant":
		fmt.Fprintf(w, `{"issuer":%q,"jwks_uri":"https://issuer.example.com/keys"}`, issuer)
	case r.URL.Path == "/keys" && a.body != "":
		io.WriteString(w, a.body)
	case r.URL.Path == "/keys":
		json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: a.keys})
	case r.URL.Path == "/introspect":
		id, secret, _ := r.BasicAuth()
		if r.ParseForm() != nil || id != "bridge" || secret != "s" {
			w.WriteHeader(http.StatusUnauthorized)
			break
		}
		json.NewEncoder(w).Encode(a.introspection)
	default:
		w.WriteHeader(http.StatusNotFound)
	}
	return w.Result(), nil
}

// A change changes a valid token.
type change func(claims map[string]any, header *jose.SignerOptions) (key any, alg jose.SignatureAlgorithm)

func token(changes ...change) string {
	now := time.Now()
	claims := map[string]any{
		"iss": issuer, "aud": resource, "sub": "ada", "scope": "mcp read", "exp": now.Add(time.Hour).Unix(),
		"nbf": now.Unix(),
	}
	opts := (&jose.SignerOptions{}).WithHeader("kid", "rsa")
	var key any = rsaKey
	alg := jose.RS256
	for _, c := range changes {
		if k, a := c(claims, opts); k != nil {
			key, alg = k, a
		}
	}
	signer := must(jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: key}, opts))
	return must(jwt.Signed(signer).Claims(claims).Serialize())
}

func claim(name string, value any) change {
	return func(c map[string]any, _ *jose.SignerOptions) (any, jose.SignatureAlgorithm) {
		if c[name] = value; value == nil {
			delete(c, name)
		}
		return nil, ""
	}
}

func signed(key any, alg jose.SignatureAlgorithm, kid string) change {
	return func(_ map[string]any, o *jose.SignerOptions) (any, jose.SignatureAlgorithm) {
		o.WithHeader("kid", kid)
		return key, alg
	}
}

func typed(typ any) change {
	return func(_ map[string]any, o *jose.SignerOptions) (any, jose.SignatureAlgorithm) {
		o.WithHeader(jose.HeaderType, typ)
		return nil, ""
	}
}

func after(d time.Duration) int64 { return time.Now().Add(d).Unix() }

// forged returns a token with any header and claims.
func forged(header, claims string, sign func(what string) []byte) string {
	enc := base64.RawURLEncoding.EncodeToString
	what := enc([]byte(header)) + "." + enc([]byte(claims))
	return what + "." + enc(sign(what))
}

func newAuth(t *testing.T, a http.RoundTripper, f func(*auth.Options)) *auth.Auth {
	t.Helper()
	o := auth.Options{
		Resource: resource, Issuers: []auth.Issuer{{URL: issuer}}, Scopes: []string{"mcp"},
		Client: &http.Client{Transport: a}, Log: zerolog.New(zerolog.NewTestWriter(t)),
	}
	if f != nil {
		f(&o)
	}
	out, err := auth.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// try sends a request through the Auth and returns the response, or the principal and the header of the accepted
// request.
func try(au *auth.Auth, edit func(*http.Request)) (*http.Response, *pb.Principal, http.Header) {
	r := httptest.NewRequest(http.MethodPost, "/mcp", strings.NewReader("{}"))
	edit(r)
	w := httptest.NewRecorder()
	var principal *pb.Principal
	var header http.Header
	if r = au.Admit(w, r); r != nil {
		principal, header = auth.Principal(r), r.Header
	}
	return w.Result(), principal, header
}

func bearer(token string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) }
}

func TestAdmit(t *testing.T) {
	pub := must(x509.MarshalPKIXPublicKey(&rsaKey.PublicKey))
	hmacKey := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: pub})
	good := fmt.Sprintf(`{"iss":%q,"aud":%q,"sub":"ada","scope":"mcp","exp":%d}`, issuer, resource, after(time.Hour))
	for _, c := range []struct {
		name   string
		edit   func(*http.Request)
		status int
	}{
		{"a valid token", bearer(token()), 200},
		{"another algorithm", bearer(token(signed(ecKey, jose.ES256, "ec"))), 200},
		{"without a key ID", bearer(token(signed(rsaKey, jose.RS256, ""))), 200},
		{"several audiences", bearer(token(claim("aud", []string{"x", resource}))), 200},
		{"of a client without a user", bearer(token(claim("sub", nil), claim("client_id", "p"))), 200},
		{"with a list of scopes", bearer(token(claim("scope", nil), claim("scp", []string{"mcp"}))), 200},
		{"scheme in lower case", func(r *http.Request) { r.Header.Set("Authorization", "bearer "+token()) }, 200},
		{"with a no-break space", bearer(token() + "\u00a0"), 401},
		{"expired 58 s ago", bearer(token(claim("exp", after(-58*time.Second)))), 200},
		{"expired 61 s ago", bearer(token(claim("exp", after(-61*time.Second)))), 401},
		{"valid in 59 s", bearer(token(claim("nbf", after(59*time.Second)))), 200},
		{"valid in 61 s", bearer(token(claim("nbf", after(62*time.Second)))), 401},
		{"without expiry", bearer(token(claim("exp", nil))), 401},
		{"without subject", bearer(token(claim("sub", nil))), 401},
		{"of another issuer", bearer(token(claim("iss", "https://evil.example.com"))), 401},
		{"of another tenant", bearer(token(claim("iss", "https://issuer.example.com/other"))), 401},
		{"another audience", bearer(token(claim("aud", "https://other.example.com/mcp"))), 401},
		{"without audience", bearer(token(claim("aud", nil))), 401},
		{"an unknown key", bearer(token(signed(otherKey, jose.RS256, "rsa"))), 401},
		{"a key for encryption", bearer(token(signed(otherKey, jose.RS256, "enc"))), 401},
		{"an unknown key ID", bearer(token(signed(rsaKey, jose.RS256, "../../etc/passwd"))), 401},
		{"a long key ID", bearer(token(signed(rsaKey, jose.RS256, strings.Repeat("k", 257)))), 401},
		{"unsigned", bearer(forged(`{"alg":"none"}`, good, func(string) []byte { return nil })), 401},
		{
			"signed with the public key as a secret",
			bearer(forged(`{"alg":"HS256","kid":"rsa"}`, good, func(what string) []byte {
				return must(hmacSum(hmacKey, what))
			})), 401,
		},
		{"an EC key with the ID of an RSA key", bearer(token(signed(ecKey, jose.ES256, "rsa"))), 401},
		{
			"an unknown critical extension",
			bearer(forged(`{"alg":"RS256","kid":"rsa","crit":["x"],"x":1}`, good, func(what string) []byte {
				sum := sha256.Sum256([]byte(what))
				return must(rsa.SignPKCS1v15(rand.Reader, rsaKey, 5, sum[:]))
			})), 401,
		},
		{"without the required scope", bearer(token(claim("scope", "read"))), 403},
		{"many dots", bearer(strings.Repeat(".", 16<<10)), 401},
		{
			"deep claims",
			bearer(token(claim("x", json.RawMessage(strings.Repeat("[", 255)+strings.Repeat("]", 255))))),
			200,
		},
		{"too deep claims", bearer(
			token(claim("x", json.RawMessage(strings.Repeat("[", 256)+strings.Repeat("]", 256))))), 401},
		{"a scope after a no-break space", bearer(token(claim("scope", "read\u00a0mcp"))), 403},
		{"a scope after a tab", bearer(token(claim("scope", "read\tmcp"))), 403},
		{"several spaces between scopes", bearer(token(claim("scope", " read  mcp "))), 200},
		{"type access token", bearer(token(typed("application/at+JWT"))), 200},
		{"type JWT", bearer(token(typed("JWT"))), 200},
		{"type logout", bearer(token(typed("logout+jwt"))), 401},
		{"type number", bearer(token(typed(7))), 401},
		{"too long", bearer(strings.Repeat("x", 16<<10+1)), 401},
		{"no token", func(*http.Request) {}, 401},
		{"an empty token", bearer(""), 401},
		{"another scheme", func(r *http.Request) { r.SetBasicAuth("a", "b") }, 401},
		{
			"two headers",
			func(r *http.Request) { r.Header["Authorization"] = []string{"Bearer " + token(), "Bearer x"} },
			400,
		},
		{"in the URL", func(r *http.Request) { r.URL.RawQuery = "access_token=" + token(); bearer(token())(r) }, 401},
		{"in the URL, escaped", func(r *http.Request) {
			r.URL.RawQuery = "access%5Ftoken=" +
				token()
			bearer(token())(r)
		}, 401},
		{
			"in the URL, after an invalid escape",
			func(r *http.Request) { r.URL.RawQuery = "x=%zz&access_token=" + token(); bearer(token())(r) }, 401,
		},
		{
			"in the URL, with a semicolon",
			func(r *http.Request) { r.URL.RawQuery = "access_token=" + token() + ";x"; bearer(token())(r) }, 400,
		},
		{
			"in the URL, after a semicolon",
			func(r *http.Request) { r.URL.RawQuery = "x;access_token=" + token(); bearer(token())(r) }, 400,
		},
		{
			"in the URL, half escaped",
			func(r *http.Request) { r.URL.RawQuery = "access_token=" + token() + "%2"; bearer(token())(r) }, 400,
		},
		{
			"another parameter in the URL", func(r *http.Request) { r.URL.RawQuery = "session=x"; bearer(token())(r) },
			200,
		},
		{"a static token", bearer("secret"), 200},
	} {
		t.Run(c.name, func(t *testing.T) {
			au := newAuth(t, newIssuer(), func(o *auth.Options) {
				o.Tokens = []auth.Token{{Token: "secret", Subject: "bob", Scopes: []string{"mcp"}}}
			})
			res, principal, header := try(au, c.edit)
			if res.StatusCode != c.status || (principal != nil) != (c.status == 200) {
				t.Fatalf("got %s and the principal %v, want %d", res.Status, principal, c.status)
			}
			if header.Get("Authorization") != "" {
				t.Error("the token is forwarded")
			}
			challenge := res.Header.Get("WWW-Authenticate")
			if (challenge != "") != (c.status != 200) || challenge != "" &&
				!strings.Contains(challenge,
					`resource_metadata="https://mcp.example.com/.well-known/oauth-protected-resource/mcp"`) {
				t.Errorf("got the challenge %s", challenge)
			}
			if strings.Contains(challenge, "secret") {
				t.Error("the challenge contains the token")
			}
		})
	}
}

func hmacSum(key []byte, what string) ([]byte, error) {
	sum := sha256.Sum256(append(key, what...)) // any bytes: the algorithm is rejected
	return sum[:], nil
}

func TestPrincipal(t *testing.T) {
	_, p, _ := try(newAuth(t, newIssuer(), nil), bearer(token(claim("n", json.RawMessage("9007199254740993")))))
	var claims map[string]json.RawMessage
	if err := json.Unmarshal([]byte(p.GetClaims()), &claims); err != nil || string(claims["n"]) != "9007199254740993" {
		t.Errorf("got the claims %s, %v", p.GetClaims(), err)
	}
	if diff := cmp.Diff([]string{issuer, "ada", "mcp read"},
		[]string{p.GetIssuer(), p.GetSubject(), strings.Join(p.GetScopes(), " ")}); diff != "" {
		t.Error(diff)
	}
}

// A certificate has no scopes: if scopes are required, callers need a token.
func TestCertificatesHaveNoScopes(t *testing.T) {
	withCertificate := func(cert string, edit func(*http.Request)) func(*http.Request) {
		return func(r *http.Request) {
			r.TLS = &tls.ConnectionState{
				VerifiedChains: [][]*x509.Certificate{{{Subject: pkix.Name{CommonName: cert}}}},
			}
			edit(r)
		}
	}
	for _, c := range []struct {
		name    string
		scopes  []string
		edit    func(*http.Request)
		status  int
		subject string
	}{
		{"none required", nil, withCertificate("eve", func(*http.Request) {}), 200, "CN=eve"},
		{"one required", []string{"mcp"}, withCertificate("eve", func(*http.Request) {}), 403, ""},
		{"one required, and a token with it", []string{"mcp"}, withCertificate("eve", bearer(token())), 200, "ada"},
		{"one required, and a token without it", []string{"more"}, withCertificate("eve", bearer(token())), 403, ""},
	} {
		au := newAuth(t, newIssuer(), func(o *auth.Options) { o.Certificates, o.Scopes = true, c.scopes })
		res, p, _ := try(au, c.edit)
		if res.StatusCode != c.status || p.GetSubject() != c.subject {
			t.Errorf("%s: got %s and the principal %v", c.name, res.Status, p)
		}
		if got := res.Header.Get("WWW-Authenticate"); c.status == 403 &&
			!strings.Contains(got, `error="insufficient_scope"`) {
			t.Errorf("%s: got the challenge %s", c.name, got)
		}
	}
	_, err := auth.New(auth.Options{Certificates: true, Scopes: []string{"mcp"}})
	if err == nil || !strings.Contains(err.Error(), "certificates have no scopes") {
		t.Errorf("only certificates, and scopes: got %v", err)
	}
}

// Keys are fetched once, and again when a token has an unknown key ID, at most every 10 s. They are valid for an hour;
// after that, tokens cannot be verified (503).
func TestKeyRotationAndFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newIssuer()
		au := newAuth(t, a, nil)
		expect := func(what string, status int, fetches int, tok string) {
			t.Helper()
			before := a.requests.Load()
			res, _, _ := try(au, bearer(tok))
			if got := int(a.requests.Load() - before); res.StatusCode != status || got != fetches {
				t.Errorf("%s: got %s with %d fetches, want %d with %d", what, res.Status, got, status, fetches)
			}
			if status == 503 && res.Header.Get("Retry-After") == "" {
				t.Errorf("%s: no Retry-After", what)
			}
		}
		const all = 3 // the metadata at two URLs, then the keys
		expect("first", 200, all, token())
		expect("second", 200, 0, token())
		newKey := must(rsa.GenerateKey(rand.Reader, 2048))
		rotated := func() string { return token(signed(newKey, jose.RS256, "new")) }
		expect("unknown, at once", 401, 0, rotated())
		a.set(func() { a.keys = append(a.keys, jose.JSONWebKey{Key: &newKey.PublicKey, KeyID: "new"}) })
		bridgetest.Pass(10 * time.Second)
		expect("a new key", 200, all, rotated())
		for range 100 {
			expect("a flood", 401, 0, token(signed(otherKey, jose.RS256, "nosuch")))
		}
		a.set(func() { a.down = true })
		bridgetest.Pass(30 * time.Minute)
		expect("down, and known", 200, 0, token())
		expect("down, and unknown", 503, all, token(signed(otherKey, jose.RS256, "nosuch")))
		expect("down, and unknown, again", 503, 0, token(signed(otherKey, jose.RS256, "nosuch")))
		bridgetest.Pass(30 * time.Minute)
		expect("down for too long", 503, all, token())
		expect("down for too long, again", 503, 0, token())
		a.set(func() { a.down, a.body = false, strings.Repeat(" ", 1<<20)+"{}" })
		bridgetest.Pass(10 * time.Second)
		expect("response too large", 503, all, token())
		a.set(func() { a.body = "<html>" })
		bridgetest.Pass(10 * time.Second)
		expect("no JSON", 503, all, token())
		for _, none := range []string{`null`, `{}`, `{"keys":[]}`, `{"keys":[{"kty":"AKP","kid":"rsa"}]}`} {
			a.set(func() { a.body = none })
			bridgetest.Pass(10 * time.Second)
			expect("no keys: "+none, 503, all, token())
		}
		a.set(func() { a.body = "" })
		bridgetest.Pass(10 * time.Second)
		expect("recovered", 200, all, token())
	})
}

// Unknown kinds of keys are ignored.
func TestUnknownKeysAreIgnored(t *testing.T) {
	for _, strange := range []string{
		`{"kty":"AKP","kid":"pq","alg":"ML-DSA-44","pub":"AAAA"}`,
		`{"kty":"EC","crv":"secp256k1","kid":"k","x":"AAAA","y":"AAAA"}`,
		`{"kty":"OKP","crv":"X25519","kid":"x","x":"AAAA"}`, `{"kty":"RSA","kid":"half","n":"AQAB"}`,
		`{"kty":"oct","kid":"shared","k":"AAAA"}`,
		`{"kid":"nothing"}`, `{"kty":5}`, `{}`, `null`, `5`, `[]`,
	} {
		a := newIssuer()
		good := must(json.Marshal(a.keys[0]))
		a.body = `{"keys":[` + strange + `,` + string(good) + `]}`
		if res, _, _ := try(newAuth(t, a, nil), bearer(token())); res.StatusCode != 200 {
			t.Errorf("%s: got %s", strange, res.Status)
		}
	}
}

// Keys that are too short or for another use are rejected.
func TestUnusableKeys(t *testing.T) {
	short := must(rsa.GenerateKey(rand.Reader, 1024))
	text := func(key any, more string) string {
		k := must(json.Marshal(jose.JSONWebKey{Key: key, KeyID: "rsa"}))
		return `{"keys":[` + strings.TrimSuffix(string(k), "}") + more + `}]}`
	}
	for _, c := range []struct {
		name, keys string
		key        *rsa.PrivateKey
		status     int
	}{
		{"for verifying", text(&rsaKey.PublicKey, `,"key_ops":["verify"]`), rsaKey, 200},
		{"for encrypting", text(&rsaKey.PublicKey, `,"key_ops":["encrypt","wrapKey"]`), rsaKey, 503},
		{"for nothing", text(&rsaKey.PublicKey, `,"key_ops":[]`), rsaKey, 503},
		{"1024 bits", text(&short.PublicKey, ""), short, 503},
	} {
		a := newIssuer()
		a.body = c.keys
		if res, _, _ := try(newAuth(t, a, nil),
			bearer(token(signed(c.key, jose.RS256, "rsa")))); res.StatusCode != c.status {
			t.Errorf("%s: got %s, want %d", c.name, res.Status, c.status)
		}
	}
}

// Requests to an issuer do not follow redirects to another origin.
func TestRedirects(t *testing.T) {
	for _, to := range []string{
		"https://evil.example.com/x", "http://issuer.example.com/x",
		"https://issuer.example.com:8443/x", "/x",
	} {
		for _, status := range []int{301, 302, 303, 307, 308} {
			a := newIssuer()
			var requested []string
			via := roundTrip(func(r *http.Request) (*http.Response, error) {
				if r.URL.Path != "/keys" && r.URL.Path != "/introspect" {
					requested = append(requested, r.URL.String())
					return a.RoundTrip(r)
				}
				w := httptest.NewRecorder()
				http.Redirect(w, &http.Request{Method: r.Method, URL: r.URL}, to, status)
				return w.Result(), nil
			})
			au := newAuth(t, a, func(o *auth.Options) {
				o.Client = &http.Client{Transport: via}
				o.Issuers[0].Introspection = &auth.Introspection{
					URL:      "https://issuer.example.com/introspect",
					ClientID: "bridge", ClientSecret: "s",
				}
			})
			for _, tok := range []string{token(), "opaque"} {
				if res, _, _ := try(au, bearer(tok)); res.StatusCode != 503 {
					t.Errorf("%d to %s: got %s", status, to, res.Status)
				}
			}
			for _, u := range requested {
				if strings.HasSuffix(u, "/x") && u != "https://issuer.example.com/x" {
					t.Errorf("%d to %s: got a request to %s", status, to, u)
				}
			}
		}
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// The keys of an issuer with TLS must have TLS.
func TestKeysWithoutTLS(t *testing.T) {
	for _, at := range []string{
		"http://issuer.example.com/keys", "/keys", "file:///etc/passwd",
		"HTTP://issuer.example.com/keys",
	} {
		a := newIssuer()
		s := documents{
			`{"issuer":"` + issuer + `","jwks_uri":"` + at + `"}`,
			string(must(json.Marshal(jose.JSONWebKeySet{Keys: a.keys}))),
		}
		au := newAuth(t, a, func(o *auth.Options) { o.Client = &http.Client{Transport: s} })
		if res, _, _ := try(au, bearer(token())); res.StatusCode != 503 {
			t.Errorf("%s: got %s", at, res.Status)
		}
	}
}

// Concurrent requests fetch the keys once.
func TestConcurrentRequestsFetchKeysOnce(t *testing.T) {
	a := newIssuer()
	au := newAuth(t, a, nil)
	tok := token()
	var wg sync.WaitGroup
	for range 100 {
		wg.Go(func() {
			if res, _, _ := try(au, bearer(tok)); res.StatusCode != 200 {
				t.Error(res.Status)
			}
		})
	}
	wg.Wait()
	if got := a.requests.Load(); got != 3 {
		t.Errorf("got %d requests, want 3", got)
	}
}

func TestIntrospection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newIssuer()
		au := newAuth(t, a, func(o *auth.Options) {
			o.Issuers[0].Introspection = &auth.Introspection{
				URL:      "https://issuer.example.com/introspect",
				ClientID: "bridge", ClientSecret: "s",
			}
		})
		expect := func(what string, status, requests int, response any) {
			t.Helper()
			a.set(func() { a.introspection = response })
			before := a.requests.Load()
			res, _, _ := try(au, bearer("opaque "+what))
			if got := int(a.requests.Load() - before); res.StatusCode != status || got != requests {
				t.Errorf("%s: got %s with %d requests, want %d with %d", what, res.Status, got, status, requests)
			}
		}
		active := map[string]any{"active": true, "aud": resource, "sub": "ada", "scope": "mcp"}
		with := func(name string, value any) map[string]any {
			m := maps.Clone(active)
			m[name] = value
			return m
		}
		expect("active", 200, 1, active)
		expect("active", 200, 0, map[string]any{"active": false})
		bridgetest.Pass(time.Minute)
		expect("active", 401, 1, map[string]any{"active": false})
		expect("active", 401, 0, active)
		expect("another issuer", 401, 1, with("iss", "https://evil.example.com"))
		expect("another audience", 401, 1, with("aud", "https://evil.example.com"))
		expect("expired", 401, 1, with("exp", after(-2*time.Minute)))
		expect("fewer scopes", 403, 1, with("scope", "read"))
		expect("expires soon", 200, 1, with("exp", after(-50*time.Second)))
		bridgetest.Pass(11 * time.Second)
		expect("expires soon", 401, 1, with("exp", after(-61*time.Second)))
		// Malformed responses are not cached.
		for n, malformed := range []any{
			[]int{1},
			nil, "good",
			map[string]any{},
			map[string]any{"active": "true"},
			map[string]any{"active": nil},
			with("exp", "tomorrow"), with("sub", 5), with("aud", 5),
		} {
			what := fmt.Sprint("malformed ", n)
			expect(what, 503, 1, malformed)
			expect(what, 503, 1, malformed)
			expect(what, 200, 1, active)
		}
		expect("inactive", 401, 1, map[string]any{"active": false, "exp": "tomorrow"})
		a.set(func() { a.down = true })
		expect("issuer down", 503, 1, active)
	})
}

// Until is the exact time after which a token is rejected.
func TestUntil(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newIssuer()
		au := newAuth(t, a, func(o *auth.Options) {
			o.Issuers[0].Introspection = &auth.Introspection{
				URL:      "https://issuer.example.com/introspect",
				ClientID: "bridge", ClientSecret: "s",
			}
			o.Tokens = []auth.Token{{Token: "static", Subject: "ada", Scopes: []string{"mcp"}}}
		})
		response := map[string]any{
			"active": true, "aud": resource, "sub": "ada", "scope": "mcp",
			"exp": time.Now().Add(150 * time.Second).Unix(),
		}
		a.set(func() { a.introspection = response })
		for _, tok := range []string{token(claim("exp", time.Now().Add(time.Minute).Unix())), "opaque"} {
			p, err := au.Verify(t.Context(), tok)
			if err != nil {
				t.Fatal(err)
			}
			until := auth.Until(p)
			<-time.After(time.Until(until) - 1)
			if _, err = au.Verify(t.Context(), tok); err != nil {
				t.Errorf("%.6s rejected before %v: %v", tok, until, err)
			}
			<-time.After(2)
			if _, err = au.Verify(t.Context(), tok); err == nil {
				t.Errorf("%.6s accepted after %v", tok, until)
			}
		}
		delete(response, "exp")
		if p, err := au.Verify(t.Context(), "static"); err != nil || !auth.Until(p).IsZero() {
			t.Errorf("static token: got %v, until %v", err, auth.Until(p))
		}
		p, err := au.Verify(t.Context(), "opaque without expiry")
		if until := auth.Until(p); err != nil || time.Until(until) != time.Hour {
			t.Errorf("without expiry: got %v, until %v", err, until)
		}
		if until := auth.Until(nil); !until.IsZero() {
			t.Errorf("without principal: got %v", until)
		}
	})
}

// Clients can send invented tokens: at most 32 introspection requests are concurrent, and a caller waits at most 10 s.
// Of many callers with one token, only the first ones cause requests.
func TestIntrospectionIsLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := &slowIssuer{fakeIssuer: newIssuer(), delay: 3 * time.Second}
		slow.set(func() {
			slow.introspection = map[string]any{"active": true, "aud": resource, "sub": "ada", "scope": "mcp"}
		})
		au := newAuth(t, slow, func(o *auth.Options) {
			o.Issuers[0].Introspection = &auth.Introspection{
				URL:      "https://issuer.example.com/introspect",
				ClientID: "bridge", ClientSecret: "s",
			}
		})
		call := func(callers int, token func(int) string) (statuses map[int]int, took time.Duration) {
			slow.requests.Store(0)
			slow.maxWaiting = 0
			began := time.Now()
			var mu sync.Mutex
			statuses = map[int]int{}
			var wg sync.WaitGroup
			for n := range callers {
				wg.Go(func() {
					res, _, _ := try(au, bearer(token(n)))
					mu.Lock()
					defer mu.Unlock()
					statuses[res.StatusCode]++
				})
			}
			wg.Wait()
			return statuses, time.Since(began)
		}
		one := func(int) string { return "one" }
		if statuses, took := call(31, one); statuses[200] != 31 || took != 3*time.Second {
			t.Errorf("31 callers with one token: got %v in %v", statuses, took)
		}
		if statuses, took := call(33, func(n int) string { return fmt.Sprint("33 ", n) }); statuses[200] != 33 ||
			took != 6*time.Second || slow.maxWaiting != 32 {
			t.Errorf("33 tokens: got %v in %v, %d concurrent", statuses, took, slow.maxWaiting)
		}
		if statuses, _ := call(200, func(int) string { return "the same" }); statuses[200] != 200 ||
			slow.requests.Load() > 32 {
			t.Errorf("200 callers with one token: got %v with %d requests", statuses, slow.requests.Load())
		}
		statuses, took := call(1000, func(n int) string { return fmt.Sprint("invented ", n) })
		if statuses[200] != 96 || statuses[503] != 904 || took != 10*time.Second || slow.maxWaiting != 32 {
			t.Errorf("1,000 tokens: got %v in %v, %d concurrent", statuses, took, slow.maxWaiting)
		}
		if statuses, _ := call(1, func(int) string { return "after that" }); statuses[200] != 1 {
			t.Errorf("after that: got %v", statuses)
		}
	})
}

// Invented tokens do not evict active ones from the cache, and an inactive result replaces an active one.
func TestInventedTokensDoNotEvictActiveOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newIssuer()
		au := newAuth(t, a, func(o *auth.Options) {
			o.Issuers[0].Introspection = &auth.Introspection{
				URL:      "https://issuer.example.com/introspect",
				ClientID: "bridge", ClientSecret: "s",
			}
		})
		expect := func(token string, status int, requests int32) {
			t.Helper()
			before := a.requests.Load()
			if res, _, _ := try(au, bearer(token)); res.StatusCode != status || a.requests.Load()-before != requests {
				t.Errorf("%s: got %s with %d requests, want %d with %d", token, res.Status, a.requests.Load()-before,
					status, requests)
			}
		}
		a.set(func() {
			a.introspection = map[string]any{"active": true, "aud": resource, "sub": "ada", "scope": "mcp"}
		})
		expect("active", 200, 1)
		a.set(func() { a.introspection = map[string]any{"active": false} })
		for n := range 10_001 {
			expect(fmt.Sprint("invented ", n), 401, 1)
		}
		expect("active", 200, 0)
		expect("invented 10000", 401, 0)
		bridgetest.Pass(time.Minute)
		expect("active", 401, 1)
		expect("active", 401, 0)
		a.set(func() {
			a.introspection = map[string]any{"active": true, "aud": resource, "sub": "ada", "scope": "mcp"}
		})
		bridgetest.Pass(10 * time.Second)
		expect("active", 200, 1)
		expect("active", 200, 0)
	})
}

// A slowIssuer delays its responses, and counts the requests that wait.
type slowIssuer struct {
	*fakeIssuer

	delay               time.Duration
	waiting, maxWaiting int
}

func (a *slowIssuer) RoundTrip(r *http.Request) (*http.Response, error) {
	a.set(func() {
		a.waiting++
		a.maxWaiting = max(a.maxWaiting, a.waiting)
	})
	defer a.set(func() { a.waiting-- })
	select {
	case <-time.After(a.delay):
		return a.fakeIssuer.RoundTrip(r)
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
}

func TestMetadata(t *testing.T) {
	au := newAuth(t, newIssuer(), func(o *auth.Options) { o.MoreScopes = []string{"admin", "mcp"} })
	for _, path := range []string{
		"/.well-known/oauth-protected-resource",
		"/.well-known/oauth-protected-resource/mcp",
	} {
		res, _, _ := try(au, func(r *http.Request) { r.Method, r.URL.Path = http.MethodGet, path })
		body := must(io.ReadAll(res.Body))
		want := `{"resource":"` + resource + `","authorization_servers":["` + issuer +
			`"],"bearer_methods_supported":["header"],"scopes_supported":["admin","mcp"]}`
		if res.StatusCode != 200 || string(body) != want {
			t.Errorf("%s: got %s %s", path, res.Status, body)
		}
		if res, _, _ := try(au, func(r *http.Request) { r.URL.Path = path }); res.StatusCode != 405 ||
			res.Header.Get("Allow") == "" {
			t.Errorf("POST %s: got %s", path, res.Status)
		}
	}
}

// An endpoint is a resource of its own, whose tokens are not valid elsewhere. Strict clients reject metadata of another
// resource (RFC 9728, 3.3).
func TestEndpointsAreResources(t *testing.T) {
	const weather, metadata = resource + "/weather", "https://mcp.example.com/.well-known/oauth-protected-resource/mcp"
	as := newIssuer()
	as.set(func() {
		as.introspection = map[string]any{"active": true, "sub": "ada", "scope": "mcp", "aud": weather}
	})
	endpoints := func(o *auth.Options) {
		o.Endpoints = map[string]string{"/mcp/weather": "/weather", "/mcp/news": "/news"}
		o.Issuers[0].Introspection = &auth.Introspection{
			URL:      "https://issuer.example.com/introspect",
			ClientID: "bridge", ClientSecret: "s",
		}
	}
	au := newAuth(t, as, endpoints)
	named := newAuth(t, as, func(o *auth.Options) { endpoints(o); o.Issuers[0].Audiences = []string{resource} })
	for _, c := range []struct {
		au          *auth.Auth
		path, token string
		status      int
	}{
		{au, "/mcp/weather", token(claim("aud", weather)), 200},
		{au, "/mcp/weather", token(), 200},
		{au, "/mcp/weather", "opaque", 200},
		{au, "/mcp/weather", token(claim("aud", resource+"/news")), 401},
		{au, "/mcp/news", token(claim("aud", weather)), 401},
		{au, "/mcp/news", "opaque", 401},
		{au, "/mcp", token(claim("aud", weather)), 401},
		{au, "/mcp", "opaque", 401},
		{au, "/elsewhere", token(claim("aud", weather)), 401},
		{named, "/mcp/weather", token(claim("aud", weather)), 401}, // configured audiences
		{named, "/mcp/weather", token(), 200},
	} {
		res, _, _ := try(c.au, func(r *http.Request) { r.URL.Path = c.path; bearer(c.token)(r) })
		if res.StatusCode != c.status {
			t.Errorf("%s at %s: got %s, want %d", c.token, c.path, res.Status, c.status)
		}
	}
	for path, where := range map[string]string{
		"/mcp": metadata, "/mcp/weather": metadata + "/weather",
		"/elsewhere": metadata,
	} {
		res, _, _ := try(au, func(r *http.Request) { r.URL.Path = path })
		if got := res.Header.Get("WWW-Authenticate"); !strings.HasSuffix(got, `resource_metadata="`+where+`"`) ||
			!strings.HasSuffix(au.Challenge(path, nil), `"`+where+`"`) {
			t.Errorf("%s: got the challenge %s", path, got)
		}
	}
	res, _, _ := try(au, func(r *http.Request) {
		r.Method, r.URL.Path = http.MethodGet, "/.well-known/oauth-protected-resource/mcp/weather"
	})
	if body := must(io.ReadAll(res.Body)); res.StatusCode != 200 ||
		!strings.HasPrefix(string(body), `{"resource":"`+weather+`",`) {
		t.Errorf("got %s %s", res.Status, body)
	}
}

func TestScopesOfTools(t *testing.T) {
	au := newAuth(t, newIssuer(), nil)
	called := 0
	h := auth.Handler(bridge.HandlerFunc(func(context.Context, *bridge.Call, bridge.Emit) (*bridge.Result, error) {
		called++
		return &bridge.Result{}, nil
	}), []string{"mcp"}, map[string][]string{"rm": {"admin", "write"}})
	call := func(tool string, scopes ...string) error {
		_, err := h.Handle(t.Context(), &bridge.Call{Method: bridge.CallTool, Request: &pb.CallToolRequest{
			Name: tool, Context: &pb.CallContext{
				Verified: &pb.VerifiedCaller{Principal: &pb.Principal{Subject: "ada", Scopes: scopes}},
			},
		}}, nil)
		return err
	}
	if err := call("ls"); err != nil {
		t.Error(err)
	}
	if err := call("rm", "write", "admin"); err != nil {
		t.Error(err)
	}
	err := call("rm", "write")
	if err == nil || called != 2 {
		t.Fatalf("got %v, called %d times, want an error and 2", err, called)
	}
	if _, err := h.Handle(t.Context(), &bridge.Call{Method: bridge.CallTool, Request: &pb.CallToolRequest{Name: "rm"}},
		nil); err != nil {
		t.Errorf("without a principal: got %v", err)
	}
	e := bridge.AsError(err)
	if diff := cmp.Diff([]string{"mcp", "admin", "write"}, e.Scopes); diff != "" {
		t.Error(diff)
	}
	want := `Bearer error="insufficient_scope", error_description="the call needs more scopes", scope="mcp admin write", ` +
		`resource_metadata="https://mcp.example.com/.well-known/oauth-protected-resource/mcp"`
	if got := au.Challenge("/mcp", e.Scopes); got != want {
		t.Error(got)
	}
}

func TestInvalidOptions(t *testing.T) {
	for name, o := range map[string]auth.Options{
		"nothing":          {},
		"no resource":      {Issuers: []auth.Issuer{{URL: issuer}}},
		"invalid resource": {Resource: "mcp", Issuers: []auth.Issuer{{URL: issuer}}},
		"invalid issuer":   {Resource: resource, Issuers: []auth.Issuer{{URL: "x"}}},
		"an empty token":   {Tokens: []auth.Token{{Subject: "a"}}},
		"without subject":  {Tokens: []auth.Token{{Token: "a"}}},
	} {
		if _, err := auth.New(o); err == nil {
			t.Errorf("%s: got no error", name)
		}
	}
}

// A token that is not a JWT does not name its issuer: only one issuer introspects it, and no JWT of another issuer.
func TestTokensAreSentToTheirIssuerOnly(t *testing.T) {
	introspection := &auth.Introspection{
		URL: "https://issuer.example.com/introspect", ClientID: "bridge",
		ClientSecret: "s",
	}
	other := auth.Issuer{URL: "https://other.example.com"}
	a := newIssuer()
	a.introspection = map[string]any{"active": true, "aud": resource, "sub": "ada", "scope": "mcp"}
	au := newAuth(t, a, func(o *auth.Options) {
		o.Issuers[0].Introspection = introspection
		o.Issuers = append([]auth.Issuer{other}, o.Issuers...)
	})
	if res, _, _ := try(au, bearer("opaque")); res.StatusCode != 200 || a.requests.Load() != 1 {
		t.Errorf("opaque token: got %s after %d requests", res.Status, a.requests.Load())
	}
	if res, _, _ := try(au, bearer(token(claim("iss", "https://evil.example.com")))); res.StatusCode != 401 ||
		a.requests.Load() != 1 {
		t.Errorf("token of another issuer: got %s after %d requests", res.Status, a.requests.Load())
	}
	other.Introspection = &auth.Introspection{URL: other.URL + "/introspect"}
	_, err := auth.New(auth.Options{
		Resource: resource,
		Issuers:  []auth.Issuer{{URL: issuer, Introspection: introspection}, other},
	})
	if err == nil || !strings.Contains(err.Error(), "only one of them can have it") {
		t.Errorf("two introspectors: got %v", err)
	}
}

func TestTokensAreNotLogged(t *testing.T) {
	canary := hex.EncodeToString([]byte("canary canary canary"))
	for _, edit := range []func(*http.Request){
		bearer(canary), bearer(canary + "." + canary + "." + canary), bearer(token(claim("aud", "x"))),
		func(r *http.Request) { r.URL.RawQuery = "access_token=" + canary },
		func(r *http.Request) { r.Header.Set("Authorization", canary) },
	} {
		var log strings.Builder
		au := newAuth(t, newIssuer(), func(o *auth.Options) { o.Log = zerolog.New(&log) })
		res, _, _ := try(au, edit)
		if res.StatusCode != 401 ||
			strings.Contains(res.Header.Get("WWW-Authenticate")+string(must(io.ReadAll(res.Body))), canary) {
			t.Errorf("got %s %v", res.Status, res.Header)
		}
		if log.Len() == 0 || strings.Contains(log.String(), canary) {
			t.Errorf("got the log %s", log.String())
		}
	}
}

// At most one rejection a second is logged, over HTTP and over gRPC.
func TestRejectionsAreLoggedOncePerSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		au := newAuth(t, newIssuer(), func(o *auth.Options) { o.Log = zerolog.New(&log) })
		for range 2 {
			for range 1_000 {
				if res, _, _ := try(au, bearer("x")); res.StatusCode != http.StatusUnauthorized {
					t.Fatal(res.Status)
				}
				if _, err := au.Caller(t.Context(), nil); status.Code(err) != codes.Unauthenticated {
					t.Fatal(err)
				}
			}
			<-time.After(2 * time.Second)
		}
		if http, grpc := strings.Count(log.String(), "refused a caller"),
			strings.Count(log.String(), "refused a gRPC caller"); http != 2 || grpc != 2 {
			t.Errorf("got %d log lines for HTTP and %d for gRPC, want 2 of each", http, grpc)
		}
	})
}
