package main

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mcpbridge/mcpbridge/internal/bridgetest"
	"github.com/mcpbridge/mcpbridge/internal/clientcmd"
	"github.com/mcpbridge/mcpbridge/internal/problem"
)

// fronted starts a bridge, and an HTTP server without handlers, to which tests add a reverse proxy of the bridge.
func fronted(t *testing.T) (bridge *url.URL, mux *http.ServeMux, server *httptest.Server) {
	t.Helper()
	r := start(t, nil, nil, "run", "--http", "127.0.0.1:0", "--", echoGo(t))
	bridge, err := url.Parse(r.url)
	if err != nil {
		t.Fatal(err)
	}
	bridge.Path = ""
	mux = http.NewServeMux()
	server = httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return bridge, mux, server
}

// Tokens are requested with the options under auth.oauth.
func TestOAuthOfTheConfiguration(t *testing.T) {
	to, mux, server := fronted(t)
	answer := func(pattern string, value any) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, mustJSON(value))
		})
	}
	proxy := httputil.NewSingleHostReverseProxy(to)
	mux.HandleFunc("/mcp", func(w http.ResponseWriter, req *http.Request) {
		if req.Header.Get("Authorization") != "Bearer the-token" {
			w.Header().Set("WWW-Authenticate", `Bearer resource_metadata="`+server.URL+`/prm"`)
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		proxy.ServeHTTP(w, req)
	})
	answer("/prm", map[string]any{"resource": server.URL + "/mcp", "authorization_servers": []string{server.URL}})
	answer("/.well-known/oauth-authorization-server", map[string]any{
		"issuer": server.URL, "token_endpoint": server.URL + "/token",
		"authorization_endpoint":                server.URL + "/authorize",
		"grant_types_supported":                 []string{"client_credentials"},
		"token_endpoint_auth_methods_supported": []string{"client_secret_basic"},
		"response_types_supported":              []string{"code"}, "code_challenge_methods_supported": []string{"S256"},
	})
	mux.HandleFunc("POST /token", func(w http.ResponseWriter, req *http.Request) {
		id, secret, _ := req.BasicAuth()
		w.Header().Set("Content-Type", "application/json")
		if id != "me" || secret != "hunter2-hunter2" || req.FormValue("grant_type") != "client_credentials" ||
			req.FormValue("scope") != "tea" {
			w.WriteHeader(http.StatusBadRequest)
			io.WriteString(w, `{"error":"invalid_client"}`)
			return
		}
		io.WriteString(w, `{"access_token":"the-token","token_type":"Bearer","expires_in":3600}`)
	})
	t.Setenv("SECRET", "hunter2-hunter2")
	credentials := filepath.Join(t.TempDir(), "credentials")
	config := func(id string) string {
		return writeConfig(t, "backends: [{name: a, mcp: {url: '"+server.URL+
			"/mcp', auth: {oauth: {grant: client_credentials, issuer: '"+server.URL+"', clientId: "+id+
			", clientSecret: '${env:SECRET}', scopes: [tea], credentials: '"+credentials+"'}}}}]")
	}
	if got := runCommand(t, "", "call", "-c", config("me"), "a", "echo",
		"n=1"); got != (commandOutput{`{"n":1}` + "\n", "", problem.ExitOK}) {
		t.Errorf("got %+v", got)
	}
	credentials = filepath.Join(t.TempDir(), "others")
	got := runCommand(t, "", "list", "-c", config("you"))
	if got.code != problem.ExitAuth || got.errorCode(t) != "auth_required" || strings.Contains(got.stderr, "hunter2") {
		t.Errorf("got %+v", got)
	}
}

