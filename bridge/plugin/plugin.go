// Package plugin is the back that is one backend program: a process that the bridge launches and keeps running (managed),
// or one that already runs and is dialled (attached). Both speak mcpbridge.v1 over gRPC; a managed one is a plugin of
// hashicorp/go-plugin.
//
// What it promises of every call is the delivery law: a call that was sent is never sent again unless it is read-only by
// protocol, a call that was not sent waits for the backend for a while, and every failure says which of the two it was.
package plugin

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/bridge/child"
	"github.com/mcpbridge/mcpbridge/bridge/contain"
)

// What a plugin and the bridge must agree on before they can talk. A plugin copies these: it does not import the bridge.
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
	// EnvKeyPair names a PEM file with a private key (PKCS #8) and its certificate, which the plugin may serve with instead
	// of making its own. It is gone after the handshake.
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
	// PassEnv names variables of our environment that are passed on, besides PATH, HOME, USER, LANG, LC_*, TZ, TMPDIR and
	// what language runtimes need to be found (see bridge/child, env.go). A trailing * stands for any ending.
	PassEnv []string
	// Limits are how much of the machine it may take.
	Limits child.Limits
	// StartTimeout is how long it may take until it answers. 0: 30 s.
	StartTimeout time.Duration
	// StopTimeout is how long it may take to stop before it is killed. 0: 5 s.
	StopTimeout time.Duration
	// HangTimeout is how long it may leave a health check unanswered before it is taken for hung. 0: 60 s.
	HangTimeout time.Duration

	// NoFrames says that calls of tools are made over gRPC even if the backend can take them as frames, which costs less.
	NoFrames bool

	// Address is where a running backend is dialled: unix:PATH, tcp:HOST:PORT or dns:HOST:PORT. The forms unix:///PATH,
	// tcp://HOST:PORT and dns:///HOST:PORT mean the same. A dns address is resolved by gRPC, and again after every loss.
	Address string
	// TLS makes the connection to Address mutual TLS. Nil: it is not encrypted.
	TLS *TLS

	// Log is where the backend's own output and what happens to it goes. The zero value logs nothing.
	Log zerolog.Logger
	// LogLimits are how much of the backend's own output is logged.
	LogLimits child.LogLimits
	// MaxMessage is the most bytes one gRPC message may have, either way. 0: 16 MiB.
	MaxMessage int
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
	backoff, maxBackoff time.Duration // between a crash and the next start: at most the first time, and at most at all
	settled             time.Duration // a backend that lived so long is started again at once
	crashes             int           // so many in a row, within crashWindow, are a crash loop
	crashWindow         time.Duration
	starved             time.Duration // until the next start of one for which there were no descriptors
	patience            time.Duration // the most that a call waits for a backend
	hopeless            time.Duration // a backoff longer than this is not waited for
	health              time.Duration // between health checks while calls run
	idle                time.Duration // between health checks while none does
	misses              int           // so many failed health checks in a row are a loss
	look                time.Duration // between looks at a backend that has not answered a health check yet
	stopped             int           // in so many looks in a row it was stopped, which is a loss
	busy                time.Duration // until it is reported that it does not answer
	acknowledge         time.Duration // how long a backend may take to acknowledge a Listen until it is assumed
	silence             time.Duration // a dialled backend that does not answer and cannot be connected to for so long gets no more calls
	lastAnswer          time.Duration // how long calls that it has may wait for a sign of life then
}

var usualPace = pace{
	backoff: 50 * time.Millisecond, maxBackoff: 30 * time.Second, settled: 100 * time.Millisecond,
	crashes: 5, crashWindow: time.Minute, starved: 200 * time.Millisecond,
	patience: 5 * time.Second, hopeless: 2 * time.Second,
	health: time.Second, idle: 30 * time.Second, misses: 3,
	look: 500 * time.Millisecond, stopped: 3, busy: 5 * time.Second, acknowledge: 200 * time.Millisecond,
	silence: 1800 * time.Millisecond, lastAnswer: 3 * time.Second,
}

// A Plugin is one backend. It implements bridge.Handler.
type Plugin struct {
	o      Options
	log    zerolog.Logger
	panics contain.Panics
	tls    *tls.Config // for Address
	end    endpoint    // parsed Address
	pace   pace

	retries bridge.RetryBudget

	live atomic.Pointer[life] // the same as state.life, for those in a hurry

	mu    sync.Mutex // guards state
	state state
}

var _ bridge.Handler = (*Plugin)(nil)

// A life of a backend is the time from its first answer to its loss.
type life struct {
	*link
	frames   *frames         // nil if there are none
	here     context.Context // ends at its loss
	end      context.CancelFunc
	gone     <-chan struct{} // closed when here ends
	oom      func() bool     // reports that its process had too little memory; nil if it is not ours
	process  *child.Process  // nil if it is not ours
	hung     time.Duration   // it was given up because it had not answered for so long; set before gone is closed
	called   atomic.Bool     // it has answered a call that is more than a question
	calls    inFlight
	discover discoverCache
	after    sync.Once // to tell that it sends more after a result

	unacknowledged sync.Once // to warn that it does not acknowledge a Listen
}

