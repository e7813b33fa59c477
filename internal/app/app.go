// Package app runs the bridge of a configuration: backends, fronts and probes, until it is drained. It also connects the
// client commands to backends.
package app

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"path"
	"sync"
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
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

const (
	// headerExtra is what net/http adds to MaxHeaderBytes.
	headerExtra = 4 << 10
	// finishTime is how long an answer that is complete may take to be written, once nothing is left to wait for.
	finishTime = 2 * time.Second
	// lastWord is how long it may take when everything is to end now: clients are still told what became of their calls.
	lastWord = 200 * time.Millisecond
	// acceptTime is how long calls are taken that come after serve.preDrain: clients that keep a connection learn by its next
	// response that it ends. Once nothing has been called for calmTime, it is enough.
	acceptTime = 2 * time.Second
	calmTime   = 100 * time.Millisecond
	// silentTime is how long a connection may still say nothing at the end.
	silentTime = 100 * time.Millisecond
	// dialTime is how long a dialled backend is waited for before clients are served without it, and awaitTime is how long
	// several backends are.
	dialTime  = 2 * time.Second
	awaitTime = 10 * time.Second
	// noticeTime is how long backends may start without a line in the log.
	noticeTime = time.Second
)

// Options are the options of an App that are not configured.
type Options struct {
	// Log is the log.
	Log zerolog.Logger
	// Stdin and Stdout are the streams of a stdio client.
	Stdin  io.Reader
	Stdout io.Writer
	// Started is called when the App serves clients. It may be nil.
	Started func(*App)
	// Reap waits for exited processes that backends have left behind, until ctx ends. It may be nil.
	Reap func(ctx context.Context)
	// Backends are the options of the backends.
	Backends BackendOptions
}

// An App is the fronts, the backends, and the way between them. Call Listen, then Run.
type App struct {
	Options

	cfg *config.Config
	log zerolog.Logger

	backends []*backend
	opened   []error // of each of them
	life     *lifecycle.Lifecycle
	panics   *contain.Panics
	memory   *limit.Memory       // nil: as much as there is
	streams  *limit.Streams      // of all clients
	sessions *mcpserver.Sessions // of all endpoints
	auth     *auth.Auth          // who may call over HTTP; nil: everybody
	tls      *tls.Config         // of HTTP; nil: it is not protected
	merged   bridge.Handler      // all backends as one
	endpoint endpoint            // of merged
	named    []endpoint
	ln       net.Listener // of HTTP, or nil
	grpc     net.Listener // or nil
	ops      net.Listener // or nil
	stdio    bool
}

// An endpoint is what MCP clients reach: all backends, or one.
type endpoint struct {
	name    string // of the backend; empty: all of them
	handler bridge.Handler
	mcp     *mcpserver.Server
}

// New returns an App. It starts nothing.
func New(cfg *config.Config, o Options) (*App, error) {
	log := o.Log
	a := &App{Options: o, cfg: cfg, log: log, life: lifecycle.New(), panics: contain.New(log), memory: newMemory(cfg.Limits.Memory, log)}
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
	cats := map[string]bridge.Handler{}
	for i := range cfg.Backends {
		b := newBackend(cfg, i, a.memory, log, a.panics, o.Backends)
		opened := b.open()
		if opened != nil && len(cfg.Backends) == 1 { // of several, the others are served
			return nil, opened
		}
		a.backends, a.opened = append(a.backends, b), append(a.opened, opened)
		cats[b.Name] = catalogOf(b, log)
		if len(b.ToolScopes) > 0 {
			cats[b.Name] = auth.Handler(cats[b.Name], cfg.Serve.HTTP.Auth.Scopes, b.ToolScopes)
		}
	}
	h, err := merge(cfg, a.backends, cats, log)
	if err != nil {
		return nil, err
	}
	a.merged = h
	a.endpoint = a.newEndpoint("", a.merged, a.backends)
	if len(a.backends) > 1 {
		for _, b := range a.backends {
			a.named = append(a.named, a.newEndpoint(b.Name, cats[b.Name], []*backend{b}))
		}
	} else {
		a.named = []endpoint{{a.backends[0].Name, a.merged, a.endpoint.mcp}}
	}
	return a, nil
}

