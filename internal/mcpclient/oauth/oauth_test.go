package oauth

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"google.golang.org/grpc/codes"

	"github.com/mcpbridge/mcpbridge/bridge"
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

// Where an error is expected, no browser is opened and no token is requested.
func TestDiscovery(t *testing.T) {
	noHeader := func(w *fixture) { w.challenge = func() string { return "" } }
	resource := func(s string) func(*fixture) {
		return func(w *fixture) {
			w.prm[metadataPath].(map[string]any)["resource"] = strings.ReplaceAll(s, "MCP", w.mcp.URL)
		}
	}
	meta := func(name string, v any) func(*fixture) {
		return func(w *fixture) {
			if s, ok := v.(string); ok {
				v = strings.ReplaceAll(s, "AS", w.as.URL)
			}
			w.meta[name] = v
		}
	}
	issuer := func(path string, places ...string) func(*fixture) {
		return func(w *fixture) {
			w.prm[metadataPath].(map[string]any)["authorization_servers"] = []string{w.as.URL + path}
			w.meta["issuer"], w.iss, w.paths = w.as.URL+path, w.as.URL+path, places
		}
	}
	// The server is its own authorization server, as in 2025-03-26.
	alone := func(w *fixture) {
		noHeader(w)
		w.prm, w.iss = nil, w.mcp.URL
		for _, k := range []string{"authorization", "token", "registration"} {
			w.meta[k+"_endpoint"] = strings.Replace(w.meta[k+"_endpoint"].(string), w.as.URL, w.mcp.URL, 1)
		}
		w.meta["issuer"] = w.mcp.URL
	}
	all := func(fs ...func(*fixture)) func(*fixture) {
		return func(w *fixture) {
			for _, f := range fs {
				f(w)
			}
		}
	}
	rows := []struct {
		name   string
		change func(*fixture)
		err    string   // if empty, the call succeeds
		seen   []string // expected requests in order; one with the prefix "-" must not occur
	}{
		{"metadata of the header", func(w *fixture) {
			w.prm["/here"] = w.prm[metadataPath]
			delete(w.prm, metadataPath)
			w.challenge = func() string { return `Bearer resource_metadata="` + w.mcp.URL + `/here"` }
		}, "", []string{"GET mcp /here"}},
		{
			"metadata at the path", noHeader, "",
			[]string{"GET mcp " + metadataPath, "-GET mcp /.well-known/oauth-protected-resource"},
		},
		{"metadata at the root", func(w *fixture) {
			noHeader(w)
			w.prm = map[string]any{"/.well-known/oauth-protected-resource": map[string]any{
				"resource": w.mcp.URL, "authorization_servers": []string{w.as.URL},
			}}
		}, "", []string{"GET mcp " + metadataPath, "GET mcp /.well-known/oauth-protected-resource"}},
		{"a header with a missing document", func(w *fixture) {
			w.challenge = func() string { return `Bearer resource_metadata="` + w.mcp.URL + `/nowhere"` }
		}, "status 404", []string{"GET mcp /nowhere", "-GET mcp " + metadataPath}},
		{"a server error is not missing metadata", func(w *fixture) {
			noHeader(w)
			w.prm[metadataPath] = 503
		}, "503", []string{"-GET mcp /.well-known/oauth-authorization-server"}},
		{"a rate limit is not missing metadata", func(w *fixture) {
			noHeader(w)
			w.prm[metadataPath] = 429
		}, "429", []string{"-GET mcp /.well-known/oauth-authorization-server"}},
		{"metadata that are too long", func(w *fixture) {
			w.prm[metadataPath] = `{"x":"` + strings.Repeat("x", maxDocument) + `"}`
		}, "exceeds 1048576 bytes", nil},
		{"metadata that are just not too long", func(w *fixture) {
			text := `{"resource":"` + w.mcp.URL + `/mcp","authorization_servers":["` + w.as.URL + `"]}`
			w.prm[metadataPath] = text + strings.Repeat(" ", maxDocument-len(text))
		}, "", nil},
		{"metadata with a duplicate member", func(w *fixture) {
			w.prm[metadataPath] = `{"resource":"` + w.mcp.URL + `/mcp","resource":"x","authorization_servers":["` +
				w.as.URL + `"]}`
		}, "duplicate", nil},
		{"no authorization server", func(w *fixture) {
			w.prm[metadataPath].(map[string]any)["authorization_servers"] = []string{}
		}, "names no authorization server", nil},

		{"a resource in capitals", resource("HTTP://127.0.0.1:PORT/mcp"), "describes the resource", nil},
		{"a resource at the origin", resource("MCP"), "", nil},
		{
			"another resource", resource("https://evil.example/mcp"), "describes the resource",
			[]string{"-GET as /.well-known/oauth-authorization-server"},
		},
		{"a resource with a longer name", resource("MCP/mc"), "describes the resource", nil},
		{"a resource below", resource("MCP/mcp/admin"), "describes the resource", nil},
		{"a resource with a user", resource("http://x@evil.example/mcp"), "describes the resource", nil},
		{"a resource with a fragment", resource("MCP/mcp#x"), "describes the resource", nil},
		{"no resource", resource(""), "describes the resource", nil},

		{"OpenID", func(w *fixture) { w.paths = []string{"/.well-known/openid-configuration"} }, "", []string{
			"GET as /.well-known/oauth-authorization-server", "GET as /.well-known/openid-configuration",
		}},
		{"an issuer with a path", issuer("/t", "/.well-known/oauth-authorization-server/t"), "", []string{
			"GET as /.well-known/oauth-authorization-server/t", "-GET as /.well-known/oauth-authorization-server",
		}},
		{"an issuer with a path, OpenID", issuer("/t", "/.well-known/openid-configuration/t"), "", []string{
			"GET as /.well-known/oauth-authorization-server/t", "GET as /.well-known/openid-configuration/t",
		}},
		{"an issuer with a path, OpenID below", issuer("/t", "/t/.well-known/openid-configuration"), "", []string{
			"GET as /.well-known/oauth-authorization-server/t", "GET as /.well-known/openid-configuration/t",
			"GET as /t/.well-known/openid-configuration",
		}},
		{"an issuer with a slash", issuer("/", "/.well-known/oauth-authorization-server"), "", nil},
		{"an issuer with a query", issuer("?x=y"), "must not have a query", nil},
		{"no metadata at the authorization server", func(w *fixture) { w.paths = nil }, "status 404", nil},
		{
			"another issuer", meta("issuer", "https://honest.example"), `describes the issuer "https://honest.example"`,
			nil,
		},
		{"an issuer with a slash too many", meta("issuer", "AS/"), "describes the issuer", nil},
		{"another issuer first", func(w *fixture) {
			w.documents["/.well-known/oauth-authorization-server"] = map[string]any{"issuer": "https://other.example"}
			w.paths = []string{"/.well-known/openid-configuration"}
		}, "", nil},
		{"no PKCE", meta("code_challenge_methods_supported", nil), "PKCE", nil},
		{"only plain PKCE", meta("code_challenge_methods_supported", []string{"plain"}), "PKCE", nil},
		{
			"endpoints of different origins", meta("authorization_endpoint", "https://honest.example/authorize"), "",
			[]string{"(browser)"},
		},
		{"endpoints of different origins, without iss", all(
			meta("authorization_endpoint", "https://honest.example/authorize"),
			meta("authorization_response_iss_parameter_supported", nil),
		), "does not send iss", nil},

		// F19
		{
			"a script as the authorization endpoint", meta("authorization_endpoint", "javascript:alert(1)"),
			"authorization endpoint", nil,
		},
		{
			"a file as the authorization endpoint", meta("authorization_endpoint", "file:///etc/passwd"),
			"authorization endpoint", nil,
		},
		{
			"a command as the authorization endpoint", meta("authorization_endpoint", "http://x/$(calc)"),
			"does not begin with https://", nil,
		},
		{
			"a UNC path as the authorization endpoint", meta("authorization_endpoint", `\\evil\share`),
			"authorization endpoint", nil,
		},
		{
			"an option as the authorization endpoint", meta("authorization_endpoint", "--help"),
			"authorization endpoint", nil,
		},
		{
			"a line break in the authorization endpoint", meta("authorization_endpoint", "https://x/\nhttps://y"),
			"is not a URL", nil,
		},
		{
			"a user in the authorization endpoint", meta("authorization_endpoint", "https://bank.example@evil.example/"),
			"user name", nil,
		},
		{"no authorization endpoint", meta("authorization_endpoint", nil), "authorization endpoint", nil},
		{
			"a long authorization endpoint", meta("authorization_endpoint", "https://x/"+strings.Repeat("x", maxURL)),
			"exceeds 2048 bytes", nil,
		},
		{
			"a token endpoint without TLS", meta("token_endpoint", "http://as.example/token"),
			"does not begin with https://", nil,
		},
		{"a token endpoint with a fragment", meta("token_endpoint", "AS/token#x"), "fragment", nil},
		{"no token endpoint", meta("token_endpoint", nil), "token endpoint", nil},
		{"an authorization server without TLS", func(w *fixture) {
			w.prm[metadataPath].(map[string]any)["authorization_servers"] = []string{"http://as.example"}
		}, "does not begin with https://", nil},

		{"2025-03-26 with metadata", alone, "", []string{
			"GET mcp " + metadataPath, "GET mcp /.well-known/oauth-protected-resource",
			"GET mcp /.well-known/oauth-authorization-server", "POST mcp /register",
		}},
		{"2025-03-26 without PKCE in its metadata", all(alone, meta("code_challenge_methods_supported", nil)), "", nil},
		{
			"2025-03-26 with only plain PKCE", all(alone, meta("code_challenge_methods_supported", []string{"plain"})),
			"PKCE", nil,
		},
		{"2025-03-26 with another issuer", all(alone, meta("issuer", "AS")), "describes the issuer", nil},
		{
			"2025-03-26 with a slash",
			all(alone, func(w *fixture) { w.meta["issuer"], w.iss = w.mcp.URL+"/", w.mcp.URL+"/" }), "", nil,
		},
		{"2025-03-26 without metadata", all(alone, func(w *fixture) { w.paths, w.iss = nil, "-" }), "", []string{
			"POST mcp /register", "GET mcp /authorize", "POST mcp /token",
		}},
		{"2025-03-26 with a page for everything", all(alone, func(w *fixture) {
			w.paths, w.iss = nil, "-"
			page := "<html>Welcome</html>"
			w.prm = map[string]any{metadataPath: page, "/.well-known/oauth-protected-resource": page}
		}), "", nil},
		{"2025-03-26 in trouble", all(alone, func(w *fixture) {
			w.paths = nil
			w.documents["/.well-known/oauth-authorization-server"] = 500
		}), "500", []string{"-POST mcp /register"}},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			w := newFixture(t)
			row.change(w)
			var opened []string
			tr := w.transport(func(o *Options) {
				o.Browser = func(ctx context.Context, address string) error {
					opened = append(opened, address)
					if u := must(url.Parse(address)); u.Scheme == "https" {
						q := u.Query()
						address = q.Get("redirect_uri") + "?" +
							url.Values{"code": {"c"}, "state": {q.Get("state")}, "iss": {w.iss}}.Encode()
						w.update(func() {
							w.seen, w.authRequests = append(w.seen, "(browser)"),
								append(w.authRequests, q)
						})
					}
					return browse(ctx, address)
				}
			})
			if row.err == "" {
				w.mustSucceed(tr)
			} else {
				err := w.mustFail(tr, row.err)
				if len(opened) > 0 || w.count("POST as /token")+w.count("POST mcp /token") > 0 {
					t.Errorf("a browser was opened or a token requested: %v", w.requests())
				}
				if e, ok := errors.AsType[*bridge.Error](err); !ok || e.Code != codes.Unauthenticated ||
					e.Outcome != bridge.OutcomeNotExecuted {
					t.Errorf("got %#v", err)
				}
			}
			if old := strings.HasPrefix(row.name, "2025-03-26"); slices.Contains(w.versions, "2025-03-26") != (old &&
				len(w.versions) > 0) {
				t.Errorf("requests for metadata have the versions %q", w.versions)
			}
			rest := w.requests()
			for _, want := range row.seen {
				if not, isNot := strings.CutPrefix(want, "-"); isNot {
					if slices.Contains(w.requests(), not) {
						t.Errorf("unexpected %q in %v", not, w.requests())
					}
					continue
				}
				i := slices.Index(rest, want)
				if i < 0 {
					t.Fatalf("no %q (in this order) in %v", want, w.requests())
				}
				rest = rest[i+1:]
			}
		})
	}
}

