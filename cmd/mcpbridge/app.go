package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"google.golang.org/protobuf/proto"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/auth"
	"github.com/mcpbridge/mcpbridge/internal/catalog"
	"github.com/mcpbridge/mcpbridge/internal/contain"
	"github.com/mcpbridge/mcpbridge/internal/lifecycle"
	"github.com/mcpbridge/mcpbridge/internal/limit"
	"github.com/mcpbridge/mcpbridge/internal/limits"
	"github.com/mcpbridge/mcpbridge/internal/mcpserver"
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

// appOptions are what an App has besides its configuration.
type appOptions struct {
	// Log gets what happens.
	Log zerolog.Logger
	// Stdin and Stdout are what a stdio client is served on.
	Stdin  io.Reader
	Stdout io.Writer
	// Started is called when clients are served. It may be nil.
	Started func(*App)
	// Backends are the options of the backends.
	Backends backendOptions
}

// An App is the fronts, the backends, and the way between them. Call Listen, then Run.
type App struct {
	appOptions

	cfg *loaded
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

// newApp returns the App of a configuration. Nothing is started yet.
func newApp(cfg *loaded, o appOptions) (*App, error) {
	log := o.Log
	a := &App{appOptions: o, cfg: cfg, log: log, life: lifecycle.New(), panics: contain.New(log), memory: newMemory(cfg.Limits.Memory, log)}
	a.streams = limit.StreamsOf(cfg.Limits, a.memory)
	a.sessions = mcpserver.NewSessions(cfg.Limits)
	if cfg.Serve.HTTP.checksCallers() {
		var err error
		if a.auth, err = cfg.newAuth(log); err != nil {
			return nil, err
		}
	}
	var err error
	if a.tls, err = cfg.serverTLS(); err != nil {
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
func merge(cfg *loaded, backends []*backend, handlers map[string]bridge.Handler, log zerolog.Logger) (bridge.Handler, error) {
	var routes []router.Route
	for _, b := range backends {
		routes = append(routes, router.Route{Name: b.Name, Handler: handlers[b.Name], Started: b.started})
	}
	if len(routes) == 1 {
		return routes[0].Handler, nil
	}
	r, err := router.New(routes, router.Options{Log: log, Panics: backends[0].panics})
	if err != nil {
		return nil, &problem{
			Exit: exitConfig, Code: "usage", What: "the backends cannot be merged", Where: cfg.where("backends"), Why: err.Error(),
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
	if os.Getpid() == 1 { // in a container, where nobody else waits for what backends leave behind
		probing.Go(func() { buryOrphans(probeCtx) })
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

// launches reports whether a backend is a program that is started.
func (a *App) launches() bool {
	return slices.ContainsFunc(a.backends, func(b *backend) bool { return b.command() != nil })
}

func (a *App) tellStarted() {
	if a.Started != nil {
		a.Started(a)
	}
}

// endpoints returns every endpoint.
func (a *App) endpoints() []endpoint { return append([]endpoint{a.endpoint}, a.named...) }

// runBackends runs the backends until ctx ends, or the only one does not start.
func (a *App) runBackends(ctx context.Context) error {
	if len(a.backends) == 1 {
		return a.backends[0].run(ctx)
	}
	var wg sync.WaitGroup
	for i, b := range a.backends {
		wg.Go(func() { b.keep(ctx, a.opened[i]) })
	}
	wg.Wait()
	return nil
}

// awaitBackends waits until the backends answer, which it reports, one has failed that nothing is served without, or ctx
// ends. A backend that is launched alone has its start timeout; others may come whenever they come, so they are not waited for
// longer than awaitTime. After noticeTime, the log says what is waited for.
func (a *App) awaitBackends(ctx context.Context, backendsDone chan error) (answer bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ready := make(chan error, 1)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	wg.Go(func() { ready <- a.ready(ctx) })
	var enough <-chan time.Time
	switch {
	case len(a.backends) > 1:
		enough = time.After(awaitTime)
	case a.backends[0].command() == nil:
		enough = time.After(dialTime)
	}
	notice := time.NewTimer(noticeTime)
	defer notice.Stop()
	for {
		select {
		case err := <-backendsDone:
			close(backendsDone)
			return false, a.backends[0].startProblem(err)
		case err := <-ready:
			if err != nil && ctx.Err() == nil {
				return false, a.backends[0].startProblem(err)
			}
			return err == nil, nil
		case <-enough:
			return false, nil
		case <-notice.C:
			a.tellStarting()
		}
	}
}

// tellStarting says which backends have not started yet.
func (a *App) tellStarting() {
	now, cancel := context.WithCancel(context.Background())
	cancel()
	for _, b := range a.backends {
		if b.started(now, bridge.ModernEra) != nil {
			a.log.Info().Str("backend", b.Name).Str("command", b.text()).Stringer("atMost", limits.Timeouts{Start: b.command().StartTimeout}.OrDefaults().Start).
				Msg("the backend is starting")
		}
	}
}

// ready waits until the only backend answers; or each of several answers, does not start, or has been dialled for long enough.
func (a *App) ready(ctx context.Context) error {
	if len(a.backends) == 1 {
		return (*a.backends[0].back.Load()).Ready(ctx)
	}
	enough := make(chan struct{})
	defer time.AfterFunc(dialTime, func() { close(enough) }).Stop()
	for _, b := range a.backends {
		dialled := enough
		if b.command() != nil {
			dialled = nil
		}
		select {
		case <-b.settled:
		case <-dialled:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// tellReady says what is served, and what is not there yet.
func (a *App) tellReady(ctx context.Context, ready bool) {
	where := func(e *zerolog.Event) *zerolog.Event {
		if url := a.URL(); url != "" {
			e = e.Str("url", url)
		}
		if addr := a.GRPC(); addr != "" {
			e = e.Str("grpc", addr)
		}
		if a.ops != nil {
			e = e.Str("ops", a.ops.Addr().String())
		}
		return e
	}
	if len(a.backends) == 1 {
		b := a.backends[0]
		if ready {
			where(a.log.Info()).Str("backend", b.text()).Msg("ready")
			return
		}
		why, fix := b.absence(ctx)
		where(a.log.Warn()).Str("waitingFor", b.text()).Str("why", why).Str("fix", fix).
			Msg("serving without the backend; calls fail until it answers")
		return
	}
	var names []string
	for _, b := range a.backends {
		names = append(names, b.Name)
		select {
		case <-b.settled:
		default:
			why, fix := b.absence(ctx)
			a.log.Warn().Str("backend", b.Name).Str("waitingFor", b.text()).Str("why", why).Str("fix", fix).
				Msg("serving without this backend; calls of it fail until it answers")
		}
	}
	where(a.log.Info()).Strs("backends", names).Msg("ready")
}

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
		return &problem{
			Exit: exitUnexpected, Code: "backend_gone", What: fmt.Sprintf("backend %q is gone for good", a.backends[0].Name),
			Why: errText(err), Fix: "the log above says what it did last; start mcpbridge again", Cause: err,
		}
	case <-ctx.Done():
	}
	a.drain(now, fronts)
	return endAll(len(fronts))
}

// failedStart returns why the only backend does not start, if it still starts or has just failed to: a client that closes stdin at once is
// often somebody who tries a command.
func (a *App) failedStart(backendsDone chan error) error {
	if len(a.backends) > 1 || a.backends[0].command() == nil || a.backends[0].now() == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), noticeTime)
	defer cancel()
	if a.backends[0].started(ctx, bridge.ModernEra) != nil || a.backends[0].now() == nil {
		return nil
	}
	select {
	case err := <-backendsDone:
		close(backendsDone)
		if err != nil {
			return a.backends[0].startProblem(err)
		}
	case <-ctx.Done():
	}
	return nil
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
