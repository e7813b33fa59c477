package oauth

import (
	"bytes"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/mcpbridge/mcpbridge/internal/bridgetest/fuzzing"
)

// documents is a transport that serves metadata and records the requested URLs.
type documents struct {
	resource, server []byte
	requested        []*url.URL
}

func (d *documents) RoundTrip(r *http.Request) (*http.Response, error) {
	d.requested = append(d.requested, r.URL)
	body := d.server
	if strings.Contains(r.URL.Path, "oauth-protected-resource") {
		body = d.resource
	}
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(bytes.NewReader(body)), Request: r}, nil
}

// FuzzMetadata parses any bytes as the metadata of a server and of its authorization server: no private address is
// requested, accepted metadata name their own issuer, and all endpoints have https.
func FuzzMetadata(f *testing.F) {
	const resource = `{"resource":"https://mcp.example/mcp","authorization_servers":["https://as.example/x"],"scopes_supported":["a","b"]}`
	const server = `{"issuer":"https://as.example/x","authorization_endpoint":"https://as.example/authorize","token_endpoint":"https://as.example/token","code_challenge_methods_supported":["S256"]}`
	f.Add([]byte(resource), []byte(server))
	for _, r := range []string{
		"", "{}", "<html>", `{"resource":"https://evil.example/mcp","authorization_servers":["https://as.example/x"]}`,
		`{"Resource":"https://mcp.example/mcp"}`, "{\"resource\":\"\xff\"}",
		`{"resource":"https://mcp.example/mcp","authorization_servers":["http://169.254.169.254/"]}`,
		`{"resource":"https://mcp.example/mcp","authorization_servers":["https://[64:ff9b::7f00:1]/"]}`,
		`{"resource":"https://mcp.example/mcp","authorization_servers":["javascript:alert(1)"]}`,
		`{"resource":"https://mcp.example/mcp","resource":"x","authorization_servers":[]}`,
	} {
		f.Add([]byte(r), []byte(server))
	}
	for _, s := range []string{
		strings.Replace(server, "https://as.example/authorize", "file:///etc/passwd", 1),
		strings.Replace(server, "https://as.example/token", "https://evil.example/token", 1),
		strings.Replace(server, `"issuer":"https://as.example/x"`, `"issuer":"https://as.example/y"`, 1),
		strings.Replace(server, "https://as.example/authorize", "https://a@b/$(id)", 1),
		strings.Replace(server, "https://as.example/token", "http://10.0.0.1/", 1),
		`{"issuer":"https://as.example/x","issuer":"https://evil.example"}`, "[]",
	} {
		f.Add([]byte(resource), []byte(s))
	}
	fuzzing.Run(f, func(t *testing.T, resource, server []byte) {
		o := Options{Server: "https://mcp.example/mcp", Log: zerolog.Nop()}
		tr, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		defer tr.Close()
		var d *documents
		var s *resourceServer
		fuzzing.Within(t, len(resource)+len(server), 512<<10, func() {
			d = &documents{resource: resource, server: server}
			tr.egress.get.Transport = d
			s, err = tr.discover(t.Context(), "")
		})
		for _, u := range d.requested {
			checkPublic(t, u)
		}
		if err != nil {
			return
		}
		v, bad := fuzzing.Value(bytes.TrimSpace(server))
		declared, _ := v.(map[string]any)
		// A server without metadata is its own authorization server, with the paths of 2025-03-26.
		assumed := s.noMetadata && s.as.Authorization == "https://mcp.example/authorize" &&
			s.as.Token == "https://mcp.example/token"
		if assumed {
			return
		}
		if bad != nil || declared["issuer"] != s.as.Issuer || declared["token_endpoint"] != s.as.Token ||
			declared["authorization_endpoint"] != s.as.Authorization {
			t.Fatalf("%s: got %+v, %v", server, s.as, bad)
		}
		for _, address := range []string{s.as.Token, s.as.Authorization} {
			u, err := url.Parse(address)
			if err != nil {
				t.Fatal(err)
			}
			checkPublic(t, u)
		}
		if u, err := url.Parse(s.resource); err != nil || u.Host != "mcp.example" {
			t.Fatalf("got the resource %q", s.resource)
		}
	})
}

// checkPublic fails the test unless a URL has https and no private address.
func checkPublic(t *testing.T, u *url.URL) {
	t.Helper()
	ip, err := netip.ParseAddr(u.Hostname())
	private := err == nil &&
		(ip.Unmap().IsPrivate() || ip.Unmap().IsLoopback() || ip.IsLinkLocalUnicast() || ip.IsUnspecified())
	if u.Scheme != "https" || u.User != nil || u.Hostname() == "" || private {
		t.Fatalf("%q was used", u)
	}
}
