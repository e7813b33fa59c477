package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/url"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/knadh/koanf/providers/confmap"
	"github.com/knadh/koanf/providers/env/v2"
	"github.com/knadh/koanf/v2"
	"github.com/rs/zerolog"
	"golang.org/x/net/http/httpguts"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/limits"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// defaultFile is the configuration file that is read when nothing says what to serve.
const defaultFile = "mcpbridge.yaml"

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

func defaults() map[string]any {
	return map[string]any{
		"version":         1,
		"log.level":       "info",
		"log.format":      "auto",
		"serve.stdio":     "auto",
		"serve.drain":     30 * time.Second,
		"serve.http.path": "/mcp",
	}
}

// defaultPreDrain is how long a cluster usually needs to take an address off its balancers.
const defaultPreDrain = 2 * time.Second

// defaultAddr is what HTTP listens on if stdio is not served and nothing says an address.
const defaultAddr = "127.0.0.1:8080"

// A loaded is a Config and where it comes from.
type loaded struct {
	Config
	file    *file
	environ []string
	flags   map[string]string // flags by the key they set
	secrets secrets
	// auto says that what is launched may be an MCP server: see auto.
	auto bool
	// defaulted says that serve.http.addr is defaultAddr because nothing else is served.
	defaulted bool
	// login shows a page to the user, who logs in until ctx ends. Nil: there is nobody.
	login func(ctx context.Context, address string) error
	// reachTimeout and loginTimeout are as those of a Program.
	reachTimeout, loginTimeout time.Duration
	// clientInfo is how mcpbridge introduces itself to MCP servers.
	clientInfo *pb.Implementation
}

// load puts the layers together. The name of the file may be empty; flags are values by key.
func load(fileName string, environ []string, flags map[string]any, flagNames map[string]string) (*loaded, error) {
	k := koanf.New(".")
	l := &loaded{environ: environ, flags: flagNames, secrets: secrets{}}
	layers := []koanf.Provider{confmap.Provider(defaults(), ".")}
	var inFile error
	if fileName != "" {
		var f *file
		if f, inFile = readFile(fileName, environ); inFile == nil {
			l.file, l.secrets = f, f.secrets
			layers = append(layers, confmap.Provider(f.values, ""))
		}
	}
	for _, layer := range layers {
		if err := k.Load(layer, nil); err != nil {
			return nil, fmt.Errorf("put the configuration together: %w", err)
		}
	}
	if err := allOf(inFile, loadEnviron(k, environ)); err != nil {
		return nil, err
	}
	if err := k.Load(confmap.Provider(flags, "."), nil); err != nil {
		return nil, fmt.Errorf("put the flags into the configuration: %w", err)
	}
	if err := k.Unmarshal("", &l.Config); err != nil {
		return nil, fmt.Errorf("read the configuration: %w", err)
	}
	if !k.Exists("serve.preDrain") && l.Serve.isRemote() {
		l.Serve.PreDrain = defaultPreDrain
	}
	if l.file != nil {
		l.resolve(filepath.Dir(fileName))
	}
	return l, nil
}

// resolve makes the names of files and directories that the file says relative to the directory it is in.
func (l *loaded) resolve(dir string) {
	names := []*string{} // an empty one is the directory itself
	var files []*string
	for _, t := range []*TLSConfig{&l.Serve.GRPC.TLS, &l.Serve.HTTP.TLS} {
		files = append(files, &t.Cert, &t.Key, &t.ClientCA)
	}
	for _, b := range l.Backends {
		if b.TLS != nil {
			files = append(files, &b.TLS.CA, &b.TLS.Cert, &b.TLS.Key)
		}
		if b.Launch != nil {
			names = append(names, &b.Launch.Dir)
		}
		if b.MCP != nil && len(b.MCP.Command) > 0 {
			names = append(names, &b.MCP.Dir)
		}
		if b.MCP != nil && b.MCP.Auth != nil && b.MCP.Auth.OAuth != nil {
			files = append(files, &b.MCP.Auth.OAuth.PrivateKey, &b.MCP.Auth.OAuth.Credentials)
		}
	}
	for _, name := range files {
		if *name != "" {
			names = append(names, name)
		}
	}
	for _, name := range names {
		if !filepath.IsAbs(*name) {
			*name = filepath.Join(dir, *name)
		}
	}
}

