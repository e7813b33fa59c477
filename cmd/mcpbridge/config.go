package main

import (
	"fmt"
	"maps"
	"net"
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
	// Backends is what answers them. For now it is exactly one.
	Backends []BackendConfig `koanf:"backends"`
}

// A LogConfig is how mcpbridge logs.
type LogConfig struct {
	// Level is the lowest level that is logged: trace, debug, info, warn, error.
	Level string `koanf:"level"`
	// Format is auto, text or json. Auto is text on a terminal and json elsewhere.
	Format string `koanf:"format"`
}

// A ServeConfig is how clients reach mcpbridge: over stdio or over HTTP.
type ServeConfig struct {
	// HTTP is Streamable HTTP.
	HTTP HTTPConfig `koanf:"http"`
	// Stdio is auto, true or false. Auto is true if stdin is a pipe, a socket or a file, and HTTP has no address.
	Stdio string `koanf:"stdio"`
	// Drain is how long calls may go on after the first signal.
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
	// PollAfter is how long the response to a request of 2025-11-25 may stay open; then it is cut, and the client comes back
	// for the rest. It is for networks that cut responses that last. 0: for ever.
	PollAfter time.Duration `koanf:"pollAfter"`
	// Insecure says that Addr may be one that other machines reach, although nothing checks who calls.
	Insecure bool `koanf:"insecure"`
}

// A BackendConfig is something that answers calls: a process to launch or an address to dial.
type BackendConfig struct {
	// Name names the backend in logs and errors.
	Name string `koanf:"name"`
	// Launch is how to start it, if mcpbridge is to.
	Launch *LaunchConfig `koanf:"launch"`
	// Dial is where it runs already: unix:///path, tcp:host:port or dns:host:port.
	Dial string `koanf:"dial"`
	// SkipArguments says that arguments of tools reach the backend without being checked against the tools' schemas.
	SkipArguments bool `koanf:"skipArguments"`
	// SkipOutput says that what tools return reaches the client without being checked against the tools' schemas.
	SkipOutput bool `koanf:"skipOutput"`
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

// defaultAddr is what HTTP listens on if stdio is not served and nothing says an address.
const defaultAddr = "127.0.0.1:8080"

// A loaded is a Config and where it comes from.
type loaded struct {
	Config
	file    *file
	environ []string
	flags   map[string]string // flags by the key they set
}

// load puts the layers together. The name of the file may be empty; flags are values by key.
func load(fileName string, environ []string, flags map[string]any, flagNames map[string]string) (*loaded, error) {
	k := koanf.New(".")
	l := &loaded{environ: environ, flags: flagNames}
	layers := []koanf.Provider{confmap.Provider(defaults(), ".")}
	if fileName != "" {
		f, err := readFile(fileName)
		if err != nil {
			return nil, err
		}
		l.file = f
		layers = append(layers, confmap.Provider(f.values, ""))
	}
	for _, layer := range layers {
		if err := k.Load(layer, nil); err != nil {
			return nil, fmt.Errorf("put the configuration together: %w", err)
		}
	}
	if err := loadEnviron(k, environ); err != nil {
		return nil, err
	}
	if err := k.Load(confmap.Provider(flags, "."), nil); err != nil {
		return nil, fmt.Errorf("put the flags into the configuration: %w", err)
	}
	if err := k.Unmarshal("", &l.Config); err != nil {
		return nil, fmt.Errorf("read the configuration: %w", err)
	}
	if l.file != nil {
		for _, b := range l.Backends {
			if b.Launch != nil && !filepath.IsAbs(b.Launch.Dir) {
				b.Launch.Dir = filepath.Join(filepath.Dir(fileName), b.Launch.Dir)
			}
		}
	}
	return l, nil
}

const envPrefix = "MCPBRIDGE_"

// environKeys returns the keys that the environment can set, by variable, and their types. Backends are not among them,
// nor is the version: images have variables of such a name.
func environKeys() map[string]key {
	byVariable := map[string]key{}
	for _, k := range keysOf(reflect.TypeFor[Config](), "") {
		if k.path == "version" || k.path == "backends" {
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
					problems = append(problems, usage("environment variable "+name, didYouMean(name, names),
						"there is no setting %s", name))
				}
				return "", nil
			}
			v, err := key.parse(text)
			if err != nil {
				problems = append(problems, usage("environment variable "+name, "write "+key.example(),
					"%s=%q is not %s", name, text, key.kind()))
			}
			return key.path, v
		},
	})
	if err := k.Load(provider, nil); err != nil {
		return fmt.Errorf("read the environment: %w", err)
	}
	if len(problems) > 0 {
		return problems[0]
	}
	return nil
}

// validate refuses what cannot work, and says which setting it is.
func (l *loaded) validate() error {
	if l.Version != 1 {
		return usage(l.where("version"), "write `version: 1`, or install a newer mcpbridge",
			"version %d of the configuration is not known", l.Version)
	}
	if _, err := zerolog.ParseLevel(strings.ToLower(l.Log.Level)); err != nil || l.Log.Level == "" {
		levels := []string{"trace", "debug", "info", "warn", "error"}
		return usage(l.where("log.level"), didYouMean(l.Log.Level, levels), "there is no log level %q", l.Log.Level)
	}
	if !slices.Contains(logFormats, l.Log.Format) {
		return usage(l.where("log.format"), didYouMean(l.Log.Format, logFormats), "there is no log format %q", l.Log.Format)
	}
	if err := l.validateServe(); err != nil {
		return err
	}
	return l.validateBackends()
}

