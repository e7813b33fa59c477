package app

import (
	"context"
	"os"
	"regexp"
	"strconv"
	"sync"
	"time"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/mcpclient"
	"github.com/mcpbridge/mcpbridge/internal/plugin"
	"github.com/mcpbridge/mcpbridge/internal/problem"
)

// A detectingBack launches a command that may be a plugin or an MCP server, and identifies it by its output: a
// plugin prints a handshake, and an MCP server responds to requests. So the command gets both the environment of a
// plugin and requests. A timeout could not distinguish an MCP server from a plugin that starts slowly or is broken. An
// MCP server is launched once this way; a plugin is launched again, with the keys that it needs.
type detectingBack struct {
	plugin, mcp back
	stop        context.CancelFunc // stops the server
	dir         string             // of the plugin's socket

	once     sync.Once
	isPlugin chan struct{} // closed when the program has printed a handshake
}

var _ bridge.Handler = (*detectingBack)(nil)

// handshakeLine is what a plugin prints first: versions, network, address, protocol.
var handshakeLine = regexp.MustCompile(`^\d+\|\d+\|(tcp|unix)\|.*\|grpc\b`)

// detectStopTimeout is how long the program may take to exit. A plugin that ignores the end of its stdin takes half of
// it.
const detectStopTimeout = 2 * time.Second

func openDetecting(b *backend) (back, error) {
	a := &detectingBack{isPlugin: make(chan struct{})}
	var err error
	if a.plugin, err = openLaunch(b); err != nil {
		return nil, err
	}
	if a.dir, err = os.MkdirTemp("", "mcpbridge-"); err != nil {
		return nil, &problem.Error{
			Exit: problem.ExitConfig, Code: "backend",
			What: "the directory for temporary files, " + os.TempDir() + ", cannot hold the socket of backend " +
				strconv.Quote(b.Name),
			Where: "environment variable TMPDIR", Why: problem.Cause(err).Error(),
			Fix:   "set TMPDIR to a directory that exists and can be written, such as an emptyDir",
			Cause: err,
		}
	}
	c := b.Launch
	env := append(environment(c.Env), plugin.CookieKey+"="+plugin.CookieValue, plugin.EnvLifeline+"=stdin",
		"PLUGIN_PROTOCOL_VERSIONS=1",
		plugin.EnvTransports+"=unix", "PLUGIN_UNIX_SOCKET_DIR="+a.dir)
	a.mcp, err = mcpclient.New(mcpclient.Options{
		Name: b.Name, Command: c.Command, Dir: c.Dir, Env: env, PassEnv: c.PassEnv, StartTimeout: c.StartTimeout,
		StopTimeout: detectStopTimeout,
		ClientInfo:  b.ClientInfo, Log: b.log, Panics: b.panics, InvalidLine: a.isHandshake,
		Limits: b.cfg.Limits,
	})
	if err != nil {
		os.RemoveAll(a.dir)
		return nil, err
	}
	return a, nil
}

// isHandshake receives a line of the program's output that is not MCP, and reports whether it is a plugin's handshake.
func (a *detectingBack) isHandshake(line []byte) bool {
	if !handshakeLine.Match(line) {
		return false
	}
	a.once.Do(func() {
		close(a.isPlugin)
		a.stop()
	})
	return true
}

// current returns the back for a plugin once the program has printed a handshake, and until then the one for an MCP
// server.
func (a *detectingBack) current() back {
	select {
	case <-a.isPlugin:
		return a.plugin
	default:
		return a.mcp
	}
}

// Run implements back.
func (a *detectingBack) Run(ctx context.Context) error {
	defer os.RemoveAll(a.dir)
	var server context.Context
	server, a.stop = context.WithCancel(ctx)
	defer a.stop()
	err := a.mcp.Run(server)
	if a.current() == a.mcp || ctx.Err() != nil {
		return err
	}
	return a.plugin.Run(ctx)
}

// Ready implements back.
func (a *detectingBack) Ready(ctx context.Context) error {
	if err := a.mcp.Ready(ctx); err == nil || a.current() == a.mcp {
		return err
	}
	return a.plugin.Ready(ctx)
}

// Started implements back.
func (a *detectingBack) Started(ctx context.Context, era bridge.Era) error {
	if err := a.mcp.Started(ctx, era); err != nil || a.current() == a.mcp {
		return err
	}
	return a.plugin.Started(ctx, era)
}

// Handle implements bridge.Handler.
func (a *detectingBack) Handle(ctx context.Context, call *bridge.Call, emit bridge.Emit) (*bridge.Result, error) {
	return a.current().Handle(ctx, call, emit)
}
