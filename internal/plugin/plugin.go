// Package plugin is the back that is one backend program: a process that the bridge launches and keeps running
// (managed), or one that already runs and is dialled (attached). Both speak mcpbridge.v1 over gRPC; a managed one is a
// plugin of hashicorp/go-plugin.
//
// What it promises of every call is the delivery law: a call that was sent is never sent again unless it is read-only
// by protocol, a call that was not sent waits for the backend for a while, and every failure says which of the two it
// was.
package plugin

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/child"
	"github.com/mcpbridge/mcpbridge/internal/contain"
	"github.com/mcpbridge/mcpbridge/internal/limits"
	"github.com/mcpbridge/mcpbridge/internal/supervise"
)

// What a plugin and the bridge must agree on before they can talk. A plugin copies these: it does not import the
// bridge.
const (
	// CookieKey is the environment variable that tells a plugin that the bridge started it.
	CookieKey = "MCPBRIDGE_PLUGIN"
	// CookieValue is its value.
	CookieValue = "mcpbridge.v1"
	// ProtocolVersion is the second field of the handshake.
	ProtocolVersion = 1
)

// What the bridge tells a plugin beside what go-plugin does.
const (
	// EnvLifeline is "stdin": standard input has nothing to read, and ends when the bridge does.
	EnvLifeline = "MCP_PLUGIN_LIFELINE"
	// EnvKeyPair names a PEM file with a private key (PKCS #8) and its certificate, which the plugin may serve with
	// instead of making its own. It is gone after the handshake.
	EnvKeyPair = "MCPBRIDGE_KEY_PAIR"
	// EnvTransports names the transports that the plugin may choose from, best first.
	EnvTransports = "PLUGIN_TRANSPORTS"
)

// Options say which backend it is and how to keep it. Exactly one of Command and Address is set.
type Options struct {
	// Name is the backend's name in logs and errors. Empty: the program or the address.
	Name string

	// Command is the program to launch and its arguments. No shell is involved.
	Command []string
	// Dir is the directory it runs in. Empty: ours.
	Dir string
	// Env is what its environment has besides, as "K=V". It wins over what is passed on.
	Env []string
	// PassEnv names variables of our environment that are passed on, besides PATH, HOME, USER, LANG, LC_*, TZ, TMPDIR
	// and what language runtimes need to be found (see internal/child, env.go). A trailing * stands for any ending.
	PassEnv []string
	// Machine is how much of the machine it may take.
	Machine limits.Machine
	// StartTimeout is the maximum time until it answers. If zero, the default of limits.Timeouts is used.
	StartTimeout time.Duration
	// StopTimeout is the time to exit when it is stopped, before it is killed. If zero, limits.StopTimeout is used.
	StopTimeout time.Duration
	// HangTimeout is the maximum time without a response to a health check. If zero, the default of limits.Timeouts is
	// used.
	HangTimeout time.Duration

	// NoFrames says that calls of tools are made over gRPC even if the backend can take them as frames, which costs
	// less.
	NoFrames bool

	// Address is where a running backend is dialled: unix:PATH, tcp:HOST:PORT or dns:HOST:PORT. The forms unix:///PATH,
	// tcp://HOST:PORT and dns:///HOST:PORT mean the same. A dns address is resolved by gRPC, and again after every
	// loss.
	Address string
	// TLS makes the connection to Address mutual TLS. Nil: it is not encrypted.
	TLS *TLS

	// Log is where the backend's own output and what happens to it goes. The zero value logs nothing.
	Log zerolog.Logger
	// Panics counts the panics of the whole process. If nil, those of this package are counted alone.
	Panics *contain.Panics
	// Limits are the limits of messages and output. Zero fields are the defaults.
	Limits limits.Limits
}

// TLS names the files of a mutual TLS connection, all of them PEM.
type TLS struct {
	// CA is who vouches for the backend. Empty: whom the system trusts.
	CA string
	// Cert and Key are our own certificate and its private key. Empty: we have none.
	Cert, Key string
	// ServerName is the name in the backend's certificate. Empty: the host of the address.
	ServerName string
}

// pace is how fast things happen. Tests are faster.
type pace struct {
	supervise.Intervals
	settled     time.Duration // a backend that lived so long, and was called, is started again at once
	health      time.Duration // between health checks while calls run
	idle        time.Duration // between health checks while none does
	misses      int           // so many failed health checks in a row are a loss
	look        time.Duration // between looks at a backend that has not answered a health check yet
	stopped     int           // in so many looks in a row it was stopped, which is a loss
	busy        time.Duration // until it is reported that it does not answer
	acknowledge time.Duration // how long a backend may take to acknowledge a Listen until it is assumed
	// a dialled backend that does not answer and cannot be connected to for so long gets no more calls
	silence    time.Duration
	lastAnswer time.Duration // how long calls that it has may wait for a sign of life then
}

