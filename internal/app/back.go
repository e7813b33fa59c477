package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	"google.golang.org/grpc/codes"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/config"
	"github.com/mcpbridge/mcpbridge/internal/contain"
	"github.com/mcpbridge/mcpbridge/internal/limit"
	"github.com/mcpbridge/mcpbridge/internal/plugin"
	"github.com/mcpbridge/mcpbridge/internal/problem"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// A back answers the calls of one backend, whatever it is.
type back interface {
	bridge.Handler
	// Run starts or connects it and keeps it until ctx ends. It returns an error only if it will not come. It is called once.
	Run(ctx context.Context) error
	// Ready waits until it answers. It returns an error if Run has returned, or ctx ends, before.
	Ready(ctx context.Context) error
	// Started waits while the program that serves clients of an era starts, and returns nil when it answers or its
	// start has failed. It returns an error if ctx ends before.
	Started(ctx context.Context, era bridge.Era) error
}

// openers return a back of each kind, by its key. Nothing is started yet.
var openers = map[string]func(b *backend) (back, error){"launch": openLaunch, "dial": openDial, "mcp": openMCP}

func openLaunch(b *backend) (back, error) {
	c := b.Launch
	return plugin.New(plugin.Options{
		Name: b.Name, Command: c.Command, Dir: c.Dir, Env: environment(c.Env), PassEnv: c.PassEnv, StartTimeout: c.StartTimeout,
		HangTimeout: c.HangTimeout, Log: b.log, Panics: b.panics, Limits: b.cfg.Limits, Machine: c.Limits,
	})
}

// tlsFiles returns the settings of TLS as package plugin has them.
func tlsFiles(t *config.DialTLS) *plugin.TLS {
	if t == nil {
		return nil
	}
	return &plugin.TLS{CA: t.CA, Cert: t.Cert, Key: t.Key, ServerName: t.ServerName}
}

func openDial(b *backend) (back, error) {
	return plugin.New(plugin.Options{
		Name: b.Name, Address: b.Dial, TLS: tlsFiles(b.TLS), HangTimeout: b.HangTimeout,
		Log: b.log, Panics: b.panics, Limits: b.cfg.Limits,
	})
}

// environment returns variables as a process has them.
func environment(values map[string]string) []string {
	var env []string
	for name, value := range values {
		env = append(env, name+"="+value)
	}
	slices.Sort(env)
	return env
}

// BackendOptions are the options of backends that are not configured.
type BackendOptions struct {
	// ClientInfo identifies mcpbridge to MCP servers.
	ClientInfo *pb.Implementation
	// Login shows a page on which the user logs in until ctx ends. If nil, no user can log in.
	Login func(ctx context.Context, address string) error
	// LoginTimeout is the time a user has to log in, and ReachTimeout the time that a backend that is not launched has to
	// answer a client command. If zero, 5 m and 10 s are used.
	LoginTimeout, ReachTimeout time.Duration
	// Wrap returns the Handler that replaces that of each backend. If nil, none is replaced.
	Wrap func(bridge.Handler) bridge.Handler
	// Detect also accepts the command of an MCP server for a plugin: see auto.
	Detect bool
}

// A backend is a back that is served, and how to get it again.
type backend struct {
	*config.Backend
	BackendOptions
	at     string // in the configuration
	cfg    *config.Config
	log    zerolog.Logger
	panics *contain.Panics

	back   atomic.Pointer[back] // nil until open
	calls  *limit.Handler       // of the back
	logins atomic.Int32         // in progress
	// settled is closed when the back answers, or does not start, for the first time.
	settled chan struct{}
}

