package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/mcpbridge/mcpbridge/internal/app"
	"github.com/mcpbridge/mcpbridge/internal/bridgetest"
	"github.com/mcpbridge/mcpbridge/internal/clientcmd"
	"github.com/mcpbridge/mcpbridge/internal/config"
	"github.com/mcpbridge/mcpbridge/internal/problem"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// Requests without a valid token or certificate are rejected, and so are tools whose scopes the token lacks.
// Credentials are not logged.
func TestCallersAuthenticate(t *testing.T) {
	bridgetest.SkipIfShort(t)
	dir := t.TempDir()
	cert, key, ca := bridgetest.Certificates(t, dir)
	file := filepath.Join(dir, "mcpbridge.yaml")
	if err := os.WriteFile(file,
		[]byte("version: 1\nserve:\n  http:\n    addr: 127.0.0.1:0\n    tls: {cert: "+cert+", key: "+key+", clientCA: "+
			ca+"}\n"+
			"    auth:\n      tokens:\n        - {token: canary-of-ada, subject: ada, scopes: [tools]}\n        - "+
			"{token: canary-of-root, subject: root, scopes: [tools, admin]}\n"+
			"backends:\n  - name: echo\n    launch: {command: ["+echoGo(t)+"]}\n    toolScopes: {echo: [admin]}\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	r := start(t, nil, nil, "run", "-c", file)
	if !strings.HasPrefix(r.url, "https://") {
		t.Fatalf("served at %s", r.url)
	}
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	text, err := os.ReadFile(ca)
	if err != nil {
		t.Fatal(err)
	}
	pool.AppendCertsFromPEM(text)
	call := func(token, tool string, certs ...tls.Certificate) *http.Response {
		t.Helper()
		transport := &http.Transport{
			TLSClientConfig:   &tls.Config{RootCAs: pool, Certificates: certs},
			ForceAttemptHTTP2: true,
		}
		t.Cleanup(transport.CloseIdleConnections)
		body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + tool +
			`","arguments":{},"_meta":{` +
			`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.url, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range map[string]string{
			"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
			"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": tool,
		} {
			req.Header.Set(name, value)
		}
		if token != "" {
			req.Header.Set("Authorization", "Bearer "+token)
		}
		res, err := (&http.Client{Transport: transport}).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { res.Body.Close() })
		return res
	}
	for _, c := range []struct {
		name, token, tool string
		certs             []tls.Certificate
		status            int
		challenge         string
	}{
		{"no token", "", "echo", nil, 401, "Bearer"},
		{"a wrong token", "canary-of-eve", "echo", nil, 401, "invalid_token"},
		{"without the tool's scope", "canary-of-ada", "echo", nil, 403, `scope="admin"`},
		{"with the tool's scope", "canary-of-root", "echo", nil, 200, ""},
		{"a certificate without the tool's scope", "", "echo", []tls.Certificate{pair}, 403, "insufficient_scope"},
		{"a certificate", "", "slow", []tls.Certificate{pair}, 200, ""},
	} {
		res := call(c.token, c.tool, c.certs...)
		if got := res.Header.Get("WWW-Authenticate"); res.StatusCode != c.status ||
			!strings.Contains(got, c.challenge) {
			t.Errorf("%s: %s, %s", c.name, res.Status, got)
		}
		if res.ProtoMajor != 2 {
			t.Errorf("%s: %s", c.name, res.Proto)
		}
	}
	r.awaitLog(t, "refused a caller")
	if log := r.stderr.String(); strings.Contains(log, "canary") || !strings.Contains(log, "refused a caller") {
		t.Errorf("got log %s", log)
	}
}

// A rejected request gets the URL of its endpoint's metadata, which contain the resource URL that the client uses.
func TestEachEndpointHasMetadata(t *testing.T) {
	bridgetest.SkipIfShort(t)
	config := writeConfig(t, fmt.Sprintf(`
serve: {http: {addr: "127.0.0.1:0", path: /x, auth: {resource: https://tools.example.com/mcp, issuers: [{url: https://login.example.com}]}}}
backends: [{name: one, launch: {command: [%q]}}, {name: two, launch: {command: [%q]}}]
`, echoGo(t), echoGo(t)))
	r := start(t, nil, nil, "run", "-c", config)
	get := func(url string) (*http.Response, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		res, err := new(http.Client).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res, string(body)
	}
	const metadataPath = "/.well-known/oauth-protected-resource/mcp"
	for _, name := range []string{"", "/one", "/two"} {
		res, _ := get(r.url + name)
		want := `resource_metadata="https://tools.example.com` + metadataPath + name + `"`
		if res.StatusCode != 401 || !strings.Contains(res.Header.Get("WWW-Authenticate"), want) {
			t.Errorf("%s: %s %s", name, res.Status, res.Header)
		}
		res, body := get(strings.TrimSuffix(r.url, "/x") + metadataPath + name)
		if res.StatusCode != 200 || !strings.Contains(body, `"resource":"https://tools.example.com/mcp`+name+`"`) {
			t.Errorf("%s: %s %s", name, res.Status, body)
		}
	}
}

// The rules for callers over HTTP also apply to gRPC if it has none of its own. The token is not forwarded.
func TestGRPCCallersAuthenticate(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "mcpbridge.yaml")
	if err := os.WriteFile(file, []byte("version: 1\nserve:\n  grpc: {addr: 127.0.0.1:0}\n"+
		"  http:\n    auth:\n      scopes: [tools]\n      tokens:\n        - {token: canary-of-ada, subject: ada, "+
		"scopes: [tools]}\n"+
		"        - {token: canary-of-root, subject: root, scopes: [tools, admin]}\n        - {token: "+
		"canary-of-bob, subject: bob}\n"+
		"backends:\n  - name: echo\n    dial: unix:"+dir+"/s\n    toolScopes: {echo: [admin]}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	recorder := serveRecorderAt(t, dir+"/s")
	r := start(t, nil, nil, "run", "-c", file)
	conn, err := grpc.NewClient(strings.TrimPrefix(r.app.GRPC(), "tcp:"),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for _, c := range []struct {
		name, tool    string
		authorization []string
		want          codes.Code
		subject       string
	}{
		{"no token", "slow", nil, codes.Unauthenticated, ""},
		{"a wrong token", "slow", []string{"Bearer canary-of-eve"}, codes.Unauthenticated, ""},
		{"another scheme", "slow", []string{"Basic canary-of-ada"}, codes.Unauthenticated, ""},
		{"two tokens", "slow", []string{"Bearer canary-of-ada", "Bearer canary-of-root"}, codes.Unauthenticated, ""},
		{"without the scope that all need", "slow", []string{"Bearer canary-of-bob"}, codes.PermissionDenied, ""},
		{"without the tool's scope", "echo", []string{"Bearer canary-of-ada"}, codes.PermissionDenied, ""},
		{"a token", "slow", []string{"Bearer canary-of-ada"}, codes.OK, "ada"},
		{"with the tool's scope", "echo", []string{"bearer canary-of-root"}, codes.OK, "root"},
	} {
		recorder.md, recorder.subject = nil, ""
		ctx := metadata.NewOutgoingContext(t.Context(), metadata.MD{"authorization": c.authorization})
		stream, err := pb.NewMcpServiceClient(conn).CallTool(ctx, &pb.CallToolRequest{
			Name: c.tool, Context: &pb.CallContext{Verified: &pb.VerifiedCaller{Principal: &pb.Principal{
				Subject: "root",
				Scopes:  []string{"tools", "admin"},
			}}},
		})
		if err == nil {
			_, err = stream.Recv()
		}
		if status.Code(err) != c.want || err != nil && !strings.Contains(err.Error(), "not executed") &&
			!strings.Contains(err.Error(), "needs the scopes") {
			t.Errorf("%s: %v", c.name, err)
		}
		if strings.Contains(fmt.Sprint(recorder.md), "canary") || recorder.subject != c.subject {
			t.Errorf("%s: the backend was called by %q, with %v", c.name, recorder.subject, recorder.md)
		}
	}
	if _, err := pb.NewMcpServiceClient(conn).
		Discover(t.Context(), &pb.DiscoverRequest{}); status.Code(err) != codes.Unauthenticated {
		t.Errorf("a call without a stream: %v", err)
	}
	if _, err := grpc_health_v1.NewHealthClient(conn).
		Check(t.Context(), &grpc_health_v1.HealthCheckRequest{}); err != nil {
		t.Errorf("a probe: %v", err)
	}
	r.awaitLog(t, "refused a gRPC caller")
	if log := r.stderr.String(); strings.Contains(log, "canary") {
		t.Errorf("got log %s", log)
	}
}

// A gRPC caller with a certificate has no scopes, as over HTTP: if callers or a tool need scopes, a token is required.
func TestGRPCCertificatesHaveNoScopes(t *testing.T) {
	dir := t.TempDir()
	cert, key, ca := bridgetest.Certificates(t, dir)
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(ca)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(text)
	recorder := serveRecorderAt(t, dir+"/s")
	const (
		ada     = "spiffe://example.org/ada"
		tokens  = "tokens: [{token: t-of-bob, subject: bob}, {token: t-of-root, subject: root, scopes: [tools, admin]}]"
		refused = "tools/call: tool \"echo\" needs the scopes admin, and the token lacks admin"
	)
	for _, c := range []struct {
		name, auth, tool, token string
		want                    codes.Code
		message, subject        string
	}{
		{"a certificate is sufficient", "", "slow", "", codes.OK, "", ada},
		{"the tool needs a scope that no caller can have", "", "echo", "", codes.PermissionDenied, refused, ""},
		{"a certificate is sufficient although tokens are configured", tokens, "slow", "", codes.OK, "", ada},
		{"the tool needs a scope", tokens, "echo", "", codes.PermissionDenied, refused, ""},
		{"the tool needs a scope, and a token has it", tokens, "echo", "t-of-root", codes.OK, "", "root"},
		{"an invalid token", tokens, "slow", "t-of-eve", codes.Unauthenticated, "not executed", ""},
		{
			"all need a scope", "scopes: [tools], " + tokens, "slow", "", codes.PermissionDenied,
			"a certificate has no scopes", "",
		},
		{
			"all need a scope, and a token lacks it", "scopes: [tools], " + tokens, "slow", "t-of-bob",
			codes.PermissionDenied, "the token lacks", "",
		},
		{
			"all need a scope, and a token has it", "scopes: [tools], " + tokens, "slow", "t-of-root", codes.OK, "",
			"root",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			recorder.subject = ""
			r := start(t, nil, nil, "run", "-c",
				writeConfig(t, "serve: {http: {auth: {"+c.auth+"}}, grpc: {addr: '127.0.0.1:0', tls: {cert: "+cert+
					", key: "+key+", clientCA: "+ca+"}}}\nbackends: [{name: echo, dial: 'unix:"+dir+
					"/s', toolScopes: {echo: [admin]}}]\n"))
			conn, err := grpc.NewClient(strings.TrimPrefix(r.app.GRPC(), "tcp:"),
				grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{
					RootCAs: pool, Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12,
				})))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			ctx := t.Context()
			if c.token != "" {
				ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+c.token)
			}
			stream, err := pb.NewMcpServiceClient(conn).CallTool(ctx, &pb.CallToolRequest{Name: c.tool})
			if err == nil {
				_, err = stream.Recv()
			}
			if status.Code(err) != c.want || !strings.Contains(status.Convert(err).Message(), c.message) ||
				recorder.subject != c.subject {
				t.Errorf("%v; the backend was called by %q", err, recorder.subject)
			}
		})
	}
}

// Scopes of tools require that every address authenticates callers, including the default one.
func TestToolScopesRequireAuthentication(t *testing.T) {
	const (
		token = "auth: {tokens: [{token: t, subject: s}]}"
		certs = "tls: {cert: a, key: b, clientCA: c}"
	)
	for serve, ok := range map[string]bool{
		"stdio: false":                                                            false,
		"stdio: true":                                                             true,
		"stdio: false, http: {" + token + "}":                                     true,
		"http: {addr: '127.0.0.1:1'}":                                             false,
		"http: {addr: '127.0.0.1:1', " + certs + "}":                              true,
		"grpc: {addr: 'unix:///x'}":                                               true,
		"grpc: {addr: '127.0.0.1:1'}":                                             false,
		"grpc: {addr: '0.0.0.0:1', insecure: true}":                               false,
		"grpc: {addr: '0.0.0.0:1', " + certs + "}":                                true,
		"grpc: {addr: '127.0.0.1:1'}, http: {" + token + "}":                      true,
		"grpc: {addr: '0.0.0.0:1', " + certs + "}, http: {addr: '127.0.0.1:1'}":   false,
		"grpc: {addr: '127.0.0.1:1'}, http: {addr: '127.0.0.1:2', " + certs + "}": false,
		"grpc: {addr: '127.0.0.1:1'}, http: {addr: '127.0.0.1:2', " + certs + ", " + token + "}": true,
	} {
		l, err := config.Load(writeConfig(t,
			"serve: {"+serve+"}\nbackends: [{name: a, dial: 'unix:///y', toolScopes: {rm: [admin]}}]\n"), nil, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		l.ChooseFronts(false)
		if err := l.Validate(); (err == nil) != ok || err != nil &&
			!strings.Contains(err.Error(), "tools require scopes") {
			t.Errorf("%s: %v", serve, err)
		}
	}
	config := writeConfig(t, "backends: [{name: a, dial: 'unix:///y', toolScopes: {rm: [admin]}}]\n")
	var stderr lockedBuffer
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	p := &Program{
		Env:     clientcmd.Env{Args: []string{"run", "-c", config}, Stderr: &stderr},
		Started: func(*app.App) { cancel() },
	}
	if code := p.Run(ctx); code != problem.ExitConfig ||
		!strings.Contains(stderr.String(), "tools require scopes") {
		t.Errorf("served at the default address: %d %s", code, &stderr)
	}
}

// Only the configured headers are forwarded to backends; those with credentials of the bridge cannot be configured.
func TestConfiguredHeadersReachBackends(t *testing.T) {
	dir := t.TempDir()
	recorder := serveRecorderAt(t, dir+"/s")
	configured := func(names string) string {
		file := filepath.Join(dir, "mcpbridge.yaml")
		text := "version: 1\nserve: {http: {addr: '127.0.0.1:0', passHeaders: [" + names +
			"]}}\nbackends: [{name: echo, dial: 'unix:" + dir + "/s'}]\n"
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	r := start(t, nil, nil, "run", "-c", configured("X-Team, x-none"))
	body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
		`"io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"test","version":"1"}}}}`
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		"Mcp-Protocol-Version": "2026-07-28",
		"Mcp-Method":           "tools/call", "Mcp-Name": "echo", "x-team": "tools", "X-Other": "secret",
	} {
		req.Header.Set(name, value)
	}
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	res, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if want := map[string]string{"x-team": "tools"}; res.StatusCode != http.StatusOK ||
		!maps.Equal(recorder.headers, want) {
		t.Errorf("%s: the backend received %v, want %v", res.Status, recorder.headers, want)
	}
	for _, name := range []string{"Authorization", "proxy-authorization", "'X Team'"} {
		l, err := config.Load(configured(name), nil, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Validate(); err == nil || !strings.Contains(err.Error(), strings.Trim(name, "'")) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A callRecorder is a textBackend that records its last caller.
type callRecorder struct {
	textBackend

	md      metadata.MD
	subject string
	headers map[string]string
}

// serveRecorderAt serves a callRecorder at a Unix socket until the end of the test.
func serveRecorderAt(t *testing.T, path string) *callRecorder {
	t.Helper()
	ln, err := new(net.ListenConfig).Listen(t.Context(), "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	return serveRecorder(t, ln)
}

func serveRecorder(t *testing.T, ln net.Listener, o ...grpc.ServerOption) *callRecorder {
	t.Helper()
	recorder := &callRecorder{}
	backend := grpc.NewServer(o...)
	pb.RegisterMcpServiceServer(backend, recorder)
	done := make(chan error, 1)
	go func() { done <- backend.Serve(ln) }()
	t.Cleanup(func() {
		backend.Stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return recorder
}

func (*callRecorder) ListTools(context.Context, *pb.ListToolsRequest) (*pb.ListToolsResponse, error) {
	object := []byte(`{"type":"object"}`)
	return &pb.ListToolsResponse{Tools: []*pb.Tool{
		{Name: "echo", InputSchema: string(object)},
		{Name: "slow", InputSchema: string(object)},
	}}, nil
}

func (l *callRecorder) CallTool(req *pb.CallToolRequest, stream grpc.ServerStreamingServer[pb.CallToolResponse]) error {
	l.md, _ = metadata.FromIncomingContext(stream.Context())
	verified := req.GetContext().GetVerified()
	l.subject, l.headers = verified.GetPrincipal().GetSubject(), verified.GetHeaders()
	return l.textBackend.CallTool(req, stream)
}

// An OAuth secret or key requires a configured authorization server.
func TestOAuthSecretsRequireAnIssuer(t *testing.T) {
	for oauth, ok := range map[string]bool{
		"clientId: a, clientSecret: b":                               false,
		"clientId: a, privateKey: b":                                 false,
		"clientId: a, clientSecret: b, issuer: 'https://as.example'": true,
		"clientId: a, privateKey: b, issuer: 'https://as.example'":   true,
		"clientId: a": true,
	} {
		l, err := config.Load(writeConfig(t,
			"backends: [{name: a, mcp: {url: 'https://mcp.example/mcp', auth: {oauth: {"+oauth+"}}}}]"), nil, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		l.ChooseFronts(false)
		if err := l.Validate(); (err == nil) != ok || err != nil &&
			!strings.Contains(err.Error(), "without an issuer") {
			t.Errorf("%s: %v", oauth, err)
		}
	}
}

// If temporary files cannot be created, the error contains a fix. A file in place of the directory is an error for root
// too.
func TestNoTemporaryFiles(t *testing.T) {
	config := writeConfig(t, "backends: [{name: a, launch: {command: [cat]}}]")
	t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "missing"))
	for _, args := range [][]string{{"list", "--", "cat"}, {"list", "-c", config}} {
		if got := runCommand(t, "", args...); got.code == problem.ExitOK ||
			!strings.Contains(got.stderr, "set TMPDIR") || !strings.Contains(got.stderr, "temporary files") {
			t.Errorf("%v: %+v", args, got)
		}
	}
}