// 2026-07-28: authorization, authorization response validation; RFC 9207, 2.4.
func TestIssuerIsCheckedFirst(t *testing.T) {
	for _, row := range []struct {
		name      string
		declares  any    // authorization_response_iss_parameter_supported
		iss       string // of the response; "-" means none
		answer    url.Values
		err, not  string
		exchanged bool
	}{
		{name: "declared, present", declares: true, iss: "AS", exchanged: true},
		{name: "declared, missing", declares: true, iss: "-", err: "has no iss"},
		{name: "declared, another", declares: true, iss: "https://evil.example", err: "another authorization server"},
		{name: "undeclared, present", declares: nil, iss: "AS", exchanged: true},
		{name: "undeclared, missing", declares: nil, iss: "-", exchanged: true},
		{name: "undeclared, another", declares: nil, iss: "https://evil.example", err: "another authorization server"},
		{
			name: "declared false, another", declares: false, iss: "https://evil.example",
			err: "another authorization server",
		},
		{
			name: "only the same after normalization: slash", declares: true, iss: "AS/",
			err: "another authorization server",
		},
		{
			name: "only the same after normalization: case", declares: true, iss: "HTTP:AS",
			err: "another authorization server",
		},
		{name: "empty", declares: nil, iss: "", err: "another authorization server"},
		{
			name: "an error of its own", declares: true, iss: "AS",
			answer: url.Values{"error": {"access_denied"}, "error_description": {"not\x1b[31m today"}},
			err:    "access_denied: not[31m today",
		},
		{
			name: "an error of another", declares: true, iss: "https://evil.example",
			answer: url.Values{"error": {"call_0800_evil"}}, err: "another authorization server", not: "0800",
		},
		{
			name: "an error without iss", declares: true, iss: "-", answer: url.Values{"error": {"call_0800_evil"}},
			err: "has no iss", not: "0800",
		},
		{name: "twice", declares: true, iss: "-", answer: url.Values{"iss": {"AS", "AS"}}, err: "more than one iss"},
		{
			name: "two codes", declares: true, iss: "AS", answer: url.Values{"code": {"a", "b"}},
			err: "more than one code",
		},
		{name: "no code", declares: true, iss: "AS", answer: url.Values{"code": nil}, err: "no code"},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := newFixture(t)
			w.meta["authorization_response_iss_parameter_supported"] = row.declares
			named := func(s string) string {
				return strings.ReplaceAll(strings.ReplaceAll(s, "HTTP:AS", "HTTP"+strings.TrimPrefix(w.as.URL, "http")),
					"AS", w.as.URL)
			}
			w.iss, w.answer = named(row.iss), row.answer
			for i, s := range row.answer["iss"] {
				row.answer["iss"][i] = named(s)
			}
			tr := w.transport(nil)
			if row.exchanged {
				w.mustSucceed(tr)
				return
			}
			err := w.mustFail(tr, row.err)
			if row.not != "" && (strings.Contains(err.Error(), row.not) || strings.Contains(w.log.String(), row.not)) {
				t.Errorf("error with text of another server: %v", err)
			}
			if w.count("POST as /token") > 0 {
				t.Error("the code was sent to a token endpoint")
			}
		})
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

