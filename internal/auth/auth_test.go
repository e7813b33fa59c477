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

var rsaKey, otherKey, ecKey = must(rsa.GenerateKey(rand.Reader, 2048)), must(rsa.GenerateKey(rand.Reader, 2048)), must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// An as is an authorization server, as far as resource servers know it. It is an http.RoundTripper: the tests of time have no
// sockets.
type as struct {
	mu    sync.Mutex
	keys  []jose.JSONWebKey
	down  bool
	body  string // instead of the keys
	asked any
	got   atomic.Int32
}

func newAS() *as {
	return &as{keys: []jose.JSONWebKey{
		{Key: &rsaKey.PublicKey, KeyID: "rsa", Use: "sig"},
		{Key: &ecKey.PublicKey, KeyID: "ec", Algorithm: "ES256"},
		{Key: &otherKey.PublicKey, KeyID: "enc", Use: "enc"},
	}}
}

func (a *as) set(f func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	f()
}

func (a *as) RoundTrip(r *http.Request) (*http.Response, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.got.Add(1)
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
		json.NewEncoder(w).Encode(a.asked)
	default:
		w.WriteHeader(http.StatusNotFound)
	}
	return w.Result(), nil
}

// A change makes a token another one than a good one.
type change func(claims map[string]any, header *jose.SignerOptions) (key any, alg jose.SignatureAlgorithm)

func token(changes ...change) string {
	now := time.Now()
	claims := map[string]any{
		"iss": issuer, "aud": resource, "sub": "ada", "scope": "mcp read", "exp": now.Add(time.Hour).Unix(), "nbf": now.Unix(),
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

// forged returns a token with parts that no library would make.
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

// try sends a request through the Auth and returns the answer, and who was let in.
func try(au *auth.Auth, edit func(*http.Request)) (*http.Response, *pb.Principal, http.Header) {
	r := httptest.NewRequest(http.MethodPost, "/mcp", strings.NewReader("{}"))
	edit(r)
	w := httptest.NewRecorder()
	var who *pb.Principal
	var header http.Header
	if r = au.Admit(w, r); r != nil {
		who, header = auth.Principal(r), r.Header
	}
	return w.Result(), who, header
}

func bearer(token string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) }
}

