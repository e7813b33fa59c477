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
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

func TestLoginIsDoneOnce(t *testing.T) {
	w := newWorld(t)
	tr := w.transport(nil)
	w.works(tr)
	w.works(tr)
	want := []string{
		"POST mcp /mcp", "GET mcp " + metadataPath, "GET as /.well-known/oauth-authorization-server", "POST as /register",
		"GET as /authorize", "POST as /token", "POST mcp /mcp", "POST mcp /mcp",
	}
	if d := cmp.Diff(want, w.requests()); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"the body", "the body", "the body"}, w.bodies); d != "" {
		t.Error(d)
	}
	q, f := w.question(), w.form()
	for name, want := range map[string]string{
		"response_type": "code", "client_id": "registered-1", "code_challenge_method": "S256", "resource": w.mcp.URL + "/mcp", "scope": "",
	} {
		if got := q.Get(name); got != want {
			t.Errorf("authorization request: %s is %q, want %q", name, got, want)
		}
	}
	for name, want := range map[string]string{
		"grant_type": "authorization_code", "client_id": "registered-1", "resource": w.mcp.URL + "/mcp", "redirect_uri": q.Get("redirect_uri"),
	} {
		if got := f.Get(name); got != want {
			t.Errorf("token request: %s is %q, want %q", name, got, want)
		}
	}
}