func TestScopes(t *testing.T) {
	challenge := func(s string) func(*fixture) {
		return func(w *fixture) {
			w.challenge = func() string {
				return `Bearer resource_metadata="` + w.mcp.URL + metadataPath +
					`", scope="` + s + `"`
			}
		}
	}
	usual := func(w *fixture) {
		w.prm[metadataPath].(map[string]any)["scopes_supported"] = []string{"u1", "u2", "offline_access"}
	}
	for _, row := range []struct {
		name   string
		change []func(*fixture)
		as     []string // scopes that the authorization server has
		o      []string
		want   string
	}{
		{name: "the challenge's", change: []func(*fixture){challenge("b a"), usual}, want: "b a"},
		{name: "the usual ones", change: []func(*fixture){usual}, want: "u1 u2"},
		{name: "none"},
		{name: "configured", o: []string{"c"}, change: []func(*fixture){usual}, want: "c"},
		{
			name: "configured and the challenge's", o: []string{"c"}, change: []func(*fixture){challenge("a c")},
			want: "a c",
		},
		{
			name: "offline_access if it is there", as: []string{"a", "offline_access"},
			change: []func(*fixture){challenge("a")}, want: "a offline_access",
		},
		{
			name: "offline_access only if it is there", as: []string{"a"},
			change: []func(*fixture){challenge("a offline_access")}, want: "a",
		},
		{name: "offline_access not alone", as: []string{"offline_access"}},
		{
			name: "invalid scopes",
			change: []func(*fixture){challenge("a é b\\\\ " + strings.Repeat("x", maxScope+1) + " " +
				strings.Repeat("y", maxScope))}, want: "a " + strings.Repeat("y", maxScope),
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := newFixture(t)
			for _, f := range row.change {
				f(w)
			}
			w.meta["scopes_supported"] = row.as
			w.mustSucceed(w.transport(func(o *Options) { o.Scopes = row.o }))
			q := w.authRequest()
			if got := q.Get("scope"); got != row.want || q.Has("scope") != (row.want != "") {
				t.Errorf("got %q, want %q", got, row.want)
			}
			if consent := q.Get("prompt") == "consent"; consent != strings.Contains(row.want, offlineAccess) {
				t.Errorf("prompt=consent: %v", consent)
			}
		})
	}
}

