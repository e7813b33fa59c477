package oauth

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/mcpbridge/mcpbridge/internal/bridgetest"
)

func TestLoginIsDoneOnce(t *testing.T) {
	w := newFixture(t)
	tr := w.transport(nil)
	w.mustSucceed(tr)
	w.mustSucceed(tr)
	want := []string{
		"POST mcp /mcp", "GET mcp " + metadataPath, "GET as /.well-known/oauth-authorization-server",
		"POST as /register",
		"GET as /authorize", "POST as /token", "POST mcp /mcp", "POST mcp /mcp",
	}
	if d := cmp.Diff(want, w.requests()); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"the body", "the body", "the body"}, w.bodies); d != "" {
		t.Error(d)
	}
	q, f := w.authRequest(), w.tokenRequest()
	for name, want := range map[string]string{
		"response_type": "code", "client_id": "registered-1", "code_challenge_method": "S256",
		"resource": w.mcp.URL + "/mcp", "scope": "",
	} {
		if got := q.Get(name); got != want {
			t.Errorf("authorization request: %s is %q, want %q", name, got, want)
		}
	}
	for name, want := range map[string]string{
		"grant_type": "authorization_code", "client_id": "registered-1", "resource": w.mcp.URL + "/mcp",
		"redirect_uri": q.Get("redirect_uri"),
	} {
		if got := f.Get(name); got != want {
			t.Errorf("token request: %s is %q, want %q", name, got, want)
		}
	}
}

// Any local program can send requests to the port of the callback.
func TestCallbackIgnoresOtherRequests(t *testing.T) {
	bridgetest.SkipIfShort(t)
	w := newFixture(t)
	tr := w.transport(func(o *Options) {
		o.Browser = func(ctx context.Context, address string) error {
			back := must(url.Parse(must(url.Parse(address)).Query().Get("redirect_uri")))
			state := must(url.Parse(address)).Query().Get("state")
			get := func(method, path string, q url.Values, host string) int {
				u := *back
				u.Path, u.RawQuery = path, q.Encode()
				req := must(http.NewRequestWithContext(ctx, method, u.String(), nil))
				req.Host = host
				resp := must(http.DefaultTransport.RoundTrip(req))
				resp.Body.Close()
				return resp.StatusCode
			}
			good := url.Values{"code": {"stolen"}, "state": {state}, "iss": {w.as.URL}}
			for _, row := range []struct {
				method, path, host string
				q                  url.Values
				want               int
			}{
				{"GET", "/callback", "", url.Values{"code": {"x"}}, 400},
				{"GET", "/callback", "", url.Values{"code": {"x"}, "state": {"guess"}, "iss": {w.as.URL}}, 400},
				{"GET", "/callback", "", url.Values{"error": {"x"}, "state": {""}}, 400},
				{"GET", "/callback", "", url.Values{"code": {"x"}, "state": {state, state}}, 400},
				{"GET", "/", "", good, 404},
				{"GET", "/callback/", "", good, 404},
				{"POST", "/callback", "", good, 404},
				{"GET", "/callback", "evil.example", good, 404},
				{"GET", "/" + strings.Repeat("x", maxCallbackHeader-1000), "", nil, 404},
				{"GET", "/" + strings.Repeat("x", maxCallbackHeader+5000), "", nil, 431},
			} {
				if got := get(row.method, row.path, row.q, row.host); got != row.want {
					t.Errorf("%s %s of %q with %v: status %d, want %d", row.method, row.path, row.host, row.q, got,
						row.want)
				}
			}
			if !strings.HasPrefix(back.Host, "127.0.0.1:") {
				t.Errorf("the browser is redirected to %s", back)
			}
			err := browse(ctx, address)
			// A later request has no effect.
			if resp, e := http.DefaultTransport.RoundTrip(
				must(http.NewRequestWithContext(ctx, "GET", back.String()+"?"+good.Encode(), nil))); e == nil {
				if resp.Body.Close(); resp.StatusCode != http.StatusGone {
					t.Errorf("a second response: status %d", resp.StatusCode)
				}
			}
			return err
		}
	})
	w.mustSucceed(tr)
	if code := w.tokenRequest().Get("code"); !strings.HasPrefix(code, "code-canary") {
		t.Errorf("the code %q was exchanged", code)
	}
}

