package oauth

import (
	"net/http"
	"slices"
	"strings"
)

// A challenge is what a response with status 401 or 403 asks for (RFC 9110, 11.6.1; RFC 6750, 3; RFC 9728, 5.1).
type challenge struct {
	metadata string   // where the protected resource metadata are
	scopes   []string // what the request needs
	code     string   // the error
	dpop     bool     // the token must be bound to a key (RFC 9449)
	nonce    string   // of DPoP, to be used in the next proof
}

const (
	maxHeader  = 8 << 10 // bytes of a header of which challenges are read
	maxHeaders = 16      // such headers
	maxScopes  = 128
)

// A scope that is too long or has other characters than RFC 6749, 3.3 allows is left out.
const maxScope = 256

// asks returns the challenge that a response is, or false if it is none: authorization is needed, or more of it.
func asks(resp *http.Response) (challenge, bool) {
	var c challenge
	found := false
	for scheme, params := range challenges(resp.Header.Values("Www-Authenticate")) {
		bound := strings.EqualFold(scheme, "DPoP")
		if !bound && !strings.EqualFold(scheme, "Bearer") || found && c.dpop {
			continue
		}
		// Of both, the one that binds the token is the better one.
		found = true
		c = challenge{metadata: params["resource_metadata"], scopes: splitScopes(params["scope"]), code: params["error"], dpop: bound}
	}
	c.nonce = resp.Header.Get("Dpop-Nonce")
	switch resp.StatusCode {
	case http.StatusUnauthorized:
		return c, true // 2025-03-26 needs no more than the status
	case http.StatusForbidden:
		return c, c.code == "insufficient_scope"
	}
	return c, false
}

// challenges yields the scheme and the parameters of each challenge in the values of a header. A parameter's name is in
// lower case; of several with the same name, the first counts.
func challenges(values []string) func(yield func(string, map[string]string) bool) {
	return func(yield func(string, map[string]string) bool) {
		for _, v := range values[:min(len(values), maxHeaders)] {
			p := scanner{s: v[:min(len(v), maxHeader)]}
			for {
				p.skip(" \t,")
				scheme := p.token()
				if scheme == "" {
					break // the end, or something that is no challenge
				}
				params := p.params()
				if !yield(scheme, params) {
					return
				}
			}
		}
	}
}

// A scanner reads a header's value.
type scanner struct {
	s string
	i int
}

func (p *scanner) skip(chars string) {
	for p.i < len(p.s) && strings.IndexByte(chars, p.s[p.i]) >= 0 {
		p.i++
	}
}

// token reads a token of RFC 9110, which may be empty.
func (p *scanner) token() string {
	start := p.i
	for p.i < len(p.s) && isTokenChar(p.s[p.i]) {
		p.i++
	}
	return p.s[start:p.i]
}

func isTokenChar(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0
}

// params reads the parameters of a challenge: name=value, separated by commas, until something else comes.
func (p *scanner) params() map[string]string {
	params := map[string]string{}
	for {
		before := p.i
		p.skip(" \t,")
		name := strings.ToLower(p.token())
		p.skip(" \t")
		if name == "" || p.i == len(p.s) || p.s[p.i] != '=' {
			p.i = before // it is the next challenge, or a token68, which no scheme has that we know
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
		if _, twice := params[name]; !twice {
			params[name] = value
		}
	}
}

// value reads a token or a quoted string. It reports false for a quoted string without an end.
func (p *scanner) value() (string, bool) {
	if p.i == len(p.s) || p.s[p.i] != '"' {
		// Some servers do not quote what they should: addresses, for instance.
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

// offline asks for a refresh token (OpenID Connect Core, 11).
const offline = "offline_access"

// splitScopes returns the scopes in a text, each once.
func splitScopes(s string) []string { return union(strings.Split(s, " ")) }

// union returns every valid scope of lists once, in the order in which they come. offline_access is not among them: it is no
// matter of the MCP server (2026-07-28: authorization, refresh tokens).
func union(lists ...[]string) []string {
	var all []string
	for _, list := range lists {
		for _, s := range list {
			if isScope(s) && s != offline && !slices.Contains(all, s) && len(all) < maxScopes {
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