func TestWhoIsLetIn(t *testing.T) {
	pub := must(x509.MarshalPKIXPublicKey(&rsaKey.PublicKey))
	hmacKey := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: pub})
	good := fmt.Sprintf(`{"iss":%q,"aud":%q,"sub":"ada","scope":"mcp","exp":%d}`, issuer, resource, after(time.Hour))
	for _, c := range []struct {
		name   string
		edit   func(*http.Request)
		status int
	}{
		{"a good token", bearer(token()), 200},
		{"of another algorithm", bearer(token(signed(ecKey, jose.ES256, "ec"))), 200},
		{"that does not name its key", bearer(token(signed(rsaKey, jose.RS256, ""))), 200},
		{"for several audiences", bearer(token(claim("aud", []string{"x", resource}))), 200},
		{"of a program", bearer(token(claim("sub", nil), claim("client_id", "p"))), 200},
		{"with a list of scopes", bearer(token(claim("scope", nil), claim("scp", []string{"mcp"}))), 200},
		{"in other letters", func(r *http.Request) { r.Header.Set("Authorization", "bearer "+token()) }, 200},
		{"with a space that is none behind it", bearer(token() + "\u00a0"), 401},
		{"ended 58 s ago", bearer(token(claim("exp", after(-58*time.Second)))), 200},
		{"ended 61 s ago", bearer(token(claim("exp", after(-61*time.Second)))), 401},
		{"begins in 59 s", bearer(token(claim("nbf", after(59*time.Second)))), 200},
		{"begins in 61 s", bearer(token(claim("nbf", after(62*time.Second)))), 401},
		{"without an end", bearer(token(claim("exp", nil))), 401},
		{"about nobody", bearer(token(claim("sub", nil))), 401},
		{"of another issuer", bearer(token(claim("iss", "https://evil.example.com"))), 401},
		{"of another tenant", bearer(token(claim("iss", "https://issuer.example.com/other"))), 401},
		{"for somebody else", bearer(token(claim("aud", "https://other.example.com/mcp"))), 401},
		{"for nobody", bearer(token(claim("aud", nil))), 401},
		{"by a key that the issuer does not have", bearer(token(signed(otherKey, jose.RS256, "rsa"))), 401},
		{"by a key that is for something else", bearer(token(signed(otherKey, jose.RS256, "enc"))), 401},
		{"by a key of another name", bearer(token(signed(rsaKey, jose.RS256, "../../etc/passwd"))), 401},
		{"by a key with a long name", bearer(token(signed(rsaKey, jose.RS256, strings.Repeat("k", 257)))), 401},
		{"not signed", bearer(forged(`{"alg":"none"}`, good, func(string) []byte { return nil })), 401},
		{"signed with the public key as a secret", bearer(forged(`{"alg":"HS256","kid":"rsa"}`, good, func(what string) []byte {
			return must(hmacSum(hmacKey, what))
		})), 401},
		{"an EC key said to be RSA", bearer(token(signed(ecKey, jose.ES256, "rsa"))), 401},
		{"with something critical that is unknown", bearer(forged(`{"alg":"RS256","kid":"rsa","crit":["x"],"x":1}`, good, func(what string) []byte {
			sum := sha256.Sum256([]byte(what))
			return must(rsa.SignPKCS1v15(rand.Reader, rsaKey, 5, sum[:]))
		})), 401},
		{"without the scope that all need", bearer(token(claim("scope", "read"))), 403},
		{"many dots", bearer(strings.Repeat(".", 16<<10)), 401},
		{"deep claims", bearer(token(claim("x", json.RawMessage(strings.Repeat("[", 255)+strings.Repeat("]", 255))))), 200},
		{"claims that are too deep", bearer(token(claim("x", json.RawMessage(strings.Repeat("[", 256)+strings.Repeat("]", 256))))), 401},
		{"a scope behind a space that is none", bearer(token(claim("scope", "read\u00a0mcp"))), 403},
		{"a scope behind a tab", bearer(token(claim("scope", "read\tmcp"))), 403},
		{"several spaces between scopes", bearer(token(claim("scope", " read  mcp "))), 200},
		{"said to be an access token", bearer(token(typed("application/at+JWT"))), 200},
		{"said to be a JWT", bearer(token(typed("JWT"))), 200},
		{"said to be a logout", bearer(token(typed("logout+jwt"))), 401},
		{"said to be a number", bearer(token(typed(7))), 401},
		{"too long", bearer(strings.Repeat("x", 16<<10+1)), 401},
		{"no token", func(*http.Request) {}, 401},
		{"an empty one", bearer(""), 401},
		{"another scheme", func(r *http.Request) { r.SetBasicAuth("a", "b") }, 401},
		{"two", func(r *http.Request) { r.Header["Authorization"] = []string{"Bearer " + token(), "Bearer x"} }, 400},
		{"in the URL", func(r *http.Request) { r.URL.RawQuery = "access_token=" + token(); bearer(token())(r) }, 401},
		{"in the URL, escaped", func(r *http.Request) { r.URL.RawQuery = "access%5Ftoken=" + token(); bearer(token())(r) }, 401},
		{"in the URL, behind what cannot be read", func(r *http.Request) { r.URL.RawQuery = "x=%zz&access_token=" + token(); bearer(token())(r) }, 401},
		{"in the URL, with a semicolon", func(r *http.Request) { r.URL.RawQuery = "access_token=" + token() + ";x"; bearer(token())(r) }, 400},
		{"in the URL, after a semicolon", func(r *http.Request) { r.URL.RawQuery = "x;access_token=" + token(); bearer(token())(r) }, 400},
		{"in the URL, half escaped", func(r *http.Request) { r.URL.RawQuery = "access_token=" + token() + "%2"; bearer(token())(r) }, 400},
		{"something else in the URL", func(r *http.Request) { r.URL.RawQuery = "session=x"; bearer(token())(r) }, 200},
		{"one that is written down", bearer("secret"), 200},
	} {
		t.Run(c.name, func(t *testing.T) {
			au := newAuth(t, newAS(), func(o *auth.Options) {
				o.Tokens = []auth.Token{{Token: "secret", Subject: "bob", Scopes: []string{"mcp"}}}
			})
			res, who, header := try(au, c.edit)
			if res.StatusCode != c.status || (who != nil) != (c.status == 200) {
				t.Fatalf("%s, and let in %v", res.Status, who)
			}
			if header.Get("Authorization") != "" {
				t.Error("the token goes on")
			}
			challenge := res.Header.Get("WWW-Authenticate")
			if (challenge != "") != (c.status != 200) || challenge != "" && !strings.Contains(challenge, `resource_metadata="https://mcp.example.com/.well-known/oauth-protected-resource/mcp"`) {
				t.Errorf("the challenge is %s", challenge)
			}
			if strings.Contains(challenge, "secret") {
				t.Error("the challenge repeats the token")
			}
		})
	}
}