func TestPageIsPlain(t *testing.T) {
	w := newFixture(t)
	var header http.Header
	var body []byte
	tr := w.transport(func(o *Options) {
		o.Browser = func(ctx context.Context, address string) error {
			resp, err := new(http.Client).Do(must(http.NewRequestWithContext(ctx, "GET", address, nil)))
			if err != nil {
				return err
			}
			defer resp.Body.Close()
			header = resp.Header
			body, err = io.ReadAll(resp.Body)
			return err
		}
	})
	w.mustSucceed(tr)
	if csp := header.Get("Content-Security-Policy"); !strings.Contains(csp, "default-src 'none'") ||
		header.Get("Cache-Control") != "no-store" || header.Get("Referrer-Policy") != "no-referrer" {
		t.Errorf("headers: %v", header)
	}
	if strings.Contains(string(body), "canary") || strings.Contains(string(body), "127.0.0.1") ||
		!strings.Contains(string(body), "close this window") {
		t.Errorf("page: %s", body)
	}
}

func TestClientIdentity(t *testing.T) {
	const document = "https://us.example/client.json"
	for _, row := range []struct {
		name   string
		change func(*fixture)
		o      func(*Options)
		id     string // client_id of the authorization request
		auth   string // authentication method of the token request
		regs   int
		err    string
	}{
		{
			name: "configured", o: func(o *Options) { o.ClientID, o.ClientMetadataURL = "us", document },
			change: func(w *fixture) {
				w.meta["client_id_metadata_document_supported"] = true
			}, id: "us", auth: "none",
		},
		{name: "document", o: func(o *Options) { o.ClientMetadataURL = document }, change: func(w *fixture) {
			w.meta["client_id_metadata_document_supported"] = true
		}, id: document, auth: "none"},
		{
			name: "unsupported document", o: func(o *Options) { o.ClientMetadataURL = document }, id: "registered-1",
			auth: "none", regs: 1,
		},
		{name: "registered", id: "registered-1", auth: "none", regs: 1},
		{
			name: "nothing supported", change: func(w *fixture) { w.meta["registration_endpoint"] = nil },
			err: "configure the client ID",
		},
		{
			name: "registration refused", change: func(w *fixture) {
				w.register = func(map[string]any) (int, map[string]any) {
					return 400, map[string]any{"error": "invalid_redirect_uri", "error_description": "no\nloopback"}
				}
			}, err: "rejected the registration: invalid_redirect_uri: noloopback; register mcpbridge there manually",
			regs: 1,
		},
		{name: "registration without an ID", change: func(w *fixture) {
			w.register = func(map[string]any) (int, map[string]any) { return 201, map[string]any{} }
		}, err: "without a client ID", regs: 1},
		{
			name:   "registration elsewhere without TLS",
			change: func(w *fixture) { w.meta["registration_endpoint"] = "http://evil.example/" },
			err:    "does not begin with https://",
		},
		{name: "a secret, basic", change: withSecret("client_secret_basic"), id: "r", auth: "basic", regs: 1},
		{name: "a secret, post", change: withSecret("client_secret_post"), id: "r", auth: "post", regs: 1},
		{
			name: "a secret, and both", change: withSecret("client_secret_post", "client_secret_basic"), id: "r",
			auth: "basic", regs: 1,
		},
		{name: "a secret, and the method none", change: withSecret("none"), id: "r", auth: "none", regs: 1},
		{name: "a secret, and no methods declared", change: withSecret(), id: "r", auth: "basic", regs: 1},
		{
			name: "a configured secret, and a method for keys", change: withSecret("private_key_jwt"),
			o: func(o *Options) {
				o.ClientID, o.ClientSecret = "us", "s"
			}, err: "none of",
		},
		{name: "a configured secret", change: withSecret("client_secret_post"), o: func(o *Options) {
			o.ClientID, o.ClientSecret = "us", "secret-canary"
		}, id: "us", auth: "post"},
		{name: "the method of the registration", change: func(w *fixture) {
			withSecret("client_secret_basic", "client_secret_post")(w)
			w.register = func(map[string]any) (int, map[string]any) {
				return 201, map[string]any{
					"client_id": "r", "client_secret": "secret-canary",
					"token_endpoint_auth_method": "client_secret_post",
				}
			}
		}, id: "r", auth: "post", regs: 1},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := newFixture(t)
			w.canaries = []string{"secret-canary"}
			if row.change != nil {
				row.change(w)
			}
			tr := w.transport(row.o)
			if row.err != "" {
				w.mustFail(tr, row.err)
			} else {
				w.mustSucceed(tr)
				if got := w.authRequest().Get("client_id"); got != row.id {
					t.Errorf("client %q, want %q", got, row.id)
				}
				f := w.tokenRequest()
				auth := "none"
				switch {
				case f.Get("(basic)") != "" && f.Has("client_secret"):
					auth = "both"
				case f.Get("(basic)") == row.id+":secret-canary":
					auth = "basic"
				case f.Get("client_secret") == "secret-canary":
					auth = "post"
				}
				if auth != row.auth {
					t.Errorf("got a token request authenticated by %s, want %s: %v", auth, row.auth, f)
				}
			}
			if len(w.registrations) != row.regs {
				t.Errorf("got %d registrations, want %d", len(w.registrations), row.regs)
			}
		})
	}
}