func TestScopesAreLimited(t *testing.T) {
	var many []string
	for i := range maxScopes + 1 {
		many = append(many, fmt.Sprint("s", i))
	}
	if got := len(mergeScopes(many[:maxScopes])); got != maxScopes {
		t.Errorf("%d of %d", got, maxScopes)
	}
	if got := len(mergeScopes(many)); got != maxScopes {
		t.Errorf("%d of %d, want %d", got, len(many), maxScopes)
	}
}

// A step-up requests the previous scopes and the required ones.
func TestStepUpKeepsScopes(t *testing.T) {
	w := newFixture(t)
	w.challenge = func() string { return `Bearer scope="read", resource_metadata="` + w.mcp.URL + metadataPath + `"` }
	w.needs = func(r *http.Request) []string { return strings.Fields(r.Header.Get("Needs")) }
	tr := w.transport(nil)
	w.mustSucceed(tr)
	w.mustSucceed(tr, "Needs", "write")
	w.mustSucceed(tr, "Needs", "admin write")
	w.mustSucceed(tr, "Needs", "read")
	var got []string
	for _, q := range w.authRequests {
		got = append(got, q.Get("scope"))
	}
	if d := cmp.Diff([]string{"read", "read write", "read write admin"}, got); d != "" {
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

func TestStepUpsAreLimited(t *testing.T) {
	w := newFixture(t)
	w.needs = func(r *http.Request) []string { return strings.Fields(r.Header.Get("Needs")) }
	w.token = func(url.Values, string) (int, map[string]any) { // grants fewer scopes than requested
		access := w.secret("access")
		w.tokens[access] = []string{"read"}
		return 200, map[string]any{"access_token": access, "token_type": "Bearer"}
	}
	tr := w.transport(nil)
	err := w.mustFail(tr, "after they were granted", "Needs", "write")
	if e, ok := errors.AsType[*bridge.Error](err); !ok || e.Code != codes.PermissionDenied {
		t.Errorf("%#v", err)
	}
	if len(w.authRequests) != 1+maxStepUps {
		t.Errorf("got %d logins, want %d", len(w.authRequests), 1+maxStepUps)
	}
	w.mustFail(tr, "still requires the scopes", "Needs", "write")
	if len(w.authRequests) != 1+maxStepUps {
		t.Error("the user was asked again for the same scopes")
	}
	w.mustSucceed(tr, "Needs", "read")
	// A server that requires other scopes every time.
	for i := range maxStepUpScopes + 3 {
		w.call(tr, "Needs", fmt.Sprint("scope", i))
	}
	if limit := 1 + maxStepUps*maxStepUpScopes; len(w.authRequests) > limit {
		t.Errorf("got %d logins, want at most %d", len(w.authRequests), limit)
	}
}

// A process without a user cannot step up, and uses the grant of one that can.
func TestStepUpWithoutUser(t *testing.T) {
	w := newFixture(t)
	dir := filepath.Join(t.TempDir(), "c")
	user := func(o *Options) { o.Dir = dir }
	w.mustSucceed(w.transport(user))
	w.needs = func(r *http.Request) []string { return strings.Fields(r.Header.Get("Needs")) }
	service := w.transport(func(o *Options) { o.Dir = dir; o.Browser = nil })
	w.mustSucceed(service)
	for range maxStepUps + 2 {
		w.mustFail(service, "log in elsewhere", "Needs", "more")
	}
	w.update(func() { w.lifetime = 1 }) // must be refreshed
	w.mustSucceed(w.transport(user), "Needs", "more")
	w.update(func() { w.lifetime = 3600 })
	w.mustSucceed(service, "Needs", "more")
	if len(w.authRequests) != 2 {
		t.Errorf("got %d logins", len(w.authRequests))
	}
}

// After the limit of step-ups, a grant of another process is used.
func TestStepUpByAnotherProcess(t *testing.T) {
	w := newFixture(t)
	dir := filepath.Join(t.TempDir(), "c")
	in := func(o *Options) { o.Dir = dir }
	w.needs = func(r *http.Request) []string { return strings.Fields(r.Header.Get("Needs")) }
	scopes := []string{"less"}
	w.token = func(url.Values, string) (int, map[string]any) {
		access := w.secret("access")
		w.tokens[access] = scopes
		return 200, map[string]any{"access_token": access, "token_type": "Bearer"}
	}
	tr := w.transport(in)
	tr.pause = time.Hour // does not apply to errors without requests to the authorization server
	w.mustFail(tr, "after they were granted", "Needs", "more")
	requests := len(w.requests())
	w.mustFail(tr, "after they were granted", "Needs", "more")
	if got := w.requests()[requests:]; len(got) != 1 {
		t.Errorf("the second error took the requests %v, want one", got)
	}
	w.update(func() { scopes = []string{"less", "more"} })
	other := w.transport(in)
	g, err := other.acquire(t.Context(),
		need{challenge: challenge{scopes: []string{"more"}}, previous: tr.grant, stepUp: true})
	if err != nil {
		t.Fatal(err)
	}
	logins := len(w.authRequests)
	w.mustSucceed(tr, "Needs", "more")
	if len(w.authRequests) != logins || w.bearers[len(w.bearers)-1] != g.Access {
		t.Errorf("got %d logins", len(w.authRequests)-logins)
	}
	w.revoke()
	w.mustSucceed(tr)
}

// The caller gets a 403 with another error.
func TestForbiddenIsPassedOn(t *testing.T) {
	w := newFixture(t)
	base := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("WWW-Authenticate", `Bearer error="invalid_token"`)
		rw.WriteHeader(http.StatusForbidden)
	}))
	defer base.Close()
	tr := w.transport(func(o *Options) { o.Server = base.URL })
	req := must(http.NewRequestWithContext(t.Context(), "GET", base.URL, nil))
	resp, err := tr.RoundTrip(req)
	if err != nil || resp.StatusCode != http.StatusForbidden {
		t.Fatal(resp, err)
	}
	resp.Body.Close()
}

