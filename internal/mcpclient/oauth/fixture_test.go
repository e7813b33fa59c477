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

// A fixture has an MCP server and its authorization server, and records their requests. Tests change its fields before
// the first request, or in update.
type fixture struct {
	t        *testing.T
	mcp, as  *httptest.Server
	log      lockedBuffer
	canaries []string // secrets that no log and no error may contain

	mu sync.Mutex
	// The MCP server.
	challenge func() string  // the WWW-Authenticate header
	prm       map[string]any // by path; a string is a body, an int a status, and a func a handler
	needs     func(*http.Request) []string
	accepts   func(token string) bool // an additional check
	// The authorization server.
	meta      map[string]any // members of its metadata; nil removes one
	paths     []string       // of the metadata
	documents map[string]any // other documents, as prm
	token     func(form url.Values, basic string) (int, map[string]any)
	iss       string // of authorization responses; "-" means none
	answer    url.Values
	register  func(map[string]any) (int, map[string]any)
	lifetime  int
	noRefresh bool

	seen          []string // requests, in order
	versions      []string // Mcp-Protocol-Version of requests for metadata
	bearers       []string // tokens in requests to the MCP server
	authRequests  []url.Values
	tokenRequests []url.Values
	registrations []map[string]any
	tokens        map[string][]string // scopes of valid access tokens
	refresh       map[string]string   // scope of valid refresh tokens
	serial        int
	bodies        []string
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

func newFixture(t *testing.T) *fixture {
	t.Helper()
	w := &fixture{
		t: t, tokens: map[string][]string{}, refresh: map[string]string{}, documents: map[string]any{},
		lifetime: 3600,
	}
	w.mcp = httptest.NewServer(http.HandlerFunc(w.serveMCP))
	w.as = httptest.NewServer(http.HandlerFunc(w.serveAS))
	t.Cleanup(w.mcp.Close)
	t.Cleanup(w.as.Close)
	w.prm = map[string]any{metadataPath: map[string]any{
		"resource":              w.mcp.URL + "/mcp",
		"authorization_servers": []string{w.as.URL},
	}}
	w.challenge = func() string { return `Bearer resource_metadata="` + w.mcp.URL + metadataPath + `"` }
	w.meta = map[string]any{
		"issuer": w.as.URL, "authorization_endpoint": w.as.URL + "/authorize", "token_endpoint": w.as.URL + "/token",
		"registration_endpoint": w.as.URL + "/register", "code_challenge_methods_supported": []string{"S256"},
		"authorization_response_iss_parameter_supported": true,
		"token_endpoint_auth_methods_supported":          []string{"none"},
	}
	w.paths = []string{"/.well-known/oauth-authorization-server"}
	w.iss = w.as.URL
	return w
}

// transport returns a Transport for the fixture's server, with a user who consents to everything.
func (w *fixture) transport(change func(*Options)) *Transport {
	w.t.Helper()
	o := Options{
		Server: w.mcp.URL + "/mcp", Browser: browse, LoginTimeout: 10 * time.Second,
		Log: zerolog.New(&w.log).Level(zerolog.TraceLevel),
	}
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
		w.checkNoSecrets(w.log.String())
	})
	return t
}

// checkNoSecrets fails the test if a text contains a secret.
func (w *fixture) checkNoSecrets(text string) {
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
func (w *fixture) call(t *Transport, header ...string) (int, error) {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), http.MethodPost, w.mcp.URL+"/mcp",
		strings.NewReader("the body"))
	if err != nil {
		w.t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := t.RoundTrip(req)
	if err != nil {
		w.checkNoSecrets(err.Error())
		return 0, err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, err
}

// mustSucceed fails the test unless a call succeeds.
func (w *fixture) mustSucceed(t *Transport, header ...string) {
	w.t.Helper()
	if status, err := w.call(t, header...); err != nil || status != http.StatusOK {
		w.t.Fatalf("got status %d and error %v\nrequests: %s", status, err, strings.Join(w.requests(), "\n"))
	}
}

// mustFail fails the test unless a call fails with an error that contains want.
func (w *fixture) mustFail(t *Transport, want string, header ...string) error {
	w.t.Helper()
	status, err := w.call(t, header...)
	if err == nil || !strings.Contains(err.Error(), want) {
		w.t.Fatalf("got status %d and error %v, want %q\nrequests: %s", status, err, want,
			strings.Join(w.requests(), "\n"))
	}
	return err
}

func (w *fixture) requests() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.seen)
}