const envPrefix = "MCPBRIDGE_"

// environKeys returns the keys that the environment can set, by variable, and their types. Lists of mappings are not among
// them, nor is the version: images have variables of such a name.
func environKeys() map[string]key {
	byVariable := map[string]key{}
	for _, k := range keysOf(reflect.TypeFor[Config](), "") {
		if k.path == "version" || k.kind() == "a list" {
			continue
		}
		byVariable[envPrefix+strings.ToUpper(strings.ReplaceAll(k.path, ".", "__"))] = k
	}
	return byVariable
}

// loadEnviron adds the layer of the environment. A variable that is not known is refused if it has two underscores in a
// row, as only ours have: Kubernetes adds others, like MCPBRIDGE_PORT, when a service is named mcpbridge.
func loadEnviron(k *koanf.Koanf, environ []string) error {
	known := environKeys()
	var problems []error
	provider := env.Provider(".", env.Opt{
		Prefix:      envPrefix,
		EnvironFunc: func() []string { return environ },
		TransformFunc: func(name, text string) (string, any) {
			key, ok := known[name]
			if text == "" {
				return "", nil // as if it were not set
			}
			if !ok {
				if strings.Contains(strings.TrimPrefix(name, envPrefix), "__") {
					names := slices.Sorted(maps.Keys(known))
					problems = append(problems, misconfigured("environment variable "+name, didYouMean(name, names),
						"there is no setting %s", name))
				}
				return "", nil
			}
			v, err := key.parse(text)
			if err != nil {
				problems = append(problems, misconfigured("environment variable "+name, "write "+key.example(),
					"%s=%q is not %s", name, text, key.kind()))
			}
			return key.path, v
		},
	})
	if err := k.Load(provider, nil); err != nil {
		return fmt.Errorf("read the environment: %w", err)
	}
	return allOf(problems...)
}

// settle decides what the settings of serve leave open: whether stdio is served, and where HTTP is if nothing else is.
func (l *loaded) settle(stdin io.Reader) {
	s := &l.Serve
	none := s.HTTP.Addr == "" && s.GRPC.Addr == ""
	if s.Stdio == "auto" {
		s.Stdio = strconv.FormatBool(none && isClientInput(stdin))
	}
	if none && s.Stdio == "false" {
		s.HTTP.Addr, l.defaulted = defaultAddr, true
	}
}

// validate refuses what cannot work, and says which setting it is.
func (l *loaded) validate() error {
	return allOf(l.validateCalling(), l.validateServe())
}

// validateCalling is validate for who only calls the backends, and serves nobody.
func (l *loaded) validateCalling() error {
	if l.Version != 1 {
		return misconfigured(l.where("version"), "write `version: 1`, or install a newer mcpbridge",
			"version %d of the configuration is not known", l.Version)
	}
	var wrong []error
	if _, err := zerolog.ParseLevel(strings.ToLower(l.Log.Level)); err != nil || l.Log.Level == "" {
		levels := []string{"trace", "debug", "info", "warn", "error"}
		wrong = append(wrong, misconfigured(l.where("log.level"), didYouMean(l.Log.Level, levels), "there is no log level %q", l.Log.Level))
	}
	if !slices.Contains(logFormats, l.Log.Format) {
		wrong = append(wrong, misconfigured(l.where("log.format"), didYouMean(l.Log.Format, logFormats), "there is no log format %q", l.Log.Format))
	}
	wrong = append(wrong, validateLimits(l, "limits", l.Limits), l.validateBackends())
	return allOf(wrong...)
}

// validateLimits rejects limits at a key that are out of bounds.
func validateLimits[T limits.Any](l *loaded, at string, values T) error {
	var wrong []error
	for _, v := range limits.Check(values) {
		key := at + "." + v.Key
		wrong = append(wrong, misconfigured(l.where(key), v.Fix, "%s %s", key, v.What))
	}
	return allOf(wrong...)
}