// What discovery refuses, and what it finds its way through. Where an error is wanted, no browser is opened and no token is
// asked for.
func TestDiscovery(t *testing.T) {
	noHeader := func(w *world) { w.challenge = func() string { return "" } }
	resource := func(s string) func(*world) {
		return func(w *world) {
			w.prm[metadataPath].(map[string]any)["resource"] = strings.ReplaceAll(s, "MCP", w.mcp.URL)
		}
	}
	meta := func(name string, v any) func(*world) {
		return func(w *world) {
			if s, ok := v.(string); ok {
				v = strings.ReplaceAll(s, "AS", w.as.URL)
			}
			w.meta[name] = v
		}
	}
	issuer := func(path string, places ...string) func(*world) {
		return func(w *world) {
			w.prm[metadataPath].(map[string]any)["authorization_servers"] = []string{w.as.URL + path}
			w.meta["issuer"], w.iss, w.places = w.as.URL+path, w.as.URL+path, places
		}
	}
	// The server is its own authorization server, as in 2025-03-26.
	alone := func(w *world) {
		noHeader(w)
		w.prm, w.iss = nil, w.mcp.URL
		for _, k := range []string{"authorization", "token", "registration"} {
			w.meta[k+"_endpoint"] = strings.Replace(w.meta[k+"_endpoint"].(string), w.as.URL, w.mcp.URL, 1)
		}
		w.meta["issuer"] = w.mcp.URL
	}
	all := func(fs ...func(*world)) func(*world) {
		return func(w *world) {
			for _, f := range fs {
				f(w)
			}
		}
	}
	rows := []struct {
		name   string
		change func(*world)
		err    string   // "": it works
		seen   []string // requests that must be there in this order; "-" before one: it must not be there
	}{
		{"metadata of the header", func(w *world) {
			w.prm["/here"] = w.prm[metadataPath]
			delete(w.prm, metadataPath)
			w.challenge = func() string { return `Bearer resource_metadata="` + w.mcp.URL + `/here"` }
		}, "", []string{"GET mcp /here"}},
		{"metadata at the path", noHeader, "", []string{"GET mcp " + metadataPath, "-GET mcp /.well-known/oauth-protected-resource"}},
		{"metadata at the root", func(w *world) {
			noHeader(w)
			w.prm = map[string]any{"/.well-known/oauth-protected-resource": map[string]any{
				"resource": w.mcp.URL, "authorization_servers": []string{w.as.URL},
			}}
		}, "", []string{"GET mcp " + metadataPath, "GET mcp /.well-known/oauth-protected-resource"}},
		{"a header that names nothing is not passed over", func(w *world) {
			w.challenge = func() string { return `Bearer resource_metadata="` + w.mcp.URL + `/nowhere"` }
		}, "answers with status 404", []string{"GET mcp /nowhere", "-GET mcp " + metadataPath}},
		{"a server in trouble is not one without metadata", func(w *world) {
			noHeader(w)
			w.prm[metadataPath] = 503
		}, "503", []string{"-GET mcp /.well-known/oauth-authorization-server"}},
		{"a server that is asked too much is not one without metadata", func(w *world) {
			noHeader(w)
			w.prm[metadataPath] = 429
		}, "429", []string{"-GET mcp /.well-known/oauth-authorization-server"}},
		{"metadata that are too long", func(w *world) {
			w.prm[metadataPath] = `{"x":"` + strings.Repeat("x", maxDocument) + `"}`
		}, "longer than 1048576 bytes", nil},
		{"metadata that are just not too long", func(w *world) {
			text := `{"resource":"` + w.mcp.URL + `/mcp","authorization_servers":["` + w.as.URL + `"]}`
			w.prm[metadataPath] = text + strings.Repeat(" ", maxDocument-len(text))
		}, "", nil},
		{"metadata that say a thing twice", func(w *world) {
			w.prm[metadataPath] = `{"resource":"` + w.mcp.URL + `/mcp","resource":"x","authorization_servers":["` + w.as.URL + `"]}`
		}, "duplicate", nil},
		{"no authorization server", func(w *world) {
			w.prm[metadataPath].(map[string]any)["authorization_servers"] = []string{}
		}, "names no authorization server", nil},

		{"a resource in capitals", resource("HTTP://127.0.0.1:PORT/mcp"), "is about the resource", nil},
		{"a resource at the origin", resource("MCP"), "", nil},
		{"another resource", resource("https://evil.example/mcp"), "is about the resource", []string{"-GET as /.well-known/oauth-authorization-server"}},
		{"a resource with a longer name", resource("MCP/mc"), "is about the resource", nil},
		{"a resource below", resource("MCP/mcp/admin"), "is about the resource", nil},
		{"a resource with a user", resource("http://x@evil.example/mcp"), "is about the resource", nil},
		{"a resource with a fragment", resource("MCP/mcp#x"), "is about the resource", nil},
		{"no resource", resource(""), "is about the resource", nil},

		{"OpenID", func(w *world) { w.places = []string{"/.well-known/openid-configuration"} }, "", []string{
			"GET as /.well-known/oauth-authorization-server", "GET as /.well-known/openid-configuration",
		}},
		{"an issuer with a path", issuer("/t", "/.well-known/oauth-authorization-server/t"), "", []string{
			"GET as /.well-known/oauth-authorization-server/t", "-GET as /.well-known/oauth-authorization-server",
		}},
		{"an issuer with a path, OpenID", issuer("/t", "/.well-known/openid-configuration/t"), "", []string{
			"GET as /.well-known/oauth-authorization-server/t", "GET as /.well-known/openid-configuration/t",
		}},
		{"an issuer with a path, OpenID below", issuer("/t", "/t/.well-known/openid-configuration"), "", []string{
			"GET as /.well-known/oauth-authorization-server/t", "GET as /.well-known/openid-configuration/t", "GET as /t/.well-known/openid-configuration",
		}},
		{"an issuer with a slash", issuer("/", "/.well-known/oauth-authorization-server"), "", nil},
		{"an issuer with a query", issuer("?x=y"), "an issuer has no query", nil},
		{"no metadata at the authorization server", func(w *world) { w.places = nil }, "answers with status 404", nil},
		{"another issuer", meta("issuer", "https://honest.example"), `about the issuer "https://honest.example"`, nil},
		{"an issuer with a slash too many", meta("issuer", "AS/"), "about the issuer", nil},
		{"another issuer first", func(w *world) {
			w.documents["/.well-known/oauth-authorization-server"] = map[string]any{"issuer": "https://other.example"}
			w.places = []string{"/.well-known/openid-configuration"}
		}, "", nil},
		{"no PKCE", meta("code_challenge_methods_supported", nil), "PKCE", nil},
		{"only plain PKCE", meta("code_challenge_methods_supported", []string{"plain"}), "PKCE", nil},
		{"endpoints apart", meta("authorization_endpoint", "https://honest.example/authorize"), "", []string{"(browser)"}},
		{"endpoints apart, and no name", all(
			meta("authorization_endpoint", "https://honest.example/authorize"), meta("authorization_response_iss_parameter_supported", nil),
		), "does not name itself", nil},

		// F19
		{"a script as the authorization endpoint", meta("authorization_endpoint", "javascript:alert(1)"), "authorization endpoint", nil},
		{"a file as the authorization endpoint", meta("authorization_endpoint", "file:///etc/passwd"), "authorization endpoint", nil},
		{"a command as the authorization endpoint", meta("authorization_endpoint", "http://x/$(calc)"), "does not begin with https://", nil},
		{"a UNC path as the authorization endpoint", meta("authorization_endpoint", `\\evil\share`), "authorization endpoint", nil},
		{"an option as the authorization endpoint", meta("authorization_endpoint", "--help"), "authorization endpoint", nil},
		{"a line break in the authorization endpoint", meta("authorization_endpoint", "https://x/\nhttps://y"), "is not a URL", nil},
		{"a user in the authorization endpoint", meta("authorization_endpoint", "https://bank.example@evil.example/"), "user name", nil},
		{"no authorization endpoint", meta("authorization_endpoint", nil), "authorization endpoint", nil},
		{"a long authorization endpoint", meta("authorization_endpoint", "https://x/"+strings.Repeat("x", maxURL)), "2048 are the most", nil},
		{"a token endpoint without TLS", meta("token_endpoint", "http://as.example/token"), "does not begin with https://", nil},
		{"a token endpoint with a fragment", meta("token_endpoint", "AS/token#x"), "fragment", nil},
		{"no token endpoint", meta("token_endpoint", nil), "token endpoint", nil},
		{"an authorization server without TLS", func(w *world) {
			w.prm[metadataPath].(map[string]any)["authorization_servers"] = []string{"http://as.example"}
		}, "does not begin with https://", nil},

		{"2025-03-26 with metadata", alone, "", []string{
			"GET mcp " + metadataPath, "GET mcp /.well-known/oauth-protected-resource", "GET mcp /.well-known/oauth-authorization-server", "POST mcp /register",
		}},
		{"2025-03-26 without PKCE in its metadata", all(alone, meta("code_challenge_methods_supported", nil)), "", nil},
		{"2025-03-26 with only plain PKCE", all(alone, meta("code_challenge_methods_supported", []string{"plain"})), "PKCE", nil},
		{"2025-03-26 with another issuer", all(alone, meta("issuer", "AS")), "about the issuer", nil},
		{"2025-03-26 with a slash", all(alone, func(w *world) { w.meta["issuer"], w.iss = w.mcp.URL+"/", w.mcp.URL+"/" }), "", nil},
		{"2025-03-26 without metadata", all(alone, func(w *world) { w.places, w.iss = nil, "-" }), "", []string{
			"POST mcp /register", "GET mcp /authorize", "POST mcp /token",
		}},
		{"2025-03-26 with a page for everything", all(alone, func(w *world) {
			w.places, w.iss = nil, "-"
			page := "<html>Welcome</html>"
			w.prm = map[string]any{metadataPath: page, "/.well-known/oauth-protected-resource": page}
		}), "", nil},
		{"2025-03-26 in trouble", all(alone, func(w *world) {
			w.places = nil
			w.documents["/.well-known/oauth-authorization-server"] = 500
		}), "500", []string{"-POST mcp /register"}},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			w := newWorld(t)
			row.change(w)
			var opened []string
			tr := w.transport(func(o *Options) {
				o.Browser = func(ctx context.Context, address string) error {
					opened = append(opened, address)
					if u := must(url.Parse(address)); u.Scheme == "https" {
						q := u.Query()
						address = q.Get("redirect_uri") + "?" + url.Values{"code": {"c"}, "state": {q.Get("state")}, "iss": {w.iss}}.Encode()
						w.do(func() { w.seen, w.asked = append(w.seen, "(browser)"), append(w.asked, q) })
					}
					return browse(ctx, address)
				}
			})
			if row.err == "" {
				w.works(tr)
			} else {
				err := w.fails(tr, row.err)
				if len(opened) > 0 || w.count("POST as /token")+w.count("POST mcp /token") > 0 {
					t.Errorf("a browser was opened, or a token asked for: %v", w.requests())
				}
				if e, ok := errors.AsType[*bridge.Error](err); !ok || e.Code != codes.Unauthenticated || e.Failure.GetOutcome() != pb.CallFailure_OUTCOME_NOT_EXECUTED {
					t.Errorf("the error is %#v", err)
				}
			}
			if old := strings.HasPrefix(row.name, "2025-03-26"); slices.Contains(w.versions, "2025-03-26") != (old && len(w.versions) > 0) {
				t.Errorf("requests for metadata say the versions %q", w.versions)
			}
			rest := w.requests()
			for _, want := range row.seen {
				if not, isNot := strings.CutPrefix(want, "-"); isNot {
					if slices.Contains(w.requests(), not) {
						t.Errorf("there is a %q in %v", not, w.requests())
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
func TestWhoAnswersIsLookedAtFirst(t *testing.T) {
	for _, row := range []struct {
		name      string
		says      any    // what the metadata say about iss
		iss       string // of the response; "-": none
		answer    url.Values
		err, not  string
		exchanged bool
	}{
		{name: "says so, and does", says: true, iss: "AS", exchanged: true},
		{name: "says so, and does not", says: true, iss: "-", err: "does not say which authorization server"},
		{name: "says so, and is another", says: true, iss: "https://evil.example", err: "another authorization server"},
		{name: "says nothing, and does", says: nil, iss: "AS", exchanged: true},
		{name: "says nothing, and does not", says: nil, iss: "-", exchanged: true},
		{name: "says nothing, and is another", says: nil, iss: "https://evil.example", err: "another authorization server"},
		{name: "says no, and is another", says: false, iss: "https://evil.example", err: "another authorization server"},
		{name: "only the same after normalization: slash", says: true, iss: "AS/", err: "another authorization server"},
		{name: "only the same after normalization: case", says: true, iss: "HTTP:AS", err: "another authorization server"},
		{name: "empty", says: nil, iss: "", err: "another authorization server"},
		{name: "an error of its own", says: true, iss: "AS", answer: url.Values{"error": {"access_denied"}, "error_description": {"not\x1b[31m today"}}, err: "access_denied: not[31m today"},
		{name: "an error of another", says: true, iss: "https://evil.example", answer: url.Values{"error": {"call_0800_evil"}}, err: "another authorization server", not: "0800"},
		{name: "an error of nobody", says: true, iss: "-", answer: url.Values{"error": {"call_0800_evil"}}, err: "does not say", not: "0800"},
		{name: "twice", says: true, iss: "-", answer: url.Values{"iss": {"AS", "AS"}}, err: "more than one iss"},
		{name: "two codes", says: true, iss: "AS", answer: url.Values{"code": {"a", "b"}}, err: "more than one code"},
		{name: "no code", says: true, iss: "AS", answer: url.Values{"code": nil}, err: "no code"},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := newWorld(t)
			w.meta["authorization_response_iss_parameter_supported"] = row.says
			named := func(s string) string {
				return strings.ReplaceAll(strings.ReplaceAll(s, "HTTP:AS", "HTTP"+strings.TrimPrefix(w.as.URL, "http")), "AS", w.as.URL)
			}
			w.iss, w.answer = named(row.iss), row.answer
			for i, s := range row.answer["iss"] {
				row.answer["iss"][i] = named(s)
			}
			tr := w.transport(nil)
			if row.exchanged {
				w.works(tr)
				return
			}
			err := w.fails(tr, row.err)
			if row.not != "" && (strings.Contains(err.Error(), row.not) || strings.Contains(w.log.String(), row.not)) {
				t.Errorf("a stranger's error is shown: %v", err)
			}
			if w.count("POST as /token") > 0 {
				t.Error("the code was sent to a token endpoint")
			}
		})
	}
}

// Anybody on this machine can send something to the port that waits for the browser.
func TestOnlyTheBrowserIsAnswered(t *testing.T) {
	bridgetest.SkipIfShort(t)
	w := newWorld(t)
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
				{"GET", "/" + strings.Repeat("x", maxCallback-1000), "", nil, 404},
				{"GET", "/" + strings.Repeat("x", maxCallback+5000), "", nil, 431},
			} {
				if got := get(row.method, row.path, row.q, row.host); got != row.want {
					t.Errorf("%s %s of %q with %v: status %d, want %d", row.method, row.path, row.host, row.q, got, row.want)
				}
			}
			if !strings.HasPrefix(back.Host, "127.0.0.1:") {
				t.Errorf("the browser returns to %s", back)
			}
			err := browse(ctx, address)
			// It has been answered: nothing may change that.
			if resp, e := http.DefaultTransport.RoundTrip(must(http.NewRequestWithContext(ctx, "GET", back.String()+"?"+good.Encode(), nil))); e == nil {
				if resp.Body.Close(); resp.StatusCode != http.StatusGone {
					t.Errorf("a second response: status %d", resp.StatusCode)
				}
			}
			return err
		}
	})
	w.works(tr)
	if code := w.form().Get("code"); !strings.HasPrefix(code, "code-canary") {
		t.Errorf("the code %q was exchanged", code)
	}
}

