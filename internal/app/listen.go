package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"syscall"

	"github.com/mcpbridge/mcpbridge/internal/config"
	"github.com/mcpbridge/mcpbridge/internal/grpcserver"
	"github.com/mcpbridge/mcpbridge/internal/nonblock"
	"github.com/mcpbridge/mcpbridge/internal/problem"
)

// Listen binds the addresses, so that a wrong one is an error before the backends start. Run accepts the connections.
func (a *App) Listen(ctx context.Context) error {
	s := &a.cfg.Serve
	a.stdio = s.Stdio == "true"
	tcp := func(addr string) (net.Listener, error) { return new(net.ListenConfig).Listen(ctx, "tcp", addr) }
	unixOrTCP := func(addr string) (net.Listener, error) { return grpcserver.Listen(ctx, addr, 0) }
	for _, p := range []struct {
		name, addr, flag string
		ln               *net.Listener
		listen           func(addr string) (net.Listener, error)
	}{
		{"http", s.HTTP.Addr, "--http", &a.http, tcp},
		{"grpc", s.GRPC.Addr, "--grpc", &a.grpc, unixOrTCP},
		{"ops", s.Ops.Addr, "serve.ops.addr", &a.ops, tcp},
	} {
		var ln net.Listener
		if inherited := a.Sockets[p.name]; inherited != nil {
			ln = inherited
		} else if p.addr == "" {
			continue
		} else {
			var err error
			if ln, err = p.listen(p.addr); err != nil {
				a.closeListeners()
				return listenProblem(p.addr, a.cfg.Where("serve."+p.name+".addr"), p.flag, err)
			}
		}
		retrying := &retryingListener{Listener: ln, log: a.Log}
		a.bound, *p.ln = append(a.bound, retrying), retrying
	}
	if a.http != nil {
		a.http = nonblock.Listener(a.http)
	}
	return nil
}

// listeners are the listeners of an App. Those that are nil are not configured.
type listeners struct {
	http, grpc, ops net.Listener
	bound           []*retryingListener // all of them
}

// hangs reports whether the server of a listener hangs.
func (l *listeners) hangs() (hangs bool) {
	for _, ln := range l.bound {
		hangs = ln.hangs() || hangs
	}
	return hangs
}

// closeListeners closes the listeners if they are not served.
func (a *App) closeListeners() {
	for _, ln := range []net.Listener{a.http, a.grpc, a.ops} {
		if ln != nil {
			ln.Close()
		}
	}
}

// URL returns the URL of the MCP endpoint, "stdio", or "" if only gRPC is served.
func (a *App) URL() string {
	switch {
	case a.http != nil:
		scheme := "http://"
		if a.tls != nil {
			scheme = "https://"
		}
		return scheme + a.http.Addr().String() + a.cfg.Serve.HTTP.Path
	case a.stdio:
		return "stdio"
	}
	return ""
}

// GRPC returns the address for gRPC clients, unix:PATH or tcp:HOST:PORT, or "".
func (a *App) GRPC() string {
	if a.grpc == nil {
		return ""
	}
	return a.grpc.Addr().Network() + ":" + a.grpc.Addr().String()
}

// Ops returns the host and port for probes, or "".
func (a *App) Ops() string {
	if a.ops == nil {
		return ""
	}
	return a.ops.Addr().String()
}

// listenProblem returns the problem with an address to listen on.
func listenProblem(addr, where, flag string, err error) error {
	p := &problem.Error{
		Exit: problem.ExitConfig, Code: "listen",
		What: fmt.Sprintf("cannot listen on %s: %v", addr, problem.Cause(err)), Where: where, Cause: err,
		Fix: "choose another address with " + flag,
	}
	network, at := config.GRPCNetwork(addr)
	switch {
	case errors.Is(err, syscall.EADDRINUSE), errors.Is(err, grpcserver.ErrInUse):
		p.Code = "port_in_use"
		p.Why = "another process listens there" + holderText(at)
		p.Fix = "end that process, or choose another address with " + flag
		if network == "unix" {
			p.Fix = "end that process, or choose another path: " + flag + " unix:///path/to.sock"
		} else if host, _, err := net.SplitHostPort(at); err == nil {
			p.Fix = "end that process, or choose another port: " + flag + " " + net.JoinHostPort(host, "0") +
				" selects a free one"
		}
	case errors.Is(err, syscall.EACCES) && network == "unix":
		p.Why = "this user cannot create files in " + filepath.Dir(at)
		p.Fix = "choose a path in a directory that this user can write to"
	case errors.Is(err, syscall.EACCES):
		p.Why = "ports below 1024 are reserved for the administrator"
		p.Fix = "choose a port above 1023"
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		p.Why = "no network interface of this machine has that address"
		p.Fix = "use 127.0.0.1"
	}
	return p
}