func (l *loaded) validateServe() error {
	s := l.Serve
	var wrong []error
	refuse := func(key, fix, format string, args ...any) {
		wrong = append(wrong, misconfigured(l.where(key), fix, format, args...))
	}
	if !slices.Contains([]string{"auto", "true", "false"}, s.Stdio) {
		refuse("serve.stdio", "write true, false or auto", "serve.stdio cannot be %q", s.Stdio)
	}
	if s.Stdio == "true" && s.HTTP.Addr != "" {
		refuse("serve.http.addr", "keep one of the two, or run mcpbridge twice", "stdio and HTTP cannot both be served by one process yet")
	}
	if s.PreDrain < 0 {
		refuse("serve.preDrain", "write a time such as 5s, or 0s for none", "serve.preDrain cannot be %s", s.PreDrain)
	}
	if s.Drain < 0 {
		refuse("serve.drain", "write a time such as 30s", "serve.drain cannot be %s", s.Drain)
	}
	if s.HTTP.PollAfter < 0 {
		refuse("serve.http.pollAfter", "write a time such as 30s, or 0s for never", "serve.http.pollAfter cannot be %s", s.HTTP.PollAfter)
	}
	if p := s.HTTP.Path; !strings.HasPrefix(p, "/") || path.Clean(p) != p || strings.ContainsAny(p, "{}?# \t") {
		refuse("serve.http.path", "write a path such as /mcp", "%q is not a path for the MCP endpoint", p)
	}
	for _, o := range s.HTTP.AllowedOrigins {
		scheme, host, ok := strings.Cut(o, "://")
		if o != "*" && (!ok || scheme == "" || host == "" || strings.Contains(host, "/")) {
			refuse("serve.http.allowedOrigins", "write a scheme and a host, such as https://app.example.com", "%q is not a web origin", o)
		}
	}
	for _, name := range s.HTTP.PassHeaders {
		switch {
		case slices.Contains([]string{"authorization", "proxy-authorization"}, strings.ToLower(name)):
			refuse("serve.http.passHeaders", "leave it out, and say in serve.http.auth whose tokens are good; backends are told\n"+
				"who calls, as `principal`", "%s is for mcpbridge alone: what somebody may do with it, a backend could", name)
		case !httpguts.ValidHeaderFieldName(name):
			refuse("serve.http.passHeaders", "write a name such as X-Team", "%q is not the name of a header", name)
		}
	}
	if s.HTTP.Addr != "" {
		wrong = append(wrong, l.validateAddr())
	}
	wrong = append(wrong, l.validateAccess())
	if s.Ops.Addr != "" {
		_, _, err := l.splitAddr("serve.ops.addr", s.Ops.Addr)
		wrong = append(wrong, err)
	}
	return allOf(append(wrong, l.validateGRPC())...)
}

// validateAccess refuses settings of TLS and of who may call that do not fit together.
func (l *loaded) validateAccess() error {
	h := &l.Serve.HTTP
	if err := l.validateTLS("serve.http.tls", h.TLS); err != nil {
		return err
	}
	for i, b := range l.Backends {
		if addr := l.Serve.unchecked(); len(b.ToolScopes) > 0 && addr != "" {
			return misconfigured(l.where(fmt.Sprintf("backends.%d.toolScopes", i)), "say who may call in serve.http.auth, or leave the scopes out",
				"tools need scopes, and nothing says whose scopes those are: nobody is asked who calls at %s", addr)
		}
	}
	if !h.checksCallers() {
		if h.Auth.Resource != "" || len(h.Auth.Scopes) > 0 {
			return misconfigured(l.where("serve.http.auth"), "add issuers or tokens", "serve.http.auth lets nobody in")
		}
		return nil
	}
	_, err := l.newAuth(zerolog.Nop())
	return err
}

// checksCallers reports whether something checks who calls over HTTP.
func (h *HTTPConfig) checksCallers() bool { return h.Auth.on() || h.TLS.ClientCA != "" }

// unchecked returns an address with a port at which nothing checks who calls, or "".
func (s *ServeConfig) unchecked() string {
	if s.HTTP.Addr != "" && !s.HTTP.checksCallers() {
		return s.HTTP.Addr
	}
	if network, addr := grpcNetwork(s.GRPC.Addr); network == "tcp" && s.GRPC.TLS.ClientCA == "" && !s.HTTP.Auth.on() {
		return addr
	}
	return ""
}

