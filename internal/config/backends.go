package config

import (
	"cmp"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/mcpbridge/mcpbridge/internal/limits"
	"github.com/mcpbridge/mcpbridge/internal/problem"
)

func (l *Config) validateBackends() error {
	if len(l.Backends) == 0 {
		return l.problem("backends",
			"write -- python3 tools.py, unix:///path/to.sock or https://host/mcp at the end of the line,"+
				"\nor name a backend in mcpbridge.yaml", "no backend is given")
	}
	first := map[string]int{}
	var errs []error
	for i := range l.Backends {
		b := &l.Backends[i]
		at := "backends." + strconv.Itoa(i)
		if b.Name == "" && len(l.Backends) == 1 {
			b.Name = "backend"
		}
		if !IsBackendName(b.Name) {
			errs = append(errs, l.problem(at+".name", "write a name of at most 32 letters, digits, _ and -",
				"%q cannot be the name of a backend", b.Name))
		}
		if other, ok := first[b.Name]; ok {
			errs = append(errs,
				l.problem(at+".name", "give each its own name", "two backends are named %q; the other one is %s",
					b.Name, cmp.Or(l.Where("backends."+strconv.Itoa(other)+".name"), "before it")))
		}
		first[b.Name] = i
		errs = append(errs, l.validateBackend(b, at), l.validateTasks(&b.Tasks, at+".tasks"))
	}
	return problem.Join(errs...)
}

// validateBackend returns the problem with a backend: it has no kind or several kinds, or settings that its kind does
// not allow.
func (l *Config) validateBackend(b *Backend, at string) error {
	var keys []string
	for i := range kinds {
		if kinds[i].isSet(b) {
			keys = append(keys, kinds[i].key)
		}
	}
	switch len(keys) {
	case 0:
		return l.problem(at, "write `launch: {command: [python3, tools.py]}`, `dial: unix:///path/to.sock`, "+
			"`mcp: {command: [npx, server]}`\nor `mcp: {url: https://example.com/mcp}`",
			"backend %q has no launch, dial or mcp", b.Name)
	case 1:
		if b.Dial == "" && b.HangTimeout != 0 {
			return l.problem(at+".hangTimeout", "write it below launch or mcp",
				"backend %q is not dialed; a hangTimeout outside of launch and mcp is for dial", b.Name)
		}
		if b.Dial == "" && (b.TLS != nil || b.Insecure) {
			return l.problem(at, "leave them out", "backend %q is not dialed; tls and insecure are for dial", b.Name)
		}
		return b.kind().check(l, b, at)
	}
	return l.problem(at, "keep one of them", "backend %q has both %s", b.Name, strings.Join(keys, " and "))
}

// validateDialed returns the problem with a dialed backend: an invalid address, incomplete TLS settings, or an address
// on another machine without TLS, unless insecure is set.
func (l *Config) validateDialed(b *Backend, at string) error {
	place := l.Where(at + ".dial")
	if err := problem.Join(ValidateDial(b.Dial, place),
		validateLimits(l, at, limits.Timeouts{Hang: b.HangTimeout})); err != nil {
		return err
	}
	switch {
	case b.TLS != nil && b.Insecure:
		return l.problem(at+".insecure", "keep one of the two", "backend %q has both tls and insecure", b.Name)
	case b.TLS != nil && (b.TLS.Cert == "") != (b.TLS.Key == ""):
		return l.problem(at+".tls",
			"write `tls: {ca: ca.pem, cert: client.pem, key: client.key}`, or neither cert nor key",
			"TLS needs both a certificate and its key")
	case b.TLS != nil || b.Insecure || IsLocal(b.Dial):
		return nil
	}
	if _, argument := l.flags[at+".dial"]; argument {
		return MissingTLS(b.Dial, place, "name it in a configuration file, with `tls: {ca: ca.pem}`",
			"add --plaintext")
	}
	return MissingTLS(b.Dial, place, "write `tls: {ca: ca.pem}` beside dial", "write `insecure: true`")
}