func TestPageIsPlain(t *testing.T) {
	w := newWorld(t)
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
	w.works(tr)
	if csp := header.Get("Content-Security-Policy"); !strings.Contains(csp, "default-src 'none'") || header.Get("Cache-Control") != "no-store" || header.Get("Referrer-Policy") != "no-referrer" {
		t.Errorf("headers: %v", header)
	}
	if strings.Contains(string(body), "canary") || strings.Contains(string(body), "127.0.0.1") || !strings.Contains(string(body), "close this window") {
		t.Errorf("page: %s", body)
	}
}

func TestWhoWeAre(t *testing.T) {
	const document = "https://us.example/client.json"
	for _, row := range []struct {
		name   string
		change func(*world)
		o      func(*Options)
		id     string // who the authorization request is from
		auth   string // how the token request says so
		regs   int
		err    string
	}{
		{name: "configured", o: func(o *Options) { o.ClientID, o.ClientMetadataURL = "us", document }, change: func(w *world) {
			w.meta["client_id_metadata_document_supported"] = true
		}, id: "us", auth: "none"},
		{name: "document", o: func(o *Options) { o.ClientMetadataURL = document }, change: func(w *world) {
			w.meta["client_id_metadata_document_supported"] = true
		}, id: document, auth: "none"},
		{name: "document that it does not take", o: func(o *Options) { o.ClientMetadataURL = document }, id: "registered-1", auth: "none", regs: 1},
		{name: "registered", id: "registered-1", auth: "none", regs: 1},
		{name: "no way", change: func(w *world) { w.meta["registration_endpoint"] = nil }, err: "configure the client ID"},
		{name: "registration refused", change: func(w *world) {
			w.register = func(map[string]any) (int, map[string]any) {
				return 400, map[string]any{"error": "invalid_redirect_uri", "error_description": "no\nloopback"}
			}
		}, err: "it does not register us: invalid_redirect_uri: noloopback; register mcpbridge there by hand", regs: 1},
		{name: "registration without an ID", change: func(w *world) {
			w.register = func(map[string]any) (int, map[string]any) { return 201, map[string]any{} }
		}, err: "without a client ID", regs: 1},
		{name: "registration elsewhere without TLS", change: func(w *world) { w.meta["registration_endpoint"] = "http://evil.example/" }, err: "does not begin with https://"},
		{name: "a secret, basic", change: withSecret("client_secret_basic"), id: "r", auth: "basic", regs: 1},
		{name: "a secret, post", change: withSecret("client_secret_post"), id: "r", auth: "post", regs: 1},
		{name: "a secret, and both", change: withSecret("client_secret_post", "client_secret_basic"), id: "r", auth: "basic", regs: 1},
		{name: "a secret for nothing", change: withSecret("none"), id: "r", auth: "none", regs: 1},
		{name: "a secret, and nothing said", change: withSecret(), id: "r", auth: "basic", regs: 1},
		{name: "a configured secret, and a method for keys", change: withSecret("private_key_jwt"), o: func(o *Options) {
			o.ClientID, o.ClientSecret = "us", "s"
		}, err: "none of"},
		{name: "a configured secret", change: withSecret("client_secret_post"), o: func(o *Options) {
			o.ClientID, o.ClientSecret = "us", "secret-canary"
		}, id: "us", auth: "post"},
		{name: "what the registration says counts", change: func(w *world) {
			withSecret("client_secret_basic", "client_secret_post")(w)
			w.register = func(map[string]any) (int, map[string]any) {
				return 201, map[string]any{"client_id": "r", "client_secret": "secret-canary", "token_endpoint_auth_method": "client_secret_post"}
			}
		}, id: "r", auth: "post", regs: 1},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := newWorld(t)
			w.canaries = []string{"secret-canary"}
			if row.change != nil {
				row.change(w)
			}
			tr := w.transport(row.o)
			if row.err != "" {
				w.fails(tr, row.err)
			} else {
				w.works(tr)
				if got := w.question().Get("client_id"); got != row.id {
					t.Errorf("client %q, want %q", got, row.id)
				}
				f := w.form()
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
					t.Errorf("the token request is authenticated by %s, want %s: %v", auth, row.auth, f)
				}
			}
			if len(w.regs) != row.regs {
				t.Errorf("%d registrations, want %d", len(w.regs), row.regs)
			}
		})
	}
}