func (l *loaded) validateTLS(path string, t TLSConfig) error {
	if (t.Cert == "") != (t.Key == "") || t.ClientCA != "" && t.Cert == "" {
		return misconfigured(l.where(path), "write `tls: {cert: server.pem, key: server.key}`", "TLS needs both a certificate and its key")
	}
	return nil
}

// validateGRPC refuses what gRPC cannot be served by, and addresses that other machines reach without TLS or without anything
// that checks who calls, unless the user has said that this is meant.
func (l *loaded) validateGRPC() error {
	g := l.Serve.GRPC
	if g.Addr == "" {
		if g.TLS != (TLSConfig{}) || g.Insecure {
			return misconfigured(l.where("serve.grpc"), "write `addr: unix:///path/to.sock` or `addr: 127.0.0.1:50051`", "serve.grpc has no addr")
		}
		return nil
	}
	if err := l.validateTLS("serve.grpc.tls", g.TLS); err != nil {
		return err
	}
	network, addr := grpcNetwork(g.Addr)
	if network == "unix" {
		if addr == "" {
			return misconfigured(l.where("serve.grpc.addr"), "write unix:///path/to.sock", "%q names no socket", g.Addr)
		}
		return nil
	}
	host, port, err := l.splitAddr("serve.grpc.addr", addr)
	if err != nil || g.Insecure || isLoopback(host) || g.TLS.Cert != "" && (g.TLS.ClientCA != "" || l.Serve.HTTP.Auth.on()) {
		return err
	}
	return &problem{
		Exit: exitConfig, Code: "not_loopback",
		What:  g.Addr + " can be reached from other machines, and nothing protects the connection, or checks who calls",
		Where: l.where("serve.grpc.addr"),
		Why:   "whoever reaches this address can call every tool of the backends",
		Fix: "listen on a unix: socket or on 127.0.0.1:" + port + "; or write `tls: {cert: ..., key: ..., clientCA: ...}`,\n" +
			"without clientCA if serve.http.auth says who may call; or write `insecure: true` if the network is trusted (inside a\n" +
			"pod, behind a mesh)",
	}
}

// grpcNetwork returns how net.Listen has an address of gRPC.
func grpcNetwork(addr string) (network, address string) {
	if path, ok := strings.CutPrefix(addr, "unix:"); ok {
		return "unix", strings.TrimPrefix(path, "//")
	}
	return "tcp", strings.TrimPrefix(strings.TrimPrefix(addr, "tcp:"), "//")
}

// splitAddr returns host and port of an address to listen on.
func (l *loaded) splitAddr(path, addr string) (host, port string, err error) {
	host, port, err = net.SplitHostPort(addr)
	if n, numErr := strconv.ParseUint(port, 10, 16); err != nil || numErr != nil && port != "http" || n > 65535 {
		fix := "write host:port, such as " + defaultAddr
		if _, err := strconv.ParseUint(addr, 10, 16); err == nil {
			fix = "write 127.0.0.1:" + addr
		}
		return "", "", misconfigured(l.where(path), fix, "%q is not an address to listen on", addr)
	}
	return host, port, nil
}

// validateAddr refuses addresses that cannot be listened on, and those that other machines reach unless the user has said
// that this is meant.
func (l *loaded) validateAddr() error {
	addr := l.Serve.HTTP.Addr
	host, port, err := l.splitAddr("serve.http.addr", addr)
	if err != nil || l.Serve.HTTP.Insecure || l.Serve.HTTP.checksCallers() || isLoopback(host) {
		return err
	}
	return &problem{
		Exit: exitConfig, Code: "not_loopback",
		What:  fmt.Sprintf("%s can be reached from other machines, and nothing checks who calls", addr),
		Where: l.where("serve.http.addr"),
		Why:   "whoever reaches this address can call every tool of the backend",
		Fix: "say who may call in serve.http.auth; or listen on 127.0.0.1:" + port + "; or say --insecure if the network is\n" +
			"trusted (inside a pod, behind a mesh); --allow-host then names the hosts that clients use",
	}
}

