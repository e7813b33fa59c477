package oauth

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// 2026-07-28: client registration, authorization server binding.
func TestCredentialsStayWithTheirAuthorizationServer(t *testing.T) {
	for _, configured := range []bool{false, true} {
		t.Run(fmt.Sprintf("configured %v", configured), func(t *testing.T) {
			old, w := newFixture(t), newFixture(t)
			// The server of w moves from the authorization server of old to that of w.
			w.prm[metadataPath].(map[string]any)["authorization_servers"] = []string{old.as.URL}
			id := 0
			w.register = func(map[string]any) (int, map[string]any) {
				id++
				return 201, map[string]any{"client_id": fmt.Sprint("new-", id)}
			}
			dir := t.TempDir()
			change := func(o *Options) {
				if o.Dir = dir; configured {
					o.ClientID = "us"
				}
			}
			if err := os.Chmod(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			// The server of w accepts the tokens of old.
			w.accepts = func(token string) bool { return true }
			tr := w.transport(change)
			old.update(func() {
				old.token = func(url.Values, string) (int, map[string]any) {
					w.update(func() { w.tokens["old-token-canary"] = nil })
					return 200, map[string]any{
						"access_token":  "old-token-canary",
						"refresh_token": "old-refresh-canary", "token_type": "Bearer",
					}
				}
			})
			w.mustSucceed(tr)
			w.update(func() {
				clear(w.tokens)
				w.prm[metadataPath].(map[string]any)["authorization_servers"] = []string{w.as.URL}
			})
			for _, tr := range []*Transport{tr, w.transport(change)} { // the same process, and another
				if configured {
					w.mustFail(tr, "register at the new one")
					if len(w.authRequests)+len(w.tokenRequests) > 0 {
						t.Error("the client of the old authorization server was used at the new one")
					}
					continue
				}
				w.mustSucceed(tr)
			}
			if !configured && (w.authRequest().Get("client_id") != "new-1" || len(w.authRequests) != 1) {
				t.Errorf("got %d logins, the last of the client %q", len(w.authRequests),
					w.authRequest().Get("client_id"))
			}
			for _, f := range w.tokenRequests {
				if strings.Contains(f.Encode(), "old-") || f.Get("client_id") == "registered-1" {
					t.Errorf("the new authorization server got credentials of the old one: %v", f)
				}
			}
		})
	}
}

// Later requests reuse the connections of as many concurrent ones.
func TestConnectionsAreReused(t *testing.T) {
	const callers = 16
	var conns atomic.Int64
	var together [3]sync.WaitGroup // of each round
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		round, _ := strconv.Atoi(r.URL.Query().Get("round"))
		together[round].Done()
		together[round].Wait()
		rw.WriteHeader(http.StatusNoContent)
	}))
	server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			conns.Add(1)
		}
	}
	server.Start()
	defer server.Close()
	tr, err := New(Options{Server: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	defer tr.CloseIdleConnections()
	for round := range together {
		together[round].Add(callers)
		var wg sync.WaitGroup
		for range callers {
			wg.Go(func() {
				req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet,
					fmt.Sprint(server.URL, "?round=", round), nil)
				res, err := tr.RoundTrip(req)
				if err != nil {
					t.Error(err)
					return
				}
				res.Body.Close()
			})
		}
		wg.Wait()
	}
	if n := conns.Load(); n != callers {
		t.Errorf("got %d connections for %d concurrent requests", n, callers)
	}
}

