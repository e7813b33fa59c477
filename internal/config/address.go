package config

import (
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/mcpbridge/mcpbridge/internal/problem"
)

// GRPCNetwork returns an address of gRPC as the network and address of net.Listen.
func GRPCNetwork(addr string) (network, address string) {
	if path, ok := strings.CutPrefix(addr, "unix:"); ok {
		return "unix", strings.TrimPrefix(path, "//")
	}
	return "tcp", strings.TrimPrefix(strings.TrimPrefix(addr, "tcp:"), "//")
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// dialSchemes are the schemes of addresses to dial.
var dialSchemes = []string{"unix", "tcp", "dns"}

// ValidateDial returns the problem with the address of a backend, if there is one.
func ValidateDial(addr, where string) error {
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
		} else if guess := problem.Nearest(scheme, dialSchemes); ok && guess != "" {
			fix = "write " + guess + ":" + rest
		}
		return problem.Config(where, fix, "%q is not the address of a backend", addr)
	}
	rest = strings.TrimPrefix(rest, "//")
	if scheme == "unix" {
		if rest == "" {
			return problem.Config(where, "write unix:///path/to.sock", "%q has no path of a socket", addr)
		}
		return nil
	}
	host, port, err := net.SplitHostPort(rest[strings.LastIndexByte(rest, '/')+1:])
	if err != nil || host == "" || port == "" {
		return problem.Config(where, "write "+scheme+":host:port", "%q has no host and port", addr)
	}
	return nil
}

// IsLocal reports whether an address to dial is of this machine, as 0.0.0.0 is.
func IsLocal(addr string) bool {
	scheme, rest, _ := strings.Cut(addr, ":")
	host, _, err := net.SplitHostPort(rest[strings.LastIndexByte(rest, '/')+1:])
	ip := net.ParseIP(host)
	return scheme == "unix" || err == nil && (isLoopback(host) || ip != nil && ip.IsUnspecified())
}

// isHostPort reports whether s is a host and a port that can be dialed.
func isHostPort(s string) bool {
	host, port, err := net.SplitHostPort(s)
	n, numErr := strconv.ParseUint(port, 10, 16)
	return err == nil && host != "" && numErr == nil && n > 0
}

// IsConfidential reports whether tokens may be sent to a URL: over TLS, or on this machine.
func IsConfidential(address string) bool {
	u, err := url.Parse(address)
	if err != nil {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Scheme == "https" || u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}

// HasHeader reports whether headers include a name, in any case.
func HasHeader(headers map[string]string, name string) bool {
	for n := range headers {
		if strings.EqualFold(n, name) {
			return true
		}
	}
	return false
}

// defaultAddr is the address of HTTP if none is configured and stdio is not served.
const defaultAddr = "127.0.0.1:8080"
