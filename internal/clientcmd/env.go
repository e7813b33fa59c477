package clientcmd

import (
	"context"
	"io"
	"time"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/app"
	"github.com/mcpbridge/mcpbridge/internal/terminal"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// An Env is the environment of a run of the command. All of its inputs and outputs are fields, so that a test can run
// it in its own process.
type Env struct {
	// Version is the version of mcpbridge.
	Version string
	// Args are the arguments, without the program's name.
	Args []string
	// Stdin, Stdout and Stderr are the standard streams. Only results go to Stdout.
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Environ is the environment, as os.Environ returns it.
	Environ []string
	// Abort ends when backends must be killed instead of stopped. If nil, it never ends.
	Abort context.Context //nolint:containedctx // it is an input of the program, as a signal is, and not of one call
	// Wrap returns the Handler that replaces that of each backend. It may be nil.
	Wrap func(bridge.Handler) bridge.Handler
	// ReachTimeout is how long a client command waits for a backend that it does not launch, and LoginTimeout how long
	// a login may take. If zero, 10 s and 5 m are used.
	ReachTimeout, LoginTimeout time.Duration
}

// BackendOptions returns the options of the backends.
func (e *Env) BackendOptions() app.BackendOptions {
	return app.BackendOptions{
		ClientInfo: e.clientInfo(), Login: terminal.Login(e.Stderr), LoginTimeout: e.LoginTimeout,
		ReachTimeout: e.ReachTimeout, Wrap: e.Wrap,
	}
}

// clientInfo identifies mcpbridge to MCP servers.
func (e *Env) clientInfo() *pb.Implementation {
	return &pb.Implementation{Name: "mcpbridge", Version: e.Version}
}