var usualPace = pace{
	Intervals: supervise.Intervals{
		Backoff: 50 * time.Millisecond, MaxBackoff: 30 * time.Second, Crashes: 5, CrashWindow: time.Minute,
		Shortage: 200 * time.Millisecond, Patience: 5 * time.Second, Hopeless: 2 * time.Second,
	},
	settled: 100 * time.Millisecond, health: time.Second, idle: 30 * time.Second, misses: 3,
	look: 500 * time.Millisecond, stopped: 3, busy: 5 * time.Second, acknowledge: 200 * time.Millisecond,
	silence: 1800 * time.Millisecond, lastAnswer: 3 * time.Second,
}

// A Plugin is one backend. It implements bridge.Handler.
type Plugin struct {
	o      Options
	log    zerolog.Logger
	panics *contain.Panics
	tls    *tls.Config // for Address
	end    endpoint    // parsed Address
	pace   pace
	super  *supervise.Supervisor[*life]
	// dialled is how Address is connected to; nil for a Command.
	dialled *dialled
}

var _ bridge.Handler = (*Plugin)(nil)

// A life of a backend is the time from its first answer to its loss.
type life struct {
	*link
	frames   *frames  // nil if there are none
	managed  *managed // nil if the process is not ours
	began    time.Time
	ready    time.Time
	lost     loss            // why the life is over; set before gone is closed
	broken   bool            // its connection ended; for one that was dialled
	here     context.Context // ends at its loss
	end      context.CancelFunc
	gone     <-chan struct{} // closed when here ends
	called   atomic.Bool     // it has answered a call that is more than a question
	calls    inFlight
	discover discoverCache
	after    sync.Once // to tell that it sends more after a result

	unacknowledged sync.Once // to warn that it does not acknowledge a Listen
}

// Gone implements supervise.Connection.
func (l *life) Gone() <-chan struct{} { return l.gone }

// New returns the Plugin that o describes. It starts nothing.
func New(o Options) (*Plugin, error) {
	p := &Plugin{o: o, pace: usualPace}
	switch {
	case len(o.Command) == 0 && o.Address == "":
		return nil, fmt.Errorf("backend %q: neither a command to launch nor an address to dial", o.Name)
	case len(o.Command) > 0 && o.Address != "":
		return nil, fmt.Errorf("backend %q: both a command (%s) and an address (%s)", o.Name, o.Command[0], o.Address)
	case len(o.Command) > 0 && o.Command[0] == "":
		return nil, fmt.Errorf("backend %q: the command's first word is empty", o.Name)
	case len(o.Command) > 0 && o.TLS != nil:
		return nil, fmt.Errorf("backend %q: a launched backend always has TLS, with keys of its own; TLS options "+
			"are for an address", o.Name)
	case o.Limits.Message < 0 || o.StartTimeout < 0 || o.StopTimeout < 0 || o.HangTimeout < 0 || o.Machine.Memory < 0 ||
		o.Machine.Processes < 0 || o.Machine.Files < 0:
		return nil, fmt.Errorf("backend %q: a limit or timeout is negative", o.Name)
	}
	if p.o.Name == "" {
		p.o.Name = o.Address
		if len(o.Command) > 0 {
			p.o.Name = o.Command[0]
		}
	}
	p.o.Limits = p.o.Limits.OrDefaults()
	t := limits.Timeouts{Start: o.StartTimeout, Hang: o.HangTimeout}.OrDefaults()
	p.o.StartTimeout, p.o.HangTimeout = t.Start, t.Hang
	p.o.StopTimeout = cmp.Or(o.StopTimeout, limits.StopTimeout)
	p.log = o.Log.With().Str("backend", p.o.Name).Logger()
	p.panics = o.Panics.With(p.log)
	for _, kv := range o.Env {
		if !child.ValidEnv(kv) {
			return nil, fmt.Errorf("backend %q: environment entry %q is not K=V", p.o.Name, kv)
		}
	}
	supervised := supervise.Options{
		Name: p.o.Name, Noun: "backend", IsProgram: o.Address == "", Log: p.log,
		Panics: p.panics, Intervals: &p.pace.Intervals,
	}
	if o.Address == "" {
		p.super = supervise.New[*life](launched{p}, supervised)
		return p, nil
	}
	p.dialled = &dialled{Plugin: p}
	p.super = supervise.New[*life](p.dialled, supervised)
	var err error
	if p.end, err = parseAddress(o.Address); err != nil {
		return nil, fmt.Errorf("backend %q: %w", p.o.Name, err)
	}
	if o.TLS != nil {
		if p.tls, err = o.TLS.Config(o.Address); err != nil {
			return nil, fmt.Errorf("backend %q: %w", p.o.Name, err)
		}
	}
	return p, nil
}

// Ready waits until the backend answers. It returns an error if Run has returned, or ctx ends, before.
func (p *Plugin) Ready(ctx context.Context) error { return p.super.Ready(ctx) }

// Started waits while a process of ours starts, and returns nil when it answers or its start has failed. It returns an
// error if ctx ends before. The process serves clients of both eras. A backend that is dialled does not start.
func (p *Plugin) Started(ctx context.Context, _ bridge.Era) error { return p.super.Started(ctx) }
