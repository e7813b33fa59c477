package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcpbridge/mcpbridge/internal/bridgetest"
)

// The page's configurations are accepted, and what they leave out is refused.
func TestAccessPage(t *testing.T) {
	text, err := os.ReadFile("../../docs/access.md")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cert, key, _ := bridgetest.Certificates(t, dir)
	parts := strings.Split(string(text), "```yaml\n")
	if len(parts) != 3 {
		t.Fatalf("%d configurations", len(parts)-1)
	}
	for i, part := range parts[1:] {
		yaml, _, _ := strings.Cut(part, "```")
		yaml = strings.NewReplacer("server.pem", cert, "server.key", key).Replace(yaml)
		if !strings.Contains(yaml, "backends:") {
			yaml += "backends: [{name: weather, launch: {command: [python3, tools.py]}}]\n"
		}
		name := filepath.Join(dir, "mcpbridge.yaml")
		if err := os.WriteFile(name, []byte("version: 1\n"+yaml), 0o600); err != nil {
			t.Fatal(err)
		}
		l, err := Load(name, []string{"ADA_TOKEN=secret-of-ada"}, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Validate(); err != nil {
			t.Errorf("configuration %d: %v", i+1, err)
		}
		if _, err := l.ServerTLS(); err != nil {
			t.Errorf("configuration %d: %v", i+1, err)
		}
	}
}

func TestRemoteGRPCRequiresAuthentication(t *testing.T) {
	for text, ok := range map[string]bool{
		"grpc: {addr: 'unix:///x'}":                                                                           true,
		"grpc: {addr: '127.0.0.1:1'}":                                                                         true,
		"grpc: {addr: '0.0.0.0:1'}":                                                                           false,
		"grpc: {addr: '0.0.0.0:1', insecure: true}":                                                           true,
		"grpc: {addr: '0.0.0.0:1', tls: {cert: a, key: b}}":                                                   false,
		"grpc: {addr: '0.0.0.0:1', tls: {cert: a, key: b, clientCA: c}}":                                      true,
		"grpc: {addr: '0.0.0.0:1'}, http: {auth: {tokens: [{token: t, subject: s}]}}":                         false,
		"grpc: {addr: '0.0.0.0:1', tls: {cert: a, key: b}}, http: {auth: {tokens: [{token: t, subject: s}]}}": true,
		"grpc: {addr: '0.0.0.0:1', tls: {cert: a, key: b}, insecure: true}, http: {auth: {tokens: []}}":       true,
	} {
		name := filepath.Join(t.TempDir(), "mcpbridge.yaml")
		if err := os.WriteFile(name,
			[]byte("version: 1\nserve: {"+text+"}\nbackends: [{name: a, dial: 'unix:///y'}]\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		l, err := Load(name, nil, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Validate(); (err == nil) != ok {
			t.Errorf("%s: %v", text, err)
		}
	}
}
