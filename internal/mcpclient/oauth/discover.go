package oauth

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/mcphttp"
)

// A resourceServer is the result of discovery: how the MCP server describes itself, and its authorization server.
type resourceServer struct {
	metadataURL string   // of its metadata; empty if it has none
	resource    string   // that tokens are for, exactly as in the metadata
	scopes      []string // scopes_supported
	dpop        bool     // tokens must be bound to a key
	noMetadata  bool     // as in 2025-03-26
	as          serverMetadata
}

// resourceMetadata has the members of a protected resource's metadata that are used (RFC 9728, 2).
type resourceMetadata struct {
	Resource string   `json:"resource"`
	Servers  []string `json:"authorization_servers"`
	Scopes   []string `json:"scopes_supported"`
	DPoP     bool     `json:"dpop_bound_access_tokens_required"`
}

// serverMetadata has the members of an authorization server's metadata that are used (RFC 8414, 2; OpenID Connect
// Discovery, 3).
type serverMetadata struct {
	Issuer            string   `json:"issuer"`
	Authorization     string   `json:"authorization_endpoint"`
	Token             string   `json:"token_endpoint"`
	Registration      string   `json:"registration_endpoint"`
	Scopes            []string `json:"scopes_supported"`
	AuthMethods       []string `json:"token_endpoint_auth_methods_supported"`
	AuthAlgorithms    []string `json:"token_endpoint_auth_signing_alg_values_supported"`
	PKCEMethods       []string `json:"code_challenge_methods_supported"`
	DPoPAlgorithms    []string `json:"dpop_signing_alg_values_supported"`
	SendsIssuer       bool     `json:"authorization_response_iss_parameter_supported"`
	MetadataDocuments bool     `json:"client_id_metadata_document_supported"`
}

// discover reads the metadata of the server and of its authorization server. metadataURL is the URL in the server's
// challenge, or empty.
func (t *Transport) discover(ctx context.Context, metadataURL string) (*resourceServer, error) {
	s := &resourceServer{}
	prm, found, err := t.resourceMetadata(ctx, metadataURL)
	switch {
	case err == nil:
		s.metadataURL = found
		s.resource, s.scopes, s.dpop = prm.Resource, mergeScopes(prm.Scopes), prm.DPoP
		issuer, err := t.chooseIssuer(prm.Servers)
		if err != nil {
			return nil, err
		}
		if s.as, err = t.serverMetadata(ctx, issuer, false); err != nil {
			return nil, err
		}
	case metadataURL == "" && errors.Is(err, errNotFound):
		s.resource, s.noMetadata = canonical(t.server), true
		if s.as, err = t.defaultServer(ctx); err != nil {
			return nil, err
		}
	default:
		return nil, fmt.Errorf("protected resource metadata: %w", err)
	}
	return s, t.checkServer(s)
}

// resourceMetadata returns the server's metadata and their URL: that of the challenge, or else a well-known one
// (2026-07-28: authorization server discovery, protected resource metadata).
func (t *Transport) resourceMetadata(ctx context.Context, metadataURL string) (*resourceMetadata, string, error) {
	candidates := []string{metadataURL}
	if metadataURL == "" {
		const wellKnown = "/.well-known/oauth-protected-resource"
		candidates = []string{origin(t.server) + wellKnown}
		if path := strings.TrimSuffix(t.server.EscapedPath(), "/"); path != "" {
			candidates = []string{candidates[0] + path, candidates[0]}
		}
	}
	var err error
	for _, candidate := range candidates {
		prm := &resourceMetadata{}
		if err = t.egress.getJSON(ctx, candidate, nil, prm); errors.Is(err, errNotFound) {
			continue
		}
		if err != nil {
			return nil, "", err
		}
		if !contains(prm.Resource, t.server) {
			return nil, "", fmt.Errorf("%s describes the resource %q, not %s; a token for it could be used elsewhere",
				candidate, prm.Resource, t.server)
		}
		if len(prm.Servers) == 0 {
			return nil, "", fmt.Errorf("%s names no authorization server", candidate)
		}
		return prm, candidate, nil
	}
	return nil, "", err
}

// contains reports whether a resource is the server or a parent of its path: metadata at the root of an origin describe
// the origin.
func contains(resource string, server *url.URL) bool {
	r, err := url.Parse(resource)
	if err != nil || r.User != nil || r.Fragment != "" || r.Host == "" || origin(r) != origin(server) {
		return false
	}
	parent, path := strings.TrimSuffix(r.EscapedPath(), "/"), server.EscapedPath()
	if r.RawQuery != "" && r.RawQuery != server.RawQuery {
		return false
	}
	return path == parent || strings.HasPrefix(path, parent+"/")
}

// canonical returns the identifier of the server (2025-06-18 and later: authorization, canonical server URI).
func canonical(server *url.URL) string {
	c := origin(server) + server.EscapedPath()
	if server.RawQuery != "" {
		c += "?" + server.RawQuery
	}
	return strings.TrimSuffix(c, "/")
}