// withSecret makes an authorization server give secrets and take them by some methods; none: it does not say.
func withSecret(methods ...string) func(*world) {
	return func(w *world) {
		w.meta["token_endpoint_auth_methods_supported"] = methods
		if methods == nil {
			w.meta["token_endpoint_auth_methods_supported"] = nil
		}
		w.register = func(map[string]any) (int, map[string]any) {
			return 201, map[string]any{"client_id": "r", "client_secret": "secret-canary"}
		}
	}
}

func TestRegistrationSaysWhatWeAre(t *testing.T) {
	w := newWorld(t)
	w.works(w.transport(func(o *Options) { o.ClientName = "us" }))
	want := map[string]any{
		"client_name": "us", "redirect_uris": []any{w.question().Get("redirect_uri")}, "application_type": "native",
		"grant_types": []any{"authorization_code", "refresh_token"}, "response_types": []any{"code"}, "token_endpoint_auth_method": "none",
	}
	if d := cmp.Diff(want, w.regs[0]); d != "" {
		t.Error(d)
	}
}

func TestScopes(t *testing.T) {
	challenge := func(s string) func(*world) {
		return func(w *world) {
			w.challenge = func() string { return `Bearer resource_metadata="` + w.mcp.URL + metadataPath + `", scope="` + s + `"` }
		}
	}
	usual := func(w *world) {
		w.prm[metadataPath].(map[string]any)["scopes_supported"] = []string{"u1", "u2", "offline_access"}
	}
	for _, row := range []struct {
		name   string
		change []func(*world)
		as     []string // scopes that the authorization server has
		o      []string
		want   string
	}{
		{name: "the challenge's", change: []func(*world){challenge("b a"), usual}, want: "b a"},
		{name: "the usual ones", change: []func(*world){usual}, want: "u1 u2"},
		{name: "none"},
		{name: "configured", o: []string{"c"}, change: []func(*world){usual}, want: "c"},
		{name: "configured and the challenge's", o: []string{"c"}, change: []func(*world){challenge("a c")}, want: "a c"},
		{name: "offline_access if it is there", as: []string{"a", "offline_access"}, change: []func(*world){challenge("a")}, want: "a offline_access"},
		{name: "offline_access only if it is there", as: []string{"a"}, change: []func(*world){challenge("a offline_access")}, want: "a"},
		{name: "offline_access not alone", as: []string{"offline_access"}},
		{name: "what is no scope", change: []func(*world){challenge("a é b\\\\ " + strings.Repeat("x", maxScope+1) + " " + strings.Repeat("y", maxScope))}, want: "a " + strings.Repeat("y", maxScope)},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := newWorld(t)
			for _, f := range row.change {
				f(w)
			}
			w.meta["scopes_supported"] = row.as
			w.works(w.transport(func(o *Options) { o.Scopes = row.o }))
			q := w.question()
			if got := q.Get("scope"); got != row.want || q.Has("scope") != (row.want != "") {
				t.Errorf("asked for %q, want %q", got, row.want)
			}
			if consent := q.Get("prompt") == "consent"; consent != strings.Contains(row.want, offline) {
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
	if got := len(union(many[:maxScopes])); got != maxScopes {
		t.Errorf("%d of %d", got, maxScopes)
	}
	if got := len(union(many)); got != maxScopes {
		t.Errorf("%d of %d, want %d", got, len(many), maxScopes)
	}
}

// What is asked for is what was asked for before and what is needed now.
func TestMoreIsAskedForAndNothingLost(t *testing.T) {
	w := newWorld(t)
	w.challenge = func() string { return `Bearer scope="read", resource_metadata="` + w.mcp.URL + metadataPath + `"` }
	w.needs = func(r *http.Request) []string { return strings.Fields(r.Header.Get("Needs")) }
	tr := w.transport(nil)
	w.works(tr)
	w.works(tr, "Needs", "write")
	w.works(tr, "Needs", "admin write")
	w.works(tr, "Needs", "read")
	var got []string
	for _, q := range w.asked {
		got = append(got, q.Get("scope"))
	}
	if d := cmp.Diff([]string{"read", "read write", "read write admin"}, got); d != "" {
		t.Error(d)
	}
}

// Not every challenge says where the metadata are; those that do are remembered.
func TestMetadataOfAnEarlierChallenge(t *testing.T) {
	w := newWorld(t)
	w.prm["/here"] = w.prm[metadataPath]
	delete(w.prm, metadataPath)
	w.challenge = func() string { return `Bearer resource_metadata="` + w.mcp.URL + `/here"` }
	w.needs = func(r *http.Request) []string { return strings.Fields(r.Header.Get("Needs")) }
	tr := w.transport(nil)
	w.works(tr)
	w.works(tr, "Needs", "write")
	if w.count("GET mcp "+metadataPath) > 0 || w.count("GET mcp /here") != 2 {
		t.Errorf("%v", w.requests())
	}
}

func TestAskingForMoreEnds(t *testing.T) {
	w := newWorld(t)
	w.needs = func(r *http.Request) []string { return strings.Fields(r.Header.Get("Needs")) }
	w.token = func(url.Values, string) (int, map[string]any) { // it grants less than it is asked for
		access := w.secret("access")
		w.tokens[access] = []string{"read"}
		return 200, map[string]any{"access_token": access, "token_type": "Bearer"}
	}
	tr := w.transport(nil)
	err := w.fails(tr, "wants them still after they were granted", "Needs", "write")
	if e, ok := errors.AsType[*bridge.Error](err); !ok || e.Code != codes.PermissionDenied {
		t.Errorf("%#v", err)
	}
	if len(w.asked) != 1+maxSteps {
		t.Errorf("the user was asked %d times", len(w.asked))
	}
	w.fails(tr, "wants them still", "Needs", "write")
	if len(w.asked) != 1+maxSteps {
		t.Error("the user was asked again for what had not helped")
	}
	w.works(tr, "Needs", "read")
	// A server that wants something else every time does not have the user asked forever either.
	for i := range maxKinds + 3 {
		w.call(tr, "Needs", fmt.Sprint("scope", i))
	}
	if most := 1 + maxSteps*maxKinds; len(w.asked) > most {
		t.Errorf("the user was asked %d times, want at most %d", len(w.asked), most)
	}
}

// Without a user, nothing is granted, however often it is asked for: the error says who can help, and what is granted elsewhere is used.
func TestAskingForMoreWithoutAUser(t *testing.T) {
	w := newWorld(t)
	dir := filepath.Join(t.TempDir(), "c")
	user := func(o *Options) { o.Dir = dir }
	w.works(w.transport(user))
	w.needs = func(r *http.Request) []string { return strings.Fields(r.Header.Get("Needs")) }
	service := w.transport(func(o *Options) { o.Dir = dir; o.Browser = nil })
	w.works(service)
	for range maxSteps + 2 {
		w.fails(service, "log in where it can", "Needs", "more")
	}
	w.do(func() { w.lifetime = 1 }) // it has to be refreshed
	w.works(w.transport(user), "Needs", "more")
	w.do(func() { w.lifetime = 3600 })
	w.works(service, "Needs", "more")
	if len(w.asked) != 2 {
		t.Errorf("%d logins", len(w.asked))
	}
}

// What did not help here may have helped another process.
func TestWhatHasHelpedAnotherProcessIsUsed(t *testing.T) {
	w := newWorld(t)
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
	tr.pause = time.Hour // an error that needs no network is told again and again, and keeps nothing else waiting
	w.fails(tr, "wants them still after they were granted", "Needs", "more")
	requests := len(w.requests())
	w.fails(tr, "wants them still after they were granted", "Needs", "more")
	if got := w.requests()[requests:]; len(got) != 1 {
		t.Errorf("it took %v to say so again", got)
	}
	w.do(func() { scopes = []string{"less", "more"} })
	other := w.transport(in)
	g, err := other.get(t.Context(), need{challenge: challenge{scopes: []string{"more"}}, had: tr.grant, more: true})
	if err != nil {
		t.Fatal(err)
	}
	logins := len(w.asked)
	w.works(tr, "Needs", "more")
	if len(w.asked) != logins || w.bearers[len(w.bearers)-1] != g.Access {
		t.Errorf("%d logins", len(w.asked)-logins)
	}
	w.revoke()
	w.works(tr)
}

// Other reasons for 403 are for the caller.
func TestForbiddenIsPassedOn(t *testing.T) {
	w := newWorld(t)
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
		w := newWorld(t)
		tr := w.transport(nil)
		w.works(tr)
		for range 3 {
			w.revoke()
			w.works(tr)
		}
		if len(w.asked) != 1 || len(w.forms) != 4 || len(w.refresh) != 1 {
			t.Errorf("%d logins, %d token requests, %d refresh tokens", len(w.asked), len(w.forms), len(w.refresh))
		}
		if f := w.form(); f.Get("grant_type") != "refresh_token" || f.Get("resource") != w.mcp.URL+"/mcp" || f.Get("client_id") != "registered-1" || f.Has("code") {
			t.Errorf("refresh request: %v", f)
		}
	})
	t.Run("keeps what is not replaced", func(t *testing.T) {
		w := newWorld(t)
		w.token = func(f url.Values, _ string) (int, map[string]any) {
			if f.Get("grant_type") != "refresh_token" {
				return 0, nil
			}
			access := w.secret("access")
			w.tokens[access] = nil
			return 200, map[string]any{"access_token": access, "token_type": "Bearer"}
		}
		tr := w.transport(nil)
		w.works(tr)
		w.revoke()
		w.works(tr)
		w.revoke()
		w.works(tr)
		if len(w.asked) != 1 || w.forms[1].Get("refresh_token") != w.forms[2].Get("refresh_token") {
			t.Errorf("%d logins; %v", len(w.asked), w.forms)
		}
	})
	t.Run("before it expires", func(t *testing.T) {
		w := newWorld(t)
		w.lifetime = int(early/time.Second) - 1
		tr := w.transport(nil)
		w.works(tr)
		w.works(tr)
		if len(w.asked) != 1 || w.count("POST as /token") != 2 || slices.Contains(w.bearers[1:], "") {
			t.Errorf("%v %q", w.requests(), w.bearers)
		}
	})
	t.Run("not long before it expires", func(t *testing.T) {
		w := newWorld(t)
		w.lifetime = int(early/time.Second) + 60
		tr := w.transport(nil)
		w.works(tr)
		w.works(tr)
		if w.count("POST as /token") != 1 {
			t.Errorf("%v", w.requests())
		}
	})
	t.Run("that is refused becomes a login", func(t *testing.T) {
		w := newWorld(t)
		tr := w.transport(nil)
		w.works(tr)
		w.do(func() { clear(w.tokens); clear(w.refresh) })
		w.works(tr)
		if len(w.asked) != 2 {
			t.Errorf("%d logins", len(w.asked))
		}
	})
	t.Run("that is refused while many use the token", func(t *testing.T) {
		w := newWorld(t)
		w.lifetime = 1 // so that everybody looks whether it can be refreshed
		tr := w.transport(nil)
		w.works(tr)
		w.do(func() { clear(w.refresh); clear(w.tokens) })
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				if status, err := w.call(tr); err != nil || status != http.StatusOK {
					t.Error(status, err)
				}
			})
		}
		wg.Wait()
		if len(w.asked) != 2 {
			t.Errorf("%d logins", len(w.asked))
		}
	})
	t.Run("that cannot be had now does not become a login", func(t *testing.T) {
		w := newWorld(t)
		tr := w.transport(nil)
		w.works(tr)
		status := 503
		w.do(func() {
			clear(w.tokens)
			w.token = func(url.Values, string) (int, map[string]any) {
				if status == 0 {
					return 0, nil
				}
				return status, map[string]any{"error": "server_error"}
			}
		})
		w.fails(tr, "503")
		w.do(func() { status = 429 })
		w.fails(tr, "429")
		w.do(func() { status = 0 })
		w.works(tr)
		if len(w.asked) != 1 {
			t.Errorf("%d logins", len(w.asked))
		}
	})
	t.Run("that another than the authorization server answers does not become a login", func(t *testing.T) {
		w := newWorld(t)
		tr := w.transport(nil)
		w.works(tr)
		status := 403
		w.do(func() {
			clear(w.tokens)
			w.token = func(url.Values, string) (int, map[string]any) {
				if status == 0 {
					return 0, nil
				}
				return status, map[string]any{"message": "not here"}
			}
		})
		w.fails(tr, "403")
		w.do(func() { status = 404 })
		w.fails(tr, "404")
		w.do(func() { status = 0 })
		w.works(tr)
		if len(w.asked) != 1 {
			t.Errorf("%d logins", len(w.asked))
		}
	})
	for _, code := range []string{"invalid_client", "unauthorized_client", "invalid_scope", "invalid_request", ""} {
		t.Run("that is refused for another reason than itself is kept: "+code, func(t *testing.T) {
			w := newWorld(t)
			dir := filepath.Join(t.TempDir(), "c")
			in := func(o *Options) { o.Dir = dir; o.ClientID = "us"; o.Browser = nil }
			w.works(w.transport(func(o *Options) { in(o); o.Browser = browse }))
			refuses := true
			w.do(func() {
				clear(w.tokens)
				w.token = func(url.Values, string) (int, map[string]any) {
					if !refuses {
						return 0, nil
					}
					return 400, map[string]any{"error": code, "error_description": "not now"}
				}
			})
			w.fails(w.transport(in), "refreshing the token at "+w.as.URL+": ")
			// Where there is a user, it is tried what a login does.
			w.fails(w.transport(func(o *Options) { in(o); o.Browser = browse }), "not authorized: ")
			if len(w.asked) != 2 {
				t.Errorf("%d logins", len(w.asked))
			}
			w.do(func() { refuses = false })
			w.works(w.transport(in))
			if f := w.form(); f.Get("grant_type") != "refresh_token" || len(w.asked) != 2 {
				t.Errorf("%d logins, then %v", len(w.asked), f)
			}
		})
	}
	t.Run("whose token is refused too becomes a login, and then an error", func(t *testing.T) {
		w := newWorld(t)
		tr := w.transport(nil)
		w.works(tr)
		w.do(func() { w.accepts = func(string) bool { return false } })
		w.fails(tr, "has only just issued")
		if len(w.asked) != 2 {
			t.Errorf("%d logins", len(w.asked))
		}
	})
}