func hmacSum(key []byte, what string) ([]byte, error) {
	sum := sha256.Sum256(append(key, what...)) // any bytes do: the algorithm is refused
	return sum[:], nil
}

func TestWhatIsKnownOfACallerGoesOn(t *testing.T) {
	_, who, _ := try(newAuth(t, newAS(), nil), bearer(token(claim("n", json.RawMessage("9007199254740993")))))
	var claims map[string]json.RawMessage
	if err := json.Unmarshal(who.GetClaims(), &claims); err != nil || string(claims["n"]) != "9007199254740993" {
		t.Errorf("%s, %v", who.GetClaims(), err)
	}
	if diff := cmp.Diff([]string{issuer, "ada", "mcp read"}, []string{who.GetIssuer(), who.GetSubject(), strings.Join(who.GetScopes(), " ")}); diff != "" {
		t.Error(diff)
	}
}

// A certificate has no scopes: where callers must have some, it takes a token that has them.
func TestCertificatesHaveNoScopes(t *testing.T) {
	shows := func(cert string, edit func(*http.Request)) func(*http.Request) {
		return func(r *http.Request) {
			r.TLS = &tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{{{Subject: pkix.Name{CommonName: cert}}}}}
			edit(r)
		}
	}
	for _, c := range []struct {
		name   string
		scopes []string
		edit   func(*http.Request)
		status int
		who    string
	}{
		{"none are asked for", nil, shows("eve", func(*http.Request) {}), 200, "CN=eve"},
		{"one is asked for", []string{"mcp"}, shows("eve", func(*http.Request) {}), 403, ""},
		{"one is asked for, and a token has it", []string{"mcp"}, shows("eve", bearer(token())), 200, "ada"},
		{"one is asked for, and a token does not have it", []string{"more"}, shows("eve", bearer(token())), 403, ""},
	} {
		au := newAuth(t, newAS(), func(o *auth.Options) { o.Certificates, o.Scopes = true, c.scopes })
		res, who, _ := try(au, c.edit)
		if res.StatusCode != c.status || who.GetSubject() != c.who {
			t.Errorf("%s: %s, and let in %v", c.name, res.Status, who)
		}
		if got := res.Header.Get("WWW-Authenticate"); c.status == 403 && !strings.Contains(got, `error="insufficient_scope"`) {
			t.Errorf("%s: the challenge is %s", c.name, got)
		}
	}
	_, err := auth.New(auth.Options{Certificates: true, Scopes: []string{"mcp"}})
	if err == nil || !strings.Contains(err.Error(), "certificates have none") {
		t.Errorf("only certificates, and scopes: %v", err)
	}
}

