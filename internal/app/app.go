// Package app runs the bridge of a configuration: backends, fronts and probes, until it is drained. It also connects
// the client commands to backends.
package app

import (
	"context"
	"crypto/tls"
	"io"
	"path"
	"time"

	"github.com/rs/zerolog"
	"google.golang.org/protobuf/proto"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/auth"
	"github.com/mcpbridge/mcpbridge/internal/catalog"
	"github.com/mcpbridge/mcpbridge/internal/config"
	"github.com/mcpbridge/mcpbridge/internal/contain"
	"github.com/mcpbridge/mcpbridge/internal/lifecycle"
	"github.com/mcpbridge/mcpbridge/internal/limit"
	"github.com/mcpbridge/mcpbridge/internal/mcpserver"
	"github.com/mcpbridge/mcpbridge/internal/problem"
	"github.com/mcpbridge/mcpbridge/internal/router"
	"github.com/mcpbridge/mcpbridge/internal/tasks"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// Options are the options of an App that are not in the configuration.
type Options struct {
	// Log is the log.
	Log zerolog.Logger
	// Stdin and Stdout are the streams of a stdio client.
	Stdin  io.Reader
	Stdout io.Writer
	// Sockets are listening sockets that the service manager has passed.
	Sockets Sockets
	// Started is called when the App serves clients. It may be nil.
	Started func(*App)
	// Watchdog receives beats while the App serves clients.
	Watchdog Watchdog
	// Reap waits for exited processes that backends have left behind, until ctx ends. It may be nil.
	Reap func(ctx context.Context)
	// Backends are the options of the backends.
	Backends BackendOptions
}

// A Watchdog restarts the process if it does not receive a beat in time. The zero value expects none.
type Watchdog struct {
	// Timeout is the longest time between two beats. If zero, none are sent.
	Timeout time.Duration
	// Beat sends a beat.
	Beat func()
}

// An App is the backends and fronts of a configuration. Call Listen, then Run.
type App struct {
	Options

	listeners

	cfg       *config.Config
	backends  []*backend
	lifecycle *lifecycle.Lifecycle
	panics    *contain.Panics
	memory    *limit.Memory       // nil: no limit
	streams   *limit.Streams      // of all clients
	sessions  *mcpserver.Sessions // of all endpoints
	tasks     *tasks.Tasks        // of all backends
	auth      *auth.Auth          // authenticates HTTP callers; nil without authentication
	tls       *tls.Config         // of HTTP; nil: HTTP without TLS
	endpoint  endpoint            // all backends as one
	named     []endpoint          // each backend
	stdio     bool                // stdin and stdout are served
}

// An endpoint serves all backends, or one of them, to MCP clients.
type endpoint struct {
	name    string // of the backend; empty: all of them
	handler bridge.Handler
	mcp     *mcpserver.Server
}

// New returns an App. It starts nothing.
func New(cfg *config.Config, o Options) (*App, error) {
	log := o.Log
	a := &App{
		Options: o, cfg: cfg, lifecycle: lifecycle.New(), panics: contain.New(log),
		memory: newMemory(cfg.Limits.Memory, log),
	}
	a.streams = limit.StreamsOf(cfg.Limits, a.memory)
	a.sessions = mcpserver.NewSessions(cfg.Limits)
	if cfg.Serve.HTTP.Authenticates() {
		var err error
		if a.auth, err = cfg.NewAuth(log); err != nil {
			return nil, err
		}
	}
	var err error
	if a.tls, err = cfg.ServerTLS(); err != nil {
		return nil, err
	}
	if a.tasks, err = newTasks(cfg, a.lifecycle, a.panics, log); err != nil {
		return nil, err
	}
	catalogs := map[string]bridge.Handler{}
	for i := range cfg.Backends {
		b := newBackend(cfg, i, a.memory, log, a.panics, o.Backends)
		b.openErr = b.open()
		if b.openErr != nil && len(cfg.Backends) == 1 { // of several, the others are served
			return nil, b.openErr
		}
		a.backends = append(a.backends, b)
		b.catalog = catalogOf(b, a.tasks, log)
		catalogs[b.Name] = b.catalog
		if len(b.ToolScopes) > 0 {
			catalogs[b.Name] = auth.Handler(catalogs[b.Name], cfg.Serve.HTTP.Auth.Scopes, b.ToolScopes)
		}
	}
	h, err := merge(cfg, a.backends, catalogs, log)
	if err != nil {
		return nil, err
	}
	a.endpoint = a.newEndpoint("", h, a.backends)
	if len(a.backends) > 1 {
		for _, b := range a.backends {
			a.named = append(a.named, a.newEndpoint(b.Name, catalogs[b.Name], []*backend{b}))
		}
	} else {
		a.named = []endpoint{{a.backends[0].Name, a.endpoint.handler, a.endpoint.mcp}}
	}
	return a, nil
}

// catalogOf returns a Catalog of a backend, which caches its lists and validates arguments and results.
func catalogOf(b *backend, kept *tasks.Tasks, log zerolog.Logger) bridge.Handler {
	return catalog.New(b.calls, catalog.Options{
		Log:           log.With().Str("backend", b.Name).Logger(),
		SkipArguments: b.SkipArguments, SkipOutput: b.SkipOutput, Limits: b.cfg.Limits,
		Name: b.Name, Tasks: kept, TaskPolicy: b.Tasks.Policy(),
	})
}

// merge returns a Handler that presents all backends as one.
func merge(
	cfg *config.Config, backends []*backend, handlers map[string]bridge.Handler, log zerolog.Logger,
) (bridge.Handler, error) {
	var routes []router.Route
	for _, b := range backends {
		routes = append(routes, router.Route{Name: b.Name, Handler: handlers[b.Name], Started: b.started})
	}
	if len(routes) == 1 {
		return routes[0].Handler, nil
	}
	r, err := router.New(routes, router.Options{Log: log, Panics: backends[0].panics})
	if err != nil {
		return nil, &problem.Error{
			Exit: problem.ExitConfig, Code: "usage", What: "the backends cannot be merged",
			Where: cfg.Where("backends"), Why: err.Error(),
			Fix: "give the backends other names", Cause: err,
		}
	}
	return r, nil
}

// newEndpoint returns an endpoint that serves h, the Handler of the backends.
func (a *App) newEndpoint(name string, h bridge.Handler, backends []*backend) endpoint {
	o := mcpserver.Options{Limits: a.cfg.Limits}
	o.Started = func(ctx context.Context, era bridge.Era) error {
		for _, b := range backends {
			if err := b.started(ctx, era); err != nil {
				return err
			}
		}
		return nil
	}
	if d, ok := declarationsOf(a.cfg, a.Log); ok && name == "" && a.cfg.Serve.Stdio == "true" {
		for era := range bridge.Eras {
			o.Declarations.Previous[era] = d[era].read()
		}
		o.Declarations.Changed = func(era bridge.Era, declared *pb.DiscoverResponse) {
			if !proto.Equal(declared, o.Declarations.Previous[era]) {
				d[era].write(declared)
			}
		}
	}
	o.Log, o.Panics, o.Lifecycle = a.Log, a.panics, a.lifecycle
	o.PollAfter, o.PassHeaders, o.Principal = a.cfg.Serve.HTTP.PollAfter, a.cfg.Serve.HTTP.PassHeaders, auth.Principal
	o.AccessExpiry = auth.Until
	o.Sessions, o.Streams, o.Memory, o.Tasks = a.sessions, a.streams, a.memory, a.tasks
	if a.auth != nil {
		at := path.Join(a.cfg.Serve.HTTP.Path, name)
		o.Challenge = func(scopes []string) string { return a.auth.Challenge(at, scopes) }
	}
	return endpoint{name, h, mcpserver.New(h, o)}
}

// endpoints returns every endpoint.
func (a *App) endpoints() []endpoint { return append([]endpoint{a.endpoint}, a.named...) }
