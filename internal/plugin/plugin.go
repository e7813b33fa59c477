// Package plugin implements the back for one backend program: a process that the bridge launches and keeps running
// (managed), or a running one that it dials (attached). Both serve mcpbridge.v1 over gRPC; a managed one is a plugin of
// hashicorp/go-plugin.
//
// It implements the delivery law for each call: a call that was sent is never sent again unless the protocol defines it
// as read-only, a call that was not sent waits for the backend for a limited time, and each error has the outcome of
// its call.
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

// The constants of the handshake. Plugins copy these: they do not import the bridge.
const (
	// CookieKey is the environment variable that marks a plugin that the bridge started.
	CookieKey = "MCPBRIDGE_PLUGIN"
	// CookieValue is its value.
	CookieValue = "mcpbridge.v1"
	// ProtocolVersion is the second field of the handshake.
	ProtocolVersion = 1
)

// Environment variables for a plugin, beside those of go-plugin.
const (
	// EnvLifeline is "stdin": standard input has no data, and ends when the bridge exits.
	EnvLifeline = "MCP_PLUGIN_LIFELINE"
	// EnvKeyPair names a PEM file with a private key (PKCS #8) and its certificate, which the plugin may serve with
	// instead of its own. The bridge removes it after the handshake.
	EnvKeyPair = "MCPBRIDGE_KEY_PAIR"
	// EnvTransports names the transports that the plugin can choose from, in the order of preference.
	EnvTransports = "PLUGIN_TRANSPORTS"
)

// Options select a backend and configure how it runs. Exactly one of Command and Address is set.
type Options struct {
	// Name is the backend's name in logs and errors. If empty, the program or the address is used.
	Name string

	// Command is the program to launch and its arguments. No shell is involved.
	Command []string
	// Dir is the working directory. If empty, the bridge's is used.
	Dir string
	// Env are additional environment variables, as "K=V". They override those that are passed on.
	Env []string
	// PassEnv names variables of the bridge's environment to pass on, besides PATH, HOME, USER, LANG, LC_*, TZ, TMPDIR
	// and those of language runtimes (see internal/child, env.go). A trailing * matches any suffix.
	PassEnv []string
	// Machine limits the resources of the process.
	Machine limits.Machine
	// StartTimeout is the maximum time until the backend is ready. If zero, the default of limits.Timeouts is used.
	StartTimeout time.Duration
	// StopTimeout is the time to exit after a request to stop, before the process is killed. If zero,
	// limits.StopTimeout is used.
	StopTimeout time.Duration
	// HangTimeout is the maximum time without a response to a health check. If zero, the default of limits.Timeouts is
	// used.
	HangTimeout time.Duration

	// NoFrames makes all calls by gRPC, even if the backend supports frames, which cost less.
	NoFrames bool

	// Address is the address of a running backend: unix:PATH, tcp:HOST:PORT or dns:HOST:PORT. The forms unix:///PATH,
	// tcp://HOST:PORT and dns:///HOST:PORT mean the same. gRPC resolves a dns address, and again after each loss of the
	// connection.
	Address string
	// TLS makes the connection to Address mutual TLS. If nil, it is not encrypted.
	TLS *TLS

	// Log receives the backend's output and events. The zero value discards them.
	Log zerolog.Logger
	// Panics counts the panics of the whole process. If nil, this backend has a count of its own.
	Panics *contain.Panics
	// Limits are the limits of messages and output. If a field is zero, its default is used.
	Limits limits.Limits
}

// TLS names the PEM files of a mutual TLS connection.
type TLS struct {
	// CA are the certificate authorities for the backend. If empty, the system's are used.
	CA string
	// Cert and Key are the bridge's certificate and private key. If empty, it sends none.
	Cert, Key string
	// ServerName is the name in the backend's certificate. If empty, the host of the address is used.
	ServerName string
}

// intervals are intervals and timeouts, which tests shorten.
type intervals struct {
	supervise.Intervals
	settled     time.Duration // a backend that ran so long, and was called, is restarted without delay
	health      time.Duration // between health checks while calls are in flight
	idle        time.Duration // between health checks otherwise
	misses      int           // number of failed health checks in a row that make a loss
	poll        time.Duration // between looks at a backend that has not responded to a health check yet
	stopped     int           // number of looks in a row at a stopped process that make a loss
	busy        time.Duration // until a warning reports that the backend does not respond
	acknowledge time.Duration // how long a backend has to acknowledge a Listen before the bridge does
	// a dialed backend that has not responded, and could not be connected to, for so long receives no more calls
	silence    time.Duration
	lastAnswer time.Duration // how long its calls may then wait for a response
}

var defaultIntervals = intervals{
	Intervals: supervise.Intervals{
		Backoff: 50 * time.Millisecond, MaxBackoff: 30 * time.Second, Crashes: 5, CrashWindow: time.Minute,
		ShortageDelay: 200 * time.Millisecond, CallWait: 5 * time.Second, FailFast: 2 * time.Second,
	},
	settled: 100 * time.Millisecond, health: time.Second, idle: 30 * time.Second, misses: 3,
	poll: 500 * time.Millisecond, stopped: 3, busy: 5 * time.Second, acknowledge: 200 * time.Millisecond,
	silence: 1800 * time.Millisecond, lastAnswer: 3 * time.Second,
}

// A Plugin is one backend. It implements bridge.Handler and is safe for concurrent use.
type Plugin struct {
	o          Options
	log        zerolog.Logger
	panics     *contain.Panics
	tls        *tls.Config // for Address
	end        endpoint    // parsed Address
	intervals  intervals
	supervisor *supervise.Supervisor[*instance]
	// dialed connects to Address; it is nil for a Command.
	dialed *dialedBackend
}

var _ bridge.Handler = (*Plugin)(nil)

// An instance is a connection to the backend, from its first response to its loss.
type instance struct {
	*link
	frames          *frames  // nil without frames
	managed         *managed // nil if the process was not launched
	began           time.Time
	ready           time.Time
	lost            loss            // why it ended; set before done is closed
	broken          bool            // its connection ended; for a dialed backend
	ctx             context.Context // ends at its loss
	end             context.CancelFunc
	done            <-chan struct{} // closed when ctx ends
	called          atomic.Bool     // it has answered a call other than a health check or a list
	calls           inFlight
	discover        discoverCache
	warnAfterResult sync.Once // to warn that it sends messages after a result

	warnUnacknowledged sync.Once // to warn that it does not acknowledge a Listen
}

// Lost implements supervise.Connection.
func (l *instance) Lost() <-chan struct{} { return l.done }

// New returns a Plugin for o without starting it.
func New(o Options) (*Plugin, error) {
	p := &Plugin{o: o, intervals: defaultIntervals}
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
		Panics: p.panics, Intervals: &p.intervals.Intervals,
	}
	if o.Address == "" {
		p.supervisor = supervise.New[*instance](launchedBackend{p}, supervised)
		return p, nil
	}
	p.dialed = &dialedBackend{Plugin: p}
	p.supervisor = supervise.New[*instance](p.dialed, supervised)
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

// Ready waits until the backend is ready. It returns an error if Run returns or ctx ends first.
func (p *Plugin) Ready(ctx context.Context) error { return p.supervisor.Ready(ctx) }

// Started waits while a launched process starts, and returns nil when it is ready or has failed to start. It returns an
// error if ctx ends first. A dialed backend does not start. The process serves clients of both eras.
func (p *Plugin) Started(ctx context.Context, _ bridge.Era) error { return p.supervisor.Started(ctx) }
