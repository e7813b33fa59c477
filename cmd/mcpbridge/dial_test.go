package main

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/mcpbridge/mcpbridge/internal/bridgetest"
	"github.com/mcpbridge/mcpbridge/internal/config"
	"github.com/mcpbridge/mcpbridge/internal/problem"
)

// A backend on another machine must have TLS, unless plaintext is allowed explicitly.
func TestBackendsOnOtherMachinesNeedTLS(t *testing.T) {
	for _, c := range []struct{ backend, want, fix string }{
		{"dial: 'unix:///run/s'", "", ""},
		{"dial: 'unix:///run/s', tls: {}", "", ""},
		{"dial: 'tcp:127.0.0.1:1'", "", ""},
		{"dial: 'tcp://[::1]:1'", "", ""},
		{"dial: 'tcp:0.0.0.0:1'", "", ""}, // dialing it reaches this machine
		{"dial: 'dns:///localhost:1'", "", ""},
		{"dial: 'tcp:localhost:1', insecure: true", "", ""},
		{
			"dial: 'dns:tools:1'", "dns:tools:1 is on another machine, and nothing protects",
			"write `tls: {ca: ca.pem}` beside dial",
		},
		{"dial: 'dns:tools:1'", "dns:tools:1 is on another machine, and nothing protects", "or write `insecure: true`"},
		{"dial: 'tcp://10.0.0.1:1'", "nothing protects", "insecure: true"},
		{"dial: 'tcp:[2001:db8::1]:1'", "nothing protects", "insecure: true"},
		{"dial: 'tcp:localhost.example.com:1'", "nothing protects", "insecure: true"},
		{"dial: 'tcp:127.0.0.1.example.com:1'", "nothing protects", "insecure: true"},
		{"dial: 'dns:tools:1', insecure: true", "", ""},
		{"dial: 'dns:tools:1', tls: {}", "", ""},
		{"dial: 'dns:tools:1', tls: {ca: ca.pem, cert: c.pem, key: k.pem, serverName: t}", "", ""},
		{
			"dial: 'dns:tools:1', tls: {cert: c.pem}", "both a certificate and its key",
			"cert: client.pem, key: client.key",
		},
		{
			"dial: 'dns:tools:1', tls: {key: k.pem}", "both a certificate and its key",
			"cert: client.pem, key: client.key",
		},
		{"dial: 'dns:tools:1', tls: {}, insecure: true", "both tls and insecure", "keep one"},
		{"launch: {command: [x]}, tls: {}", "tls and insecure are for dial", "leave them out"},
		{"launch: {command: [x]}, insecure: true", "tls and insecure are for dial", "leave them out"},
		{"mcp: {url: 'https://example.com/mcp'}, insecure: true", "tls and insecure are for dial", "leave them out"},
	} {
		l, err := config.Load(writeConfig(t, "backends: [{name: a, "+c.backend+"}]\n"), nil, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		err = l.Validate()
		if (err == nil) != (c.want == "") || err != nil &&
			(!strings.Contains(err.Error(), c.want) || !strings.Contains(problem.Of(err).Fix, c.fix)) {
			t.Errorf("%s: %v", c.backend, err)
		}
	}
}

// --plaintext allows that for every command that dials a backend.
func TestPlaintextIsAllowedByFlag(t *testing.T) {
	bridgetest.SkipIfShort(t)
	t.Parallel()
	const other = "tcp:tools.invalid:1"
	for _, args := range [][]string{{"list"}, {"run", "--stdio"}, {"verify"}} {
		got := runCommand(t, "", append(args, other)...)
		if got.code != problem.ExitConfig || !strings.Contains(got.stderr, "nothing protects") ||
			!strings.Contains(got.stderr, "add --plaintext") {
			t.Errorf("%v: %d %s", args, got.code, got.stderr)
		}
		got = runCommand(t, "", append(args, "--plaintext", other)...)
		if strings.Contains(got.stderr, "nothing protects") {
			t.Errorf("%v --plaintext: %d %s", args, got.code, got.stderr)
		}
	}
	config := writeConfig(t, "backends: [{name: far, dial: '"+other+"'}]\n")
	if got := runCommand(t, "", "list", "--plaintext", config); got.code != problem.ExitUnreachable {
		t.Errorf("of a file: %d %s", got.code, got.stderr)
	}
	if got := runCommand(t, "", "list", "--plaintext", "https://example.com/mcp"); !strings.Contains(got.stderr,
		"--plaintext is for") {
		t.Errorf("of a URL: %d %s", got.code, got.stderr)
	}
}

// TLS with a backend is mutual: the backend accepts only the bridge's certificate, and the bridge only the backend's.
// The files are relative to the configuration.
func TestBackendsAreDialledWithTLS(t *testing.T) {
	dir := t.TempDir()
	cert, key, _ := bridgetest.Certificates(t, dir)
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(cert)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(text)
	ln, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	serveRecorder(t, ln, grpc.Creds(credentials.NewTLS(&tls.Config{
		Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool,
		MinVersion: tls.VersionTLS12,
	})))
	plain, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	serveRecorder(t, plain)
	other := filepath.Join(dir, "other")
	if err := os.Mkdir(other, 0o700); err != nil {
		t.Fatal(err)
	}
	bridgetest.Certificates(t, other)
	for _, c := range []struct {
		at   net.Listener
		tls  string
		code int
		want string
	}{
		{ln, "{ca: cert.pem, cert: cert.pem, key: key.pem}", problem.ExitOK, ""},
		{ln, "{ca: cert.pem, cert: cert.pem, key: key.pem, serverName: 127.0.0.1}", problem.ExitOK, ""},
		{
			ln, "{ca: cert.pem, cert: cert.pem, key: key.pem, serverName: other.example.com}", problem.ExitUnreachable,
			"other.example.com",
		},
		{ln, "{ca: cert.pem}", problem.ExitUnreachable, "certificate required"},
		{ln, "{ca: other/cert.pem, cert: cert.pem, key: key.pem}", problem.ExitUnreachable, "unknown authority"},
		{ln, "{cert: cert.pem, key: key.pem}", problem.ExitUnreachable, "unknown authority"},
		{plain, "{ca: cert.pem}", problem.ExitUnreachable, "does not use TLS"},
		{ln, "{ca: nowhere.pem}", problem.ExitConfig, filepath.Join(dir, "nowhere.pem")},
	} {
		t.Run(c.tls, func(t *testing.T) {
			config := filepath.Join(dir, "mcpbridge.yaml")
			text := "version: 1\nbackends: [{name: far, dial: 'tcp:" + c.at.Addr().String() + "', tls: " + c.tls +
				"}]\n"
			if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			got := runCommand(t, "", "call", config, "echo")
			if got.code != c.code || !strings.Contains(got.stderr, c.want) {
				t.Errorf("%d %s%s", got.code, got.stdout, got.stderr)
			}
		})
	}
}