// state is what there is to know while there is no life.
type state struct {
	life    *life
	down    time.Time     // since when there has been none
	retryAt time.Time     // when the next start is, if it is not going on now
	looping bool          // it crashes again and again
	silent  bool          // it was dialled, and said nothing any more
	lived   bool          // there has been one
	starts  bool          // while there is no life, a process is started, and the last one did not fail to start
	ended   bool          // there will be none any more
	err     error         // why, if that is not because Run's context ended
	changed chan struct{} // closed when any of this changes
}

// New returns the Plugin that o describes. It starts nothing.
func New(o Options) (*Plugin, error) {
	p := &Plugin{o: o, pace: usualPace}
	p.state = state{down: time.Now(), starts: len(o.Command) > 0, changed: make(chan struct{})}
	switch {
	case len(o.Command) == 0 && o.Address == "":
		return nil, fmt.Errorf("backend %q: neither a command to launch nor an address to dial", o.Name)
	case len(o.Command) > 0 && o.Address != "":
		return nil, fmt.Errorf("backend %q: both a command (%s) and an address (%s)", o.Name, o.Command[0], o.Address)
	case len(o.Command) > 0 && o.Command[0] == "":
		return nil, fmt.Errorf("backend %q: the command's first word is empty", o.Name)
	case len(o.Command) > 0 && o.TLS != nil:
		return nil, fmt.Errorf("backend %q: a launched backend always has TLS, with keys of its own; TLS options are for an address", o.Name)
	case o.MaxMessage < 0 || o.StartTimeout < 0 || o.StopTimeout < 0 || o.HangTimeout < 0 || o.Limits.Memory < 0 || o.Limits.Processes < 0 || o.Limits.Files < 0:
		return nil, fmt.Errorf("backend %q: a limit or timeout is negative", o.Name)
	}
	if p.o.Name == "" {
		p.o.Name = o.Address
		if len(o.Command) > 0 {
			p.o.Name = o.Command[0]
		}
	}
	if p.o.MaxMessage == 0 {
		p.o.MaxMessage = 16 << 20
	}
	if p.o.StartTimeout == 0 {
		p.o.StartTimeout = 30 * time.Second
	}
	if p.o.StopTimeout == 0 {
		p.o.StopTimeout = 5 * time.Second
	}
	if p.o.HangTimeout == 0 {
		p.o.HangTimeout = time.Minute
	}
	p.log = o.Log.With().Str("backend", p.o.Name).Logger()
	p.panics.Log = p.log
	for _, kv := range o.Env {
		if !child.ValidEnv(kv) {
			return nil, fmt.Errorf("backend %q: environment entry %q is not K=V", p.o.Name, kv)
		}
	}
	if o.Address == "" {
		return p, nil
	}
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

// errStopped is what Ready returns when Run has ended because it was told to.
var errStopped = errors.New("the backend has been stopped")

// Ready waits until the backend answers. It returns an error if Run has returned, or ctx ends, before.
func (p *Plugin) Ready(ctx context.Context) error {
	for {
		s := p.look()
		switch {
		case s.life != nil:
			return nil
		case s.err != nil:
			return s.err
		case s.ended:
			return errStopped
		}
		select {
		case <-s.changed:
		case <-ctx.Done():
			return fmt.Errorf("backend %q: waiting until it answers: %w", p.o.Name, ctx.Err())
		}
	}
}

// Started waits while a process of ours starts, and returns nil when it answers or its start has failed. It returns an error if ctx
// ends before. The process serves clients of both eras. A backend that is dialled does not start.
func (p *Plugin) Started(ctx context.Context, _ bridge.Era) error {
	for {
		s := p.look()
		if s.life != nil || !s.starting(&p.pace) {
			return nil
		}
		select {
		case <-s.changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// starting reports whether a process starts, or is about to: a call waits for it, however long that takes.
func (s *state) starting(p *pace) bool {
	return s.starts && !s.ended && !s.looping && time.Until(s.retryAt) <= p.hopeless
}

// look returns the state as it is now.
func (p *Plugin) look() state {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.state
}

// change changes the state and tells everybody who waits.
func (p *Plugin) change(f func(*state)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f(&p.state)
	p.live.Store(p.state.life)
	close(p.state.changed)
	p.state.changed = make(chan struct{})
}

// begin makes l the backend that calls go to.
func (p *Plugin) begin(l *life) *life {
	l.calls.first = make(chan struct{}, 1)
	l.here, l.end = context.WithCancel(context.Background())
	l.gone = l.here.Done()
	p.change(func(s *state) { s.life, s.lived, s.retryAt, s.looping, s.silent = l, true, time.Time{}, false, false })
	return l
}

// lose takes l away from calls.
func (p *Plugin) lose(l *life, lost loss) {
	l.hung = lost.hung
	p.change(func(s *state) { s.life, s.down, s.starts = nil, time.Now(), p.o.Address == "" })
	l.end()
}