// 2026-07-28: client registration, authorization server binding.
func TestCredentialsStayWithTheirAuthorizationServer(t *testing.T) {
	for _, configured := range []bool{false, true} {
		t.Run(fmt.Sprintf("configured %v", configured), func(t *testing.T) {
			old, w := newWorld(t), newWorld(t)
			// The server of w goes from the authorization server of old to that of w.
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
			// The tokens of old are good at w's server.
			w.accepts = func(token string) bool { return true }
			tr := w.transport(change)
			old.do(func() {
				old.token = func(url.Values, string) (int, map[string]any) {
					w.do(func() { w.tokens["old-token-canary"] = nil })
					return 200, map[string]any{"access_token": "old-token-canary", "refresh_token": "old-refresh-canary", "token_type": "Bearer"}
				}
			})
			w.works(tr)
			w.do(func() {
				clear(w.tokens)
				w.prm[metadataPath].(map[string]any)["authorization_servers"] = []string{w.as.URL}
			})
			for _, tr := range []*Transport{tr, w.transport(change)} { // in the same process, and in another
				if configured {
					w.fails(tr, "register at the new one")
					if len(w.asked)+len(w.forms) > 0 {
						t.Error("the client of the old authorization server was used at the new one")
					}
					continue
				}
				w.works(tr)
			}
			if !configured && (w.question().Get("client_id") != "new-1" || len(w.asked) != 1) {
				t.Errorf("%d logins, the last as %q", len(w.asked), w.question().Get("client_id"))
			}
			for _, f := range w.forms {
				if strings.Contains(f.Encode(), "old-") || f.Get("client_id") == "registered-1" {
					t.Errorf("the new authorization server was told what is of the old: %v", f)
				}
			}
		})
	}
}

