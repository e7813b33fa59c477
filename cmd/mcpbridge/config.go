package main

import (
	"time"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/limits"
)

// A Config is everything that can be configured. It is made of layers: what defaults says, the file, the environment
// (MCPBRIDGE_SERVE__HTTP__ADDR is serve.http.addr), the flags; later ones win.
type Config struct {
	// Version is the version of the file's format: 1.
	Version int `koanf:"version"`
	// Name names what is served, in logs.
	Name string `koanf:"name"`
	// Log is how mcpbridge logs to stderr.
	Log LogConfig `koanf:"log"`
	// Serve is how clients reach mcpbridge.
	Serve ServeConfig `koanf:"serve"`
	// Limits are how much there may be of what.
	Limits limits.Limits `koanf:"limits"`
	// Backends is what answers them: one, or several that are merged.
	Backends []BackendConfig `koanf:"backends"`
}

// A LogConfig is how mcpbridge logs.
type LogConfig struct {
	// Level is the lowest level that is logged: trace, debug, info, warn, error.
	Level string `koanf:"level"`
	// Format is auto, text or json. Auto is text on a terminal and json elsewhere.
	Format string `koanf:"format"`
}

// A ServeConfig is how clients reach mcpbridge: MCP clients over stdio or HTTP, and gRPC clients.
type ServeConfig struct {
	// HTTP is Streamable HTTP.
	HTTP HTTPConfig `koanf:"http"`
	// GRPC is the contract, for clients that have generated stubs.
	GRPC GRPCConfig `koanf:"grpc"`
	// Ops is for whoever operates mcpbridge.
	Ops OpsConfig `koanf:"ops"`
	// Stdio is auto, true or false. Auto is true if stdin is a pipe, a socket or a file, and neither HTTP nor gRPC has an
	// address.
	Stdio string `koanf:"stdio"`
	// PreDrain is how long new clients and calls are taken after the first signal, while probes are told that this is the end:
	// whoever sends clients needs that long to hear of it. If nothing says it, it is defaultPreDrain where other machines reach
	// HTTP or gRPC, and 0 elsewhere: nobody sends clients to this machine only, and who presses Ctrl-C does not want to wait.
	PreDrain time.Duration `koanf:"preDrain"`
	// Drain is how long calls may go on after that.
	Drain time.Duration `koanf:"drain"`
}

// An HTTPConfig is how MCP is served over HTTP.
type HTTPConfig struct {
	// Addr is the host and port to listen on.
	Addr string `koanf:"addr"`
	// Path is the path of the MCP endpoint.
	Path string `koanf:"path"`
	// AllowedOrigins are the web origins, other than those of this machine, whose pages may call.
	AllowedOrigins []string `koanf:"allowedOrigins"`
	// AllowedHosts are the names, other than those of this machine, under which clients may reach it.
	AllowedHosts []string `koanf:"allowedHosts"`
	// PassHeaders are the headers of requests that backends are told.
	PassHeaders []string `koanf:"passHeaders"`
	// PollAfter is how long the response to a request of 2025-11-25 may stay open; then it is cut, and the client comes back
	// for the rest. It is for networks that cut responses that last. 0: for ever.
	PollAfter time.Duration `koanf:"pollAfter"`
	// TLS is how the connection is protected.
	TLS TLSConfig `koanf:"tls"`
	// Auth is who may call. Empty: everybody who can reach Addr.
	Auth AccessConfig `koanf:"auth"`
	// Insecure says that Addr may be one that other machines reach, although nothing checks who calls.
	Insecure bool `koanf:"insecure"`
}

// An AccessConfig is who may call over HTTP, and over gRPC where that has a port: whoever has a token of one of the Issuers, one of the
// Tokens, or a certificate of the clientCA of its tls.
type AccessConfig struct {
	// Resource is the URL by which clients know this server: tokens are made for it.
	Resource string `koanf:"resource"`
	// Issuers are whose tokens are good.
	Issuers []IssuerConfig `koanf:"issuers"`
	// Tokens are good by themselves.
	Tokens []TokenConfig `koanf:"tokens"`
	// Scopes are what every caller must have. A certificate has none.
	Scopes []string `koanf:"scopes"`
}

// An IssuerConfig is an authorization server whose tokens are good.
type IssuerConfig struct {
	// URL is what its tokens say in `iss`.
	URL string `koanf:"url"`
	// Audiences are what its tokens may say in `aud`. Empty: the resource.
	Audiences []string `koanf:"audiences"`
	// JWKS is where its keys are. Empty: where its metadata says.
	JWKS string `koanf:"jwks"`
	// Introspection is where it is asked about tokens that are no JWT (RFC 7662), and by whom. Empty: it has none. One issuer at most
	// has it.
	Introspection IntrospectionConfig `koanf:"introspection"`
}