// newBackend returns the i-th backend of a configuration. Call open, then run or keep.
func newBackend(
	cfg *config.Config, i int, memory *limit.Memory, log zerolog.Logger, panics *contain.Panics, o BackendOptions,
) *backend {
	c := &cfg.Backends[i]
	none := func(context.Context, *bridge.Call, bridge.Emit) (*bridge.Result, error) {
		return nil, bridge.Failed(codes.Unavailable, pb.CallFailure_OUTCOME_NOT_EXECUTED, "BACKEND_UNAVAILABLE",
			"backend %q cannot be started; the call was not executed", c.Name)
	}
	return &backend{
		Backend: c, BackendOptions: o, at: fmt.Sprintf("backends.%d", i), cfg: cfg, log: log, panics: panics, settled: make(chan struct{}),
		calls: limit.New(bridge.HandlerFunc(none), limit.Options{Limits: cfg.Limits, Memory: memory}),
	}
}

// open makes a new back.
func (b *backend) open() error {
	if c := b.Command(); c != nil {
		if err := checkCommand(c, b.cfg.Where(b.at+"."+b.Key()+".command")); err != nil {
			return err
		}
	}
	open := openers[b.Key()]
	if b.Detect && b.Launch != nil {
		open = openAuto
	}
	opened, err := open(b)
	if err != nil {
		if p, ok := errors.AsType[*problem.Error](err); ok {
			return p
		}
		return &problem.Error{
			Exit: problem.ExitConfig, Code: "backend", What: fmt.Sprintf("backend %q cannot be set up", b.Name),
			Where: b.cfg.Where(b.at), Why: err.Error(), Fix: "correct the backend's settings", Cause: err,
		}
	}
	b.set(opened)
	return nil
}

// set has opened answer the calls of b from now on.
func (b *backend) set(opened back) {
	b.back.Store(&opened)
	if b.Wrap != nil {
		b.calls.SetNext(b.Wrap(opened))
		return
	}
	b.calls.SetNext(opened)
}

// started is Started of the back.
func (b *backend) started(ctx context.Context, era bridge.Era) error {
	opened := b.back.Load()
	if opened == nil {
		return nil
	}
	return (*opened).Started(ctx, era)
}

// now returns nil if the back answers now, context.Canceled in an error if that is not known yet, and else why it does not.
func (b *backend) now() error {
	opened := b.back.Load()
	if opened == nil {
		return errNotOpen
	}
	now, cancel := context.WithCancel(context.Background())
	cancel()
	return (*opened).Ready(now)
}

var errNotOpen = errors.New("it is not set up")

// run is Run of the back.
func (b *backend) run(ctx context.Context) error { return (*b.back.Load()).Run(ctx) }

// The time between two tries to start a backend that does not start, beside others that do.
const (
	firstRetry = time.Second
	lastRetry  = time.Minute
)

// keep runs the back, whose opening has failed with err if that is not nil, until ctx ends. When it does not start, keep opens and runs it
// again: others are served meanwhile.
func (b *backend) keep(ctx context.Context, err error) {
	for delay := firstRetry; ; delay, err = min(2*delay, lastRetry), b.open() {
		if err == nil {
			err = b.attempt(ctx)
		}
		b.settle()
		if ctx.Err() != nil {
			return
		}
		p := problem.Of(b.startProblem(err))
		line := b.log.Error().Str("backend", b.Name)
		for _, m := range []struct{ name, text string }{{"where", p.Where}, {"why", p.Why}, {"fix", p.Fix}} {
			if m.text != "" {
				line = line.Str(m.name, m.text)
			}
		}
		line.Stringer("retryIn", delay).Msg(p.What)
		select {
		case <-time.After(delay):
		case <-ctx.Done():
			return
		}
	}
}

// attempt runs the back once, and settles when it answers.
func (b *backend) attempt(ctx context.Context) error {
	current := *b.back.Load()
	ready, cancel := context.WithCancel(ctx)
	waited := make(chan struct{})
	go func() {
		defer close(waited)
		if current.Ready(ready) == nil {
			b.settle()
		}
	}()
	err := current.Run(ctx)
	cancel()
	<-waited
	return err
}

// settle says that it is known how the first start went.
func (b *backend) settle() {
	select {
	case <-b.settled:
	default:
		close(b.settled)
	}
}