// catalogOf returns a backend whose lists are remembered, and whose arguments and results are checked.
func catalogOf(b *backend, log zerolog.Logger) bridge.Handler {
	return catalog.New(b.calls, catalog.Options{
		Log: log.With().Str("backend", b.Name).Logger(), SkipArguments: b.SkipArguments, SkipOutput: b.SkipOutput, Limits: b.cfg.Limits,
	})
}

// merge returns all backends as one.
func merge(cfg *config.Config, backends []*backend, handlers map[string]bridge.Handler, log zerolog.Logger) (bridge.Handler, error) {
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
			Exit: problem.ExitConfig, Code: "usage", What: "the backends cannot be merged", Where: cfg.Where("backends"), Why: err.Error(),
			Fix: "give the backends other names", Cause: err,
		}
	}
	return r, nil
}

// newEndpoint returns the endpoint of some backends, which h is.
func (a *App) newEndpoint(name string, h bridge.Handler, of []*backend) endpoint {
	o := mcpserver.Options{Limits: a.cfg.Limits}
	o.Started = func(ctx context.Context, era bridge.Era) error {
		for _, b := range of {
			if err := b.started(ctx, era); err != nil {
				return err
			}
		}
		return nil
	}
	if d, ok := declarationsOf(a.cfg, a.log); ok && name == "" && a.cfg.Serve.Stdio == "true" {
		for era := range bridge.Eras {
			o.Earlier[era] = d[era].read()
		}
		o.Declared = func(era bridge.Era, said *pb.DiscoverResponse) {
			if !proto.Equal(said, o.Earlier[era]) {
				d[era].write(said)
			}
		}
	}
	o.Log, o.Panics, o.Lifecycle = a.log, a.panics, a.life
	o.PollAfter, o.PassHeaders, o.Principal = a.cfg.Serve.HTTP.PollAfter, a.cfg.Serve.HTTP.PassHeaders, auth.Principal
	o.Until = auth.Until
	o.Sessions, o.Streams, o.Memory = a.sessions, a.streams, a.memory
	if a.auth != nil {
		at := path.Join(a.cfg.Serve.HTTP.Path, name)
		o.Challenge = func(scopes []string) string { return a.auth.Challenge(at, scopes) }
	}
	return endpoint{name, h, mcpserver.New(h, o)}
}

// Run starts the backends and serves them until ctx ends, the client closes stdin, or something breaks. A single backend that
// is launched has to start; one that is dialled may come later, and so may one of several. When ctx ends, Run takes no more
// calls and lets those that run end, for as long as the configuration allows and now has not ended. Nothing that it has
// started runs any more when it returns.
func (a *App) Run(ctx, now context.Context) error {
	probes := a.newOps()
	var probing sync.WaitGroup
	defer probing.Wait()
	probeCtx, stopProbes := context.WithCancel(context.WithoutCancel(ctx))
	defer stopProbes()
	probing.Go(func() { probes.run(probeCtx) })
	if a.Reap != nil {
		probing.Go(func() { a.Reap(probeCtx) })
	}
	// Not even when now ends, before clients have been told that their calls were cut: that is not the backend's fault.
	backendCtx, stopBackends := context.WithCancel(context.WithoutCancel(now))
	backendsDone := make(chan error, 1)
	go func() { backendsDone <- a.runBackends(backendCtx) }()

	isReady := func(ready bool) {
		a.tellReady(ctx, ready)
		a.life.Advance(lifecycle.Running)
	}
	var err error
	if a.stdio && a.launches() { // its client is answered while they start: it may not wait for long
		a.tellStarted()
		probing.Go(func() {
			if ready, err := a.awaitBackends(probeCtx, nil); err == nil && probeCtx.Err() == nil {
				isReady(ready)
			}
		})
		err = a.serveFronts(ctx, now, backendsDone)
	} else {
		var ready bool
		if ready, err = a.awaitBackends(ctx, backendsDone); err == nil && ctx.Err() == nil {
			isReady(ready)
			a.tellStarted()
			err = a.serveFronts(ctx, now, backendsDone)
		} else {
			a.closeListeners() // nothing was accepted
		}
	}
	stopBackends()
	for _, e := range a.endpoints() {
		e.mcp.Close()
	}
	if stopped, ok := <-backendsDone; ok && stopped != nil && err == nil && !errors.Is(stopped, context.Canceled) {
		a.log.Warn().Err(stopped).Msg("the backend did not stop as it should")
	}
	return err
}