// MissingTLS returns the problem with an address on another machine without TLS. protect is the fix that enables TLS,
// and trust the one that allows the connection without it.
func MissingTLS(addr, where, protect, trust string) *problem.Error {
	return &problem.Error{
		Exit: problem.ExitConfig, Code: "not_loopback",
		What: addr + " is on another machine, and nothing protects the connection", Where: where,
		Why: "any program between the two can read all calls, and respond to them in place of the backend",
		Fix: protect + ";\nor " + trust + " if the network is trusted (behind a mesh)",
	}
}

// validateLaunch returns the problems with the settings of a command.
func (l *Config) validateLaunch(c *Launch, name, at string) error {
	if len(c.Command) == 0 || c.Command[0] == "" {
		return l.problem(at, "write `command: [python3, tools.py]`", "backend %q has no command", name)
	}
	for name := range c.Env {
		if name == "" || strings.ContainsAny(name, "=\x00") {
			return l.problem(at+".env", "write NAME=value", "%q is not the name of a variable", name)
		}
	}
	return problem.Join(validateLimits(l, at, limits.Timeouts{Start: c.StartTimeout, Hang: c.HangTimeout}),
		validateLimits(l, at+".limits", c.Limits))
}

// validateMCP returns the problem with the settings of an MCP server.
func (l *Config) validateMCP(b *Backend, at string) error {
	m := b.MCP
	at += ".mcp"
	timeouts := limits.Timeouts{Start: m.StartTimeout, Probe: m.ProbeTimeout, Hang: m.HangTimeout}
	if err := problem.Join(validateLimits(l, at, timeouts), validateLimits(l, at+".sessions", m.Sessions)); err != nil {
		return err
	}
	_, valid := m.ParseRevision()
	switch {
	case !valid:
		return l.problem(at+".revision", problem.DidYouMean(m.Revision, revisionNames()),
			"there is no revision %q of MCP", m.Revision)
	case len(m.Command) > 0 && m.URL != "":
		return l.problem(at, "keep one of `command` and `url`", "backend %q has both a command and a url", b.Name)
	case len(m.Command) > 0 && (len(m.Headers) > 0 || m.Auth != nil):
		return l.problem(at, "configure a command with `env`",
			"backend %q is a command; headers and auth are for a url", b.Name)
	case len(m.Command) > 0:
		return l.validateLaunch(m.Launch(), b.Name, at)
	case m.URL == "":
		return l.problem(at, "write `command: [npx, server]` or `url: https://example.com/mcp`",
			"backend %q has neither a command nor a url", b.Name)
	case m.Dir != "" || len(m.Env) > 0 || len(m.PassEnv) > 0 || m.Limits != (limits.Machine{}) || m.HangTimeout != 0:
		return l.problem(at, "leave them out",
			"backend %q is a url; dir, env, passEnv, limits and hangTimeout are for a command", b.Name)
	}
	if u, err := url.Parse(m.URL); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return l.problem(at+".url", "write a URL such as https://example.com/mcp",
			"this is not the url of an MCP server")
	}
	for name, value := range m.Headers {
		if !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) {
			return l.problem(at+".headers."+name, "write NAME: value, in one line",
				"%q cannot be a header, or its value cannot be one", name)
		}
	}
	if m.Auth != nil {
		return l.validateAuth(m.Auth, at+".auth")
	}
	return nil
}