func TestConfiguredIssuer(t *testing.T) {
	w := newWorld(t)
	w.fails(w.transport(func(o *Options) { o.Issuer = "https://other.example" }), `the configuration says that it is "https://other.example"`)
	w.do(func() {
		w.prm[metadataPath].(map[string]any)["authorization_servers"] = []string{"https://other.example", w.as.URL}
	})
	w.works(w.transport(func(o *Options) { o.Issuer = w.as.URL }))
	// Whoever configures it trusts it with endpoints apart.
	w.do(func() {
		w.meta["authorization_response_iss_parameter_supported"] = nil
		w.meta["token_endpoint"] = strings.Replace(w.as.URL, "127.0.0.1", "localhost", 1) + "/token"
	})
	w.works(w.transport(func(o *Options) { o.Issuer = w.as.URL }))
	w.fails(w.transport(func(o *Options) { o.Issuer = "" }), "other.example")
}

// moving returns an MCP server that goes from one authorization server to another: old is the world of the first, w of the server
// and the second. names says which of them the server names.
func moving(t *testing.T) (old, w *world, names func(...*world)) {
	t.Helper()
	old, w = newWorld(t), newWorld(t)
	old.token = func(f url.Values, _ string) (int, map[string]any) {
		access := old.secret("access")
		w.do(func() { w.tokens[access] = nil })
		return 200, map[string]any{"access_token": access, "refresh_token": "old-refresh-canary", "token_type": "Bearer"}
	}
	names = func(all ...*world) {
		var issuers []string
		for _, one := range all {
			issuers = append(issuers, one.as.URL)
		}
		w.do(func() { w.prm[metadataPath].(map[string]any)["authorization_servers"] = issuers })
	}
	names(old)
	return old, w, names
}

// An authorization server that gets another name often keeps its clients: whoever configures the new name says so.
func TestConfiguredIssuerIsFollowed(t *testing.T) {
	old, w, names := moving(t)
	dir := filepath.Join(t.TempDir(), "c")
	as := func(issuer *world) func(*Options) {
		return func(o *Options) {
			if o.Dir, o.ClientID = dir, "us"; issuer != nil {
				o.Issuer = issuer.as.URL
			}
		}
	}
	w.works(w.transport(as(nil)))
	w.revoke()
	names(w)
	w.fails(w.transport(as(nil)), "configure the new issuer")
	w.fails(w.transport(as(old)), "change the issuer")
	w.works(w.transport(as(w)))
	for _, f := range w.forms {
		if strings.Contains(f.Encode(), "old-") {
			t.Errorf("the new authorization server was told what is of the old: %v", f)
		}
	}
	names(old, w)
	w.revoke()
	w.works(w.transport(as(nil))) // from then on it is that one
	if len(old.asked) != 1 || len(w.asked) != 1 {
		t.Errorf("%d and %d logins", len(old.asked), len(w.asked))
	}
}

// Of several authorization servers, the one that was used before is gone on with.
func TestAuthorizationServerIsKept(t *testing.T) {
	for _, row := range []struct {
		name, dir, id string
	}{
		{"registered", "c", ""}, {"configured", "c", "us"}, {"registered, in one process", "", ""}, {"configured, in one process", "", "us"},
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
			w.works(tr)
			names(w, old)
			for range 2 {
				if row.dir != "" {
					tr = transport()
				}
				w.revoke()
				w.works(tr)
			}
			if f := old.form(); len(old.asked) != 1 || len(w.asked) != 0 || f.Get("grant_type") != "refresh_token" {
				t.Errorf("%d logins and %d at the other, then %v", len(old.asked), len(w.asked), f)
			}
		})
	}
}

