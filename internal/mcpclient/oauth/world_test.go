package oauth

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
)

// A world is an MCP server, its authorization server, and what both have seen. What a test changes of it, it changes before
// the first request, or with the lock.
type world struct {
	t        *testing.T
	mcp, as  *httptest.Server
	log      lockedBuffer
	canaries []string // secrets, which must be in no log and no error

	mu sync.Mutex
	// The MCP server.
	challenge func() string  // what WWW-Authenticate says; nil: where the metadata are
	prm       map[string]any // by path; a string is sent as it is, an int is a status, a func answers
	needs     func(*http.Request) []string
	accepts   func(token string) bool // besides that the token is known
	// The authorization server.
	meta      map[string]any // members of its metadata; nil takes one out
	places    []string       // where they are
	documents map[string]any // other documents that it has, as prm
	token     func(form url.Values, basic string) (int, map[string]any)
	iss       string // of authorization responses; "-": none
	answer    url.Values
	register  func(map[string]any) (int, map[string]any)
	lifetime  int
	noRefresh bool

	seen     []string // requests, in order
	versions []string // Mcp-Protocol-Version of requests for metadata
	bearers  []string // tokens that the MCP server was sent
	asked    []url.Values
	forms    []url.Values
	regs     []map[string]any
	tokens   map[string][]string // what is valid, and its scopes
	refresh  map[string]string   // what is valid, and its scope
	serial   int
	bodies   []string
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

const metadataPath = "/.well-known/oauth-protected-resource/mcp"

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, tokens: map[string][]string{}, refresh: map[string]string{}, documents: map[string]any{}, lifetime: 3600}
	w.mcp = httptest.NewServer(http.HandlerFunc(w.serveMCP))
	w.as = httptest.NewServer(http.HandlerFunc(w.serveAS))
	t.Cleanup(w.mcp.Close)
	t.Cleanup(w.as.Close)
	w.prm = map[string]any{metadataPath: map[string]any{"resource": w.mcp.URL + "/mcp", "authorization_servers": []string{w.as.URL}}}
	w.challenge = func() string { return `Bearer resource_metadata="` + w.mcp.URL + metadataPath + `"` }
	w.meta = map[string]any{
		"issuer": w.as.URL, "authorization_endpoint": w.as.URL + "/authorize", "token_endpoint": w.as.URL + "/token",
		"registration_endpoint": w.as.URL + "/register", "code_challenge_methods_supported": []string{"S256"},
		"authorization_response_iss_parameter_supported": true, "token_endpoint_auth_methods_supported": []string{"none"},
	}
	w.places = []string{"/.well-known/oauth-authorization-server"}
	w.iss = w.as.URL
	return w
}

// transport returns a Transport for the world's server, with a user who agrees to everything.
func (w *world) transport(change func(*Options)) *Transport {
	w.t.Helper()
	o := Options{Server: w.mcp.URL + "/mcp", Browser: browse, LoginTimeout: 10 * time.Second, Log: zerolog.New(&w.log).Level(zerolog.TraceLevel)}
	if change != nil {
		change(&o)
	}
	t, err := New(o)
	if err != nil {
		w.t.Fatal(err)
	}
	t.pause = 0
	w.t.Cleanup(func() {
		t.Close()
		t.CloseIdleConnections()
		w.keepsSecrets(w.log.String())
	})
	return t
}

// keepsSecrets fails the test if a text has a secret in it.
func (w *world) keepsSecrets(text string) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.canaries {
		if strings.Contains(text, s) {
			w.t.Errorf("the secret %q is in %s", s, text)
		}
	}
}

// call sends a request to the MCP server and returns the status of its response.
func (w *world) call(t *Transport, header ...string) (int, error) {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), http.MethodPost, w.mcp.URL+"/mcp", strings.NewReader("the body"))
	if err != nil {
		w.t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := t.RoundTrip(req)
	if err != nil {
		w.keepsSecrets(err.Error())
		return 0, err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, err
}

// works fails the test unless a call succeeds.
func (w *world) works(t *Transport, header ...string) {
	w.t.Helper()
	if status, err := w.call(t, header...); err != nil || status != http.StatusOK {
		w.t.Fatalf("a call: status %d, %v\nseen: %s", status, err, strings.Join(w.requests(), "\n"))
	}
}

// fails fails the test unless a call fails with an error that has want in it.
func (w *world) fails(t *Transport, want string, header ...string) error {
	w.t.Helper()
	status, err := w.call(t, header...)
	if err == nil || !strings.Contains(err.Error(), want) {
		w.t.Fatalf("a call: status %d, error %v, want one with %q\nseen: %s", status, err, want, strings.Join(w.requests(), "\n"))
	}
	return err
}

func (w *world) requests() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.seen)
}

// count returns how many requests were seen that begin like this.
func (w *world) count(prefix string) int {
	n := 0
	for _, s := range w.requests() {
		if strings.HasPrefix(s, prefix) {
			n++
		}
	}
	return n
}

// do changes the world while it is used.
func (w *world) do(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
}

// revoke makes every access token invalid.
func (w *world) revoke() { w.do(func() { clear(w.tokens) }) }

// form returns the last token request.
func (w *world) form() url.Values {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.forms[len(w.forms)-1]
}

// question returns the last authorization request.
func (w *world) question() url.Values {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.asked[len(w.asked)-1]
}

// secret makes a secret that must stay one.
func (w *world) secret(kind string) string {
	w.serial++
	s := fmt.Sprintf("%s-canary-%d", kind, w.serial)
	w.canaries = append(w.canaries, s)
	return s
}

