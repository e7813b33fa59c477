// Package config reads the configuration of mcpbridge from a file, the environment and flags, and validates it. Every
// problem names the flag, the variable, or the line and column of the file.
package config

import (
	"time"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/limits"
)

// Settings are all that a user can configure, merged from layers, of which later ones override earlier ones: defaults,
// the file, the environment (MCPBRIDGE_SERVE__HTTP__ADDR is serve.http.addr), and the flags.
type Settings struct {
	// Version is the version of the file's format: 1.
	Version int `koanf:"version"`
	// Name is the name of this instance in logs.
	Name string `koanf:"name"`
	// Log configures the log, which goes to stderr.
	Log Log `koanf:"log"`
	// Serve configures the addresses that clients connect to.
	Serve Serve `koanf:"serve"`
	// Limits are the limits of sizes, numbers and times.
	Limits limits.Limits `koanf:"limits"`
	// Tasks are the limits of tasks.
	Tasks limits.Tasks `koanf:"tasks"`
	// State configures what is kept when mcpbridge exits.
	State State `koanf:"state"`
	// Backends answer the calls. Several are merged.
	Backends []Backend `koanf:"backends"`
}

// State configures what is kept when mcpbridge exits.
type State struct {
	// Dir is the directory of the tasks, relative to that of the configuration file. If empty, tasks are lost.
	Dir string `koanf:"dir"`
}

// Log configures the log.
type Log struct {
	// Level is the lowest level that is logged: trace, debug, info, warn, error.
	Level string `koanf:"level"`
	// Format is auto, text or json. Auto is text on a terminal and json elsewhere.
	Format string `koanf:"format"`
}

// Serve configures the addresses that clients connect to: MCP clients over stdio or HTTP, and gRPC clients.
type Serve struct {
	// HTTP is Streamable HTTP.
	HTTP HTTP `koanf:"http"`
	// GRPC serves the contract to clients with generated stubs.
	GRPC GRPC `koanf:"grpc"`
	// Ops serves probes.
	Ops Ops `koanf:"ops"`
	// Stdio is auto, true or false. Auto is true if stdin is a pipe, a socket or a file, and neither HTTP nor gRPC has
	// an address.
	Stdio string `koanf:"stdio"`
	// PreDrain is how long new clients and calls are accepted after the first signal, while probes already report the
	// shutdown: load balancers need that long to react. By default it is defaultPreDrain if HTTP or gRPC is reachable
	// from other machines or on a socket of the service manager, and 0 otherwise, because a user who presses Ctrl-C
	// should not wait.
	PreDrain time.Duration `koanf:"preDrain"`
	// Drain is how long calls in flight may continue after that.
	Drain time.Duration `koanf:"drain"`
}

// HTTP configures MCP over HTTP.
type HTTP struct {
	// Addr is the host and port to listen on.
	Addr string `koanf:"addr"`
	// Path is the path of the MCP endpoint.
	Path string `koanf:"path"`
	// AllowedOrigins are the web origins, other than those of this machine, whose pages may send requests.
	AllowedOrigins []string `koanf:"allowedOrigins"`
	// AllowedHosts are the host names, other than those of this machine, that requests may have.
	AllowedHosts []string `koanf:"allowedHosts"`
	// PassHeaders are the request headers that are passed to backends.
	PassHeaders []string `koanf:"passHeaders"`
	// PollAfter is how long the response to a request of 2025-11-25 may stay open. Then it is closed, and the client
	// resumes it. It is for networks that close long responses. If zero, responses stay open.
	PollAfter time.Duration `koanf:"pollAfter"`
	// TLS configures TLS.
	TLS TLS `koanf:"tls"`
	// Auth configures authentication. If empty, every client that can connect may call.
	Auth Access `koanf:"auth"`
	// Insecure allows an Addr that is reachable from other machines without authentication.
	Insecure bool `koanf:"insecure"`
}

// Access configures authentication over HTTP, and over gRPC if that has a port. A caller needs a token of one of the
// Issuers, one of the Tokens, or a client certificate that the clientCA of tls has signed.
type Access struct {
	// Resource is the URL of this server, for which tokens are issued.
	Resource string `koanf:"resource"`
	// Issuers are the authorization servers whose tokens are accepted.
	Issuers []Issuer `koanf:"issuers"`
	// Tokens are static tokens.
	Tokens []Token `koanf:"tokens"`
	// Scopes are the scopes that every token must have. A certificate has none.
	Scopes []string `koanf:"scopes"`
}