func TestRefresh(t *testing.T) {
	t.Run("rotates", func(t *testing.T) {
		w := newFixture(t)
		tr := w.transport(nil)
		w.mustSucceed(tr)
		for range 3 {
			w.revoke()
			w.mustSucceed(tr)
		}
		if len(w.authRequests) != 1 || len(w.tokenRequests) != 4 || len(w.refresh) != 1 {
			t.Errorf("got %d logins, %d token requests, %d refresh tokens", len(w.authRequests), len(w.tokenRequests),
				len(w.refresh))
		}
		if f := w.tokenRequest(); f.Get("grant_type") != "refresh_token" || f.Get("resource") != w.mcp.URL+"/mcp" ||
			f.Get("client_id") != "registered-1" || f.Has("code") {
			t.Errorf("refresh request: %v", f)
		}
	})
	t.Run("keeps what is not replaced", func(t *testing.T) {
		w := newFixture(t)
		w.token = func(f url.Values, _ string) (int, map[string]any) {
			if f.Get("grant_type") != "refresh_token" {
				return 0, nil
			}
			access := w.secret("access")
			w.tokens[access] = nil
			return 200, map[string]any{"access_token": access, "token_type": "Bearer"}
		}
		tr := w.transport(nil)
		w.mustSucceed(tr)
		w.revoke()
		w.mustSucceed(tr)
		w.revoke()
		w.mustSucceed(tr)
		if len(w.authRequests) != 1 ||
			w.tokenRequests[1].Get("refresh_token") != w.tokenRequests[2].Get("refresh_token") {
			t.Errorf("got %d logins; %v", len(w.authRequests), w.tokenRequests)
		}
	})
	t.Run("before it expires", func(t *testing.T) {
		w := newFixture(t)
		w.lifetime = int(refreshMargin/time.Second) - 1
		tr := w.transport(nil)
		w.mustSucceed(tr)
		w.mustSucceed(tr)
		if len(w.authRequests) != 1 || w.count("POST as /token") != 2 || slices.Contains(w.bearers[1:], "") {
			t.Errorf("%v %q", w.requests(), w.bearers)
		}
	})
	t.Run("not long before it expires", func(t *testing.T) {
		w := newFixture(t)
		w.lifetime = int(refreshMargin/time.Second) + 60
		tr := w.transport(nil)
		w.mustSucceed(tr)
		w.mustSucceed(tr)
		if w.count("POST as /token") != 1 {
			t.Errorf("%v", w.requests())
		}
	})
	t.Run("rejected, then a login", func(t *testing.T) {
		w := newFixture(t)
		tr := w.transport(nil)
		w.mustSucceed(tr)
		w.update(func() { clear(w.tokens); clear(w.refresh) })
		w.mustSucceed(tr)
		if len(w.authRequests) != 2 {
			t.Errorf("got %d logins", len(w.authRequests))
		}
	})
	t.Run("rejected for concurrent requests", func(t *testing.T) {
		w := newFixture(t)
		w.lifetime = 1 // so that every request tries to refresh it
		tr := w.transport(nil)
		w.mustSucceed(tr)
		w.update(func() { clear(w.refresh); clear(w.tokens) })
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				if status, err := w.call(tr); err != nil || status != http.StatusOK {
					t.Error(status, err)
				}
			})
		}
		wg.Wait()
		if len(w.authRequests) != 2 {
			t.Errorf("got %d logins", len(w.authRequests))
		}
	})
	t.Run("unavailable, without a login", func(t *testing.T) {
		w := newFixture(t)
		tr := w.transport(nil)
		w.mustSucceed(tr)
		status := 503
		w.update(func() {
			clear(w.tokens)
			w.token = func(url.Values, string) (int, map[string]any) {
				if status == 0 {
					return 0, nil
				}
				return status, map[string]any{"error": "server_error"}
			}
		})
		w.mustFail(tr, "503")
		w.update(func() { status = 429 })
		w.mustFail(tr, "429")
		w.update(func() { status = 0 })
		w.mustSucceed(tr)
		if len(w.authRequests) != 1 {
			t.Errorf("got %d logins", len(w.authRequests))
		}
	})
	t.Run("not an OAuth response, without a login", func(t *testing.T) {
		w := newFixture(t)
		tr := w.transport(nil)
		w.mustSucceed(tr)
		status := 403
		w.update(func() {
			clear(w.tokens)
			w.token = func(url.Values, string) (int, map[string]any) {
				if status == 0 {
					return 0, nil
				}
				return status, map[string]any{"message": "not here"}
			}
		})
		w.mustFail(tr, "403")
		w.update(func() { status = 404 })
		w.mustFail(tr, "404")
		w.update(func() { status = 0 })
		w.mustSucceed(tr)
		if len(w.authRequests) != 1 {
			t.Errorf("got %d logins", len(w.authRequests))
		}
	})
	for _, code := range []string{"invalid_client", "unauthorized_client", "invalid_scope", "invalid_request", ""} {
		t.Run("token is kept after the error "+code, func(t *testing.T) {
			w := newFixture(t)
			dir := filepath.Join(t.TempDir(), "c")
			in := func(o *Options) { o.Dir = dir; o.ClientID = "us"; o.Browser = nil }
			w.mustSucceed(w.transport(func(o *Options) { in(o); o.Browser = browse }))
			refuses := true
			w.update(func() {
				clear(w.tokens)
				w.token = func(url.Values, string) (int, map[string]any) {
					if !refuses {
						return 0, nil
					}
					return 400, map[string]any{"error": code, "error_description": "not now"}
				}
			})
			w.mustFail(w.transport(in), "refreshing the token at "+w.as.URL+": ")
			// With a user, a login is tried.
			w.mustFail(w.transport(func(o *Options) { in(o); o.Browser = browse }), "not authorized: ")
			if len(w.authRequests) != 2 {
				t.Errorf("got %d logins", len(w.authRequests))
			}
			w.update(func() { refuses = false })
			w.mustSucceed(w.transport(in))
			if f := w.tokenRequest(); f.Get("grant_type") != "refresh_token" || len(w.authRequests) != 2 {
				t.Errorf("got %d logins, then %v", len(w.authRequests), f)
			}
		})
	}
	t.Run("with a rejected token, then a login and an error", func(t *testing.T) {
		w := newFixture(t)
		tr := w.transport(nil)
		w.mustSucceed(tr)
		w.update(func() { w.accepts = func(string) bool { return false } })
		w.mustFail(tr, "just issued")
		if len(w.authRequests) != 2 {
			t.Errorf("got %d logins", len(w.authRequests))
		}
	})
}

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