// The token is sent to the server's origin only.
func TestTokenStaysAtTheServer(t *testing.T) {
	w := newFixture(t)
	var got []string
	stranger := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		got = append(got, r.Header.Get("Authorization"))
		rw.Header().Set("WWW-Authenticate", `Bearer resource_metadata="`+w.mcp.URL+metadataPath+`"`)
		rw.WriteHeader(http.StatusUnauthorized)
	}))
	defer stranger.Close()
	tr := w.transport(nil)
	w.mustSucceed(tr)
	logins := len(w.authRequests)
	w.update(func() {
		w.prm["/away"] = func(rw http.ResponseWriter) {
			rw.Header().Set("Location", stranger.URL+"/mcp")
			rw.WriteHeader(http.StatusTemporaryRedirect)
		}
	})
	c := &http.Client{Transport: tr}
	for _, u := range []string{
		stranger.URL + "/mcp", w.mcp.URL + "/away", strings.Replace(w.mcp.URL, "127.0.0.1", "localhost", 1) + "/mcp",
	} {
		resp, err := c.Do(must(http.NewRequestWithContext(t.Context(), "POST", u, strings.NewReader("x"))))
		if err != nil {
			t.Fatal(err)
		}
		if resp.Body.Close(); resp.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s: got status %d, want that of the other server", u, resp.StatusCode)
		}
	}
	if d := cmp.Diff([]string{"", ""}, got); d != "" || len(w.authRequests) != logins {
		t.Errorf("the other server got %q", got)
	}
	// The caller's own header is kept.
	if status, err := w.call(tr, "Authorization", "Basic eDp5"); err != nil || status != http.StatusUnauthorized {
		t.Error(status, err)
	}
}

func TestBodyWithoutGetBody(t *testing.T) {
	w := newFixture(t)
	tr := w.transport(nil)
	req := must(http.NewRequestWithContext(t.Context(), "POST", w.mcp.URL+"/mcp",
		io.NopCloser(strings.NewReader("once"))))
	resp, err := tr.RoundTrip(req)
	if err != nil || resp.StatusCode != http.StatusUnauthorized {
		t.Fatal(resp, err)
	}
	if resp.Body.Close(); len(w.authRequests) > 0 {
		t.Error("got a login for a request that cannot be repeated")
	}
}

func TestInvalidTokens(t *testing.T) {
	for _, row := range []struct {
		name, err string
		token     map[string]any
	}{
		{"another type", `type "mac"`, map[string]any{"access_token": "canary-x", "token_type": "mac"}},
		{
			"a line break", "invalid in a header",
			map[string]any{"access_token": "canary-x\r\nX: y", "token_type": "Bearer"},
		},
		{"none", "missing access_token", map[string]any{"token_type": "Bearer"}},
		{
			"too long", "exceeds 32768 bytes",
			map[string]any{"access_token": strings.Repeat("x", maxToken+1), "token_type": "Bearer"},
		},
		{"an error with status 200", "invalid_grant", map[string]any{"error": "invalid_grant"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := newFixture(t)
			w.canaries = []string{"canary-x"}
			w.token = func(url.Values, string) (int, map[string]any) { return 200, row.token }
			w.mustFail(w.transport(nil), row.err)
		})
	}
	t.Run("just not too long", func(t *testing.T) {
		w := newFixture(t)
		long := strings.Repeat("x", maxToken)
		w.tokens[long] = nil
		w.token = func(url.Values, string) (int, map[string]any) {
			return 200, map[string]any{"access_token": long, "token_type": "Bearer"}
		}
		w.mustSucceed(w.transport(nil))
	})
}

// An authorization server quotes secrets of the request in its error.
func TestSecretsAreNotRepeated(t *testing.T) {
	w := newFixture(t)
	w.token = func(f url.Values, _ string) (int, map[string]any) {
		w.canaries = append(w.canaries, f.Get("code_verifier"))
		return 400, map[string]any{
			"error":             "invalid_grant",
			"error_description": "bad: " + f.Get("code") + " " + f.Get("code_verifier"),
		}
	}
	w.mustFail(w.transport(nil), "bad: (withheld) (withheld)")
}

func TestTokenEndpointDoesNotRedirect(t *testing.T) {
	w := newFixture(t)
	moved := false
	w.as.Config.Handler = func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/moved" {
				moved = true
			}
			if r.URL.Path == "/token" {
				http.Redirect(rw, r, "/moved", http.StatusTemporaryRedirect)
				return
			}
			next.ServeHTTP(rw, r)
		})
	}(w.as.Config.Handler)
	w.mustFail(w.transport(nil), "status 307")
	if moved {
		t.Error("the code was sent to the target of a redirect")
	}
}