// Issuer is an authorization server whose tokens are accepted.
type Issuer struct {
	// URL is the value of `iss` in its tokens.
	URL string `koanf:"url"`
	// Audiences are the accepted values of `aud` in its tokens. If empty, the resource.
	Audiences []string `koanf:"audiences"`
	// JWKS is the URL of its keys. If empty, the one in its metadata.
	JWKS string `koanf:"jwks"`
	// Introspection configures the introspection of tokens that are not JWTs (RFC 7662). At most one issuer has it.
	Introspection Introspection `koanf:"introspection"`
}

// Introspection is the introspection endpoint of an issuer, and the credentials for it.
type Introspection struct {
	URL          string `koanf:"url"`
	ClientID     string `koanf:"clientId"`
	ClientSecret string `koanf:"clientSecret"`
}

// Token is a static token.
type Token struct {
	// Token is the bearer token.
	Token string `koanf:"token"`
	// Subject identifies the caller.
	Subject string `koanf:"subject"`
	// Scopes are the scopes of the token.
	Scopes []string `koanf:"scopes"`
}

// Enabled reports whether tokens are accepted.
func (a *Access) Enabled() bool { return len(a.Issuers)+len(a.Tokens) > 0 }

// Ops configures the probes /livez, /readyz and /startupz.
type Ops struct {
	// Addr is the host and port to listen on. If empty, there are no probes.
	Addr string `koanf:"addr"`
}

// GRPC configures mcpbridge.v1 for gRPC clients.
type GRPC struct {
	// Addr is the address to listen on: unix:///path, or host:port.
	Addr string `koanf:"addr"`
	// TLS configures TLS.
	TLS TLS `koanf:"tls"`
	// Insecure allows an Addr that is reachable from other machines without TLS or authentication.
	Insecure bool `koanf:"insecure"`
}

// TLS names the PEM files of a TLS server. Relative names start at the directory of the configuration file.
type TLS struct {
	// Cert and Key are the server's certificate and its private key.
	Cert string `koanf:"cert"`
	Key  string `koanf:"key"`
	// ClientCA has the certificates that sign those of clients. If empty, clients need no certificate.
	ClientCA string `koanf:"clientCA"`
}

// Backend is a backend. Exactly one of Launch, Dial and MCP is set: see kinds.
type Backend struct {
	// Name names the backend in logs, errors and URLs.
	Name string `koanf:"name"`
	// Launch configures a plugin that mcpbridge launches.
	Launch *Launch `koanf:"launch"`
	// Dial is the address of a running plugin: unix:///path, tcp:host:port or dns:host:port.
	Dial string `koanf:"dial"`
	// TLS configures TLS for the connection to Dial. If nil, there is none, which is for addresses of this machine.
	TLS *DialTLS `koanf:"tls"`
	// Insecure allows a Dial on another machine without TLS.
	Insecure bool `koanf:"insecure"`
	// HangTimeout is how long health checks of the backend at Dial may fail before its calls fail. If zero, 60 s.
	HangTimeout time.Duration `koanf:"hangTimeout"`
	// MCP configures an MCP server.
	MCP *MCP `koanf:"mcp"`
	// SkipArguments passes arguments of tools without validation against the tools' schemas.
	SkipArguments bool `koanf:"skipArguments"`
	// SkipOutput passes results of tools without validation against the tools' schemas.
	SkipOutput bool `koanf:"skipOutput"`
	// ToolScopes are the scopes that callers of a tool need besides serve.http.auth.scopes, by the name of the tool.
	ToolScopes map[string][]string `koanf:"toolScopes"`
	// Tasks configures which calls become tasks.
	Tasks Tasks `koanf:"tasks"`
}

// Tasks configures which calls of a backend become tasks, if their clients support tasks.
type Tasks struct {
	// After and Retry are the rule of all tools, as in TaskRule.
	After string `koanf:"after"`
	Retry bool   `koanf:"retry"`
	// Tools has the rules of some tools by their names.
	Tools map[string]TaskRule `koanf:"tools"`
}

// TaskRule configures when a call becomes a task.
type TaskRule struct {
	// After is always, never, or how long a call lasts before it becomes a task. If empty, the tool decides.
	After string `koanf:"after"`
	// Retry calls a tool again, once, if its backend is lost during a task.
	Retry bool `koanf:"retry"`
}

// DialTLS names the PEM files of a TLS client. Relative names start at the directory of the configuration file.
type DialTLS struct {
	// CA has the certificates that sign that of the backend. If empty, those that the system trusts.
	CA string `koanf:"ca"`
	// Cert and Key are the client certificate of mcpbridge and its private key. If empty, it has none.
	Cert string `koanf:"cert"`
	Key  string `koanf:"key"`
	// ServerName is the name in the backend's certificate. If empty, the host of Dial.
	ServerName string `koanf:"serverName"`
}