func TestConfiguredIssuer(t *testing.T) {
	w := newFixture(t)
	w.mustFail(w.transport(func(o *Options) { o.Issuer = "https://other.example" }),
		`the configured issuer is "https://other.example"`)
	w.update(func() {
		w.prm[metadataPath].(map[string]any)["authorization_servers"] = []string{"https://other.example", w.as.URL}
	})
	w.mustSucceed(w.transport(func(o *Options) { o.Issuer = w.as.URL }))
	// A configured issuer may have endpoints of different origins.
	w.update(func() {
		w.meta["authorization_response_iss_parameter_supported"] = nil
		w.meta["token_endpoint"] = strings.Replace(w.as.URL, "127.0.0.1", "localhost", 1) + "/token"
	})
	w.mustSucceed(w.transport(func(o *Options) { o.Issuer = w.as.URL }))
	w.mustFail(w.transport(func(o *Options) { o.Issuer = "" }), "other.example")
}

// moving returns an MCP server that moves from one authorization server to another: old has the first, w the server and
// the second. names sets those that the server names.
func moving(t *testing.T) (old, w *fixture, names func(...*fixture)) {
	t.Helper()
	old, w = newFixture(t), newFixture(t)
	old.token = func(f url.Values, _ string) (int, map[string]any) {
		access := old.secret("access")
		w.update(func() { w.tokens[access] = nil })
		return 200, map[string]any{
			"access_token": access, "refresh_token": "old-refresh-canary",
			"token_type": "Bearer",
		}
	}
	names = func(all ...*fixture) {
		var issuers []string
		for _, one := range all {
			issuers = append(issuers, one.as.URL)
		}
		w.update(func() { w.prm[metadataPath].(map[string]any)["authorization_servers"] = issuers })
	}
	names(old)
	return old, w, names
}

