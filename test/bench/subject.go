package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// A subject is a server of the tool echo, which returns its arguments. Its command prints its endpoint,
// http://HOST:PORT/mcp, to stderr when it is ready.
type subject struct {
	name    string
	about   string
	command func(options) (*exec.Cmd, error)
	dial    dialer // what calls it; nil: this benchmark's own MCP client, which takes next to nothing
}

// subjects are the compared servers, in the order of the report.
var subjects = []subject{
	{bridgeGo, "the bridge with a Go plugin", func(o options) (*exec.Cmd, error) {
		return bridge(o, filepath.Join(o.Bin, "echo-go"))
	}, nil},
	{bridgePython, "the bridge with a Python plugin", func(o options) (*exec.Cmd, error) {
		return bridge(o, o.Python, "python_echo.py")
	}, nil},
	{pythonSDK, "the official Python SDK (2.x) in process, no plugin, JSON answers", func(options) (*exec.Cmd, error) {
		return exec.Command("python/.venv/bin/python", "python/official.py"), nil
	}, nil},
	{bridgeTypeScript, "the bridge with a TypeScript plugin", func(o options) (*exec.Cmd, error) {
		return bridge(o, o.Node, "typescript/echo.mjs")
	}, nil},
	{
		typeScriptSDK, "the official TypeScript SDK (2.x) in process, no plugin, JSON answers",
		func(o options) (*exec.Cmd, error) {
			return exec.Command(o.Node, "typescript/official.mjs"), nil
		}, nil,
	},
	{bridgeJava, "the bridge with a Java plugin", func(o options) (*exec.Cmd, error) {
		return bridge(o, o.Java, "-jar", "java/target/bench-java.jar")
	}, nil},
	{
		javaSDK, "the official Java SDK (2.x) in process in Tomcat, no plugin, event streams",
		func(o options) (*exec.Cmd, error) {
			return exec.Command(o.Java, "-cp", "java/target/bench-java.jar", "bench.Official"), nil
		}, nil,
	},
	{
		javaSDKFast, "the same in the request's thread, where a tool must not wait, and without validation",
		func(o options) (*exec.Cmd, error) {
			return exec.Command(o.Java, "-cp", "java/target/bench-java.jar", "bench.Official", "fast"), nil
		}, nil,
	},
	{floor, "net/http, the body by unary gRPC to a Go plugin and back, no TLS", func(options) (*exec.Cmd, error) {
		return self("serve-floor")
	}, nil},
	{floorTLS, "the same with the mutual TLS the bridge uses", func(options) (*exec.Cmd, error) {
		return self("serve-floor", "-tls")
	}, nil},
	{goSDK, "go-sdk in process, no plugin, JSON answers", func(options) (*exec.Cmd, error) {
		return self("serve-gosdk")
	}, nil},
	{mcpGo, "mcp-go in process, no plugin, JSON answers", func(options) (*exec.Cmd, error) {
		return self("serve-mcpgo")
	}, nil},
	{direct, "go-sdk's client, and the same server", func(options) (*exec.Cmd, error) {
		return self("serve-gosdk")
	}, dialSDK},
	{proxyLegacy, "go-sdk's client, the bridge, and go-sdk's server of 2025-11-25", behind("http", legacy), dialSDK},
	{proxyModern, "the same, of 2026-07-28", behind("http", modern), dialSDK},
	{
		passLegacy, "go-sdk's client, net/http's reverse proxy, and go-sdk's server of 2025-11-25",
		behind("floor", legacy), dialSDK,
	},
	{passModern, "the same, of 2026-07-28", behind("floor", modern), dialSDK},
	{grpcLegacy, "a gRPC client, the bridge, and go-sdk's server of 2025-11-25", behind("grpc", legacy), dialGRPC},
	{grpcModern, "the same, of 2026-07-28", behind("grpc", modern), dialGRPC},
}

const (
	bridgeGo         = "bridge-go"
	bridgePython     = "bridge-python"
	pythonSDK        = "python-sdk"
	bridgeTypeScript = "bridge-typescript"
	typeScriptSDK    = "typescript-sdk"
	bridgeJava       = "bridge-java"
	javaSDK          = "java-sdk"
	javaSDKFast      = "java-sdk-fast"
	floor            = "floor"
	floorTLS         = "floor-tls"
	goSDK            = "go-sdk"
	mcpGo            = "mcp-go"
	direct           = "direct"
	proxyLegacy      = "proxy-legacy"
	proxyModern      = "proxy-modern"
	passLegacy       = "pass-legacy"
	passModern       = "pass-modern"
	grpcLegacy       = "grpc-legacy"
	grpcModern       = "grpc-modern"
)

// through are the subjects between a client and a server.
var through = []string{proxyLegacy, proxyModern, passLegacy, passModern, grpcLegacy, grpcModern}

// only contains the subjects of a single era.
var only = map[string]era{
	javaSDK: legacy, javaSDKFast: legacy, proxyLegacy: legacy, proxyModern: modern, passLegacy: legacy,
	passModern: modern, grpcLegacy: legacy, grpcModern: modern,
}

// speaks reports whether a subject supports an era.
func speaks(name string, e era) bool { return only[name] == "" || only[name] == e }

// warmUps are the numbers of calls per era and size before the first round, for a JVM's just-in-time compiler.
var warmUps = map[string]int{bridgeJava: 30_000, javaSDK: 30_000, javaSDKFast: 30_000}

// self starts this program as a peer.
func self(args ...string) (*exec.Cmd, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return exec.Command(exe, args...), nil
}

// bridge starts the bridge with a plugin, as `make bench` has built them.
func bridge(o options, plugin ...string) (*exec.Cmd, error) {
	exe, err := filepath.Abs(filepath.Join(o.Bin, "mcpbridge"))
	if err != nil {
		return nil, err
	}

	if plugin[0], err = exec.LookPath(plugin[0]); err != nil {
		return nil, err
	}
	files := []string{exe}
	for i, arg := range plugin {
		if strings.HasPrefix(arg, "-") {
			continue
		}
		if plugin[i], err = filepath.Abs(arg); err != nil {
			return nil, err
		}
		files = append(files, plugin[i])
	}
	for _, path := range files {
		if _, err := os.Stat(path); err != nil {
			return nil, fmt.Errorf("not there: %w", err)
		}
	}
	return exec.Command(exe, append([]string{"run", "--http", "127.0.0.1:0", "--"}, plugin...)...), nil
}

// wanted returns the selected subjects.
func wanted(o options) []subject {
	if len(o.Only) == 0 {
		return subjects
	}
	var ss []subject
	for _, s := range subjects {
		if slices.Contains(o.Only, s.name) {
			ss = append(ss, s)
		}
	}
	return ss
}
