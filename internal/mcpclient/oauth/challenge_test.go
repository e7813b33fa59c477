package oauth

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpbridge/mcpbridge/internal/bridgetest/fuzzing"
)

func TestChallenges(t *testing.T) {
	const unauthorized, forbidden = http.StatusUnauthorized, http.StatusForbidden
	for _, row := range []struct {
		status int
		header []string
		want   challenge
		ok     bool
	}{
		{unauthorized, nil, challenge{}, true},
		{forbidden, nil, challenge{}, false},
		{200, []string{`Bearer scope="a"`}, challenge{scopes: []string{"a"}}, false},
		{unauthorized, []string{`Bearer`}, challenge{}, true},
		{
			unauthorized,
			[]string{`Bearer resource_metadata="https://x/y", scope="a b  a"`},
			challenge{metadataURL: "https://x/y", scopes: []string{"a", "b"}},
			true,
		},
		{
			unauthorized,
			[]string{`bearer   RESOURCE_METADATA = "https://x/y" ,SCOPE=a`},
			challenge{metadataURL: "https://x/y", scopes: []string{"a"}},
			true,
		},
		{
			unauthorized,
			[]string{`Bearer resource_metadata=https://x/y?a=b, error=invalid_token`},
			challenge{metadataURL: "https://x/y?a=b", code: "invalid_token"},
			true,
		},
		{
			unauthorized,
			[]string{`Bearer realm="a \"quoted\", scope=\"x\"", scope="y"`},
			challenge{scopes: []string{"y"}},
			true,
		},
		{unauthorized, []string{`Basic realm="x", Bearer scope="a"`}, challenge{scopes: []string{"a"}}, true},
		{unauthorized, []string{`Basic realm="x"`, `Bearer scope="a"`}, challenge{scopes: []string{"a"}}, true},
		{unauthorized, []string{`Negotiate YWJj, Bearer scope="a"`}, challenge{scopes: []string{"a"}}, true},
		{unauthorized, []string{`Negotiate YWJj==, Bearer scope="a"`}, challenge{scopes: []string{"a"}}, true},
		{unauthorized, []string{`, ,Bearer scope="a",, error="x"`}, challenge{scopes: []string{"a"}, code: "x"}, true},
		{unauthorized, []string{`Bearer scope="a", scope="b"`}, challenge{scopes: []string{"a"}}, true},
		{unauthorized, []string{`Bearer scope="a`}, challenge{}, true},
		{unauthorized, []string{`Bearer scope="a\`}, challenge{}, true},
		{unauthorized, []string{`Bearer ="a", scope="b"`}, challenge{}, true},
		{unauthorized, []string{`"Bearer" scope="a"`}, challenge{}, true},
		{unauthorized, []string{`Basic scope="a"`}, challenge{}, true},
		{
			unauthorized,
			[]string{`Bearer scope="a", DPoP scope="b"`},
			challenge{scopes: []string{"b"}, dpop: true},
			true,
		},
		{
			unauthorized,
			[]string{`DPoP scope="b"`, `Bearer scope="a"`},
			challenge{scopes: []string{"b"}, dpop: true},
			true,
		},
		{unauthorized, []string{`Bearer ` + strings.Repeat(" ", maxHeader) + `scope="a"`}, challenge{}, true},
		{
			unauthorized, append(slices.Repeat([]string{`Basic x=y`}, maxHeaders-1), `Bearer scope="a"`),
			challenge{scopes: []string{"a"}},
			true,
		},
		{unauthorized, append(slices.Repeat([]string{`Basic x=y`}, maxHeaders), `Bearer scope="a"`), challenge{}, true},
		{
			forbidden,
			[]string{`Bearer error="insufficient_scope", scope="a"`},
			challenge{scopes: []string{"a"}, code: "insufficient_scope"},
			true,
		},
		{
			forbidden,
			[]string{`Bearer error="invalid_token", scope="a"`},
			challenge{scopes: []string{"a"}, code: "invalid_token"},
			false,
		},
		{forbidden, []string{`Basic error="insufficient_scope"`}, challenge{}, false},
	} {
		got, ok := parseChallenge(
			&http.Response{StatusCode: row.status, Header: http.Header{"Www-Authenticate": row.header}})
		if d := cmp.Diff(row.want, got, cmp.AllowUnexported(challenge{})); d != "" || ok != row.ok {
			t.Errorf("%d %q: %v\n%s", row.status, row.header, ok, d)
		}
	}
}

// Parsing any header ends, and its scopes can be sent.
func FuzzChallenges(f *testing.F) {
	f.Add(`Bearer resource_metadata="https://x/y", scope="a b", Basic YWJj==, DPoP algs="ES256"`)
	f.Add(`a="\`)
	fuzzing.Run(f, func(t *testing.T, s string) {
		c, _ := parseChallenge(&http.Response{
			StatusCode: http.StatusUnauthorized,
			Header:     http.Header{"Www-Authenticate": {s}},
		})
		for _, scope := range c.scopes {
			if !isScope(scope) || !strings.Contains(s, scope) && !strings.Contains(s, `\`) {
				t.Errorf("%q is no scope of %q", scope, s)
			}
		}
	})
}