// An IntrospectionConfig is how an issuer is asked about tokens.
type IntrospectionConfig struct {
	URL          string `koanf:"url"`
	ClientID     string `koanf:"clientId"`
	ClientSecret string `koanf:"clientSecret"`
}

// A TokenConfig is a token that is good by itself.
type TokenConfig struct {
	// Token is what the caller presents.
	Token string `koanf:"token"`
	// Subject is who that is.
	Subject string `koanf:"subject"`
	// Scopes are what it may do.
	Scopes []string `koanf:"scopes"`
}

// on reports whether anything says who may call.
func (a *AccessConfig) on() bool { return len(a.Issuers)+len(a.Tokens) > 0 }

// An OpsConfig is where probes find out how mcpbridge is: /livez, /readyz and /startupz.
type OpsConfig struct {
	// Addr is the host and port to listen on. Empty: nowhere.
	Addr string `koanf:"addr"`
}

// A GRPCConfig is how mcpbridge.v1 is served.
type GRPCConfig struct {
	// Addr is where: unix:///path, or host:port.
	Addr string `koanf:"addr"`
	// TLS is how the connection is protected.
	TLS TLSConfig `koanf:"tls"`
	// Insecure says that Addr may be one that other machines reach although there is no TLS, or nothing checks who calls.
	Insecure bool `koanf:"insecure"`
}

// A TLSConfig names the files of a server that speaks TLS, all of them PEM. Relative ones are beside the configuration file.
type TLSConfig struct {
	// Cert and Key are the server's certificate and its private key.
	Cert string `koanf:"cert"`
	Key  string `koanf:"key"`
	// ClientCA is who vouches for clients. Empty: they need no certificate.
	ClientCA string `koanf:"clientCA"`
}

// A BackendConfig is something that answers calls. Exactly one of Launch, Dial and MCP says what: see kinds.
type BackendConfig struct {
	// Name names the backend in logs, errors and URLs.
	Name string `koanf:"name"`
	// Launch is how to start it, if it is a plugin that mcpbridge is to start.
	Launch *LaunchConfig `koanf:"launch"`
	// Dial is where it runs already: unix:///path, tcp:host:port or dns:host:port.
	Dial string `koanf:"dial"`
	// TLS is how the connection to Dial is protected. Nil: it is not, which is for addresses of this machine.
	TLS *DialTLSConfig `koanf:"tls"`
	// Insecure says that Dial may be on another machine although there is no TLS.
	Insecure bool `koanf:"insecure"`
	// HangTimeout is how long the backend at Dial may leave a health check unanswered before its calls are given up. 0: 60 s.
	HangTimeout time.Duration `koanf:"hangTimeout"`
	// MCP is an MCP server.
	MCP *MCPConfig `koanf:"mcp"`
	// SkipArguments says that arguments of tools reach the backend without being checked against the tools' schemas.
	SkipArguments bool `koanf:"skipArguments"`
	// SkipOutput says that what tools return reaches the client without being checked against the tools' schemas.
	SkipOutput bool `koanf:"skipOutput"`
	// ToolScopes are what a verified caller of a tool must have besides serve.http.auth.scopes, by the tool's name.
	ToolScopes map[string][]string `koanf:"toolScopes"`
}

// A DialTLSConfig names the files of a client that speaks TLS, all of them PEM. Relative ones are beside the configuration file.
type DialTLSConfig struct {
	// CA is who vouches for the backend. Empty: whom the system trusts.
	CA string `koanf:"ca"`
	// Cert and Key are mcpbridge's own certificate and its private key. Empty: it has none.
	Cert string `koanf:"cert"`
	Key  string `koanf:"key"`
	// ServerName is the name in the backend's certificate. Empty: the host of Dial.
	ServerName string `koanf:"serverName"`
}

// A LaunchConfig is how to start a backend.
type LaunchConfig struct {
	// Command is the program and its arguments. No shell is involved.
	Command []string `koanf:"command"`
	// Dir is the directory it runs in: relative to the file that says so.
	Dir string `koanf:"dir"`
	// Env is what is added to its environment.
	Env map[string]string `koanf:"env"`
	// PassEnv names variables of mcpbridge's own environment that it gets. Otherwise it gets only harmless ones.
	PassEnv []string `koanf:"passEnv"`
	// StartTimeout is how long it may take to start. 0: 30 s.
	StartTimeout time.Duration `koanf:"startTimeout"`
	// HangTimeout is how long it may leave a health check unanswered before it is killed and started again. 0: 60 s.
	HangTimeout time.Duration `koanf:"hangTimeout"`
	// Limits are how much of the machine it may take, with all that it starts.
	Limits limits.Machine `koanf:"limits"`
}