// withSecret makes the authorization server issue client secrets. Without methods, it declares none.
func withSecret(methods ...string) func(*fixture) {
	return func(w *fixture) {
		w.meta["token_endpoint_auth_methods_supported"] = methods
		if methods == nil {
			w.meta["token_endpoint_auth_methods_supported"] = nil
		}
		w.register = func(map[string]any) (int, map[string]any) {
			return 201, map[string]any{"client_id": "r", "client_secret": "secret-canary"}
		}
	}
}

func TestRegistrationRequest(t *testing.T) {
	w := newFixture(t)
	w.mustSucceed(w.transport(func(o *Options) { o.ClientName = "us" }))
	want := map[string]any{
		"client_name": "us", "redirect_uris": []any{w.authRequest().Get("redirect_uri")}, "application_type": "native",
		"grant_types": []any{"authorization_code", "refresh_token"}, "response_types": []any{"code"},
		"token_endpoint_auth_method": "none",
	}
	if d := cmp.Diff(want, w.registrations[0]); d != "" {
		t.Error(d)
	}
}

// Not every challenge has the URL of the metadata; the last one is used.
func TestMetadataURLIsKept(t *testing.T) {
	w := newFixture(t)
	w.prm["/here"] = w.prm[metadataPath]
	delete(w.prm, metadataPath)
	w.challenge = func() string { return `Bearer resource_metadata="` + w.mcp.URL + `/here"` }
	w.needs = func(r *http.Request) []string { return strings.Fields(r.Header.Get("Needs")) }
	tr := w.transport(nil)
	w.mustSucceed(tr)
	w.mustSucceed(tr, "Needs", "write")
	if w.count("GET mcp "+metadataPath) > 0 || w.count("GET mcp /here") != 2 {
		t.Errorf("%v", w.requests())
	}
}

