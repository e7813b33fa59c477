package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"

	"github.com/mcpbridge/mcpbridge/internal/bridgetest"
	"github.com/mcpbridge/mcpbridge/internal/problem"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// writeConfig writes a configuration file and returns its name.
func writeConfig(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "mcpbridge.yaml")
	if err := os.WriteFile(name, []byte("version: 1\n"+text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// bridgeProgram returns the path of mcpbridge, which TestMain put into PATH.
func bridgeProgram(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("mcpbridge")
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// at returns a client of another path.
func (r *run) at(path string) *run { return &run{url: r.url + path, stderr: r.stderr} }

// Backends of every kind are served together and at separate endpoints. One that fails to start does not affect the
// others.
func TestServesSeveralBackends(t *testing.T) {
	bridgetest.SkipIfShort(t)
	_, shop := startShop(t)
	upstream := start(t, nil, nil, "run", "--http", "127.0.0.1:0", "--", echoGo(t))
	config := writeConfig(t, fmt.Sprintf(`
serve: {http: {addr: "127.0.0.1:0"}}
backends:
  - {name: one, launch: {command: [%q]}}
  - {name: shop, dial: %q}
  - {name: child, mcp: {command: [%q, run, --stdio, --, %q]}}
  - {name: web, mcp: {url: %q}}
  - {name: broken, launch: {command: [sh, -c, "echo no such thing >&2; exit 3"]}}
  - {name: gone, launch: {command: [/no/such/program]}}
  - {name: ended, mcp: {command: [sh, -c, "exit 3"]}}
`, echoGo(t), shop, bridgeProgram(t), echoGo(t), upstream.url))
	r := start(t, nil, nil, "run", "--log-format", "json", "-c", config)
	for _, c := range []struct{ path, tool string }{
		{"", "one_echo"},
		{"", "child_echo"},
		{"", "web_echo"},
		{"/one", "echo"},
		{"/child", "echo"},
		{"/web", "echo"},
	} {
		if text, err := r.at(c.path).call(t, c.tool, `{"n":1}`); err != nil || text != `{"n":1}` {
			t.Errorf("%s at %s returned %q, %v", c.tool, c.path, text, err)
		}
	}
	if text, err := r.at("/shop").call(t, "buy", `{"what":"tea"}`); err != nil || text != `{"what":"tea"}` {
		t.Errorf("buy returned %q, %v", text, err)
	}
	if text, err := r.at("/broken").call(t, "echo", `{}`); err == nil {
		t.Errorf("backend that does not start: got %q", text)
	}
	r.awaitLog(t, "no such thing")
	r.awaitLog(t, `"retryIn":"1s"`)
	r.awaitLog(t, `command \"/no/such/program\" is not found`)
	r.awaitLog(t, `"fix":"run the command by itself: a server on stdin and stdout waits there for a client"`)
	r.drain()
	if code := r.wait(t); code != problem.ExitOK {
		t.Errorf("exit code %d:\n%s", code, r.stderr)
	}
	for _, empty := range []string{`"fix":""`, `"why":""`, `"where":""`} {
		if strings.Contains(r.stderr.String(), empty) {
			t.Errorf("it logged %s:\n%s", empty, r.stderr)
		}
	}
}

// An endpoint is served only at the canonical form of its configured path. The path may be the root.
func TestPathsOfEndpoints(t *testing.T) {
	config := writeConfig(t, fmt.Sprintf("backends: [{name: one, launch: {command: [%q]}}]", echoGo(t)))
	for at, paths := range map[string]map[string]int{
		"/": {"/": 405, "/one": 405, "//": 404, "/one/": 404, "//one": 404, "/mcp": 404, "/.": 404},
		"/mcp": {
			"/mcp": 405, "/mcp/one": 405, "/%6dcp": 405, "//mcp": 404, "/x/../mcp": 404, "/./mcp": 404, "/mcp/": 404,
			"/mcp//one": 404, "/mcp%2fone": 404,
			"/mcp%2Fone": 404, "/": 404, "/mcp/two": 404,
		},
	} {
		r := start(t, nil, nil, "run", "--http", "127.0.0.1:0", "--path", at, "-c", config)
		base := strings.TrimSuffix(r.url, at)
		for p, status := range paths {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, base+p, http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			res, err := http.DefaultTransport.RoundTrip(req) // without following redirects
			if err != nil {
				t.Fatal(err)
			}
			res.Body.Close()
			if res.StatusCode != status {
				t.Errorf("at %s, %s: %s", at, p, res.Status)
			}
		}
	}
}

// run has the same targets as the other commands.
func TestRunServesEveryTarget(t *testing.T) {
	bridgetest.SkipIfShort(t)
	t.Parallel()
	upstream := start(t, nil, nil, "run", "--http", "127.0.0.1:0", "--", echoGo(t))
	_, shop := startShop(t)
	config := writeConfig(t,
		fmt.Sprintf("backends: [{name: gone, dial: 'unix:///nowhere.sock'}, {name: here, launch: {command: [%q]}}]",
			echoGo(t)))
	for _, c := range []struct {
		name, tool string
		args       []string
	}{
		{"server", "echo", []string{upstream.url}},
		{"backend", "buy", []string{shop}},
		{"here", "echo", []string{"-c", config, "here"}},
		{"mcpbridge", "echo", []string{"--mcp", "--", bridgeProgram(t), "run", "--stdio", "--", echoGo(t)}},
		{"here", "here_echo", []string{config}},
	} {
		r := start(t, nil, nil, append([]string{"run", "--http", "127.0.0.1:0"}, c.args...)...)
		if text, err := r.call(t, c.tool, `{"what":"tea"}`); err != nil || text != `{"what":"tea"}` {
			t.Errorf("%v: %s returned %q, %v", c.args, c.tool, text, err)
		}
		if text, err := r.at("/"+c.name).call(t, strings.TrimPrefix(c.tool, "here_"), `{"what":"tea"}`); err != nil ||
			text != `{"what":"tea"}` {
			t.Errorf("%v: %s at the endpoint of its backend: got %q, %v", c.args, c.tool, text, err)
		}
		r.drain()
		r.wait(t)
	}
}

func TestClientSkipsUnavailableBackends(t *testing.T) {
	bridgetest.SkipIfShort(t)
	t.Parallel()
	config := writeConfig(t, fmt.Sprintf(`
backends:
  - {name: one, launch: {command: [%q]}}
  - {name: broken, launch: {command: [sh, -c, "exit 3"]}}
  - {name: gone, dial: "unix:///nowhere.sock"}
  - {name: away, mcp: {url: "http://127.0.0.1:1/mcp"}}
`, echoGo(t)))
	got := runCommand(t, "", "list", "-c", config)
	if got.code != problem.ExitOK || !strings.Contains(got.stdout, "one_echo()") {
		t.Errorf("got %+v", got)
	}
	for _, name := range []string{"broken", "gone", "away"} {
		if !strings.Contains(got.stderr, `"backend":"`+name+`"`) {
			t.Errorf("no warning about %s:\n%s", name, got.stderr)
		}
	}
	if got := runCommand(t, "", "call", config, "broken_echo", "n=1"); got.code != problem.ExitPlugin ||
		!strings.Contains(got.stderr, `"message":"backend \"broken\" did not start`) {
		t.Errorf("tool of a backend that did not start: %+v", got)
	}
	if got := runCommand(t, "", "call", config, "gone_echo", "n=1"); got.code != problem.ExitUnreachable {
		t.Errorf("tool of an unreachable backend: %+v", got)
	}
	if got := runCommand(t, "", "call", config, "one", "echo", "n=1"); got.code != problem.ExitTool ||
		!strings.Contains(got.stderr, "it is a server: write -c FILE one") {
		t.Errorf("the name of a backend in place of a tool: %+v", got)
	}
	if got := runCommand(t, "", "call", config, "echo", "n=1"); got.code != problem.ExitTool ||
		!strings.Contains(got.stderr, "did you mean one_echo?") {
		t.Errorf("a tool without the name of its backend: %+v", got)
	}
	if strings.Contains(got.stderr, `"fix":""`) {
		t.Errorf("an empty fix:\n%s", got.stderr)
	}
	if got := runCommand(t, "", "call", "-c", config, "one", "echo",
		"n=1"); got != (commandOutput{`{"n":1}` + "\n", "", problem.ExitOK}) {
		t.Errorf("got %+v", got)
	}
}

func TestBackendThatStartsLater(t *testing.T) {
	bridgetest.SkipIfShort(t)
	mark := filepath.Join(t.TempDir(), "mark")
	config := writeConfig(t, fmt.Sprintf(`
serve: {http: {addr: "127.0.0.1:0"}}
backends:
  - {name: sure, launch: {command: [%q]}}
  - {name: late, launch: {command: [sh, -c, "test -e %s && exec %s; touch %s; exit 1"]}}
`, echoGo(t), mark, echoGo(t), mark))
	r := start(t, nil, nil, "run", "-c", config)
	r.await(t, "the backend answers", func() bool {
		text, err := r.at("/late").call(t, "echo", `{"n":1}`)
		return err == nil && text == `{"n":1}`
	})
	if text, err := r.call(t, "late_echo", `{"n":2}`); err != nil || text != `{"n":2}` {
		t.Errorf("got %q, %v", text, err)
	}
}

func TestDrainCoversEveryBackend(t *testing.T) {
	bridgetest.SkipIfShort(t)
	t.Parallel()
	config := writeConfig(t, fmt.Sprintf(`
serve: {http: {addr: "127.0.0.1:0"}}
backends:
  - {name: one, launch: {command: [%q]}}
  - {name: two, launch: {command: [%q]}}
`, echoGo(t), echoGo(t)))
	r := start(t, nil, nil, "run", "-c", config)
	answers := make(chan string, 2)
	for _, tool := range []string{"one_slow", "two_slow"} {
		go func() {
			text, err := r.call(t, tool, `{"ms":4000}`)
			answers <- fmt.Sprint(text, err)
		}()
	}
	r.awaitCalls(t, 2)
	r.drain()
	r.awaitLog(t, "refusing new calls")
	if _, err := r.at("/two").call(t, "echo", `{}`); err == nil || !strings.Contains(err.Error(), "shutting down") {
		t.Errorf("new call: got %v", err)
	}
	for range 2 {
		if got := <-answers; got != "done<nil>" {
			t.Errorf("call in flight: got %s", got)
		}
	}
	if code := r.wait(t); code != problem.ExitOK {
		t.Errorf("exit code %d:\n%s", code, r.stderr)
	}
}

func TestServesGRPC(t *testing.T) {
	socket := "unix://" + filepath.Join(t.TempDir(), "s")
	config := writeConfig(t, fmt.Sprintf(`
serve: {grpc: {addr: %q}, stdio: false}
backends:
  - {name: one, launch: {command: [%q]}}
  - {name: two, launch: {command: [%q]}}
`, socket, echoGo(t), echoGo(t)))
	r := start(t, nil, nil, "run", "-c", config)
	if r.url != "" {
		t.Errorf("MCP is served at %s, which is not configured", r.url)
	}
	if got := runCommand(t, "", "call", socket, "two_echo",
		"n=1"); got != (commandOutput{`{"n":1}` + "\n", "", problem.ExitOK}) {
		t.Errorf("got %+v", got)
	}
	conn, err := grpc.NewClient(socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	one := metadata.AppendToOutgoingContext(t.Context(), "mcpbridge-server", "one")
	res, err := pb.NewMcpServiceClient(conn).ListTools(one, &pb.ListToolsRequest{})
	if err != nil || len(res.GetTools()) != 4 || res.GetTools()[0].GetName() != "echo" {
		t.Errorf("it listed %v, %v", res, err)
	}
	r.await(t, "the backends are healthy", func() bool {
		h, err := grpc_health_v1.NewHealthClient(conn).
			Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: "two"})
		return err == nil && h.GetStatus() == grpc_health_v1.HealthCheckResponse_SERVING
	})
	r.drain()
	if code := r.wait(t); code != problem.ExitOK {
		t.Errorf("exit code %d:\n%s", code, r.stderr)
	}
}

func TestServesGRPCWithTLS(t *testing.T) {
	dir := t.TempDir()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{
		"cert.pem": {Type: "CERTIFICATE", Bytes: cert},
		"key.pem":  {Type: "PRIVATE KEY", Bytes: private},
	} {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	config := filepath.Join(dir, "mcpbridge.yaml")
	text := fmt.Sprintf("version: 1\nserve: {grpc: {addr: '127.0.0.1:0', tls: {cert: cert.pem, key: key.pem, "+
		"clientCA: cert.pem}}}\n"+
		"backends: [{name: one, launch: {command: [%q]}}]\n", echoGo(t))
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	r := start(t, nil, nil, "run", "-c", config)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}))
	list := func(c *tls.Config) error {
		conn, err := grpc.NewClient(strings.TrimPrefix(r.app.GRPC(), "tcp:"),
			grpc.WithTransportCredentials(credentials.NewTLS(c)))
		if err != nil {
			return err
		}
		defer conn.Close()
		_, err = pb.NewMcpServiceClient(conn).ListTools(t.Context(), &pb.ListToolsRequest{})
		return err
	}
	if err := list(&tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}); err == nil {
		t.Error("a client without a certificate was served")
	}
	mine := tls.Certificate{Certificate: [][]byte{cert}, PrivateKey: key}
	if err := list(&tls.Config{
		RootCAs: pool, Certificates: []tls.Certificate{mine},
		MinVersion: tls.VersionTLS12,
	}); err != nil {
		t.Error(err)
	}
}