// count returns the number of requests with a prefix.
func (w *fixture) count(prefix string) int {
	n := 0
	for _, s := range w.requests() {
		if strings.HasPrefix(s, prefix) {
			n++
		}
	}
	return n
}

// update calls f with the lock.
func (w *fixture) update(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
}

// revoke makes every access token invalid.
func (w *fixture) revoke() { w.update(func() { clear(w.tokens) }) }

// tokenRequest returns the last token request.
func (w *fixture) tokenRequest() url.Values {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.tokenRequests[len(w.tokenRequests)-1]
}

// authRequest returns the last authorization request.
func (w *fixture) authRequest() url.Values {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.authRequests[len(w.authRequests)-1]
}

// secret returns a new secret for checkNoSecrets.
func (w *fixture) secret(kind string) string {
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

func (w *fixture) serveMCP(rw http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen = append(w.seen, r.Method+" mcp "+r.URL.Path)
	if r.URL.Path != "/mcp" {
		if doc, ok := w.prm[r.URL.Path]; ok {
			reply(rw, http.StatusOK, doc)
			return
		}
		w.authorizationServer(rw, r) // as in 2025-03-26
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
			rw.Header().Set("WWW-Authenticate",
				`Bearer error="insufficient_scope", scope="`+strings.Join(needs, " ")+`"`)
			rw.WriteHeader(http.StatusForbidden)
			return
		}
	}
	rw.WriteHeader(http.StatusOK)
}

func (w *fixture) serveAS(rw http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen = append(w.seen, r.Method+" as "+r.URL.Path)
	w.authorizationServer(rw, r)
}

func (w *fixture) authorizationServer(rw http.ResponseWriter, r *http.Request) {
	r.ParseForm()
	switch {
	case slices.Contains(w.paths, r.URL.Path):
		w.versions = append(w.versions, r.Header.Get("Mcp-Protocol-Version"))
		doc := maps.Clone(w.meta)
		maps.DeleteFunc(doc, func(_ string, v any) bool { return v == nil })
		reply(rw, http.StatusOK, doc)
	case r.URL.Path == "/authorize":
		w.authRequests = append(w.authRequests, r.URL.Query())
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

func (w *fixture) registration(rw http.ResponseWriter, r *http.Request) {
	var in map[string]any
	json.NewDecoder(r.Body).Decode(&in)
	w.registrations = append(w.registrations, in)
	if w.register != nil {
		status, out := w.register(in)
		reply(rw, status, out)
		return
	}
	reply(rw, http.StatusCreated, map[string]any{"client_id": fmt.Sprintf("registered-%d", len(w.registrations))})
}

func (w *fixture) issue(rw http.ResponseWriter, r *http.Request) {
	form := maps.Clone(r.PostForm)
	basic := ""
	if id, secret, ok := r.BasicAuth(); ok {
		basic = id + ":" + secret
	}
	form.Set("(basic)", basic)
	form.Set("(dpop)", r.Header.Get("Dpop"))
	w.tokenRequests = append(w.tokenRequests, form)
	if w.token != nil {
		if status, out := w.token(form, basic); out != nil {
			reply(rw, status, out)
			return
		}
	}
	scope := form.Get("scope")
	switch form.Get("grant_type") {
	case "authorization_code":
		authRequest := w.authRequests[len(w.authRequests)-1]
		sum := sha256.Sum256([]byte(form.Get("code_verifier")))
		if base64.RawURLEncoding.EncodeToString(sum[:]) != authRequest.Get("code_challenge") ||
			authRequest.Get("code_challenge_method") != "S256" {
			reply(rw, http.StatusBadRequest, map[string]any{"error": "invalid_grant", "error_description": "PKCE"})
			return
		}
		scope = authRequest.Get("scope")
	case "refresh_token":
		old, ok := w.refresh[form.Get("refresh_token")]
		if !ok {
			reply(rw, http.StatusBadRequest,
				map[string]any{
					"error":             "invalid_grant",
					"error_description": "no such token as " + form.Get("refresh_token"),
				})
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

// browseLater returns a browser whose user waits for proceed before consenting.
func browseLater(begun, proceed chan struct{}) func(context.Context, string) error {
	return func(ctx context.Context, address string) error {
		select {
		case begun <- struct{}{}:
		case <-ctx.Done():
			return nil
		}
		select {
		case <-proceed:
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