// endpoints returns every endpoint.
func (a *App) endpoints() []endpoint { return append([]endpoint{a.endpoint}, a.named...) }

// serveFronts serves clients until ctx ends and the drain is over, stdin ends, or a front or the backends break.
func (a *App) serveFronts(ctx, now context.Context, backendsDone chan error) error {
	fronts, err := a.newFronts()
	if err != nil {
		a.closeListeners()
		return err
	}
	frontDone := make(chan error, len(fronts))
	for _, f := range fronts {
		go func() { frontDone <- f.serve() }()
	}
	// endAll ends the fronts, and returns what the first of those that have not ended yet says.
	endAll := func(left int) (err error) {
		var ending sync.WaitGroup
		for _, f := range fronts {
			ending.Go(func() { f.end(now) }) // together: clients of one that do not read hold up no other
		}
		ending.Wait()
		for range left {
			if e := <-frontDone; err == nil {
				err = e
			}
		}
		return err
	}

	select {
	case err := <-frontDone:
		if failed := a.failedStart(backendsDone); failed != nil {
			_ = endAll(len(fronts) - 1) // that explains all
			return failed
		}
		if endErr := endAll(len(fronts) - 1); err == nil {
			err = endErr
		}
		if err != nil {
			return fmt.Errorf("serve %s: %w", cmp.Or(a.URL(), a.GRPC()), err)
		}
		a.log.Info().Msg("the client has closed stdin")
		return nil
	case err := <-backendsDone:
		close(backendsDone)
		if frontErr := endAll(len(fronts)); frontErr != nil {
			a.log.Warn().Err(frontErr).Msg("serving clients ended badly")
		}
		if err != nil { // the only backend has not started
			return a.backends[0].startProblem(err)
		}
		return &problem.Error{
			Exit: problem.ExitUnexpected, Code: "backend_gone", What: fmt.Sprintf("backend %q is gone for good", a.backends[0].Name),
			Why: errText(err), Fix: "the log above says what it did last; start mcpbridge again", Cause: err,
		}
	case <-ctx.Done():
	}
	a.drain(now, fronts)
	return endAll(len(fronts))
}

// drain passes through the phases up to Finishing, which the fronts observe: after serve.preDrain, in which load balancers
// notice the shutdown, it accepts calls until none has been in flight for calmTime, and then waits for those in flight, for
// serve.drain in all. A bug in one phase does not keep the bridge from the next.
func (a *App) drain(now context.Context, fronts []front) {
	a.log.Info().Int("calls", a.life.InFlight()).Str("atMost", a.cfg.Serve.Drain.String()).
		Msg("draining; a second signal ends it now")
	phase := func(name string, do func()) {
		defer a.panics.Recover(name, nil)
		do()
	}
	phase("lame duck", func() {
		a.life.Advance(lifecycle.LameDuck)
		wait, enough := context.WithTimeout(now, a.cfg.Serve.PreDrain)
		defer enough()
		<-wait.Done()
	})
	ctx, cancel := context.WithTimeout(now, a.cfg.Serve.Drain)
	defer cancel()
	phase("draining", func() {
		a.life.Advance(lifecycle.Draining)
		accept, enough := context.WithTimeout(ctx, acceptTime)
		defer enough()
		a.life.AwaitQuiet(accept, calmTime)
	})
	phase("finishing", func() {
		a.life.Advance(lifecycle.Finishing)
		a.log.Info().Msg("refusing new calls")
		if left := a.life.AwaitIdle(ctx); left > 0 {
			a.log.Warn().Int("calls", left).Msg("cutting the calls that have not ended in time")
		}
		for _, f := range fronts {
			f.flush(ctx)
		}
	})
}
