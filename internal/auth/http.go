package auth

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/mcphttp"
	"github.com/mcpbridge/mcpbridge/internal/rawjson"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// wellKnown is the path of a protected resource's metadata (RFC 9728, 3).
const wellKnown = "/.well-known/oauth-protected-resource"

// A metadata is the metadata of a protected resource (RFC 9728, 2).
type metadata struct {
	Resource string   `json:"resource"`
	Servers  []string `json:"authorization_servers"`
	Methods  []string `json:"bearer_methods_supported"`
	Scopes   []string `json:"scopes_supported,omitempty"`
}

type principalKey struct{}

// Principal returns the principal of a request that Admit returned.
func Principal(r *http.Request) *pb.Principal {
	p, _ := r.Context().Value(principalKey{}).(*pb.Principal)
	return p
}

// maxUnexpiring is the assumed lifetime of a token without an expiry.
const maxUnexpiring = time.Hour

// Until returns the time at which the principal's token expires. Then streams and sessions of the request end. For an
// introspected token without `exp` it is an hour from now. It is zero for a static token or a certificate.
func Until(p *pb.Principal) time.Time {
	if len(p.GetClaims()) == 0 {
		return time.Time{}
	}
	c, err := readClaims(rawjson.AsBytes(p.GetClaims()), nil)
	if err != nil || c.Expiry == nil {
		return time.Now().Add(maxUnexpiring)
	}
	return c.Expiry.Time().Add(skew)
}

// Admit authenticates a request (2025-06-18 to 2026-07-28: basic/authorization, access token usage), and returns it
// with its Principal and without its credentials. It returns nil if it has sent the response: a rejection, or the
// metadata of the protected resource. An mcphttp.Guard in front of it must handle preflight requests.
func (a *Auth) Admit(w http.ResponseWriter, r *http.Request) *http.Request {
	if p, ok := a.metadata[r.URL.Path]; ok {
		a.serveMetadata(w, r, p.resource)
		return nil
	}
	p, err := a.authenticate(r)
	if err != nil {
		a.refuse(w, r, err)
		return nil
	}
	in := r.WithContext(context.WithValue(r.Context(), principalKey{}, p))
	in.Header = maps.Clone(r.Header)
	in.Header.Del("Authorization")
	return in
}

func (a *Auth) authenticate(r *http.Request) (*pb.Principal, error) {
	values := r.Header["Authorization"]
	query, err := url.ParseQuery(r.URL.RawQuery)
	switch {
	case query.Has("access_token"):
		return nil, &refusal{
			http.StatusUnauthorized, "invalid_request",
			"a token in the URL is not accepted: send it in the Authorization header",
		}
	case err != nil: // another parser may find a token in it
		return nil, &refusal{
			http.StatusBadRequest, "invalid_request", "the query of the URL is invalid: remove ; and write % as %25",
		}
	case len(values) == 0 && a.o.Certificates:
		if p := bridge.CertificatePrincipal(r.TLS); p != nil {
			return p, a.checkCertificate(p)
		}
	}
	return a.bearer(r.Context(), values, a.part(r.URL.Path))
}

// bearer returns the principal for the values of the Authorization header.
func (a *Auth) bearer(ctx context.Context, values []string, at part) (*pb.Principal, error) {
	switch len(values) {
	case 0:
		return nil, &refusal{status: http.StatusUnauthorized, why: "send a token: Authorization: Bearer TOKEN"}
	case 1:
	default:
		return nil, &refusal{http.StatusBadRequest, "invalid_request", "duplicate Authorization header: send one"}
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return nil, &refusal{status: http.StatusUnauthorized, why: "the Authorization header must be: Bearer TOKEN"}
	}
	return a.verifyFor(ctx, strings.Trim(token, " "), at)
}

// refuse sends the response to a rejected request.
func (a *Auth) refuse(w http.ResponseWriter, r *http.Request, err error) {
	rejection := &refusal{status: http.StatusInternalServerError, why: "the caller cannot be authenticated"}
	errors.As(err, &rejection)
	a.refusedHTTP.Do(func() {
		a.o.Log.Warn().Str("remote", r.RemoteAddr).Int("status", rejection.status).Str("why", err.Error()).
			Msg("refused a caller; further ones in the next second are not logged")
	})
	h := w.Header()
	switch rejection.status {
	case http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden:
		h.Set("WWW-Authenticate", a.challenge(r.URL.Path, rejection.code, rejection.why, a.o.Scopes))
	case http.StatusServiceUnavailable:
		h.Set("Retry-After", strconv.Itoa(int(minKeysRefresh.Seconds())))
		rejection = &refusal{status: rejection.status, why: issuerUnavailable}
	}
	mcphttp.Refuse(w, rejection.status, rejection.why)
}

const issuerUnavailable = "tokens cannot be verified at the moment: " +
	"their issuer is unavailable or its response is invalid; try again later"

// Challenge returns the WWW-Authenticate header for a caller who lacks scopes for a call, at the endpoint with the
// path.
func (a *Auth) Challenge(path string, scopes []string) string {
	return a.challenge(path, "insufficient_scope", "the call needs more scopes", scopes)
}

// challenge returns a WWW-Authenticate header (RFC 6750, 3; RFC 9728, 5.1).
func (a *Auth) challenge(path, code, why string, scopes []string) string {
	var params []string
	add := func(name, value string) {
		if value != "" {
			params = append(params, name+`="`+quotable(value)+`"`)
		}
	}
	add("error", code)
	if code != "" {
		add("error_description", why)
	}
	add("scope", strings.Join(scopes, " "))
	add("resource_metadata", a.part(path).metadataURL)
	return strings.TrimSpace("Bearer " + strings.Join(params, ", "))
}

// quotable replaces or removes characters that are not allowed in a quoted string (RFC 6750, 3).
func quotable(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '"' || r == '\\':
			return '\''
		case r < ' ' || r > '~':
			return -1
		}
		return r
	}, text)
}

// serveMetadata serves the metadata of a resource to everybody (RFC 9728, 3.2).
func (a *Auth) serveMetadata(w http.ResponseWriter, r *http.Request, resource string) {
	h := w.Header()
	h.Set("Access-Control-Allow-Origin", "*")
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		h.Set("Allow", "GET, HEAD")
		mcphttp.Refuse(w, http.StatusMethodNotAllowed, "the metadata supports only GET and HEAD")
		return
	}
	m := metadata{Resource: resource, Methods: []string{"header"}, Scopes: a.allScopes()}
	for _, i := range a.issuers {
		m.Servers = append(m.Servers, i.URL)
	}
	body, _ := json.Marshal(m) //nolint:errchkjson // strings can always be encoded
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "public, max-age=3600")
	_, _ = w.Write(body)
}

func (a *Auth) allScopes() []string {
	all := slices.Concat(a.o.Scopes, a.o.MoreScopes)
	slices.Sort(all)
	return slices.Compact(all)
}