// isRemote reports whether other machines reach clients' addresses.
func (s *ServeConfig) isRemote() bool {
	addrs := []string{s.HTTP.Addr}
	if network, addr := grpcNetwork(s.GRPC.Addr); network == "tcp" {
		addrs = append(addrs, addr)
	}
	return slices.ContainsFunc(addrs, func(addr string) bool {
		host, _, err := net.SplitHostPort(addr)
		return err == nil && !isLoopback(host)
	})
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func (l *loaded) validateBackends() error {
	if len(l.Backends) == 0 {
		return misconfigured(l.where("backends"), "say -- python3 tools.py, unix:///path/to.sock or https://host/mcp at the end of the line,"+
			"\nor name a backend in mcpbridge.yaml", "no backend is given")
	}
	first := map[string]int{}
	var wrong []error
	for i := range l.Backends {
		b := &l.Backends[i]
		at := "backends." + strconv.Itoa(i)
		if b.Name == "" && len(l.Backends) == 1 {
			b.Name = "backend"
		}
		if !isBackendName(b.Name) {
			wrong = append(wrong, misconfigured(l.where(at+".name"), "write a name of at most 32 letters, digits, _ and -",
				"%q cannot be the name of a backend", b.Name))
		}
		if other, ok := first[b.Name]; ok {
			wrong = append(wrong, misconfigured(l.where(at+".name"), "give each its own name", "two backends are named %q; the other one is %s", b.Name,
				cmp.Or(l.where("backends."+strconv.Itoa(other)+".name"), "before it")))
		}
		first[b.Name] = i
		wrong = append(wrong, l.validateBackend(b, at))
	}
	return allOf(wrong...)
}

// validateBackend refuses a backend that is of no kind or of several, and what its kind does not allow.
func (l *loaded) validateBackend(b *BackendConfig, at string) error {
	var given []string
	for i := range kinds {
		if kinds[i].given(b) {
			given = append(given, kinds[i].key)
		}
	}
	switch len(given) {
	case 0:
		return misconfigured(l.where(at), "write `launch: {command: [python3, tools.py]}`, `dial: unix:///path/to.sock`, `mcp: {command: [npx, server]}`\n"+
			"or `mcp: {url: https://example.com/mcp}`", "backend %q does not say what it is", b.Name)
	case 1:
		if b.Dial == "" && b.HangTimeout != 0 {
			return misconfigured(l.where(at+".hangTimeout"), "write it below launch or mcp", "backend %q is not dialled; a hangTimeout beside its kind is for dial", b.Name)
		}
		if b.Dial == "" && (b.TLS != nil || b.Insecure) {
			return misconfigured(l.where(at), "leave them out", "backend %q is not dialled; tls and insecure are for dial", b.Name)
		}
		return b.kind().check(l, b, at)
	}
	return misconfigured(l.where(at), "keep one of them", "backend %q has both %s", b.Name, strings.Join(given, " and "))
}

// validateDialled refuses addresses that no backend can have, TLS that cannot be spoken, and addresses of other machines without it,
// unless the user has said that this is meant.
func (l *loaded) validateDialled(b *BackendConfig, at string) error {
	place := l.where(at + ".dial")
	if err := allOf(validateDial(b.Dial, place), validateLimits(l, at, limits.Timeouts{Hang: b.HangTimeout})); err != nil {
		return err
	}
	switch {
	case b.TLS != nil && b.Insecure:
		return misconfigured(l.where(at+".insecure"), "keep one of the two", "backend %q says both tls and insecure", b.Name)
	case b.TLS != nil && (b.TLS.Cert == "") != (b.TLS.Key == ""):
		return misconfigured(l.where(at+".tls"), "write `tls: {ca: ca.pem, cert: client.pem, key: client.key}`, or neither cert nor key",
			"TLS needs both a certificate and its key")
	case b.TLS != nil || b.Insecure || isHere(b.Dial):
		return nil
	}
	if _, argument := l.flags[at+".dial"]; argument {
		return overNetwork(b.Dial, place, "name it in a configuration file, with `tls: {ca: ca.pem}`", "say --plaintext")
	}
	return overNetwork(b.Dial, place, "write `tls: {ca: ca.pem}` beside dial", "write `insecure: true`")
}

// overNetwork says that an address would be dialled on another machine without TLS, how to have it protected, and how to say that it need not be.
func overNetwork(addr, where, protect, trust string) *problem {
	return &problem{
		Exit: exitConfig, Code: "not_loopback", What: addr + " is on another machine, and nothing protects the connection", Where: where,
		Why: "whoever is between the two can read all calls, and answer them instead of the backend",
		Fix: protect + ";\nor " + trust + " if the network is trusted (behind a mesh)",
	}
}

// validateLaunch refuses a command that cannot be one.
func (l *loaded) validateLaunch(c *LaunchConfig, name, at string) error {
	if len(c.Command) == 0 || c.Command[0] == "" {
		return misconfigured(l.where(at), "write `command: [python3, tools.py]`", "backend %q has no command", name)
	}
	for name := range c.Env {
		if name == "" || strings.ContainsAny(name, "=\x00") {
			return misconfigured(l.where(at+".env"), "write NAME=value", "%q is not the name of a variable", name)
		}
	}
	return allOf(validateLimits(l, at, limits.Timeouts{Start: c.StartTimeout, Hang: c.HangTimeout}), validateLimits(l, at+".limits", c.Limits))
}

// validateMCP refuses what is neither a command nor a URL.
func (l *loaded) validateMCP(b *BackendConfig, at string) error {
	m := b.MCP
	at += ".mcp"
	timeouts := limits.Timeouts{Start: m.StartTimeout, Probe: m.ProbeTimeout, Hang: m.HangTimeout}
	if err := allOf(validateLimits(l, at, timeouts), validateLimits(l, at+".sessions", m.Sessions)); err != nil {
		return err
	}
	_, known := m.revision()
	switch {
	case !known:
		return misconfigured(l.where(at+".revision"), didYouMean(m.Revision, revisionNames()), "there is no revision %q of MCP", m.Revision)
	case len(m.Command) > 0 && m.URL != "":
		return misconfigured(l.where(at), "keep one of `command` and `url`", "backend %q says both a command and a url", b.Name)
	case len(m.Command) > 0 && (len(m.Headers) > 0 || m.Auth != nil):
		return misconfigured(l.where(at), "pass a command what it needs with `env`", "backend %q is a command; headers and auth are for a url", b.Name)
	case len(m.Command) > 0:
		return l.validateLaunch(m.launch(), b.Name, at)
	case m.URL == "":
		return misconfigured(l.where(at), "write `command: [npx, server]` or `url: https://example.com/mcp`", "backend %q says neither a command nor a url", b.Name)
	case m.Dir != "" || len(m.Env) > 0 || len(m.PassEnv) > 0 || m.Limits != (limits.Machine{}) || m.HangTimeout != 0:
		return misconfigured(l.where(at), "leave them out", "backend %q is a url; dir, env, passEnv, limits and hangTimeout are for a command", b.Name)
	}
	if u, err := url.Parse(m.URL); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return misconfigured(l.where(at+".url"), "write a URL such as https://example.com/mcp", "this is not the url of an MCP server")
	}
	for name, value := range m.Headers {
		if !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) {
			return misconfigured(l.where(at+".headers."+name), "write NAME: value, in one line", "%q cannot be a header, or its value cannot be one", name)
		}
	}
	if m.Auth != nil {
		return l.validateAuth(m.Auth, at+".auth")
	}
	return nil
}