// Keys are fetched once, again when a token names one that is not known, but not faster than every 10 s, and are good for an
// hour after that. Then nobody can be checked, which is not the fault of callers.
func TestKeysThatChangeAndIssuersThatFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAS()
		au := newAuth(t, a, nil)
		expect := func(what string, status int, fetches int, tok string) {
			t.Helper()
			before := a.got.Load()
			res, _, _ := try(au, bearer(tok))
			if got := int(a.got.Load() - before); res.StatusCode != status || got != fetches {
				t.Errorf("%s: %s with %d fetches", what, res.Status, got)
			}
			if status == 503 && res.Header.Get("Retry-After") == "" {
				t.Errorf("%s: no Retry-After", what)
			}
		}
		const whole = 3 // of the metadata at two places, then the keys
		expect("first", 200, whole, token())
		expect("second", 200, 0, token())
		newKey := must(rsa.GenerateKey(rand.Reader, 2048))
		rotated := func() string { return token(signed(newKey, jose.RS256, "new")) }
		expect("unknown, at once", 401, 0, rotated())
		a.set(func() { a.keys = append(a.keys, jose.JSONWebKey{Key: &newKey.PublicKey, KeyID: "new"}) })
		bridgetest.Pass(10 * time.Second)
		expect("a new key", 200, whole, rotated())
		for range 100 {
			expect("a storm", 401, 0, token(signed(otherKey, jose.RS256, "nosuch")))
		}
		a.set(func() { a.down = true })
		bridgetest.Pass(30 * time.Minute)
		expect("down, and known", 200, 0, token())
		expect("down, and unknown", 503, whole, token(signed(otherKey, jose.RS256, "nosuch")))
		expect("down, and unknown, again", 503, 0, token(signed(otherKey, jose.RS256, "nosuch")))
		bridgetest.Pass(30 * time.Minute)
		expect("down for too long", 503, whole, token())
		expect("down for too long, again", 503, 0, token())
		a.set(func() { a.down, a.body = false, strings.Repeat(" ", 1<<20)+"{}" })
		bridgetest.Pass(10 * time.Second)
		expect("too much", 503, whole, token())
		a.set(func() { a.body = "<html>" })
		bridgetest.Pass(10 * time.Second)
		expect("no JSON", 503, whole, token())
		for _, none := range []string{`null`, `{}`, `{"keys":[]}`, `{"keys":[{"kty":"AKP","kid":"rsa"}]}`} {
			a.set(func() { a.body = none })
			bridgetest.Pass(10 * time.Second)
			expect("no keys: "+none, 503, whole, token())
		}
		a.set(func() { a.body = "" })
		bridgetest.Pass(10 * time.Second)
		expect("well again", 200, whole, token())
	})
}

// An issuer that has a key of a kind that nobody knows yet is not down.
func TestKeysThatCannotBeReadAreIgnored(t *testing.T) {
	for _, strange := range []string{
		`{"kty":"AKP","kid":"pq","alg":"ML-DSA-44","pub":"AAAA"}`, `{"kty":"EC","crv":"secp256k1","kid":"k","x":"AAAA","y":"AAAA"}`,
		`{"kty":"OKP","crv":"X25519","kid":"x","x":"AAAA"}`, `{"kty":"RSA","kid":"half","n":"AQAB"}`, `{"kty":"oct","kid":"shared","k":"AAAA"}`,
		`{"kid":"nothing"}`, `{"kty":5}`, `{}`, `null`, `5`, `[]`,
	} {
		a := newAS()
		good := must(json.Marshal(a.keys[0]))
		a.body = `{"keys":[` + strange + `,` + string(good) + `]}`
		if res, _, _ := try(newAuth(t, a, nil), bearer(token())); res.StatusCode != 200 {
			t.Errorf("%s: %s", strange, res.Status)
		}
	}
}

// A key that is too short, or is not for this, is good for nothing.
func TestKeysThatMustNotBeUsed(t *testing.T) {
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
		a := newAS()
		a.body = c.keys
		if res, _, _ := try(newAuth(t, a, nil), bearer(token(signed(c.key, jose.RS256, "rsa")))); res.StatusCode != c.status {
			t.Errorf("%s: %s", c.name, res.Status)
		}
	}
}

