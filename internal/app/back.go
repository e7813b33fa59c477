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
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// A back handles the calls of one backend of any kind.
type back interface {
	bridge.Handler
	// Run starts the backend or connects to it, and keeps it running until ctx ends. It returns an error only if it
	// gives up for good. It is called once.
	Run(ctx context.Context) error
	// Ready waits until the backend is ready. It returns an error if Run returns or ctx ends first.
	Ready(ctx context.Context) error
	// Started waits until the program that serves clients of an era is ready or has failed to start, and then returns
	// nil. It returns an error if ctx ends first.
	Started(ctx context.Context, era bridge.Era) error
}

// environment returns variables in the form of os.Environ.
func environment(values map[string]string) []string {
	var env []string
	for name, value := range values {
		env = append(env, name+"="+value)
	}
	slices.Sort(env)
	return env
}

// BackendOptions are the options of backends that are not in the configuration.
type BackendOptions struct {
	// ClientInfo identifies mcpbridge to MCP servers.
	ClientInfo *pb.Implementation
	// Login shows a page on which the user logs in until ctx ends. If nil, no user can log in.
	Login func(ctx context.Context, address string) error
	// LoginTimeout is how long a login may take, and ReachTimeout how long a client command waits for a backend that it
	// does not launch. If zero, 5 m and 10 s are used.
	LoginTimeout, ReachTimeout time.Duration
	// Wrap returns the Handler that replaces that of each backend. If nil, none is replaced.
	Wrap func(bridge.Handler) bridge.Handler
	// Detect accepts the command of an MCP server where that of a plugin is configured: see detectingBack.
	Detect bool
}

// A backend is one of the configured backends, with its current back.
type backend struct {
	*config.Backend
	BackendOptions
	configKey string // the place in the configuration, such as backends.0
	cfg       *config.Config
	log       zerolog.Logger
	panics    *contain.Panics

	openErr error                // of the first open
	back    atomic.Pointer[back] // nil until it is opened
	calls   *limit.Handler       // of the back
	catalog bridge.Handler       // around calls; nil for client commands
	logins  atomic.Int32         // in progress
	// startDone is closed when the back is ready, or has failed to start, for the first time.
	startDone chan struct{}
}

// newBackend returns the i-th backend of a configuration. Call open, then run or runWithRetries.
func newBackend(
	cfg *config.Config, i int, memory *limit.Memory, log zerolog.Logger, panics *contain.Panics, o BackendOptions,
) *backend {
	c := &cfg.Backends[i]
	unavailable := func(context.Context, *bridge.Call, bridge.Emit) (*bridge.Result, error) {
		return nil, bridge.Failed(codes.Unavailable, bridge.OutcomeNotExecuted, "BACKEND_UNAVAILABLE",
			"backend %q cannot be started; the call was not executed", c.Name)
	}
	return &backend{
		Backend: c, BackendOptions: o, configKey: fmt.Sprintf("backends.%d", i),
		cfg: cfg, log: log, panics: panics, startDone: make(chan struct{}),
		calls: limit.New(bridge.HandlerFunc(unavailable), limit.Options{
			Limits: cfg.Limits, TaskCalls: cfg.Tasks.OrDefaults().Calls, Memory: memory,
		}),
	}
}

// setBack sets the back that handles the calls of b.
func (b *backend) setBack(current back) {
	b.back.Store(&current)
	if b.Wrap != nil {
		b.calls.SetNext(b.Wrap(current))
		return
	}
	b.calls.SetNext(current)
}

// started calls the back's Started. It returns nil if no back is open.
func (b *backend) started(ctx context.Context, era bridge.Era) error {
	current := b.back.Load()
	if current == nil {
		return nil
	}
	return (*current).Started(ctx, era)
}

// readiness returns nil if the back is ready, an error that wraps context.Canceled if its state is not known yet, and
// otherwise the reason why it is not ready.
func (b *backend) readiness() error {
	current := b.back.Load()
	if current == nil {
		return errNotOpen
	}
	canceled, cancel := context.WithCancel(context.Background())
	cancel()
	return (*current).Ready(canceled)
}

var errNotOpen = errors.New("it is not set up")

// run calls the back's Run.
func (b *backend) run(ctx context.Context) error { return (*b.back.Load()).Run(ctx) }