// validateAuth refuses what says nothing, or too much.
func (l *loaded) validateAuth(a *AuthConfig, at string) error {
	o := a.OAuth
	if (a.Bearer == "") == (o == nil) {
		return misconfigured(l.where(at), "write `bearer: ${env:TOKEN}` or `oauth: {}`", "auth is either a bearer token or oauth")
	}
	if o == nil {
		if !httpguts.ValidHeaderFieldValue(a.Bearer) {
			return misconfigured(l.where(at+".bearer"), "write the token alone, in one line", "the bearer token cannot be sent")
		}
		return nil
	}
	at += ".oauth"
	grants := []string{"authorization_code", "client_credentials"}
	switch {
	case o.Grant != "" && !slices.Contains(grants, o.Grant):
		return misconfigured(l.where(at+".grant"), didYouMean(o.Grant, grants), "there is no grant %q", o.Grant)
	case (o.ClientSecret != "" || o.PrivateKey != "") && o.ClientID == "":
		return misconfigured(l.where(at), "write `clientId` as well", "a clientSecret or privateKey says nothing without a clientId")
	case (o.ClientSecret != "" || o.PrivateKey != "") && o.Issuer == "":
		return misconfigured(l.where(at), "write `issuer: https://...`, the authorization server that the client is registered at, as its metadata spell it",
			"a clientSecret or privateKey without an issuer would go to whatever authorization server the MCP server names")
	case o.ClientSecret != "" && o.PrivateKey != "":
		return misconfigured(l.where(at), "keep one of the two", "both a clientSecret and a privateKey are given")
	case o.Grant == "client_credentials" && o.ClientSecret == "" && o.PrivateKey == "":
		return misconfigured(l.where(at), "write `clientId`, and `clientSecret: ${env:NAME}` or `privateKey: key.pem`",
			"the grant client_credentials needs a client that can prove who it is")
	}
	return nil
}