// Concurrent requests that all need a token have it got once.
func TestManyRequestsAreOneLogin(t *testing.T) {
	w := newWorld(t)
	begun, goOn := make(chan struct{}, 1), make(chan struct{})
	tr := w.transport(func(o *Options) { o.Browser = browseLater(begun, goOn) })
	const many = 100
	var wg sync.WaitGroup
	errs := make([]error, many)
	for i := range many {
		wg.Go(func() { _, errs[i] = w.call(tr) })
	}
	<-begun
	close(goOn)
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(w.asked) != 1 || len(w.forms) != 1 || len(w.regs) != 1 {
		t.Errorf("%d logins, %d token requests, %d registrations", len(w.asked), len(w.forms), len(w.regs))
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
	if len(w.asked) != 1 || len(w.forms) != 2 {
		t.Errorf("then %d logins, %d token requests", len(w.asked), len(w.forms))
	}
}

func TestFailureIsNotRepeatedAtOnce(t *testing.T) {
	w := newWorld(t)
	w.answer = url.Values{"error": {"access_denied"}}
	tr := w.transport(nil)
	tr.pause = time.Hour
	for range 3 {
		w.fails(tr, "access_denied")
	}
	if len(w.asked) != 1 {
		t.Errorf("the user was asked %d times", len(w.asked))
	}
	tr.mu.Lock()
	tr.failed.until = time.Now()
	tr.mu.Unlock()
	w.do(func() { w.answer = nil })
	w.works(tr)
}

// A user takes longer than a call may: the login goes on without the call that has begun it.
func TestLoginOutlivesTheCall(t *testing.T) {
	w := newWorld(t)
	begun, goOn := make(chan struct{}, 1), make(chan struct{})
	tr := w.transport(func(o *Options) { o.Browser = browseLater(begun, goOn) })
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
	close(goOn)
	w.works(tr)
	if len(w.asked) != 1 {
		t.Errorf("%d logins", len(w.asked))
	}
}

func TestNobodyLogsIn(t *testing.T) {
	w := newWorld(t)
	tr := w.transport(func(o *Options) {
		o.LoginTimeout = 50 * time.Millisecond
		o.Browser = func(context.Context, string) error { return nil }
	})
	if err := w.fails(tr, "nobody has logged in"); errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the login's end is taken for the call's: %v", err)
	}
	w.fails(w.transport(func(o *Options) {
		o.Browser = func(context.Context, string) error { return errors.New("no display") }
	}), "opening a browser: no display")
	w.fails(w.transport(func(o *Options) { o.Browser = nil }), "log in where it can")
}

func TestCloseEndsALogin(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	w := newWorld(t)
	begun := make(chan struct{}, 1)
	var returned atomic.Bool
	tr := w.transport(func(o *Options) {
		o.Browser = func(ctx context.Context, address string) error {
			begun <- struct{}{}
			<-ctx.Done()
			time.Sleep(20 * time.Millisecond) //nolint:forbidigo // a browser that takes its time
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
		t.Error("Close has not waited")
	}
	if err := <-done; err == nil {
		t.Error("the call has an answer")
	}
	w.fails(tr, "ending")
	tr.CloseIdleConnections()
	w.mcp.Close()
	w.as.Close()
}

// As many connections as there are requests at a time are enough for all that follow.
func TestConnectionsAreUsedAgain(t *testing.T) {
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
				req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, fmt.Sprint(server.URL, "?round=", round), nil)
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
		t.Errorf("%d connections for %d requests at a time", n, callers)
	}
}

// The token is for the server's origin, whatever anybody else says.
func TestTokenStaysAtTheServer(t *testing.T) {
	w := newWorld(t)
	var got []string
	stranger := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		got = append(got, r.Header.Get("Authorization"))
		rw.Header().Set("WWW-Authenticate", `Bearer resource_metadata="`+w.mcp.URL+metadataPath+`"`)
		rw.WriteHeader(http.StatusUnauthorized)
	}))
	defer stranger.Close()
	tr := w.transport(nil)
	w.works(tr)
	logins := len(w.asked)
	w.do(func() {
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
			t.Errorf("%s: status %d, want that of the stranger", u, resp.StatusCode)
		}
	}
	if d := cmp.Diff([]string{"", ""}, got); d != "" || len(w.asked) != logins {
		t.Errorf("the stranger was sent %q", got)
	}
	// What the caller has set itself is the caller's.
	if status, err := w.call(tr, "Authorization", "Basic eDp5"); err != nil || status != http.StatusUnauthorized {
		t.Error(status, err)
	}
}

func TestBodyThatCannotBeReadAgain(t *testing.T) {
	w := newWorld(t)
	tr := w.transport(nil)
	req := must(http.NewRequestWithContext(t.Context(), "POST", w.mcp.URL+"/mcp", io.NopCloser(strings.NewReader("once"))))
	resp, err := tr.RoundTrip(req)
	if err != nil || resp.StatusCode != http.StatusUnauthorized {
		t.Fatal(resp, err)
	}
	if resp.Body.Close(); len(w.asked) > 0 {
		t.Error("somebody had to log in for nothing")
	}
}

func TestTokensThatCannotBeUsed(t *testing.T) {
	for _, row := range []struct {
		name, err string
		token     map[string]any
	}{
		{"another type", `type "mac"`, map[string]any{"access_token": "canary-x", "token_type": "mac"}},
		{"a line break", "no header can carry", map[string]any{"access_token": "canary-x\r\nX: y", "token_type": "Bearer"}},
		{"none", "missing access_token", map[string]any{"token_type": "Bearer"}},
		{"too long", "more than 32768 bytes", map[string]any{"access_token": strings.Repeat("x", maxToken+1), "token_type": "Bearer"}},
		{"an error with status 200", "invalid_grant", map[string]any{"error": "invalid_grant"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := newWorld(t)
			w.canaries = []string{"canary-x"}
			w.token = func(url.Values, string) (int, map[string]any) { return 200, row.token }
			w.fails(w.transport(nil), row.err)
		})
	}
	t.Run("just not too long", func(t *testing.T) {
		w := newWorld(t)
		long := strings.Repeat("x", maxToken)
		w.tokens[long] = nil
		w.token = func(url.Values, string) (int, map[string]any) {
			return 200, map[string]any{"access_token": long, "token_type": "Bearer"}
		}
		w.works(w.transport(nil))
	})
}

// An authorization server that repeats what it was sent does not get it into logs.
func TestSecretsAreNotRepeated(t *testing.T) {
	w := newWorld(t)
	w.token = func(f url.Values, _ string) (int, map[string]any) {
		w.canaries = append(w.canaries, f.Get("code_verifier"))
		return 400, map[string]any{"error": "invalid_grant", "error_description": "bad: " + f.Get("code") + " " + f.Get("code_verifier")}
	}
	w.fails(w.transport(nil), "bad: (withheld) (withheld)")
}

func TestTokenEndpointDoesNotRedirect(t *testing.T) {
	w := newWorld(t)
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
	w.fails(w.transport(nil), "it answers 307")
	if moved {
		t.Error("a code was sent to where a redirect led")
	}
}

// The page says what users can do about errors: it must be about errors that there are.
func TestPageIsAboutErrorsThatThereAre(t *testing.T) {
	page := string(must(os.ReadFile("../../../docs/upstreams-auth.md")))
	_, table, found := strings.Cut(page, "|---|---|---|\n")
	if !found {
		t.Fatal("there is no table")
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
				t.Errorf("no error says %q", part)
			}
		}
	}
}

