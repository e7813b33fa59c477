package oauth

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/mcpbridge/mcpbridge/internal/contain"
	"github.com/mcpbridge/mcpbridge/internal/limits"
	"github.com/mcpbridge/mcpbridge/internal/mcphttp"
	"github.com/mcpbridge/mcpbridge/internal/nonblock"
)

// A Grant is an OAuth grant type.
type Grant string

// The grants.
const (
	// AuthorizationCode requires a user with a browser.
	AuthorizationCode Grant = "authorization_code"
	// ClientCredentials needs no user: the bridge acts for itself
	// (io.modelcontextprotocol/oauth-client-credentials).
	ClientCredentials Grant = "client_credentials"
	// JWTBearer uses an assertion of another issuer (RFC 7523): a workload's identity, or an identity provider's
	// assertion for its user (io.modelcontextprotocol/enterprise-managed-authorization).
	JWTBearer Grant = "urn:ietf:params:oauth:grant-type:jwt-bearer" //nolint:gosec // a name
)

// Options configure a Transport. Only Server is required.
type Options struct {
	// Server is the URL of the MCP server. It must have TLS or be on this machine.
	Server string
	// Base sends requests to the MCP server. If nil, a new transport is used.
	Base http.RoundTripper
	// TLS is for requests to authorization servers. If nil, the roots of the system are used.
	TLS *tls.Config
	// AllowPrivate allows metadata, registrations and tokens to be fetched from private, link-local and loopback
	// addresses. Without it, only a server on this machine may have its authorization server there. The server's own
	// address is always allowed.
	AllowPrivate bool

	// Dir is the directory of the stored credentials, which processes may share: a file for each authorization server,
	// with mode 0600. If empty, credentials are kept in memory.
	Dir string

	// Grant is the grant type. If empty, AuthorizationCode is used.
	Grant Grant
	// Issuer is the authorization server at which ClientID is registered. If empty, the first that the server names is
	// used, and then kept.
	Issuer string
	// ClientID and ClientSecret identify a registered client. If ClientID is empty, ClientMetadataURL or dynamic
	// registration is used.
	ClientID, ClientSecret string
	// ClientMetadataURL is the URL of a client ID metadata document, whose redirect_uris must contain Redirect.
	ClientMetadataURL string
	// PrivateKey, in unencrypted PEM, authenticates the client in place of a secret (private_key_jwt). Algorithm and
	// KeyID are for its signatures. If Algorithm is empty, the usual one of the key's type is used.
	PrivateKey       []byte
	Algorithm, KeyID string
	// ClientName is the name for dynamic registration. If empty, "mcpbridge" is used.
	ClientName string
	// Scopes are requested in addition to those that the server requires.
	Scopes []string

	// Assertion returns the assertion of JWTBearer.
	Assertion func(context.Context, Target) (string, error)
	// IDP provides the assertion of JWTBearer, in place of Assertion.
	IDP *IDP

	// Browser opens a page for the user. It must not use a shell, because the URL comes from the server. It returns
	// when the page is open, or when ctx ends, as it does with the login. If nil, logins fail.
	Browser func(ctx context.Context, address string) error
	// Redirect is the redirect URL, on this machine, such as http://127.0.0.1:3000/callback. Port 0 means any free
	// port. If empty, the registered port or a free one is used.
	Redirect string
	// LoginTimeout limits the time that the user has for a login. If zero, 5m is used.
	LoginTimeout time.Duration

	// Log receives logins and refreshes, but no secrets.
	Log zerolog.Logger
	// Panics counts the panics of the whole process. If nil, those of this package are counted alone.
	Panics *contain.Panics
}

// A Target is the recipient of an assertion.
type Target struct {
	Issuer   string // its audience: the authorization server
	Resource string // the MCP server
}