// chooseIssuer chooses one of the authorization servers in the server's metadata: the configured one, or else the one
// that was used before, or else the first.
func (t *Transport) chooseIssuer(issuers []string) (string, error) {
	if t.o.Issuer == "" {
		return cmp.Or(t.store.usedIssuer(issuers, t.o.Server, t.o.ClientID), issuers[0]), nil
	}
	if !slices.Contains(issuers, t.o.Issuer) {
		return "", fmt.Errorf("the server names the authorization server %q, but the configured issuer is %q;"+
			" if it moved, change the issuer, and the client if it has another one there", issuers[0], t.o.Issuer)
	}
	return t.o.Issuer, nil
}

// wellKnown returns the possible URLs of the metadata of an authorization server, in order of preference (2026-07-28:
// authorization server discovery).
func wellKnown(issuer *url.URL) []string {
	const oauth, openID = "/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"
	base, path := origin(issuer), strings.TrimSuffix(issuer.EscapedPath(), "/")
	if path == "" {
		return []string{base + oauth, base + openID}
	}
	return []string{base + oauth + path, base + openID + path, base + path + openID}
}

// serverMetadata returns the metadata of an authorization server. assumed means that the issuer is not from other
// metadata, as with a server of 2025-03-26. The error is errNotFound only if no URL has metadata.
func (t *Transport) serverMetadata(ctx context.Context, issuer string, assumed bool) (serverMetadata, error) {
	u, err := t.egress.parse(issuer)
	if err != nil {
		return serverMetadata{}, fmt.Errorf("authorization server: %w", err)
	}
	if u.RawQuery != "" {
		return serverMetadata{}, fmt.Errorf("authorization server %q: an issuer must not have a query", issuer)
	}
	var header http.Header
	if assumed {
		header = http.Header{mcphttp.HeaderVersion: {bridge.Rev20250326.String()}}
	}
	var first error
	for _, candidate := range wellKnown(u) {
		var m serverMetadata
		err := t.egress.getJSON(ctx, candidate, header, &m)
		// The issuer must be the same: otherwise one server could impersonate another (RFC 8414, 3.3). An assumed
		// issuer may lack a slash.
		if same := m.Issuer == issuer || assumed && m.Issuer == issuer+"/"; err == nil && !same {
			err = fmt.Errorf("%s describes the issuer %q, not %q", candidate, m.Issuer, issuer)
		}
		if err == nil {
			return m, nil
		}
		if first == nil || errors.Is(first, errNotFound) {
			first = err
		}
	}
	return serverMetadata{}, fmt.Errorf("metadata of the authorization server %s: %w", issuer, first)
}

// defaultServer returns the authorization server of a server without metadata: that of its origin, or else the default
// paths of 2025-03-26 (authorization, server metadata discovery).
func (t *Transport) defaultServer(ctx context.Context) (serverMetadata, error) {
	base := origin(t.server)
	m, err := t.serverMetadata(ctx, base, true)
	if err == nil && t.o.Issuer != "" && m.Issuer != t.o.Issuer {
		return m, fmt.Errorf("the server is its own authorization server, %s, but the configured issuer is %q",
			m.Issuer, t.o.Issuer)
	}
	if !errors.Is(err, errNotFound) {
		return m, err
	}
	if t.o.Issuer != "" && t.o.Issuer != base {
		return t.serverMetadata(ctx, t.o.Issuer, false) // 2026-07-28: "use pre-configured values"
	}
	return serverMetadata{
		Issuer: base, Authorization: base + "/authorize", Token: base + "/token", Registration: base + "/register",
	}, nil
}

// checkServer returns an error if the authorization server of s cannot be used safely.
func (t *Transport) checkServer(s *resourceServer) error {
	as := &s.as
	if _, err := t.egress.parse(as.Token); err != nil {
		return fmt.Errorf("authorization server %s: token endpoint: %w", as.Issuer, err)
	}
	if t.o.Grant != AuthorizationCode {
		return nil
	}
	authorization, err := t.egress.parse(as.Authorization)
	if err != nil {
		return fmt.Errorf("authorization server %s: authorization endpoint: %w", as.Issuer, err)
	}
	undeclared := s.noMetadata && as.PKCEMethods == nil
	if !undeclared && !slices.Contains(as.PKCEMethods, "S256") {
		return fmt.Errorf("authorization server %s: its metadata do not declare PKCE with S256"+
			" (code_challenge_methods_supported), without which a stolen authorization code could be used", as.Issuer)
	}
	// Without iss in its responses, it could use the authorization endpoint of another server and receive that server's
	// code (RFC 9207, 1).
	token, _ := url.Parse(as.Token)
	if !as.SendsIssuer && origin(authorization) != origin(token) && t.o.Issuer != as.Issuer {
		return fmt.Errorf("authorization server %s: its authorization endpoint is at %s and its token endpoint at %s,"+
			" and it does not send iss in its responses (RFC 9207), so one of them may be of another server;"+
			" if you trust it, configure it as the issuer", as.Issuer, origin(authorization), origin(token))
	}
	return nil
}
