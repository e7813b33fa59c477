package config

import (
	"fmt"
	"net"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/rs/zerolog"
	"golang.org/x/net/http/httpguts"

	"github.com/mcpbridge/mcpbridge/internal/problem"
)

// Validate returns the problems of the configuration.
func (l *Config) Validate() error {
	return problem.Join(l.ValidateClient(), l.validateServe())
}

// ValidateClient returns the problems of the settings that client commands use.
func (l *Config) ValidateClient() error {
	if l.Version != 1 {
		return l.problem("version", "write `version: 1`, or install a newer mcpbridge",
			"unknown version %d of the configuration", l.Version)
	}
	var errs []error
	if _, err := zerolog.ParseLevel(strings.ToLower(l.Log.Level)); err != nil || l.Log.Level == "" {
		levels := []string{"trace", "debug", "info", "warn", "error"}
		errs = append(errs,
			l.problem("log.level", problem.DidYouMean(l.Log.Level, levels), "there is no log level %q", l.Log.Level))
	}
	if !slices.Contains(LogFormats, l.Log.Format) {
		errs = append(errs,
			l.problem("log.format", problem.DidYouMean(l.Log.Format, LogFormats), "there is no log format %q",
				l.Log.Format))
	}
	errs = append(errs, validateLimits(l, "limits", l.Limits), validateLimits(l, "tasks", l.Tasks),
		l.validateBackends())
	return problem.Join(errs...)
}

func (l *Config) validateServe() error {
	s := l.Serve
	var errs []error
	reject := func(key, fix, format string, args ...any) {
		errs = append(errs, l.problem(key, fix, format, args...))
	}
	if !slices.Contains([]string{"auto", "true", "false"}, s.Stdio) {
		reject("serve.stdio", "write true, false or auto", "serve.stdio cannot be %q", s.Stdio)
	}
	if s.Stdio == "true" && s.HTTP.Addr != "" {
		reject("serve.http.addr", "keep one of the two, or run mcpbridge twice",
			"stdio and HTTP cannot both be served by one process yet")
	}
	if s.PreDrain < 0 {
		reject("serve.preDrain", "write a time such as 5s, or 0s for none", "serve.preDrain cannot be %s", s.PreDrain)
	}
	if s.Drain < 0 {
		reject("serve.drain", "write a time such as 30s", "serve.drain cannot be %s", s.Drain)
	}
	if s.HTTP.PollAfter < 0 {
		reject("serve.http.pollAfter", "write a time such as 30s, or 0s for never", "serve.http.pollAfter cannot be %s",
			s.HTTP.PollAfter)
	}
	if p := s.HTTP.Path; !strings.HasPrefix(p, "/") || path.Clean(p) != p || strings.ContainsAny(p, "{}?# \t") {
		reject("serve.http.path", "write a path such as /mcp", "%q is not a path for the MCP endpoint", p)
	}
	for _, o := range s.HTTP.AllowedOrigins {
		scheme, host, ok := strings.Cut(o, "://")
		if o != "*" && (!ok || scheme == "" || host == "" || strings.Contains(host, "/")) {
			reject("serve.http.allowedOrigins", "write a scheme and a host, such as https://app.example.com",
				"%q is not a web origin", o)
		}
	}
	for _, name := range s.HTTP.PassHeaders {
		switch {
		case slices.Contains([]string{"authorization", "proxy-authorization"}, strings.ToLower(name)):
			reject("serve.http.passHeaders",
				"leave it out, and configure serve.http.auth; backends receive the caller as `principal`",
				"%s is a credential for mcpbridge alone, which a backend could misuse", name)
		case !httpguts.ValidHeaderFieldName(name):
			reject("serve.http.passHeaders", "write a name such as X-Team", "%q is not the name of a header", name)
		}
	}
	if s.HTTP.Addr != "" {
		errs = append(errs, l.validateAddr())
	}
	errs = append(errs, l.validateAccess())
	if s.Ops.Addr != "" {
		_, _, err := l.splitAddr("serve.ops.addr", s.Ops.Addr)
		errs = append(errs, err)
	}
	return problem.Join(append(errs, l.validateGRPC())...)
}

// validateAccess returns the problem with settings of TLS and authentication that contradict each other.
func (l *Config) validateAccess() error {
	h := &l.Serve.HTTP
	if err := l.validateTLS("serve.http.tls", h.TLS); err != nil {
		return err
	}
	for i, b := range l.Backends {
		if addr := l.Serve.unauthenticatedAddr(); len(b.ToolScopes) > 0 && addr != "" {
			return l.problem(fmt.Sprintf("backends.%d.toolScopes", i),
				"configure serve.http.auth, or remove the scopes",
				"tools require scopes, but callers at %s are not authenticated", addr)
		}
	}
	if !h.Authenticates() {
		if h.Auth.Resource != "" || len(h.Auth.Scopes) > 0 {
			return l.problem("serve.http.auth", "add issuers or tokens", "serve.http.auth accepts no caller")
		}
		return nil
	}
	_, err := l.NewAuth(zerolog.Nop())
	return err
}