// An MCPConfig is an MCP server: a command that speaks MCP on stdin and stdout, or a URL.
type MCPConfig struct {
	// Command, Dir, Env, PassEnv, StartTimeout and Limits are as those of a LaunchConfig.
	Command      []string          `koanf:"command"`
	Dir          string            `koanf:"dir"`
	Env          map[string]string `koanf:"env"`
	PassEnv      []string          `koanf:"passEnv"`
	StartTimeout time.Duration     `koanf:"startTimeout"`
	Limits       limits.Machine    `koanf:"limits"`
	// Revision is the revision of MCP to speak to it, or auto, legacy or modern. Empty: auto, which serves each client in its own era if
	// the server offers both.
	Revision string `koanf:"revision"`
	// ProbeTimeout is how long it may take to answer server/discover before initialize is sent as well. If zero, half of StartTimeout.
	ProbeTimeout time.Duration `koanf:"probeTimeout"`
	// HangTimeout is how long a command may print nothing and answer no ping while calls wait, until it is started again. 0: 60 s.
	HangTimeout time.Duration `koanf:"hangTimeout"`
	// Sessions are those of a legacy server that callers with capabilities have.
	Sessions limits.Pool `koanf:"sessions"`
	// URL is the MCP endpoint of a server that speaks HTTP.
	URL string `koanf:"url"`
	// Headers are sent to it with every request.
	Headers map[string]string `koanf:"headers"`
	// Auth is how mcpbridge says to it who calls.
	Auth *AuthConfig `koanf:"auth"`
}

// launch returns how to start the server, if that is what is to be done.
func (m *MCPConfig) launch() *LaunchConfig {
	return &LaunchConfig{
		Command: m.Command, Dir: m.Dir, Env: m.Env, PassEnv: m.PassEnv, StartTimeout: m.StartTimeout, HangTimeout: m.HangTimeout, Limits: m.Limits,
	}
}

// revision returns the revision to speak, which is none if both eras are to be tried, and whether there is such a revision.
func (m *MCPConfig) revision() (bridge.Revision, bool) {
	switch m.Revision {
	case "", "auto":
		return bridge.NoRevision, true
	case "legacy":
		return bridge.LatestLegacy, true
	case "modern":
		revisions := bridge.Revisions()
		return revisions[len(revisions)-1], true
	}
	return bridge.ParseRevision(m.Revision)
}

// revisionNames returns what the key revision may be.
func revisionNames() []string {
	names := []string{"auto", "legacy", "modern"}
	for _, rev := range bridge.Revisions() {
		names = append(names, rev.String())
	}
	return names
}

// An AuthConfig is how mcpbridge says to an MCP server who calls. Exactly one field is set.
type AuthConfig struct {
	// Bearer is a token.
	Bearer string `koanf:"bearer"`
	// OAuth gets tokens from the server's authorization server.
	OAuth *OAuthConfig `koanf:"oauth"`
}

// An OAuthConfig is how to get tokens. The zero value asks the user, in a browser.
type OAuthConfig struct {
	// Grant is authorization_code, which asks the user, or client_credentials, by which mcpbridge calls in its own name.
	Grant string `koanf:"grant"`
	// Issuer is the authorization server that the client is registered at. Empty: the first that the server names, which is only allowed
	// without ClientSecret and PrivateKey.
	Issuer string `koanf:"issuer"`
	// ClientID is how the authorization server knows mcpbridge. Empty: mcpbridge introduces itself.
	ClientID string `koanf:"clientId"`
	// ClientSecret or PrivateKey, a PEM file, is what proves it.
	ClientSecret string `koanf:"clientSecret"`
	PrivateKey   string `koanf:"privateKey"`
	// ClientMetadataURL is where a client ID metadata document is, instead of a ClientID.
	ClientMetadataURL string `koanf:"clientMetadataUrl"`
	// Scopes are asked for besides what the server asks for.
	Scopes []string `koanf:"scopes"`
	// Redirect is where the browser returns to, an address of this machine. Empty: any port.
	Redirect string `koanf:"redirect"`
	// AllowPrivate lets the authorization server have a private address.
	AllowPrivate bool `koanf:"allowPrivate"`
	// Credentials is the directory that tokens are kept in. Empty: mcpbridge/credentials in the user's directory for
	// configuration.
	Credentials string `koanf:"credentials"`
}