// Concurrent requests that need a token share one acquisition.
func TestConcurrentRequestsShareLogin(t *testing.T) {
	w := newFixture(t)
	begun, proceed := make(chan struct{}, 1), make(chan struct{})
	tr := w.transport(func(o *Options) { o.Browser = browseLater(begun, proceed) })
	const many = 100
	var wg sync.WaitGroup
	errs := make([]error, many)
	for i := range many {
		wg.Go(func() { _, errs[i] = w.call(tr) })
	}
	<-begun
	close(proceed)
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(w.authRequests) != 1 || len(w.tokenRequests) != 1 || len(w.registrations) != 1 {
		t.Errorf("got %d logins, %d token requests, %d registrations", len(w.authRequests), len(w.tokenRequests),
			len(w.registrations))
	}
	w.revoke()
	for i := range many {
		wg.Go(func() { _, errs[i] = w.call(tr) })
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(w.authRequests) != 1 || len(w.tokenRequests) != 2 {
		t.Errorf("after the refresh: got %d logins, %d token requests", len(w.authRequests), len(w.tokenRequests))
	}
}

func TestPauseAfterFailure(t *testing.T) {
	w := newFixture(t)
	w.answer = url.Values{"error": {"access_denied"}}
	tr := w.transport(nil)
	tr.pause = time.Hour
	for range 3 {
		w.mustFail(tr, "access_denied")
	}
	if len(w.authRequests) != 1 {
		t.Errorf("got %d logins, want 1", len(w.authRequests))
	}
	tr.mu.Lock()
	tr.failure.until = time.Now()
	tr.mu.Unlock()
	w.update(func() { w.answer = nil })
	w.mustSucceed(tr)
}

// A login continues after the call that started it was canceled.
func TestLoginOutlivesTheCall(t *testing.T) {
	w := newFixture(t)
	begun, proceed := make(chan struct{}, 1), make(chan struct{})
	tr := w.transport(func(o *Options) { o.Browser = browseLater(begun, proceed) })
	ctx, cancel := context.WithCancelCause(t.Context())
	done := make(chan error)
	go func() {
		_, err := tr.RoundTrip(must(http.NewRequestWithContext(ctx, "GET", w.mcp.URL+"/mcp", nil)))
		done <- err
	}()
	<-begun
	cancel(nil)
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	close(proceed)
	w.mustSucceed(tr)
	if len(w.authRequests) != 1 {
		t.Errorf("got %d logins", len(w.authRequests))
	}
}

func TestLoginTimeout(t *testing.T) {
	w := newFixture(t)
	tr := w.transport(func(o *Options) {
		o.LoginTimeout = 50 * time.Millisecond
		o.Browser = func(context.Context, string) error { return nil }
	})
	if err := w.mustFail(tr, "the user did not log in"); errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the timeout of the login passes for the deadline of the call: %v", err)
	}
	w.mustFail(w.transport(func(o *Options) {
		o.Browser = func(context.Context, string) error { return errors.New("no display") }
	}), "opening a browser: no display")
	w.mustFail(w.transport(func(o *Options) { o.Browser = nil }), "log in elsewhere")
}

func TestCloseEndsALogin(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	w := newFixture(t)
	begun := make(chan struct{}, 1)
	var returned atomic.Bool
	tr := w.transport(func(o *Options) {
		o.Browser = func(ctx context.Context, address string) error {
			begun <- struct{}{}
			<-ctx.Done()
			time.Sleep(20 * time.Millisecond) //nolint:forbidigo // a slow browser
			returned.Store(true)
			return nil
		}
	})
	done := make(chan error)
	go func() {
		_, err := w.call(tr)
		done <- err
	}()
	<-begun
	tr.Close()
	if !returned.Load() {
		t.Error("Close did not wait for the browser")
	}
	if err := <-done; err == nil {
		t.Error("want an error of the call")
	}
	w.mustFail(tr, "shutting down")
	tr.CloseIdleConnections()
	w.mcp.Close()
	w.as.Close()
}

func TestSecondResponseIsIgnored(t *testing.T) {
	b := &callbackServer{host: "127.0.0.1:1", path: "/callback", state: "s", result: make(chan loginResult, 2)}
	for i, want := range []int{http.StatusOK, http.StatusGone} {
		rw := httptest.NewRecorder()
		b.ServeHTTP(rw, httptest.NewRequestWithContext(t.Context(), "GET",
			"http://127.0.0.1:1/callback?state=s&code="+strconv.Itoa(i), nil))
		if rw.Code != want {
			t.Errorf("response %d: got status %d, want %d", i, rw.Code, want)
		}
	}
	if r := <-b.result; r.code != "0" || len(b.result) > 0 {
		t.Errorf("got %v and %d more results, want the first response only", r, len(b.result))
	}
}