// Launch is the program of a backend.
type Launch struct {
	// Command is the program and its arguments. No shell is involved.
	Command []string `koanf:"command"`
	// Dir is its working directory, relative to that of the configuration file.
	Dir string `koanf:"dir"`
	// Env is added to its environment.
	Env map[string]string `koanf:"env"`
	// PassEnv names variables of mcpbridge's own environment that are passed on. Others are not, except for a few such
	// as PATH.
	PassEnv []string `koanf:"passEnv"`
	// StartTimeout is how long it may take to start. If zero, 30 s.
	StartTimeout time.Duration `koanf:"startTimeout"`
	// HangTimeout is how long its health checks may fail before it is restarted. If zero, 60 s.
	HangTimeout time.Duration `koanf:"hangTimeout"`
	// Limits are its resource limits, child processes included.
	Limits limits.Machine `koanf:"limits"`
}

// MCP is an MCP server: a command that serves MCP on stdin and stdout, or a URL.
type MCP struct {
	// Command, Dir, Env, PassEnv, StartTimeout and Limits are as those of a Launch.
	Command      []string          `koanf:"command"`
	Dir          string            `koanf:"dir"`
	Env          map[string]string `koanf:"env"`
	PassEnv      []string          `koanf:"passEnv"`
	StartTimeout time.Duration     `koanf:"startTimeout"`
	Limits       limits.Machine    `koanf:"limits"`
	// Revision is the revision of MCP for the connection, or auto, legacy or modern. If empty, auto: each client is
	// served in its own era if the server supports both.
	Revision string `koanf:"revision"`
	// ProbeTimeout is how long the response to server/discover may take before initialize is sent as well. If zero,
	// half of StartTimeout.
	ProbeTimeout time.Duration `koanf:"probeTimeout"`
	// HangTimeout is how long a command may send nothing, not even the response to a ping, while calls are in flight,
	// before it is restarted. If zero, 60 s.
	HangTimeout time.Duration `koanf:"hangTimeout"`
	// Sessions limits the connections to a legacy server for callers with capabilities.
	Sessions limits.Pool `koanf:"sessions"`
	// URL is the MCP endpoint of a server over HTTP.
	URL string `koanf:"url"`
	// Headers are added to every request.
	Headers map[string]string `koanf:"headers"`
	// Auth configures the authentication of mcpbridge.
	Auth *Auth `koanf:"auth"`
}

// Launch returns the program of a server that is a command.
func (m *MCP) Launch() *Launch {
	return &Launch{
		Command: m.Command, Dir: m.Dir, Env: m.Env, PassEnv: m.PassEnv,
		StartTimeout: m.StartTimeout, HangTimeout: m.HangTimeout, Limits: m.Limits,
	}
}

// ParseRevision returns the revision for the connection, NoRevision for auto, and whether the setting is valid.
func (m *MCP) ParseRevision() (bridge.Revision, bool) {
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

// revisionNames returns the valid values of the key revision.
func revisionNames() []string {
	names := []string{"auto", "legacy", "modern"}
	for _, rev := range bridge.Revisions() {
		names = append(names, rev.String())
	}
	return names
}

// Auth configures the authentication of mcpbridge to an MCP server. Exactly one field is set.
type Auth struct {
	// Bearer is a bearer token.
	Bearer string `koanf:"bearer"`
	// OAuth requests tokens from the server's authorization server.
	OAuth *OAuth `koanf:"oauth"`
}

// OAuth configures OAuth. With the zero value, the user logs in with a browser.
type OAuth struct {
	// Grant is authorization_code, for which the user logs in, or client_credentials.
	Grant string `koanf:"grant"`
	// Issuer is the authorization server at which the client is registered. If empty, the first one that the server
	// declares, which is only allowed without ClientSecret and PrivateKey.
	Issuer string `koanf:"issuer"`
	// ClientID identifies the client. If empty, mcpbridge registers itself.
	ClientID string `koanf:"clientId"`
	// ClientSecret or PrivateKey, a PEM file, authenticates the client.
	ClientSecret string `koanf:"clientSecret"`
	PrivateKey   string `koanf:"privateKey"`
	// ClientMetadataURL is the URL of a client ID metadata document, which replaces ClientID.
	ClientMetadataURL string `koanf:"clientMetadataUrl"`
	// Scopes are requested besides those that the server requires.
	Scopes []string `koanf:"scopes"`
	// Redirect is the redirect URL, an address of this machine. If empty, any free port.
	Redirect string `koanf:"redirect"`
	// AllowPrivate allows an authorization server with a private address.
	AllowPrivate bool `koanf:"allowPrivate"`
	// Credentials is the directory in which tokens are stored. If empty, mcpbridge/credentials in the user's
	// configuration directory.
	Credentials string `koanf:"credentials"`
}