func (l *loaded) validateServe() error {
	s := l.Serve
	switch s.Stdio {
	case "auto", "true", "false":
	default:
		return usage(l.where("serve.stdio"), "write true, false or auto", "serve.stdio cannot be %q", s.Stdio)
	}
	if s.Stdio == "true" && s.HTTP.Addr != "" {
		return usage(l.where("serve.http.addr"), "keep one of the two, or run mcpbridge twice",
			"stdio and HTTP cannot both be served by one process yet")
	}
	if s.Drain < 0 {
		return usage(l.where("serve.drain"), "write a time such as 30s", "serve.drain cannot be %s", s.Drain)
	}
	if s.HTTP.PollAfter < 0 {
		return usage(l.where("serve.http.pollAfter"), "write a time such as 30s, or 0s for never", "serve.http.pollAfter cannot be %s", s.HTTP.PollAfter)
	}
	if p := s.HTTP.Path; !strings.HasPrefix(p, "/") || path.Clean(p) != p || strings.ContainsAny(p, "{}?# \t") {
		return usage(l.where("serve.http.path"), "write a path such as /mcp", "%q is not a path for the MCP endpoint", p)
	}
	for _, o := range s.HTTP.AllowedOrigins {
		scheme, host, ok := strings.Cut(o, "://")
		if o == "*" {
			continue
		}
		if !ok || scheme == "" || host == "" || strings.Contains(host, "/") {
			return usage(l.where("serve.http.allowedOrigins"), "write a scheme and a host, such as https://app.example.com",
				"%q is not a web origin", o)
		}
	}
	if s.HTTP.Addr != "" {
		return l.validateAddr()
	}
	return nil
}

// validateAddr refuses addresses that cannot be listened on, and those that other machines reach unless the user has said
// that this is meant.
func (l *loaded) validateAddr() error {
	addr := l.Serve.HTTP.Addr
	host, port, err := net.SplitHostPort(addr)
	if n, numErr := strconv.ParseUint(port, 10, 16); err != nil || numErr != nil && port != "http" || n > 65535 {
		fix := "write host:port, such as " + defaultAddr
		if _, err := strconv.ParseUint(addr, 10, 16); err == nil {
			fix = "write 127.0.0.1:" + addr
		}
		return usage(l.where("serve.http.addr"), fix, "%q is not an address to listen on", addr)
	}
	if l.Serve.HTTP.Insecure || isLoopback(host) {
		return nil
	}
	return &problem{
		Exit: exitConfig, Code: "not_loopback",
		What:  fmt.Sprintf("%s can be reached from other machines, and nothing checks who calls", addr),
		Where: l.where("serve.http.addr"),
		Why:   "whoever reaches this address can call every tool of the backend",
		Fix: "listen on 127.0.0.1:" + port + " and put a proxy that authenticates in front of it, or say --insecure if the" +
			" network\nis trusted (inside a pod, behind a mesh); --allow-host then names the hosts that clients use",
	}
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func (l *loaded) validateBackends() error {
	switch len(l.Backends) {
	case 0:
		return usage(l.where("backends"), "run `mcpbridge run -- python3 tools.py`, `mcpbridge run unix:///path/to.sock`,"+
			" or add a backend to the file", "there is nothing to serve: no backend is given")
	case 1:
	default:
		return usage(l.where("backends"), "keep one, or run one mcpbridge for each",
			"%d backends are given, and merging several into one server comes only with the router", len(l.Backends))
	}
	b := &l.Backends[0]
	at := "backends.0"
	switch {
	case b.Launch == nil && b.Dial == "":
		return usage(l.where(at), "write `launch: {command: [python3, tools.py]}` or `dial: unix:///path/to.sock`",
			"backend %q says neither what to launch nor where to dial", b.Name)
	case b.Launch != nil && b.Dial != "":
		return usage(l.where(at), "keep one of `launch` and `dial`",
			"backend %q says both what to launch and where to dial", b.Name)
	case b.Dial != "":
		return validateDial(b.Dial, l.where(at+".dial"))
	case len(b.Launch.Command) == 0 || b.Launch.Command[0] == "":
		return usage(l.where(at+".launch"), "write `command: [python3, tools.py]`", "backend %q has no command", b.Name)
	case b.Launch.StartTimeout < 0:
		return usage(l.where(at+".launch.startTimeout"), "write a time such as 10s",
			"startTimeout cannot be %s", b.Launch.StartTimeout)
	}
	for name := range b.Launch.Env {
		if name == "" || strings.ContainsAny(name, "=\x00") {
			return usage(l.where(at+".launch.env"), "write NAME=value", "%q is not the name of a variable", name)
		}
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
			fix = "a backend speaks gRPC (mcpbridge.v1); other MCP servers cannot be backends yet"
			if isHostPort(hostPort) {
				fix += ".\nIf a gRPC server listens there, write tcp:" + hostPort
			}
		} else if isHostPort(addr) {
			fix = "write tcp:" + addr
		} else if scheme == "grpc" && isHostPort(hostPort) {
			fix = "write tcp:" + hostPort
		} else if strings.HasPrefix(addr, "/") {
			fix = "write unix://" + addr
		} else if guess := nearest(scheme, dialSchemes); ok && guess != "" {
			fix = "write " + guess + ":" + rest
		}
		return usage(where, fix, "%q is not the address of a backend", addr)
	}
	rest = strings.TrimPrefix(rest, "//")
	if scheme == "unix" {
		if rest == "" {
			return usage(where, "write unix:///path/to.sock", "%q names no socket", addr)
		}
		return nil
	}
	host, port, err := net.SplitHostPort(rest[strings.LastIndexByte(rest, '/')+1:])
	if err != nil || host == "" || port == "" {
		return usage(where, "write "+scheme+":host:port", "%q has no host and port", addr)
	}
	return nil
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