// New returns a Transport with the given options. It does not connect.
func New(o Options) (*Transport, error) {
	t := &Transport{o: o, base: o.Base, pause: 5 * time.Second, stepUps: map[string]stepUp{}}
	invalid := func(format string, args ...any) (*Transport, error) {
		return nil, fmt.Errorf("OAuth for the server %q: %w", redactURL(o.Server), fmt.Errorf(format, args...))
	}
	var err error
	if t.server, err = url.Parse(o.Server); err != nil || t.server.Hostname() == "" {
		return invalid("must be a URL")
	}
	t.o.Grant = cmp.Or(t.o.Grant, AuthorizationCode)
	t.o.ClientName = cmp.Or(t.o.ClientName, "mcpbridge")
	t.o.LoginTimeout = cmp.Or(t.o.LoginTimeout, 5*time.Minute)
	switch {
	case t.server.User != nil || t.server.Fragment != "":
		return invalid("must be a URL without a user name and a fragment")
	case !isSecure(t.server):
		return invalid("a token must not be sent without TLS; use https://, or a server on this machine")
	case !slices.Contains([]Grant{AuthorizationCode, ClientCredentials, JWTBearer}, t.o.Grant):
		return invalid("unknown grant %q", o.Grant)
	case o.ClientID == "" && (o.ClientSecret != "" || o.PrivateKey != nil && o.ClientMetadataURL == ""):
		return invalid("a secret or private key without a client ID")
	case o.ClientSecret != "" && o.PrivateKey != nil:
		return invalid("both a client secret and a private key")
	case t.o.Grant == ClientCredentials && o.ClientSecret == "" && o.PrivateKey == nil:
		return invalid("client_credentials needs a client ID, and a secret or private key")
	case t.o.Grant == JWTBearer && (o.Assertion == nil) == (o.IDP == nil):
		return invalid("jwt-bearer needs an assertion or an identity provider, and not both")
	case t.o.Grant == JWTBearer && o.ClientID == "" && o.ClientMetadataURL == "":
		return invalid("jwt-bearer needs a client ID")
	case o.LoginTimeout < 0:
		return invalid("negative login timeout")
	case len(mergeScopes(o.Scopes)) != len(o.Scopes):
		return invalid("scopes %q: must be valid, unique, and not offline_access, which is requested automatically",
			o.Scopes)
	}
	u, err := url.Parse(o.ClientMetadataURL)
	if o.ClientMetadataURL != "" && (err != nil || u.Scheme != "https" || strings.Trim(u.Path, "/") == "") {
		return invalid("the client ID metadata document %q must be at an https:// address with a path",
			o.ClientMetadataURL)
	}
	if o.PrivateKey != nil {
		if t.key, err = parseKey(o.PrivateKey, o.Algorithm, o.KeyID); err != nil {
			return invalid("private key: %w", err)
		}
	}
	if o.Redirect != "" {
		if t.redirect, err = parseRedirect(o.Redirect); err != nil {
			return invalid("%w", err)
		}
	}
	t.egress = newEgress(&t.o, t.server)
	if o.IDP != nil {
		if err := t.useIDP(o.IDP); err != nil {
			return invalid("%w", err)
		}
	}
	if t.base == nil {
		base := http.DefaultTransport.(*http.Transport).Clone() //nolint:forcetypeassert // nothing replaces it
		base.MaxResponseHeaderBytes = 256 << 10
		base.MaxIdleConns, base.MaxIdleConnsPerHost = 0, limits.UpstreamIdleConns // one server
		base.DisableCompression = true
		base.HTTP2 = mcphttp.HTTP2Config()
		base.DialContext = nonblock.Dial(base.DialContext)
		t.base = base
	}
	t.log = o.Log.With().Str("server", redactURL(o.Server)).Logger()
	t.panics = o.Panics.With(t.log)
	if t.store, err = openStore(o.Dir, t.log); err != nil {
		return invalid("%w", err)
	}
	t.ctx, t.cancel = context.WithCancel(context.Background())
	return t, nil
}

// redactURL returns a URL without its password and query.
func redactURL(s string) string {
	u, err := url.Parse(s)
	if err != nil {
		return "(invalid URL)"
	}
	u.RawQuery = ""
	return u.Redacted()
}