// What is sent to an issuer goes to no one else, and nobody else is taken for it, whatever it redirects to.
func TestIssuersAreNotLeftByRedirections(t *testing.T) {
	for _, to := range []string{"https://evil.example.com/x", "http://issuer.example.com/x", "https://issuer.example.com:8443/x", "/x"} {
		for _, status := range []int{301, 302, 303, 307, 308} {
			a := newAS()
			var asked []string
			via := roundTrip(func(r *http.Request) (*http.Response, error) {
				if r.URL.Path != "/keys" && r.URL.Path != "/introspect" {
					asked = append(asked, r.URL.String())
					return a.RoundTrip(r)
				}
				w := httptest.NewRecorder()
				http.Redirect(w, &http.Request{Method: r.Method, URL: r.URL}, to, status)
				return w.Result(), nil
			})
			au := newAuth(t, a, func(o *auth.Options) {
				o.Client = &http.Client{Transport: via}
				o.Issuers[0].Introspection = &auth.Introspection{URL: "https://issuer.example.com/introspect", ClientID: "bridge", ClientSecret: "s"}
			})
			for _, tok := range []string{token(), "opaque"} {
				if res, _, _ := try(au, bearer(tok)); res.StatusCode != 503 {
					t.Errorf("%d to %s: %s", status, to, res.Status)
				}
			}
			for _, u := range asked {
				if strings.HasSuffix(u, "/x") && u != "https://issuer.example.com/x" {
					t.Errorf("%d to %s: asked %s", status, to, u)
				}
			}
		}
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// Keys come by TLS if the issuer has it.
func TestKeysWithoutTLS(t *testing.T) {
	for _, at := range []string{"http://issuer.example.com/keys", "/keys", "file:///etc/passwd", "HTTP://issuer.example.com/keys"} {
		a := newAS()
		s := said{`{"issuer":"` + issuer + `","jwks_uri":"` + at + `"}`, string(must(json.Marshal(jose.JSONWebKeySet{Keys: a.keys})))}
		au := newAuth(t, a, func(o *auth.Options) { o.Client = &http.Client{Transport: s} })
		if res, _, _ := try(au, bearer(token())); res.StatusCode != 503 {
			t.Errorf("%s: %s", at, res.Status)
		}
	}
}

// However many callers come at once, keys are fetched once.
func TestCallersTogetherFetchKeysOnce(t *testing.T) {
	a := newAS()
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
	if got := a.got.Load(); got != 3 {
		t.Errorf("%d requests", got)
	}
}

func TestTokensThatOnlyTheIssuerCanRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAS()
		au := newAuth(t, a, func(o *auth.Options) {
			o.Issuers[0].Introspection = &auth.Introspection{URL: "https://issuer.example.com/introspect", ClientID: "bridge", ClientSecret: "s"}
		})
		expect := func(what string, status, asked int, answer any) {
			t.Helper()
			a.set(func() { a.asked = answer })
			before := a.got.Load()
			res, _, _ := try(au, bearer("opaque "+what))
			if got := int(a.got.Load() - before); res.StatusCode != status || got != asked {
				t.Errorf("%s: %s, asked %d times", what, res.Status, got)
			}
		}
		active := map[string]any{"active": true, "aud": resource, "sub": "ada", "scope": "mcp"}
		with := func(name string, value any) map[string]any {
			m := maps.Clone(active)
			m[name] = value
			return m
		}
		expect("good", 200, 1, active)
		expect("good", 200, 0, map[string]any{"active": false})
		bridgetest.Pass(time.Minute)
		expect("good", 401, 1, map[string]any{"active": false})
		expect("good", 401, 0, active)
		expect("of another", 401, 1, with("iss", "https://evil.example.com"))
		expect("for another", 401, 1, with("aud", "https://evil.example.com"))
		expect("ended", 401, 1, with("exp", after(-2*time.Minute)))
		expect("lesser", 403, 1, with("scope", "read"))
		expect("short", 200, 1, with("exp", after(-50*time.Second)))
		bridgetest.Pass(11 * time.Second)
		expect("short", 401, 1, with("exp", after(-61*time.Second)))
		// What is no answer says nothing of the token, and is not remembered.
		for n, malformed := range []any{
			[]int{1}, nil, "good", map[string]any{}, map[string]any{"active": "true"}, map[string]any{"active": nil}, with("exp", "tomorrow"), with("sub", 5), with("aud", 5),
		} {
			what := fmt.Sprint("malformed ", n)
			expect(what, 503, 1, malformed)
			expect(what, 503, 1, malformed)
			expect(what, 200, 1, active)
		}
		expect("not active", 401, 1, map[string]any{"active": false, "exp": "tomorrow"})
		a.set(func() { a.down = true })
		expect("not to be asked", 503, 1, active)
	})
}