// The errors that the page lists must exist.
func TestDocumentedErrorsExist(t *testing.T) {
	page := string(must(os.ReadFile("../../../docs/upstreams-auth.md")))
	_, table, found := strings.Cut(page, "|---|---|---|\n")
	if !found {
		t.Fatal("no table found")
	}
	var source strings.Builder
	for _, name := range must(filepath.Glob("*.go")) {
		if !strings.HasSuffix(name, "_test.go") {
			source.Write(must(os.ReadFile(name)))
		}
	}
	for line := range strings.Lines(table) {
		if !strings.HasPrefix(line, "| ") {
			break
		}
		for part := range strings.SplitSeq(strings.Split(line, "|")[1], "…") {
			if part = strings.TrimSpace(part); !strings.Contains(source.String(), part) {
				t.Errorf("no error has the text %q", part)
			}
		}
	}
}

// A token is used only for the resource that it was requested for.
func TestTokenForAnotherResourceIsNotUsed(t *testing.T) {
	w := newFixture(t)
	dir := filepath.Join(t.TempDir(), "c")
	w.prm[metadataPath].(map[string]any)["resource"] = w.mcp.URL
	w.mustSucceed(w.transport(func(o *Options) { o.Dir = dir }))
	w.update(func() { w.prm[metadataPath].(map[string]any)["resource"] = w.mcp.URL + "/mcp" })
	w.mustSucceed(w.transport(func(o *Options) { o.Dir = dir }))
	if len(w.authRequests) != 2 || w.authRequest().Get("resource") != w.mcp.URL+"/mcp" {
		t.Errorf("got %d logins, the last for %q", len(w.authRequests), w.authRequest().Get("resource"))
	}
}

// Text of servers in errors and logs is limited.
func TestErrorsAreShort(t *testing.T) {
	long := strings.Repeat("x", 100_000) + "\x1b[31m\n"
	for name, change := range map[string]func(*fixture){
		"resource": func(w *fixture) { w.prm[metadataPath].(map[string]any)["resource"] = long },
		"issuer":   func(w *fixture) { w.prm[metadataPath].(map[string]any)["authorization_servers"] = []string{long} },
		"metadata": func(w *fixture) { w.meta["issuer"] = long },
		"twice": func(w *fixture) {
			w.prm[metadataPath] = `{"` + strings.Repeat("x", 100_000) + `":1,"` + strings.Repeat("x", 100_000) + `":1}`
		},
		"methods": func(w *fixture) {
			withSecret(long, "client_secret_jwt")(w)
		},
		"description": func(w *fixture) {
			w.token = func(url.Values, string) (int, map[string]any) {
				return 400, map[string]any{"error": long, "error_description": long}
			}
		},
		"scopes": func(w *fixture) {
			var many []string
			for i := range maxScopes {
				many = append(many, strings.Repeat("s", maxScope-3)+strconv.Itoa(i))
			}
			w.needs = func(*http.Request) []string { return many[:28] } // as many as fit into a header
			w.prm[metadataPath].(map[string]any)["scopes_supported"] = many
			w.token = func(url.Values, string) (int, map[string]any) {
				w.tokens["t"] = nil
				return 200, map[string]any{"access_token": "t", "token_type": "Bearer"}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t)
			change(w)
			err := w.mustFail(w.transport(nil), "")
			if text := err.Error(); len(text) > maxError+200 || strings.ContainsAny(text, "\x1b\n") {
				t.Errorf("got an error of %d bytes: %.300q", len(text), text)
			}
			for line := range strings.Lines(w.log.String()) {
				if len(line) > 8<<10 {
					t.Errorf("got a log line of %d bytes: %.300q", len(line), line)
				}
			}
		})
	}
}