// A renamed authorization server keeps its clients, if the new name is configured.
func TestConfiguredIssuerIsFollowed(t *testing.T) {
	old, w, names := moving(t)
	dir := filepath.Join(t.TempDir(), "c")
	as := func(issuer *fixture) func(*Options) {
		return func(o *Options) {
			if o.Dir, o.ClientID = dir, "us"; issuer != nil {
				o.Issuer = issuer.as.URL
			}
		}
	}
	w.mustSucceed(w.transport(as(nil)))
	w.revoke()
	names(w)
	w.mustFail(w.transport(as(nil)), "configure the new issuer")
	w.mustFail(w.transport(as(old)), "change the issuer")
	w.mustSucceed(w.transport(as(w)))
	for _, f := range w.tokenRequests {
		if strings.Contains(f.Encode(), "old-") {
			t.Errorf("the new authorization server got credentials of the old one: %v", f)
		}
	}
	names(old, w)
	w.revoke()
	w.mustSucceed(w.transport(as(nil))) // keeps the new one
	if len(old.authRequests) != 1 || len(w.authRequests) != 1 {
		t.Errorf("got %d and %d logins", len(old.authRequests), len(w.authRequests))
	}
}

// Of several authorization servers, the one that was used before is kept.
func TestAuthorizationServerIsKept(t *testing.T) {
	for _, row := range []struct {
		name, dir, id string
	}{
		{"registered", "c", ""},
		{"configured", "c", "us"},
		{"registered, in one process", "", ""},
		{"configured, in one process", "", "us"},
	} {
		t.Run(row.name, func(t *testing.T) {
			old, w, names := moving(t)
			parent := t.TempDir()
			transport := func() *Transport {
				return w.transport(func(o *Options) {
					if o.ClientID = row.id; row.dir != "" {
						o.Dir = filepath.Join(parent, row.dir)
					}
				})
			}
			tr := transport()
			w.mustSucceed(tr)
			names(w, old)
			for range 2 {
				if row.dir != "" {
					tr = transport()
				}
				w.revoke()
				w.mustSucceed(tr)
			}
			if f := old.tokenRequest(); len(old.authRequests) != 1 || len(w.authRequests) != 0 ||
				f.Get("grant_type") != "refresh_token" {
				t.Errorf("got %d logins and %d at the other, then %v", len(old.authRequests), len(w.authRequests), f)
			}
		})
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

// A request with a token that was replaced in the meantime gets the new one without further requests.
func TestReplacedTokenIsNotReplacedAgain(t *testing.T) {
	w := newFixture(t)
	tr := w.transport(nil)
	w.mustSucceed(tr)
	before := len(w.requests())
	g, err := tr.acquire(t.Context(), need{previous: &grant{Access: "old"}})
	if err != nil || g.Access != w.bearers[len(w.bearers)-1] || len(w.requests()) != before {
		t.Errorf("got %v, %v, after %v", g, err, w.requests()[before:])
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

// The failure of a proactive refresh does not fail a request that the server rejected.
func TestRefusedRequestWaitsForMoreThanARenewal(t *testing.T) {
	w := newFixture(t)
	w.lifetime = 1
	tr := w.transport(nil)
	w.mustSucceed(tr)
	arrived, proceed := make(chan struct{}), make(chan struct{})
	inner := w.as.Config.Handler
	w.as.Config.Handler = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/token" && arrived != nil {
			close(arrived)
			arrived = nil
			<-proceed
		}
		inner.ServeHTTP(rw, r)
	})
	w.update(func() { clear(w.refresh) })
	had, began := tr.grant, arrived
	soon, refused := make(chan error), make(chan error)
	go func() {
		_, err := tr.acquire(t.Context(), need{previous: had, proactive: true})
		soon <- err
	}()
	<-began
	go func() {
		_, err := tr.acquire(t.Context(), need{previous: had})
		refused <- err
	}()
	close(proceed)
	if err := <-soon; err == nil {
		t.Error("want an error of the proactive refresh")
	}
	if err := <-refused; err != nil || len(w.authRequests) != 2 {
		t.Errorf("got %v after %d logins, want 2", err, len(w.authRequests))
	}
}

// Scopes that the authorization server rejects are not requested again.
func TestInvalidScopesAreForgotten(t *testing.T) {
	w := newFixture(t)
	scopes := "a gone"
	w.challenge = func() string {
		return `Bearer scope="` + scopes + `", resource_metadata="` + w.mcp.URL + metadataPath + `"`
	}
	w.noRefresh = true
	tr := w.transport(nil)
	w.mustSucceed(tr)
	w.revoke()
	w.update(func() {
		scopes = "a"
		w.token = func(url.Values, string) (int, map[string]any) {
			if strings.Contains(w.authRequests[len(w.authRequests)-1].Get("scope"), "gone") {
				return 400, map[string]any{"error": "invalid_scope"}
			}
			return 0, nil
		}
	})
	w.mustFail(tr, "invalid_scope")
	w.mustSucceed(tr)
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

// The grant of another process is used if it has the required scopes; otherwise more scopes are requested at once.
func TestStepUpBeyondAnotherProcess(t *testing.T) {
	w := newFixture(t)
	w.needs = func(r *http.Request) []string { return strings.Fields(r.Header.Get("Needs")) }
	dir := filepath.Join(t.TempDir(), "c")
	in := func(o *Options) { o.Dir = dir }
	one, two := w.transport(in), w.transport(in)
	w.mustSucceed(one)
	w.mustSucceed(two, "Needs", "a")
	logins, requests := len(w.authRequests), len(w.bearers)
	w.mustSucceed(one, "Needs", "b")
	if got := w.authRequest().Get("scope"); len(w.authRequests) != logins+1 || len(w.bearers) != requests+2 ||
		got != "a b" {
		t.Errorf("got %d more logins, the last for %q, and %d requests", len(w.authRequests)-logins, got,
			len(w.bearers)-requests)
	}
	w.mustSucceed(two, "Needs", "b")
	if len(w.authRequests) != logins+1 {
		t.Error("the grant of the other process was not used")
	}
}