// Anybody can make up tokens: an issuer is asked about 32 at a time, and who waits longer than 10 s for a turn is told so. Of many callers
// with one token only the first ones ask.
// Until is the moment after which a token is not taken any more, whoever read it.
func TestUntilIsWhenATokenIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAS()
		au := newAuth(t, a, func(o *auth.Options) {
			o.Issuers[0].Introspection = &auth.Introspection{URL: "https://issuer.example.com/introspect", ClientID: "bridge", ClientSecret: "s"}
			o.Tokens = []auth.Token{{Token: "written down", Subject: "ada", Scopes: []string{"mcp"}}}
		})
		said := map[string]any{"active": true, "aud": resource, "sub": "ada", "scope": "mcp", "exp": time.Now().Add(150 * time.Second).Unix()}
		a.set(func() { a.asked = said })
		for _, tok := range []string{token(claim("exp", time.Now().Add(time.Minute).Unix())), "opaque"} {
			p, err := au.Verify(t.Context(), tok)
			if err != nil {
				t.Fatal(err)
			}
			until := auth.Until(p)
			<-time.After(time.Until(until) - 1)
			if _, err = au.Verify(t.Context(), tok); err != nil {
				t.Errorf("%.6s is refused before %v: %v", tok, until, err)
			}
			<-time.After(2)
			if _, err = au.Verify(t.Context(), tok); err == nil {
				t.Errorf("%.6s is taken after %v", tok, until)
			}
		}
		delete(said, "exp")
		if p, err := au.Verify(t.Context(), "written down"); err != nil || !auth.Until(p).IsZero() {
			t.Errorf("one that is written down: %v, until %v", err, auth.Until(p))
		}
		p, err := au.Verify(t.Context(), "opaque without an end")
		if until := auth.Until(p); err != nil || time.Until(until) != time.Hour {
			t.Errorf("one of which the issuer does not say when it ends: %v, until %v", err, until)
		}
		if until := auth.Until(nil); !until.IsZero() {
			t.Errorf("nobody is let in until %v", until)
		}
	})
}

func TestAnIssuerIsAskedAboutFewTokensAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := &slowAS{as: newAS(), takes: 3 * time.Second}
		slow.set(func() { slow.asked = map[string]any{"active": true, "aud": resource, "sub": "ada", "scope": "mcp"} })
		au := newAuth(t, slow, func(o *auth.Options) {
			o.Issuers[0].Introspection = &auth.Introspection{URL: "https://issuer.example.com/introspect", ClientID: "bridge", ClientSecret: "s"}
		})
		asked := func(callers int, token func(int) string) (statuses map[int]int, took time.Duration) {
			slow.got.Store(0)
			slow.most = 0
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
		if statuses, took := asked(31, one); statuses[200] != 31 || took != 3*time.Second {
			t.Errorf("31 callers of a token: %v in %v", statuses, took)
		}
		if statuses, took := asked(33, func(n int) string { return fmt.Sprint("33 ", n) }); statuses[200] != 33 || took != 6*time.Second || slow.most != 32 {
			t.Errorf("33 tokens: %v in %v, %d at a time", statuses, took, slow.most)
		}
		if statuses, _ := asked(200, func(int) string { return "the same" }); statuses[200] != 200 || slow.got.Load() > 32 {
			t.Errorf("200 callers of a token: %v, %d questions", statuses, slow.got.Load())
		}
		statuses, took := asked(1000, func(n int) string { return fmt.Sprint("made up ", n) })
		if statuses[200] != 96 || statuses[503] != 904 || took != 10*time.Second || slow.most != 32 {
			t.Errorf("1,000 tokens: %v in %v, %d at a time", statuses, took, slow.most)
		}
		if statuses, _ := asked(1, func(int) string { return "after that" }); statuses[200] != 1 {
			t.Errorf("after that: %v", statuses)
		}
	})
}

// What was said of a good token counts for as long as it does, however many are made up meanwhile; and if it is good no more, that counts.
func TestMadeUpTokensPushNoGoodOnesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAS()
		au := newAuth(t, a, func(o *auth.Options) {
			o.Issuers[0].Introspection = &auth.Introspection{URL: "https://issuer.example.com/introspect", ClientID: "bridge", ClientSecret: "s"}
		})
		expect := func(token string, status int, asked int32) {
			t.Helper()
			before := a.got.Load()
			if res, _, _ := try(au, bearer(token)); res.StatusCode != status || a.got.Load()-before != asked {
				t.Errorf("%s: %s, %d questions, want %d and %d", token, res.Status, a.got.Load()-before, status, asked)
			}
		}
		a.set(func() { a.asked = map[string]any{"active": true, "aud": resource, "sub": "ada", "scope": "mcp"} })
		expect("good", 200, 1)
		a.set(func() { a.asked = map[string]any{"active": false} })
		for n := range 10_001 {
			expect(fmt.Sprint("made up ", n), 401, 1)
		}
		expect("good", 200, 0)
		expect("made up 10000", 401, 0)
		bridgetest.Pass(time.Minute)
		expect("good", 401, 1)
		expect("good", 401, 0)
		a.set(func() { a.asked = map[string]any{"active": true, "aud": resource, "sub": "ada", "scope": "mcp"} })
		bridgetest.Pass(10 * time.Second)
		expect("good", 200, 1)
		expect("good", 200, 0)
	})
}

