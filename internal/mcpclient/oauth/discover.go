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

// A site is what discovery has found out about the MCP server.
type site struct {
	metadata string   // where its metadata are; empty: there are none
	resource string   // what tokens are for, exactly as the server says it
	scopes   []string // what it says one usually needs
	dpop     bool     // it wants tokens that are bound to a key
	guessed  bool     // it has no metadata of its own (2025-03-26)
	as       serverMetadata
}

// resourceMetadata is what is read of a protected resource's metadata (RFC 9728, 2).
type resourceMetadata struct {
	Resource string   `json:"resource"`
	Servers  []string `json:"authorization_servers"`
	Scopes   []string `json:"scopes_supported"`
	DPoP     bool     `json:"dpop_bound_access_tokens_required"`
}

// serverMetadata is what is read of an authorization server's metadata (RFC 8414, 2; OpenID Connect Discovery, 3).
type serverMetadata struct {
	Issuer        string   `json:"issuer"`
	Authorization string   `json:"authorization_endpoint"`
	Token         string   `json:"token_endpoint"`
	Registration  string   `json:"registration_endpoint"`
	Scopes        []string `json:"scopes_supported"`
	Methods       []string `json:"token_endpoint_auth_methods_supported"`
	Algorithms    []string `json:"token_endpoint_auth_signing_alg_values_supported"`
	Challenges    []string `json:"code_challenge_methods_supported"`
	DPoP          []string `json:"dpop_signing_alg_values_supported"`
	Names         bool     `json:"authorization_response_iss_parameter_supported"`
	Documents     bool     `json:"client_id_metadata_document_supported"`
}

// discover finds out where tokens for the server come from. metadata is the address that the server's challenge names, or
// empty.
func (t *Transport) discover(ctx context.Context, metadata string) (*site, error) {
	s := &site{}
	prm, where, err := t.resourceMetadata(ctx, metadata)
	switch {
	case err == nil:
		s.metadata = where
		s.resource, s.scopes, s.dpop = prm.Resource, union(prm.Scopes), prm.DPoP
		issuer, err := t.choose(prm.Servers)
		if err != nil {
			return nil, err
		}
		if s.as, err = t.serverMetadata(ctx, issuer, false); err != nil {
			return nil, err
		}
	case metadata == "" && errors.Is(err, errAbsent):
		// 2025-03-26 has none: the authorization server is the server itself, or what its origin says.
		s.resource, s.guessed = canonical(t.server), true
		if s.as, err = t.assumed(ctx); err != nil {
			return nil, err
		}
	default:
		return nil, fmt.Errorf("protected resource metadata: %w", err)
	}
	return s, t.vet(s)
}

// resourceMetadata returns the server's metadata and where they are: where its challenge says, or else at a well-known place
// (2026-07-28: authorization server discovery, protected resource metadata).
func (t *Transport) resourceMetadata(ctx context.Context, metadata string) (*resourceMetadata, string, error) {
	places := []string{metadata}
	if metadata == "" {
		const wellKnown = "/.well-known/oauth-protected-resource"
		places = []string{origin(t.server) + wellKnown}
		if path := strings.TrimSuffix(t.server.EscapedPath(), "/"); path != "" {
			places = []string{places[0] + path, places[0]}
		}
	}
	var err error
	for _, place := range places {
		prm := &resourceMetadata{}
		if err = t.egress.document(ctx, place, nil, prm); errors.Is(err, errAbsent) {
			continue
		}
		if err != nil {
			return nil, "", err
		}
		if !isAbout(prm.Resource, t.server) {
			return nil, "", fmt.Errorf("%s is about the resource %q, not about %s; a token for it could be used elsewhere", place, prm.Resource, t.server)
		}
		if len(prm.Servers) == 0 {
			return nil, "", fmt.Errorf("%s names no authorization server", place)
		}
		return prm, place, nil
	}
	return nil, "", err
}

// isAbout reports whether a resource is the server, or a whole of which it is a part: metadata at the root of an origin are
// about the origin.
func isAbout(resource string, server *url.URL) bool {
	r, err := url.Parse(resource)
	if err != nil || r.User != nil || r.Fragment != "" || r.Host == "" || origin(r) != origin(server) {
		return false
	}
	whole, part := strings.TrimSuffix(r.EscapedPath(), "/"), server.EscapedPath()
	if r.RawQuery != "" && r.RawQuery != server.RawQuery {
		return false
	}
	return part == whole || strings.HasPrefix(part, whole+"/") || part == "" && whole == ""
}

// canonical returns the identifier of the server (2025-06-18 and later: authorization, canonical server URI).
func canonical(server *url.URL) string {
	c := origin(server) + server.EscapedPath()
	if server.RawQuery != "" {
		c += "?" + server.RawQuery
	}
	return strings.TrimSuffix(c, "/")
}

