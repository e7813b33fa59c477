package oauth

import (
	"strings"
	"testing"
)

func TestOptions(t *testing.T) {
	for _, row := range []struct {
		err string // if empty, the options are valid
		o   Options
	}{
		{"", Options{Server: "https://mcp.example"}},
		{"", Options{Server: "http://127.0.0.1:3000/mcp"}},
		{"", Options{Server: "http://[::1]:3000/mcp"}},
		{"must be a URL", Options{}},
		{"must be a URL", Options{Server: "mcp.example"}},
		{"without a user name", Options{Server: "https://u:secret-canary@mcp.example"}},
		{"without TLS", Options{Server: "http://mcp.example"}},
		{"without TLS", Options{Server: "http://127.0.0.1.example"}},
		{"unknown grant", Options{Server: "https://mcp.example", Grant: "password"}},
		{"without a client ID", Options{Server: "https://mcp.example", ClientSecret: "x"}},
		{"without a client ID", Options{Server: "https://mcp.example", PrivateKey: []byte("x")}},
		{"both", Options{Server: "https://mcp.example", ClientID: "x", ClientSecret: "x", PrivateKey: []byte("x")}},
		{"not PEM", Options{Server: "https://mcp.example", ClientID: "x", PrivateKey: []byte("secret-canary")}},
		{"client_credentials needs", Options{Server: "https://mcp.example", Grant: ClientCredentials, ClientID: "x"}},
		{"needs an assertion or", Options{Server: "https://mcp.example", Grant: JWTBearer, ClientID: "x"}},
		{
			"needs a token endpoint",
			Options{Server: "https://mcp.example", Grant: JWTBearer, ClientID: "x", IDP: &IDP{}},
		},
		{"https:// address with a path", Options{Server: "https://mcp.example", ClientMetadataURL: "http://x/y"}},
		{"https:// address with a path", Options{Server: "https://mcp.example", ClientMetadataURL: "https://x/"}},
		{"redirect address", Options{Server: "https://mcp.example", Redirect: "http://10.0.0.1:3000/"}},
		{"redirect address", Options{Server: "https://mcp.example", Redirect: "https://127.0.0.1:3000/"}},
		{"redirect address", Options{Server: "https://mcp.example", Redirect: "http://127.0.0.1/"}},
		{"must be valid, unique", Options{Server: "https://mcp.example", Scopes: []string{"a b"}}},
		{"negative", Options{Server: "https://mcp.example", LoginTimeout: -1}},
	} {
		tr, err := New(row.o)
		switch {
		case row.err == "" && err != nil, row.err != "" && (err == nil || !strings.Contains(err.Error(), row.err)):
			t.Errorf("%+v: got %v, want %q", row.o, err, row.err)
		case err != nil && strings.Contains(err.Error(), "canary"):
			t.Errorf("error with a secret: %v", err)
		case err == nil:
			tr.Close()
		}
	}
}