// validateAuth returns the problem with settings of authentication that are incomplete or contradict each other.
func (l *Config) validateAuth(a *Auth, at string) error {
	o := a.OAuth
	if (a.Bearer == "") == (o == nil) {
		return l.problem(at, "write `bearer: ${env:TOKEN}` or `oauth: {}`", "auth is either a bearer token or oauth")
	}
	if o == nil {
		if !httpguts.ValidHeaderFieldValue(a.Bearer) {
			return l.problem(at+".bearer", "write the token alone, in one line", "the bearer token cannot be sent")
		}
		return nil
	}
	at += ".oauth"
	grants := []string{"authorization_code", "client_credentials"}
	switch {
	case o.Grant != "" && !slices.Contains(grants, o.Grant):
		return l.problem(at+".grant", problem.DidYouMean(o.Grant, grants), "there is no grant %q", o.Grant)
	case (o.ClientSecret != "" || o.PrivateKey != "") && o.ClientID == "":
		return l.problem(at, "write `clientId` as well",
			"a clientSecret or privateKey has no effect without a clientId")
	case (o.ClientSecret != "" || o.PrivateKey != "") && o.Issuer == "":
		return l.problem(at,
			"write `issuer: https://...`, the authorization server that the client is registered at, "+
				"exactly as in its metadata",
			"a clientSecret or privateKey without an issuer would be sent to any authorization server "+
				"that the MCP server names")
	case o.ClientSecret != "" && o.PrivateKey != "":
		return l.problem(at, "keep one of the two", "both a clientSecret and a privateKey are given")
	case o.Grant == "client_credentials" && o.ClientSecret == "" && o.PrivateKey == "":
		return l.problem(at, "write `clientId`, and `clientSecret: ${env:NAME}` or `privateKey: key.pem`",
			"the grant client_credentials requires client authentication")
	}
	return nil
}

// A kind is a kind of backend. Everything that differs between kinds is in the table of kinds.
type kind struct {
	// key is the key that configures this kind.
	key   string
	isSet func(b *Backend) bool
	// check returns the problem with its settings; at is their key.
	check func(l *Config, b *Backend, at string) error
	// command returns the command that starts the backend, or nil if it is dialed. A single launched backend must start
	// before it is served.
	command func(b *Backend) *Launch
	// text returns the address, if mcpbridge does not launch it.
	text func(b *Backend) string
}

var kinds = [...]kind{
	{
		key:   "launch",
		isSet: func(b *Backend) bool { return b.Launch != nil },
		check: func(l *Config, b *Backend, at string) error {
			return l.validateLaunch(b.Launch, b.Name, at+".launch")
		},
		command: func(b *Backend) *Launch { return b.Launch },
	},
	{
		key:     "dial",
		isSet:   func(b *Backend) bool { return b.Dial != "" },
		check:   (*Config).validateDialed,
		command: func(*Backend) *Launch { return nil },
		text:    func(b *Backend) string { return b.Dial },
	},
	{
		key:   "mcp",
		isSet: func(b *Backend) bool { return b.MCP != nil },
		check: (*Config).validateMCP,
		command: func(b *Backend) *Launch {
			if len(b.MCP.Command) == 0 {
				return nil
			}
			return b.MCP.Launch()
		},
		text: func(b *Backend) string { return b.MCP.URL },
	},
}

// kind returns the kind of a valid backend.
func (b *Backend) kind() *kind {
	for i := range kinds {
		if kinds[i].isSet(b) {
			return &kinds[i]
		}
	}
	return nil
}

// Command returns the program that mcpbridge launches for the backend, or nil.
func (b *Backend) Command() *Launch { return b.kind().command(b) }

// Key returns the key of the backend's kind: launch, dial or mcp.
func (b *Backend) Key() string { return b.kind().key }

// AddressKey returns the key of the backend's address, relative to the backend.
func (b *Backend) AddressKey() string {
	if b.MCP != nil {
		return "mcp.url"
	}
	return b.kind().key
}

// Text describes the backend for people: its command or address.
func (b *Backend) Text() string {
	if c := b.Command(); c != nil {
		return strings.Join(c.Command, " ")
	}
	return b.kind().text(b)
}

// validateLimits rejects limits at a key that are out of bounds.
func validateLimits[T limits.Any](l *Config, at string, values T) error {
	var errs []error
	for _, v := range limits.Check(values) {
		key := at + "." + v.Key
		errs = append(errs, l.problem(key, v.Fix, "%s %s", key, v.What))
	}
	return problem.Join(errs...)
}