// Authenticates reports whether callers over HTTP are authenticated.
func (h *HTTP) Authenticates() bool { return h.Auth.Enabled() || h.TLS.ClientCA != "" }

// unauthenticatedAddr returns an address with a port that accepts calls without authentication, or "".
func (s *Serve) unauthenticatedAddr() string {
	if s.HTTP.Addr != "" && !s.HTTP.Authenticates() {
		return s.HTTP.Addr
	}
	if network, addr := GRPCNetwork(s.GRPC.Addr); network == "tcp" && s.GRPC.TLS.ClientCA == "" &&
		!s.HTTP.Auth.Enabled() {
		return addr
	}
	return ""
}

func (l *Config) validateTLS(path string, t TLS) error {
	if (t.Cert == "") != (t.Key == "") || t.ClientCA != "" && t.Cert == "" {
		return l.problem(path, "write `tls: {cert: server.pem, key: server.key}`",
			"TLS needs both a certificate and its key")
	}
	return nil
}

// validateGRPC returns the problem with the settings of gRPC: incomplete settings, or an address that is reachable from
// other machines without TLS or authentication, unless insecure is set.
func (l *Config) validateGRPC() error {
	g := l.Serve.GRPC
	if g.Addr == "" {
		if g.TLS != (TLS{}) || g.Insecure {
			return l.problem("serve.grpc", "write `addr: unix:///path/to.sock` or `addr: 127.0.0.1:50051`",
				"serve.grpc has no addr")
		}
		return nil
	}
	if err := l.validateTLS("serve.grpc.tls", g.TLS); err != nil {
		return err
	}
	network, addr := GRPCNetwork(g.Addr)
	if network == "unix" {
		if addr == "" {
			return l.problem("serve.grpc.addr", "write unix:///path/to.sock", "%q has no path of a socket", g.Addr)
		}
		return nil
	}
	host, port, err := l.splitAddr("serve.grpc.addr", addr)
	protected := g.TLS.Cert != "" && (g.TLS.ClientCA != "" || l.Serve.HTTP.Auth.Enabled())
	if err != nil || g.Insecure || isLoopback(host) || protected {
		return err
	}
	return &problem.Error{
		Exit: problem.ExitConfig, Code: "not_loopback",
		What: g.Addr + " can be reached from other machines, and the connection is neither encrypted nor " +
			"authenticated",
		Where: l.Where("serve.grpc.addr"),
		Why:   "any program that reaches this address can call every tool of the backends",
		Fix: "listen on a unix: socket or on 127.0.0.1:" + port +
			"; or write `tls: {cert: ..., key: ..., clientCA: ...}`,\n" +
			"without clientCA if serve.http.auth authenticates callers; or write `insecure: true` " +
			"if the network is trusted (inside a\n" +
			"pod, behind a mesh)",
	}
}

// validateAddr returns the problem with the address of HTTP: an invalid address, or one that is reachable from other
// machines without authentication, unless insecure is set.
func (l *Config) validateAddr() error {
	addr := l.Serve.HTTP.Addr
	host, port, err := l.splitAddr("serve.http.addr", addr)
	if err != nil || l.Serve.HTTP.Insecure || l.Serve.HTTP.Authenticates() || isLoopback(host) {
		return err
	}
	return &problem.Error{
		Exit: problem.ExitConfig, Code: "not_loopback",
		What:  fmt.Sprintf("%s can be reached from other machines, and callers are not authenticated", addr),
		Where: l.Where("serve.http.addr"),
		Why:   "any program that reaches this address can call every tool of the backend",
		Fix: "configure serve.http.auth; or listen on 127.0.0.1:" + port +
			"; or add --insecure if the network is\n" +
			"trusted (inside a pod, behind a mesh); --allow-host then names the hosts that clients use",
	}
}

// splitAddr returns host and port of an address to listen on.
func (l *Config) splitAddr(path, addr string) (host, port string, err error) {
	host, port, err = net.SplitHostPort(addr)
	if n, numErr := strconv.ParseUint(port, 10, 16); err != nil || numErr != nil && port != "http" || n > 65535 {
		fix := "write host:port, such as " + defaultAddr
		if _, err := strconv.ParseUint(addr, 10, 16); err == nil {
			fix = "write 127.0.0.1:" + addr
		}
		return "", "", l.problem(path, fix, "%q is not an address to listen on", addr)
	}
	return host, port, nil
}
