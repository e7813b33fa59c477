package config

import (
	"fmt"
	"maps"
	"net"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/knadh/koanf/providers/confmap"
	"github.com/knadh/koanf/providers/env/v2"
	"github.com/knadh/koanf/v2"

	"github.com/mcpbridge/mcpbridge/internal/problem"
)

// A Config has the settings of a run and their origins.
type Config struct {
	Settings
	file    *file
	environ []string
	flags   map[string]string // flags by the key they set
	// Secrets are the values to hide in logs and errors.
	Secrets Secrets
	// hasPreDrain reports whether serve.preDrain is configured, and isInherited whether an address is that of a socket
	// of the service manager.
	hasPreDrain, isInherited bool
	// isDefaultAddr reports whether serve.http.addr is defaultAddr because nothing else is served.
	isDefaultAddr bool
}

// Load merges the layers of settings. fileName may be empty. flags has the values of flags by key, and flagNames their
// names.
func Load(fileName string, environ []string, flags map[string]any, flagNames map[string]string) (*Config, error) {
	k := koanf.New(".")
	l := &Config{environ: environ, flags: flagNames, Secrets: Secrets{}}
	layers := []koanf.Provider{confmap.Provider(defaults(), ".")}
	var fileErr error
	if fileName != "" {
		var f *file
		if f, fileErr = readFile(fileName, environ); fileErr == nil {
			l.file, l.Secrets = f, f.secrets
			layers = append(layers, confmap.Provider(f.values, ""))
		}
	}
	for _, layer := range layers {
		if err := k.Load(layer, nil); err != nil {
			return nil, fmt.Errorf("merge the configuration: %w", err)
		}
	}
	if err := problem.Join(fileErr, loadEnviron(k, environ)); err != nil {
		return nil, err
	}
	if err := k.Load(confmap.Provider(flags, "."), nil); err != nil {
		return nil, fmt.Errorf("put the flags into the configuration: %w", err)
	}
	if err := k.Unmarshal("", &l.Settings); err != nil {
		return nil, fmt.Errorf("read the configuration: %w", err)
	}
	l.hasPreDrain = k.Exists("serve.preDrain")
	if l.file != nil {
		l.resolve(filepath.Dir(fileName))
	}
	return l, nil
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

// DefaultFile is the configuration file that is read when the arguments name no target.
const DefaultFile = "mcpbridge.yaml"

// defaultPreDrain is how long a cluster usually needs to remove an address from its load balancers.
const defaultPreDrain = 2 * time.Second

// resolve makes the relative names of files and directories in the file relative to the directory of the file.
func (l *Config) resolve(dir string) {
	names := []*string{} // an empty one is the directory itself
	var files []*string
	files = append(files, &l.State.Dir)
	for _, t := range []*TLS{&l.Serve.GRPC.TLS, &l.Serve.HTTP.TLS} {
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

// EnvPrefix is the prefix of the environment variables that set keys.
const EnvPrefix = "MCPBRIDGE_"

// environKeys returns the keys that the environment can set, by variable, and their types. Lists of mappings are not
// among them, nor is the version: images have variables of such a name.
func environKeys() map[string]key {
	byVariable := map[string]key{}
	for _, k := range keysOf(reflect.TypeFor[Settings](), "") {
		if k.path == "version" || k.kind() == "a list" {
			continue
		}
		byVariable[EnvPrefix+strings.ToUpper(strings.ReplaceAll(k.path, ".", "__"))] = k
	}
	return byVariable
}

// loadEnviron adds the layer of the environment. An unknown variable is an error if it has two underscores in a row, as
// only ours have: Kubernetes adds others, like MCPBRIDGE_PORT, for a service with the name mcpbridge.
func loadEnviron(k *koanf.Koanf, environ []string) error {
	keys := environKeys()
	var problems []error
	provider := env.Provider(".", env.Opt{
		Prefix:      EnvPrefix,
		EnvironFunc: func() []string { return environ },
		TransformFunc: func(name, text string) (string, any) {
			key, ok := keys[name]
			if text == "" {
				return "", nil // as if it were not set
			}
			if !ok {
				if strings.Contains(strings.TrimPrefix(name, EnvPrefix), "__") {
					names := slices.Sorted(maps.Keys(keys))
					problems = append(problems,
						problem.Config("environment variable "+name, problem.DidYouMean(name, names),
							"there is no setting %s", name))
				}
				return "", nil
			}
			v, err := key.parse(text)
			if err != nil {
				problems = append(problems, problem.Config("environment variable "+name, "write "+key.example(),
					"%s=%q is not %s", name, text, key.kind()))
			}
			return key.path, v
		},
	})
	if err := k.Load(provider, nil); err != nil {
		return fmt.Errorf("read the environment: %w", err)
	}
	return problem.Join(problems...)
}

// Inherit sets the address of http, grpc or ops to that of a socket that the service manager has passed.
func (l *Config) Inherit(name string, a net.Addr) {
	addr := a.String()
	if a.Network() == "unix" {
		addr = "unix:" + addr
	}
	*map[string]*string{"http": &l.Serve.HTTP.Addr, "grpc": &l.Serve.GRPC.Addr, "ops": &l.Serve.Ops.Addr}[name] = addr
	l.flags["serve."+name+".addr"] = fmt.Sprintf("socket %q of the service manager", name)
	l.isInherited = true
}

// ChooseFronts sets what the settings of serve leave open. If no address is set, stdio is served if hasClient, and HTTP
// at defaultAddr otherwise.
func (l *Config) ChooseFronts(hasClient bool) {
	s := &l.Serve
	noAddr := s.HTTP.Addr == "" && s.GRPC.Addr == ""
	if s.Stdio == "auto" {
		s.Stdio = strconv.FormatBool(noAddr && hasClient)
	}
	if noAddr && s.Stdio == "false" {
		s.HTTP.Addr, l.isDefaultAddr = defaultAddr, true
	}
	if !l.hasPreDrain && (l.isInherited || s.isRemote()) {
		s.PreDrain = defaultPreDrain
	}
}

// SetBy records that a flag has set a key.
func (l *Config) SetBy(key, flag string) { l.flags[key] = flag }

// Where returns the origin of the value of a key: a flag, a variable or a place in the file.
func (l *Config) Where(path string) string {
	if f, ok := l.flags[path]; ok {
		return f
	}
	if path == "serve.http.addr" && l.isDefaultAddr {
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

// isRemote reports whether an address for clients is reachable from other machines.
func (s *Serve) isRemote() bool {
	addrs := []string{s.HTTP.Addr}
	if network, addr := GRPCNetwork(s.GRPC.Addr); network == "tcp" {
		addrs = append(addrs, addr)
	}
	return slices.ContainsFunc(addrs, func(addr string) bool {
		host, _, err := net.SplitHostPort(addr)
		return err == nil && !isLoopback(host)
	})
}

// HasFile reports whether a configuration file has been read.
func (l *Config) HasFile() bool { return l.file != nil }

// problem returns a problem with the value of a key.
func (l *Config) problem(key, fix, format string, args ...any) *problem.Error {
	return problem.Config(l.Where(key), fix, format, args...)
}
