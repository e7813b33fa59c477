package oauth

import (
	"context"
	"errors"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/mcpbridge/mcpbridge/bridge"
)

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