// dialSchemes are the kinds of addresses that a backend can be dialled at.
var dialSchemes = []string{"unix", "tcp", "dns"}

// validateDial refuses addresses that no backend can have.
func validateDial(addr, where string) error {
	scheme, rest, ok := strings.Cut(addr, ":")
	if !ok || !slices.Contains(dialSchemes, scheme) {
		fix := "write unix:///path/to.sock, tcp:host:port or dns:host:port"
		hostPort := strings.TrimPrefix(rest, "//")
		if scheme == "http" || scheme == "https" {
			hostPort = strings.TrimSuffix(hostPort, "/")
			fix = "an MCP server is `mcp: {url: " + addr + "}`"
			if isHostPort(hostPort) {
				fix += ".\nIf a gRPC server listens there, write tcp:" + hostPort
			}
		} else if isHostPort(addr) {
			fix = "write tcp:" + addr + "; if it is an MCP server, its URL: http://" + addr + "/mcp"
		} else if host, path, ok := strings.Cut(addr, "/"); ok && path != "" && isHostPort(host) {
			fix = "write tcp:" + host + "; if it is an MCP server, its URL: http://" + addr
		} else if scheme == "grpc" && isHostPort(hostPort) {
			fix = "write tcp:" + hostPort
		} else if strings.HasPrefix(addr, "/") {
			fix = "write unix://" + addr
		} else if guess := nearest(scheme, dialSchemes); ok && guess != "" {
			fix = "write " + guess + ":" + rest
		}
		return misconfigured(where, fix, "%q is not the address of a backend", addr)
	}
	rest = strings.TrimPrefix(rest, "//")
	if scheme == "unix" {
		if rest == "" {
			return misconfigured(where, "write unix:///path/to.sock", "%q names no socket", addr)
		}
		return nil
	}
	host, port, err := net.SplitHostPort(rest[strings.LastIndexByte(rest, '/')+1:])
	if err != nil || host == "" || port == "" {
		return misconfigured(where, "write "+scheme+":host:port", "%q has no host and port", addr)
	}
	return nil
}

// isHere reports whether who dials an address reaches this machine, as he also does at 0.0.0.0.
func isHere(addr string) bool {
	scheme, rest, _ := strings.Cut(addr, ":")
	host, _, err := net.SplitHostPort(rest[strings.LastIndexByte(rest, '/')+1:])
	ip := net.ParseIP(host)
	return scheme == "unix" || err == nil && (isLoopback(host) || ip != nil && ip.IsUnspecified())
}

// isHostPort reports whether s is a host and a port that can be dialled.
func isHostPort(s string) bool {
	host, port, err := net.SplitHostPort(s)
	n, numErr := strconv.ParseUint(port, 10, 16)
	return err == nil && host != "" && numErr == nil && n > 0
}

// where says what has set a key: a flag, a variable or a place in the file.
func (l *loaded) where(path string) string {
	if f, ok := l.flags[path]; ok {
		return f
	}
	if path == "serve.http.addr" && l.defaulted {
		return "the default of --http"
	}
	for variable, k := range environKeys() {
		isSet := func(entry string) bool { return strings.HasPrefix(entry, variable+"=") }
		if k.path == path && slices.ContainsFunc(l.environ, isSet) {
			return "environment variable " + variable
		}
	}
	if l.file != nil {
		return l.file.where(path)
	}
	return ""
}
