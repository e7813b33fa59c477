package oauth

import (
	"net/http"
	"slices"
	"strings"
)

// A challenge is the WWW-Authenticate header of a response with status 401 or 403 (RFC 9110, 11.6.1; RFC 6750, 3;
// RFC 9728, 5.1).
type challenge struct {
	metadataURL string   // of the protected resource metadata
	scopes      []string // that the request requires
	code        string   // of the error
	dpop        bool     // the token must be bound to a key (RFC 9449)
	nonce       string   // for the next DPoP proof
}

const (
	maxHeader  = 8 << 10 // bytes that are parsed of each WWW-Authenticate header
	maxHeaders = 16      // that are parsed
	maxScopes  = 128
	maxScope   = 256 // bytes
)

// parseChallenge returns the challenge of a response, and reports whether the response requires a token or more scopes.
func parseChallenge(resp *http.Response) (challenge, bool) {
	var c challenge
	found := false
	for scheme, params := range challenges(resp.Header.Values("Www-Authenticate")) {
		bound := strings.EqualFold(scheme, "DPoP")
		if !bound && !strings.EqualFold(scheme, "Bearer") || found && c.dpop {
			continue
		}
		found = true // DPoP is preferred to Bearer
		c = challenge{
			metadataURL: params["resource_metadata"], scopes: splitScopes(params["scope"]),
			code: params["error"], dpop: bound,
		}
	}
	c.nonce = resp.Header.Get("Dpop-Nonce")
	switch resp.StatusCode {
	case http.StatusUnauthorized:
		return c, true // in 2025-03-26, the status is enough
	case http.StatusForbidden:
		return c, c.code == "insufficient_scope"
	}
	return c, false
}

// challenges yields the scheme and the parameters of each challenge in the values of a header. The names of parameters
// are in lower case; of duplicate ones, the first is used.
func challenges(values []string) func(yield func(string, map[string]string) bool) {
	return func(yield func(string, map[string]string) bool) {
		for _, v := range values[:min(len(values), maxHeaders)] {
			p := scanner{s: v[:min(len(v), maxHeader)]}
			for {
				p.skip(" \t,")
				scheme := p.token()
				if scheme == "" {
					break // the end, or not a challenge
				}
				params := p.params()
				if !yield(scheme, params) {
					return
				}
			}
		}
	}
}

// A scanner parses the value of a header.
type scanner struct {
	s string
	i int
}

func (p *scanner) skip(chars string) {
	for p.i < len(p.s) && strings.IndexByte(chars, p.s[p.i]) >= 0 {
		p.i++
	}
}

// token returns a token of RFC 9110, which may be empty.
func (p *scanner) token() string {
	start := p.i
	for p.i < len(p.s) && isTokenChar(p.s[p.i]) {
		p.i++
	}
	return p.s[start:p.i]
}

func isTokenChar(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' ||
		strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0
}

// params returns the parameters of a challenge: name=value, separated by commas, up to the first other text.
func (p *scanner) params() map[string]string {
	params := map[string]string{}
	for {
		before := p.i
		p.skip(" \t,")
		name := strings.ToLower(p.token())
		p.skip(" \t")
		if name == "" || p.i == len(p.s) || p.s[p.i] != '=' {
			p.i = before // the next challenge, or a token68, which neither Bearer nor DPoP uses
			if before == len(p.s) || name != "" {
				return params
			}
			p.i = len(p.s)
			return params
		}
		p.i++
		p.skip(" \t")
		value, ok := p.value()
		if !ok {
			p.i = len(p.s)
			return params
		}
		if _, duplicate := params[name]; !duplicate {
			params[name] = value
		}
	}
}

// value returns a token or a quoted string. It reports false for a quoted string without an end.
func (p *scanner) value() (string, bool) {
	if p.i == len(p.s) || p.s[p.i] != '"' {
		// Some servers do not quote URLs.
		start := p.i
		for p.i < len(p.s) && strings.IndexByte(" \t,", p.s[p.i]) < 0 {
			p.i++
		}
		return p.s[start:p.i], true
	}
	var b strings.Builder
	for p.i++; p.i < len(p.s); p.i++ {
		switch c := p.s[p.i]; c {
		case '"':
			p.i++
			return b.String(), true
		case '\\':
			if p.i++; p.i == len(p.s) {
				return "", false
			}
			b.WriteByte(p.s[p.i])
		default:
			b.WriteByte(c)
		}
	}
	return "", false
}

// offlineAccess is the scope that requests a refresh token (OpenID Connect Core, 11).
const offlineAccess = "offline_access"

func splitScopes(s string) []string { return mergeScopes(strings.Split(s, " ")) }

// mergeScopes returns the valid scopes of lists (RFC 6749, 3.3) in their order, without duplicates, and without
// offline_access, which does not depend on the MCP server (2026-07-28: authorization, refresh tokens).
func mergeScopes(lists ...[]string) []string {
	var all []string
	for _, list := range lists {
		for _, s := range list {
			if isScope(s) && s != offlineAccess && !slices.Contains(all, s) && len(all) < maxScopes {
				all = append(all, s)
			}
		}
	}
	return all
}

func isScope(s string) bool {
	if s == "" || len(s) > maxScope {
		return false
	}
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c == '"' || c == '\\' || c > '~' {
			return false
		}
	}
	return true
}