// A slowAS takes its time to answer, and counts the requests that wait.
type slowAS struct {
	*as

	takes         time.Duration
	waiting, most int
}

func (a *slowAS) RoundTrip(r *http.Request) (*http.Response, error) {
	a.set(func() {
		a.waiting++
		a.most = max(a.most, a.waiting)
	})
	defer a.set(func() { a.waiting-- })
	select {
	case <-time.After(a.takes):
		return a.as.RoundTrip(r)
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
}

func TestMetadata(t *testing.T) {
	au := newAuth(t, newAS(), func(o *auth.Options) { o.MoreScopes = []string{"admin", "mcp"} })
	for _, path := range []string{"/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp"} {
		res, _, _ := try(au, func(r *http.Request) { r.Method, r.URL.Path = http.MethodGet, path })
		body := must(io.ReadAll(res.Body))
		want := `{"resource":"` + resource + `","authorization_servers":["` + issuer + `"],"bearer_methods_supported":["header"],"scopes_supported":["admin","mcp"]}`
		if res.StatusCode != 200 || string(body) != want {
			t.Errorf("%s: %s %s", path, res.Status, body)
		}
		if res, _, _ := try(au, func(r *http.Request) { r.URL.Path = path }); res.StatusCode != 405 || res.Header.Get("Allow") == "" {
			t.Errorf("POST %s: %s", path, res.Status)
		}
	}
}

// An endpoint that clients know by itself is a resource of its own, for which there are tokens that are good for nothing else. A client
// that is strict uses no metadata of another resource than the one that it knows (RFC 9728, 3.3).
func TestEndpointsAreResources(t *testing.T) {
	const weather, metadata = resource + "/weather", "https://mcp.example.com/.well-known/oauth-protected-resource/mcp"
	as := newAS()
	as.set(func() {
		as.asked = map[string]any{"active": true, "sub": "ada", "scope": "mcp", "aud": weather}
	})
	endpoints := func(o *auth.Options) {
		o.Endpoints = map[string]string{"/mcp/weather": "/weather", "/mcp/news": "/news"}
		o.Issuers[0].Introspection = &auth.Introspection{URL: "https://issuer.example.com/introspect", ClientID: "bridge", ClientSecret: "s"}
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
		{named, "/mcp/weather", token(claim("aud", weather)), 401}, // as the configuration says
		{named, "/mcp/weather", token(), 200},
	} {
		res, _, _ := try(c.au, func(r *http.Request) { r.URL.Path = c.path; bearer(c.token)(r) })
		if res.StatusCode != c.status {
			t.Errorf("%s at %s: %s", c.token, c.path, res.Status)
		}
	}
	for path, where := range map[string]string{"/mcp": metadata, "/mcp/weather": metadata + "/weather", "/elsewhere": metadata} {
		res, _, _ := try(au, func(r *http.Request) { r.URL.Path = path })
		if got := res.Header.Get("WWW-Authenticate"); !strings.HasSuffix(got, `resource_metadata="`+where+`"`) || !strings.HasSuffix(au.Challenge(path, nil), `"`+where+`"`) {
			t.Errorf("%s: %s", path, got)
		}
	}
	res, _, _ := try(au, func(r *http.Request) {
		r.Method, r.URL.Path = http.MethodGet, "/.well-known/oauth-protected-resource/mcp/weather"
	})
	if body := must(io.ReadAll(res.Body)); res.StatusCode != 200 || !strings.HasPrefix(string(body), `{"resource":"`+weather+`",`) {
		t.Errorf("%s %s", res.Status, body)
	}
}

func TestScopesOfTools(t *testing.T) {
	au := newAuth(t, newAS(), nil)
	called := 0
	h := auth.Handler(bridge.HandlerFunc(func(context.Context, *bridge.Call, bridge.Emit) (*bridge.Result, error) {
		called++
		return &bridge.Result{}, nil
	}), []string{"mcp"}, map[string][]string{"rm": {"admin", "write"}})
	call := func(tool string, scopes ...string) error {
		_, err := h.Handle(t.Context(), &bridge.Call{Method: bridge.CallTool, Request: &pb.CallToolRequest{
			Name: tool, Context: &pb.CallContext{Principal: &pb.Principal{Subject: "ada", Scopes: scopes}},
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
		t.Fatalf("%v, called %d times", err, called)
	}
	if _, err := h.Handle(t.Context(), &bridge.Call{Method: bridge.CallTool, Request: &pb.CallToolRequest{Name: "rm"}}, nil); err != nil {
		t.Errorf("a caller whom nobody was asked to verify: %v", err)
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

func TestOptionsThatLetNobodyInAreAMistake(t *testing.T) {
	for name, o := range map[string]auth.Options{
		"nothing":             {},
		"no resource":         {Issuers: []auth.Issuer{{URL: issuer}}},
		"a resource, no URL":  {Resource: "mcp", Issuers: []auth.Issuer{{URL: issuer}}},
		"an issuer, no URL":   {Resource: resource, Issuers: []auth.Issuer{{URL: "x"}}},
		"an empty token":      {Tokens: []auth.Token{{Subject: "a"}}},
		"a token of nobody's": {Tokens: []auth.Token{{Token: "a"}}},
	} {
		if _, err := auth.New(o); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// A token that is no JWT does not say whose it is: it is shown to the one issuer that is asked, and a token that says that it is of
// another is not.
func TestTokensAreShownToNoOtherIssuer(t *testing.T) {
	asked := &auth.Introspection{URL: "https://issuer.example.com/introspect", ClientID: "bridge", ClientSecret: "s"}
	other := auth.Issuer{URL: "https://other.example.com"}
	a := newAS()
	a.asked = map[string]any{"active": true, "aud": resource, "sub": "ada", "scope": "mcp"}
	au := newAuth(t, a, func(o *auth.Options) {
		o.Issuers[0].Introspection = asked
		o.Issuers = append([]auth.Issuer{other}, o.Issuers...)
	})
	if res, _, _ := try(au, bearer("opaque")); res.StatusCode != 200 || a.got.Load() != 1 {
		t.Errorf("an opaque token: %s, after %d requests", res.Status, a.got.Load())
	}
	if res, _, _ := try(au, bearer(token(claim("iss", "https://evil.example.com")))); res.StatusCode != 401 || a.got.Load() != 1 {
		t.Errorf("a stranger's token: %s, after %d requests", res.Status, a.got.Load())
	}
	other.Introspection = &auth.Introspection{URL: other.URL + "/introspect"}
	_, err := auth.New(auth.Options{Resource: resource, Issuers: []auth.Issuer{{URL: issuer, Introspection: asked}, other}})
	if err == nil || !strings.Contains(err.Error(), "leave one of them without introspection") {
		t.Errorf("two that are asked: %v", err)
	}
}

// What callers present is nowhere in what is logged.
func TestTokensAreNotLogged(t *testing.T) {
	canary := hex.EncodeToString([]byte("canary canary canary"))
	for _, edit := range []func(*http.Request){
		bearer(canary), bearer(canary + "." + canary + "." + canary), bearer(token(claim("aud", "x"))),
		func(r *http.Request) { r.URL.RawQuery = "access_token=" + canary },
		func(r *http.Request) { r.Header.Set("Authorization", canary) },
	} {
		var log strings.Builder
		au := newAuth(t, newAS(), func(o *auth.Options) { o.Log = zerolog.New(&log) })
		res, _, _ := try(au, edit)
		if res.StatusCode != 401 || strings.Contains(res.Header.Get("WWW-Authenticate")+string(must(io.ReadAll(res.Body))), canary) {
			t.Errorf("%s %v", res.Status, res.Header)
		}
		if log.Len() == 0 || strings.Contains(log.String(), canary) {
			t.Errorf("the log is %s", log.String())
		}
	}
}

// However many callers are refused, over HTTP and over gRPC, the log has a line of each kind a second.
func TestRefusedCallersDoNotFillTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		au := newAuth(t, newAS(), func(o *auth.Options) { o.Log = zerolog.New(&log) })
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
		if http, grpc := strings.Count(log.String(), "refused a caller"), strings.Count(log.String(), "refused a gRPC caller"); http != 2 || grpc != 2 {
			t.Errorf("the log has %d lines of HTTP and %d of gRPC, want 2 of each", http, grpc)
		}
	})
}