// choose returns the authorization server to go to of those that the server names.
func (t *Transport) choose(issuers []string) (string, error) {
	if t.o.Issuer == "" {
		return cmp.Or(t.store.used(issuers, t.o.Server, t.o.ClientID), issuers[0]), nil
	}
	if !slices.Contains(issuers, t.o.Issuer) {
		return "", fmt.Errorf("the server names the authorization server %q, but the configuration says that it is %q; if it has moved, change the issuer, and the client if it is another one there", issuers[0], t.o.Issuer)
	}
	return t.o.Issuer, nil
}

// wellKnown returns where the metadata of an authorization server may be, first things first (2026-07-28: authorization
// server discovery).
func wellKnown(issuer *url.URL) []string {
	const oauth, openID = "/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"
	base, path := origin(issuer), strings.TrimSuffix(issuer.EscapedPath(), "/")
	if path == "" {
		return []string{base + oauth, base + openID}
	}
	return []string{base + oauth + path, base + openID + path, base + path + openID}
}

// serverMetadata returns the metadata of the authorization server with the given issuer identifier, which may be our guess
// of what a server of 2025-03-26 means. It returns errAbsent only if there are none at all.
func (t *Transport) serverMetadata(ctx context.Context, issuer string, guessed bool) (serverMetadata, error) {
	u, err := t.egress.parse(issuer)
	if err != nil {
		return serverMetadata{}, fmt.Errorf("authorization server: %w", err)
	}
	if u.RawQuery != "" {
		return serverMetadata{}, fmt.Errorf("authorization server %q: an issuer has no query", issuer)
	}
	var header http.Header
	if guessed {
		header = http.Header{mcphttp.HeaderVersion: {bridge.Rev20250326.String()}}
	}
	var first error
	for _, place := range wellKnown(u) {
		var m serverMetadata
		err := t.egress.document(ctx, place, header, &m)
		// Else anybody could pass for anybody (RFC 8414, 3.3). Where the issuer is our guess, a slash may be missing.
		if same := m.Issuer == issuer || guessed && m.Issuer == issuer+"/"; err == nil && !same {
			err = fmt.Errorf("%s is about the issuer %q, and not about %q", place, m.Issuer, issuer)
		}
		if err == nil {
			return m, nil
		}
		if first == nil || errors.Is(first, errAbsent) {
			first = err
		}
	}
	return serverMetadata{}, fmt.Errorf("metadata of the authorization server %s: %w", issuer, first)
}

// assumed returns the authorization server of a server that names none: what the root of its origin says, or the paths that
// 2025-03-26 says (authorization, server metadata discovery).
func (t *Transport) assumed(ctx context.Context) (serverMetadata, error) {
	base := origin(t.server)
	m, err := t.serverMetadata(ctx, base, true)
	if err == nil && t.o.Issuer != "" && m.Issuer != t.o.Issuer {
		return m, fmt.Errorf("the server is its own authorization server, %s, but the configuration says that it is %q", m.Issuer, t.o.Issuer)
	}
	if !errors.Is(err, errAbsent) {
		return m, err
	}
	if t.o.Issuer != "" && t.o.Issuer != base {
		return t.serverMetadata(ctx, t.o.Issuer, false) // "use pre-configured values" (2026-07-28, the sequence diagram)
	}
	return serverMetadata{
		Issuer: base, Authorization: base + "/authorize", Token: base + "/token", Registration: base + "/register",
	}, nil
}

// vet says what keeps us from using an authorization server, if anything does.
func (t *Transport) vet(s *site) error {
	as := &s.as
	if _, err := t.egress.parse(as.Token); err != nil {
		return fmt.Errorf("authorization server %s: token endpoint: %w", as.Issuer, err)
	}
	if t.o.Grant != AuthorizationCode {
		return nil
	}
	to, err := t.egress.parse(as.Authorization)
	if err != nil {
		return fmt.Errorf("authorization server %s: authorization endpoint: %w", as.Issuer, err)
	}
	if silent := s.guessed && as.Challenges == nil; !silent && !slices.Contains(as.Challenges, "S256") {
		return fmt.Errorf("authorization server %s: its metadata do not say that it does PKCE with S256 (code_challenge_methods_supported), without which a code that is stolen could be used", as.Issuer)
	}
	// One that does not name itself in its responses could pass another's authorization endpoint for its own, and be told
	// the other's code (RFC 9207, 1).
	token, _ := url.Parse(as.Token)
	if !as.Names && origin(to) != origin(token) && t.o.Issuer != as.Issuer {
		return fmt.Errorf("authorization server %s: its authorization endpoint is at %s and its token endpoint at %s, and it does not name itself in its responses (RFC 9207), so one of them may not be its own; if you trust it, configure it as the issuer",
			as.Issuer, origin(to), origin(token))
	}
	return nil
}