// Who comes late with a token that has been replaced meanwhile gets the new one, and nobody is asked anything.
func TestReplacedTokenIsNotReplacedAgain(t *testing.T) {
	w := newWorld(t)
	tr := w.transport(nil)
	w.works(tr)
	before := len(w.requests())
	g, err := tr.get(t.Context(), need{had: &grant{Access: "old"}})
	if err != nil || g.Access != w.bearers[len(w.bearers)-1] || len(w.requests()) != before {
		t.Errorf("%v, %v, after %v", g, err, w.requests()[before:])
	}
}

// A token is for what it was asked for.
func TestTokenForAnotherResourceIsNotUsed(t *testing.T) {
	w := newWorld(t)
	dir := filepath.Join(t.TempDir(), "c")
	w.prm[metadataPath].(map[string]any)["resource"] = w.mcp.URL
	w.works(w.transport(func(o *Options) { o.Dir = dir }))
	w.do(func() { w.prm[metadataPath].(map[string]any)["resource"] = w.mcp.URL + "/mcp" })
	w.works(w.transport(func(o *Options) { o.Dir = dir }))
	if len(w.asked) != 2 || w.question().Get("resource") != w.mcp.URL+"/mcp" {
		t.Errorf("%d logins, the last for %q", len(w.asked), w.question().Get("resource"))
	}
}

// A request that the server has refused does not make do with a renewal that was only tried in good time.
func TestRefusedRequestWaitsForMoreThanARenewal(t *testing.T) {
	w := newWorld(t)
	w.lifetime = 1
	tr := w.transport(nil)
	w.works(tr)
	arrived, goOn := make(chan struct{}), make(chan struct{})
	inner := w.as.Config.Handler
	w.as.Config.Handler = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/token" && arrived != nil {
			close(arrived)
			arrived = nil
			<-goOn
		}
		inner.ServeHTTP(rw, r)
	})
	w.do(func() { clear(w.refresh) })
	had, began := tr.grant, arrived
	soon, refused := make(chan error), make(chan error)
	go func() {
		_, err := tr.get(t.Context(), need{had: had, soon: true})
		soon <- err
	}()
	<-began
	go func() {
		_, err := tr.get(t.Context(), need{had: had})
		refused <- err
	}()
	close(goOn)
	if err := <-soon; err == nil {
		t.Error("it was renewed")
	}
	if err := <-refused; err != nil || len(w.asked) != 2 {
		t.Errorf("%v, after %d logins", err, len(w.asked))
	}
}

// What the authorization server does not know any more is not asked for again and again.
func TestScopesThatAreGone(t *testing.T) {
	w := newWorld(t)
	scopes := "a gone"
	w.challenge = func() string {
		return `Bearer scope="` + scopes + `", resource_metadata="` + w.mcp.URL + metadataPath + `"`
	}
	w.noRefresh = true
	tr := w.transport(nil)
	w.works(tr)
	w.revoke()
	w.do(func() {
		scopes = "a"
		w.token = func(url.Values, string) (int, map[string]any) {
			if strings.Contains(w.asked[len(w.asked)-1].Get("scope"), "gone") {
				return 400, map[string]any{"error": "invalid_scope"}
			}
			return 0, nil
		}
	})
	w.fails(tr, "invalid_scope")
	w.works(tr)
}

// What strangers say is not all that an error, and so a log, is of.
func TestErrorsAreShort(t *testing.T) {
	long := strings.Repeat("x", 100_000) + "\x1b[31m\n"
	for name, change := range map[string]func(*world){
		"resource": func(w *world) { w.prm[metadataPath].(map[string]any)["resource"] = long },
		"issuer":   func(w *world) { w.prm[metadataPath].(map[string]any)["authorization_servers"] = []string{long} },
		"metadata": func(w *world) { w.meta["issuer"] = long },
		"twice": func(w *world) {
			w.prm[metadataPath] = `{"` + strings.Repeat("x", 100_000) + `":1,"` + strings.Repeat("x", 100_000) + `":1}`
		},
		"methods": func(w *world) {
			withSecret(long, "client_secret_jwt")(w)
		},
		"description": func(w *world) {
			w.token = func(url.Values, string) (int, map[string]any) {
				return 400, map[string]any{"error": long, "error_description": long}
			}
		},
		"scopes": func(w *world) {
			var many []string
			for i := range maxScopes {
				many = append(many, strings.Repeat("s", maxScope-3)+strconv.Itoa(i))
			}
			w.needs = func(*http.Request) []string { return many[:28] } // as many as a header may be long
			w.prm[metadataPath].(map[string]any)["scopes_supported"] = many
			w.token = func(url.Values, string) (int, map[string]any) {
				w.tokens["t"] = nil
				return 200, map[string]any{"access_token": "t", "token_type": "Bearer"}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			change(w)
			err := w.fails(w.transport(nil), "")
			if text := err.Error(); len(text) > maxError+200 || strings.ContainsAny(text, "\x1b\n") {
				t.Errorf("an error of %d bytes: %.300q", len(text), text)
			}
			for line := range strings.Lines(w.log.String()) {
				if len(line) > 8<<10 {
					t.Errorf("a line of %d bytes in the log: %.300q", len(line), line)
				}
			}
		})
	}
}

// The first response is the response.
func TestSecondResponseIsTooLate(t *testing.T) {
	b := &callback{host: "127.0.0.1:1", path: "/callback", state: "s", answer: make(chan answer, 2)}
	for i, want := range []int{http.StatusOK, http.StatusGone} {
		rw := httptest.NewRecorder()
		b.ServeHTTP(rw, httptest.NewRequestWithContext(t.Context(), "GET", "http://127.0.0.1:1/callback?state=s&code="+strconv.Itoa(i), nil))
		if rw.Code != want {
			t.Errorf("response %d: status %d, want %d", i, rw.Code, want)
		}
	}
	if a := <-b.answer; a.code != "0" || len(b.answer) > 0 {
		t.Errorf("the answer is %v, and there are %d more", a, len(b.answer))
	}
}

// What another process has been granted is used if it is enough, and else asked for more at once.
func TestMoreThanAnotherProcessHas(t *testing.T) {
	w := newWorld(t)
	w.needs = func(r *http.Request) []string { return strings.Fields(r.Header.Get("Needs")) }
	dir := filepath.Join(t.TempDir(), "c")
	in := func(o *Options) { o.Dir = dir }
	one, two := w.transport(in), w.transport(in)
	w.works(one)
	w.works(two, "Needs", "a")
	logins, requests := len(w.asked), len(w.bearers)
	w.works(one, "Needs", "b")
	if got := w.question().Get("scope"); len(w.asked) != logins+1 || len(w.bearers) != requests+2 || got != "a b" {
		t.Errorf("%d logins, the last for %q, and %d requests", len(w.asked)-logins, got, len(w.bearers)-requests)
	}
	w.works(two, "Needs", "b")
	if len(w.asked) != logins+1 {
		t.Error("what the other process has is not used")
	}
}