func reply(rw http.ResponseWriter, status int, v any) {
	rw.Header().Set("Content-Type", "application/json")
	switch v := v.(type) {
	case nil:
		http.Error(rw, "nothing here", http.StatusNotFound)
	case int:
		http.Error(rw, "no", v)
	case string:
		rw.WriteHeader(status)
		io.WriteString(rw, v)
	case func(http.ResponseWriter):
		v(rw)
	default:
		rw.WriteHeader(status)
		json.NewEncoder(rw).Encode(v)
	}
}

func (w *world) serveMCP(rw http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen = append(w.seen, r.Method+" mcp "+r.URL.Path)
	if r.URL.Path != "/mcp" {
		if doc, ok := w.prm[r.URL.Path]; ok {
			reply(rw, http.StatusOK, doc)
			return
		}
		w.authorizationServer(rw, r) // it may be its own
		return
	}
	w.bodies = append(w.bodies, string(body))
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	w.bearers = append(w.bearers, token)
	scopes, ok := w.tokens[token]
	if !ok || w.accepts != nil && !w.accepts(token) {
		if c := w.challenge(); c != "" {
			rw.Header().Set("WWW-Authenticate", c)
		}
		rw.WriteHeader(http.StatusUnauthorized)
		return
	}
	var needs []string
	if w.needs != nil {
		needs = w.needs(r)
	}
	for _, s := range needs {
		if !slices.Contains(scopes, s) {
			rw.Header().Set("WWW-Authenticate", `Bearer error="insufficient_scope", scope="`+strings.Join(needs, " ")+`"`)
			rw.WriteHeader(http.StatusForbidden)
			return
		}
	}
	rw.WriteHeader(http.StatusOK)
}

func (w *world) serveAS(rw http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen = append(w.seen, r.Method+" as "+r.URL.Path)
	w.authorizationServer(rw, r)
}

func (w *world) authorizationServer(rw http.ResponseWriter, r *http.Request) {
	r.ParseForm()
	switch {
	case slices.Contains(w.places, r.URL.Path):
		w.versions = append(w.versions, r.Header.Get("Mcp-Protocol-Version"))
		doc := maps.Clone(w.meta)
		maps.DeleteFunc(doc, func(_ string, v any) bool { return v == nil })
		reply(rw, http.StatusOK, doc)
	case r.URL.Path == "/authorize":
		w.asked = append(w.asked, r.URL.Query())
		q := url.Values{"code": {w.secret("code")}, "state": {r.FormValue("state")}}
		if w.iss != "-" {
			q.Set("iss", w.iss)
		}
		maps.Copy(q, w.answer)
		http.Redirect(rw, r, r.FormValue("redirect_uri")+"?"+q.Encode(), http.StatusFound)
	case r.URL.Path == "/register" && r.Method == http.MethodPost:
		w.registration(rw, r)
	case r.URL.Path == "/token" && r.Method == http.MethodPost:
		w.issue(rw, r)
	default:
		reply(rw, http.StatusOK, w.documents[r.URL.Path])
	}
}

func (w *world) registration(rw http.ResponseWriter, r *http.Request) {
	var in map[string]any
	json.NewDecoder(r.Body).Decode(&in)
	w.regs = append(w.regs, in)
	if w.register != nil {
		status, out := w.register(in)
		reply(rw, status, out)
		return
	}
	reply(rw, http.StatusCreated, map[string]any{"client_id": fmt.Sprintf("registered-%d", len(w.regs))})
}

func (w *world) issue(rw http.ResponseWriter, r *http.Request) {
	form := maps.Clone(r.PostForm)
	basic := ""
	if id, secret, ok := r.BasicAuth(); ok {
		basic = id + ":" + secret
	}
	form.Set("(basic)", basic)
	form.Set("(dpop)", r.Header.Get("Dpop"))
	w.forms = append(w.forms, form)
	if w.token != nil {
		if status, out := w.token(form, basic); out != nil {
			reply(rw, status, out)
			return
		}
	}
	scope := form.Get("scope")
	switch form.Get("grant_type") {
	case "authorization_code":
		asked := w.asked[len(w.asked)-1]
		sum := sha256.Sum256([]byte(form.Get("code_verifier")))
		if base64.RawURLEncoding.EncodeToString(sum[:]) != asked.Get("code_challenge") || asked.Get("code_challenge_method") != "S256" {
			reply(rw, http.StatusBadRequest, map[string]any{"error": "invalid_grant", "error_description": "PKCE"})
			return
		}
		scope = asked.Get("scope")
	case "refresh_token":
		old, ok := w.refresh[form.Get("refresh_token")]
		if !ok {
			reply(rw, http.StatusBadRequest, map[string]any{"error": "invalid_grant", "error_description": "no such token as " + form.Get("refresh_token")})
			return
		}
		scope = old
		delete(w.refresh, form.Get("refresh_token"))
	}
	access := w.secret("access")
	w.tokens[access] = strings.Fields(scope)
	out := map[string]any{"access_token": access, "token_type": "bearer", "expires_in": w.lifetime}
	if !w.noRefresh {
		refresh := w.secret("refresh")
		w.refresh[refresh] = scope
		out["refresh_token"] = refresh
	}
	reply(rw, http.StatusOK, out)
}

// browseLater is a browser whose user waits for go before agreeing.
func browseLater(begun, goOn chan struct{}) func(context.Context, string) error {
	return func(ctx context.Context, address string) error {
		select {
		case begun <- struct{}{}:
		case <-ctx.Done():
			return nil
		}
		select {
		case <-goOn:
			return browse(ctx, address)
		case <-ctx.Done():
			return nil
		}
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