// wantsLogin starts a server whose users log in with a browser. The browser is a script that it writes into dir. begun
// is called after the browser has opened the page; the login continues when it returns. refused is called for each
// request without a valid token.
func wantsLogin(t *testing.T, dir string, begun func(context.Context), refused func()) *httptest.Server {
	t.Helper()
	to, mux, server := fronted(t)
	proxy := httputil.NewSingleHostReverseProxy(to)
	mux.HandleFunc("/mcp", func(w http.ResponseWriter, req *http.Request) {
		if token := req.Header.Get("Authorization"); token != "Bearer the-token" && token != "Bearer hunter2-hunter2" {
			refused()
			w.Header().Set("WWW-Authenticate", `Bearer resource_metadata="`+server.URL+`/prm"`)
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		proxy.ServeHTTP(w, req)
	})
	answer := func(pattern string, value map[string]any) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, mustJSON(value))
		})
	}
	answer("/prm", map[string]any{"resource": server.URL + "/mcp", "authorization_servers": []string{server.URL}})
	answer("/.well-known/oauth-authorization-server", map[string]any{
		"issuer": server.URL, "token_endpoint": server.URL + "/token",
		"authorization_endpoint": server.URL + "/authorize",
		"registration_endpoint":  server.URL + "/register", "response_types_supported": []string{"code"},
		"code_challenge_methods_supported": []string{"S256"}, "token_endpoint_auth_methods_supported": []string{"none"},
	})
	mux.HandleFunc("POST /register", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		io.WriteString(w, `{"client_id":"me"}`)
	})
	mux.HandleFunc("/authorize", func(w http.ResponseWriter, req *http.Request) {
		begun(req.Context())
		q := req.URL.Query()
		http.Redirect(w, req, q.Get("redirect_uri")+"?code=c&state="+url.QueryEscape(q.Get("state")), http.StatusFound)
	})
	answer("POST /token", map[string]any{"access_token": "the-token", "token_type": "Bearer", "expires_in": 3600})
	browser := filepath.Join(dir, "browser")
	if err := os.WriteFile(browser, []byte("#!/bin/sh\nexec curl -sSL -o /dev/null \"$1\"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("BROWSER", browser)
	t.Setenv("XDG_CONFIG_HOME", dir)
	t.Setenv("HOME", dir)
	return server
}

// Servers in the configuration of another client use the same login as those on the command line. One with an
// Authorization header needs none.
func TestLoginToServersOfOtherClients(t *testing.T) {
	dir, logins := t.TempDir(), 0
	server := wantsLogin(t, dir, func(context.Context) { logins++ }, func() {})
	file := filepath.Join(dir, "mcp.json")
	t.Setenv("SECRET_TOKEN", "hunter2-hunter2")
	for servers, want := range map[string]int{
		`"a": {"url": "URL", "headers": {"Authorization": "Bearer ${SECRET_TOKEN}"}}`: 0,
		`"a": {"url": "URL"}`: 1,
		`"a": {"url": "URL", "headers": {"X-Team": "tools"}}, "b": {"command": "sh", "args": ["-c", "exit 1"]}`: 1,
	} {
		if err := os.WriteFile(file,
			[]byte(`{"mcpServers": {`+strings.ReplaceAll(servers, "URL", server.URL+"/mcp")+`}}`), 0o600); err != nil {
			t.Fatal(err)
		}
		logins = 0
		if got := runCommand(t, "", "call", "-c", file, "a", "echo", "n=1"); got.stdout != `{"n":1}`+"\n" ||
			logins != want {
			t.Errorf("%s: got %+v after %d logins, want %d", servers, got, logins, want)
		}
		if err := os.RemoveAll(filepath.Join(dir, "mcpbridge")); err != nil {
			t.Fatal(err)
		}
	}
	// In the bridge's own configuration, a server without auth gets no login.
	logins = 0
	ours := writeConfig(t, "backends: [{name: a, mcp: {url: '"+server.URL+"/mcp'}}]")
	if got := runCommand(t, "", "list", "-c", ours); got.code != problem.ExitAuth || logins != 0 {
		t.Errorf("got %+v after %d logins", got, logins)
	}
}

// The timeout of a login applies while a user logs in; it is longer than that of a request or of an attempt to connect.
func TestLoginIsAwaited(t *testing.T) {
	bridgetest.SkipIfShort(t)
	dir := t.TempDir()
	var attempts, requests atomic.Int64
	late := make(chan struct{})
	begun := func(ctx context.Context) {
		requests.Add(1)
		select {
		case <-late:
		case <-ctx.Done(): // the browser was killed
		}
	}
	server := wantsLogin(t, dir, begun, func() {
		// the third attempt begins: the first two took two seconds each
		if requests.Load() > 0 && attempts.Add(1) == 2 {
			close(late)
		}
	})
	config := writeConfig(t,
		"backends: [{name: a, mcp: {url: '"+server.URL+"/mcp', startTimeout: 2s, auth: {oauth: {}}}}]")
	var stdout, stderr lockedBuffer
	p := &Program{
		Env: clientcmd.Env{
			Args: []string{"call", "-c", config, "a", "echo", "n=1"}, Stdin: strings.NewReader(""), Stdout: &stdout,
			Stderr:  &stderr,
			Environ: os.Environ(), ReachTimeout: 3 * time.Second,
		},
	}
	if code := p.Run(t.Context()); code != problem.ExitOK || stdout.String() != `{"n":1}`+"\n" ||
		stderr.String() != "" || requests.Load() != 1 {
		t.Errorf("after %d logins: exit code %d: %s%s", requests.Load(), code, &stdout, &stderr)
	}
}

// If a user does not log in in time, the same command does not start another login.
func TestUnansweredLoginEndsTheCommand(t *testing.T) {
	bridgetest.SkipIfShort(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var requests atomic.Int64
	server := wantsLogin(t, t.TempDir(), func(login context.Context) {
		if requests.Add(1) > 1 {
			cancel()
		}
		<-login.Done()
	}, func() {})
	config := writeConfig(t, "backends: [{name: a, mcp: {url: '"+server.URL+"/mcp', auth: {oauth: {}}}}]")
	var stdout, stderr lockedBuffer
	p := &Program{
		Env: clientcmd.Env{
			Args: []string{"call", "-c", config, "a", "echo", "n=1"}, Stdin: strings.NewReader(""), Stdout: &stdout,
			Stderr:  &stderr,
			Environ: os.Environ(), LoginTimeout: time.Second,
		},
	}
	if code := p.Run(ctx); code != problem.ExitAuth || requests.Load() != 1 ||
		!strings.Contains(stderr.String(), "the user did not log in") {
		t.Errorf("after %d logins: exit code %d: %s", requests.Load(), code, &stderr)
	}
}

func TestCredentialsWithoutEncryptionCauseAWarning(t *testing.T) {
	for _, c := range []struct {
		server string
		warned bool
	}{
		{"url: 'http://192.0.2.1/mcp', auth: {bearer: token}", true}, // reserved for documentation (RFC 5737)
		{"url: 'http://192.0.2.1/mcp', headers: {authorization: token}", true},
		{"url: 'http://192.0.2.1/mcp', headers: {X-Team: tools}", false},
		{"url: 'https://192.0.2.1/mcp', auth: {bearer: token}", false},
		{"url: 'http://127.0.0.1:1/mcp', auth: {bearer: token}", false},
	} {
		config := writeConfig(t, "backends: [{name: a, mcp: {"+c.server+"}}]")
		got := runCommand(t, "", "list", "--timeout", "50ms", "--log-level", "info", "-c", config)
		if strings.Contains(got.stderr, "without encryption") != c.warned {
			t.Errorf("%s: got %+v", c.server, got)
		}
	}
}

// Without a token, a server that requires one causes the error auth_required. With a token, it is called.
func TestServerThatRequiresAToken(t *testing.T) {
	r := start(t, nil, nil, "run", "--http", "127.0.0.1:0", "--", echoGo(t))
	to, err := url.Parse(r.url)
	if err != nil {
		t.Fatal(err)
	}
	to.Path = ""
	proxy := httputil.NewSingleHostReverseProxy(to)
	guarded := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.Header.Get("Authorization") != "Bearer hunter2-hunter2" {
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		proxy.ServeHTTP(w, req)
	}))
	defer guarded.Close()
	t.Setenv("SECRET_TOKEN", "hunter2-hunter2")
	there := guarded.URL + "/mcp"
	if got := runCommand(t, "", "list", there); got.code != problem.ExitAuth || got.errorCode(t) != "auth_required" {
		t.Errorf("got %+v", got)
	}
	if got := runCommand(t, "", "call", "--header", "Authorization: Bearer ${env:SECRET_TOKEN}", there, "echo",
		"n=1"); got.stdout != `{"n":1}`+"\n" {
		t.Errorf("got %+v", got)
	}
	config := writeConfig(t, "backends: [{name: a, mcp: {url: '"+there+"', auth: {bearer: '${env:SECRET_TOKEN}'}}}]")
	if got := runCommand(t, "", "call", "-c", config, "a", "echo",
		"n=1"); got != (commandOutput{`{"n":1}` + "\n", "", problem.ExitOK}) {
		t.Errorf("got %+v", got)
	}
	config = writeConfig(t, "backends: [{name: a, mcp: {url: '"+there+"'}}]")
	if got := runCommand(t, "", "list", "-c", config); got.code != problem.ExitAuth {
		t.Errorf("got %+v", got)
	}

	// If the server rejects a token, the error does not suggest passing a token.
	const passed, bare = "rejected the Authorization header", "a token is written"
	wrong := writeConfig(t, "backends: [{name: a, mcp: {url: '"+there+"', auth: {bearer: wrong}}}]")
	for _, c := range []struct {
		args []string
		want string
		not  string
	}{
		{[]string{"list", there}, "authenticate: --header", passed},
		{[]string{"list", "--header", "X-Team: a", there}, "authenticate: --header", passed},
		{[]string{"list", "--header", "authorization: Bearer wrong", there}, passed, bare},
		{[]string{"list", "--header", "Authorization: hunter2-hunter2", there}, bare, "hunter2"},
		{[]string{"list", "-c", wrong}, passed, "--header"},
	} {
		got := runCommand(t, "", c.args...)
		if got.code != problem.ExitAuth || !strings.Contains(got.stderr, c.want) ||
			strings.Contains(got.stderr, c.not) {
			t.Errorf("%v: got %+v", c.args, got)
		}
	}
}
