package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"github.com/mcpbridge/mcpbridge/bridge/catalog"
	"github.com/mcpbridge/mcpbridge/bridge/mcpserver"
	"github.com/mcpbridge/mcpbridge/bridge/plugin"
)

// The limits of the HTTP server. There is none for writing: streams last.
const (
	readHeaderTimeout = 5 * time.Second
	idleTimeout       = 120 * time.Second
	maxHeaderBytes    = 64 << 10
	// finishTime is how long an answer that is complete may take to be written, once nothing is left to wait for.
	finishTime = 2 * time.Second
	// silentTime is how long a connection may still say nothing at the end.
	silentTime = 100 * time.Millisecond
	// dialTime is how long a dialled backend is waited for before clients are served without it.
	dialTime = 2 * time.Second
)

// An App is a front, a backend, and the way between them. Call Listen, then Run.
type App struct {
	cfg     *loaded
	log     zerolog.Logger
	stdin   io.Reader
	stdout  io.Writer
	started func(*App)

	backend *plugin.Plugin
	calls   *calls
	mcp     *mcpserver.Server
	ln      net.Listener // nil for stdio
}

// serve runs an App until ctx ends or the client goes.
func (p *Program) serve(ctx context.Context, cfg *loaded) error {
	log, _ := newLog(p.Stderr, cfg.Log)
	a, err := newApp(cfg, log, p.Stdin, p.Stdout)
	if err != nil {
		return err
	}
	a.started = p.Started
	if err := a.Listen(ctx); err != nil {
		return err
	}
	return a.Run(ctx, p.Now)
}

// newApp puts an App together. Nothing is started yet.
func newApp(cfg *loaded, log zerolog.Logger, stdin io.Reader, stdout io.Writer) (*App, error) {
	a := &App{cfg: cfg, log: log, stdin: stdin, stdout: stdout}
	b := cfg.Backends[0]
	o := plugin.Options{Name: b.Name, Address: b.Dial, Log: log}
	if b.Launch != nil {
		if err := checkCommand(b.Launch, cfg.where("backends.0.launch.command")); err != nil {
			return nil, err
		}
		o.Command, o.Dir, o.PassEnv, o.StartTimeout = b.Launch.Command, b.Launch.Dir, b.Launch.PassEnv, b.Launch.StartTimeout
		for name, value := range b.Launch.Env {
			o.Env = append(o.Env, name+"="+value)
		}
		slices.Sort(o.Env)
	}
	backend, err := plugin.New(o)
	if err != nil {
		return nil, &problem{
			Exit: exitConfig, Code: "backend", What: fmt.Sprintf("backend %q cannot be set up", b.Name),
			Where: cfg.where("backends.0"), Why: err.Error(), Fix: "correct the backend's settings", Cause: err,
		}
	}
	a.backend = backend
	a.calls = newCalls(catalog.New(backend, catalog.Options{Log: log, SkipArguments: b.SkipArguments, SkipOutput: b.SkipOutput}))
	a.mcp = mcpserver.New(a.calls, mcpserver.Options{
		Log: log, AllowedHosts: cfg.Serve.HTTP.AllowedHosts, AllowedOrigins: cfg.Serve.HTTP.AllowedOrigins,
		PollAfter: cfg.Serve.HTTP.PollAfter,
	})
	return a, nil
}

// Listen binds the address, if HTTP is to be served, so that it is known and wrong ones are told before the backend
// starts. Connections wait until Run accepts them.
func (a *App) Listen(ctx context.Context) error {
	s := &a.cfg.Serve
	if s.Stdio == "true" || s.Stdio == "auto" && s.HTTP.Addr == "" && isClientInput(a.stdin) {
		return nil
	}
	where := a.cfg.where("serve.http.addr")
	if s.HTTP.Addr == "" {
		s.HTTP.Addr, where = defaultAddr, "the default of --http"
	}
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", s.HTTP.Addr)
	if err != nil {
		return listenProblem(s.HTTP.Addr, where, err)
	}
	a.ln = ln
	return nil
}

// URL returns where the MCP endpoint is, or "stdio".
func (a *App) URL() string {
	if a.ln == nil {
		return "stdio"
	}
	return "http://" + a.ln.Addr().String() + a.cfg.Serve.HTTP.Path
}

// Run starts the backend and serves it, or goes on without it if it is dialled and not there, until ctx ends, the client closes stdin, or something breaks. When ctx ends, it
// takes no more calls and lets those that run end, for as long as the configuration allows and now has not ended. Nothing
// that it has started runs any more when it returns.
func (a *App) Run(ctx, now context.Context) error {
	backendCtx, stopBackend := context.WithCancel(now)
	backendDone := make(chan error, 1)
	go func() { backendDone <- a.backend.Run(backendCtx) }()

	ready, err := a.awaitBackend(ctx, backendDone)
	if err == nil && ctx.Err() == nil {
		if ready {
			a.log.Info().Str("url", a.URL()).Str("backend", a.backendText()).Msg("ready")
		} else {
			a.warnAbsent(ctx)
		}
		if a.started != nil {
			a.started(a)
		}
		err = a.serveFront(ctx, now, backendDone)
	} else if a.ln != nil {
		a.ln.Close() // nothing was accepted
	}
	stopBackend()
	a.mcp.Close()
	if stopped, ok := <-backendDone; ok && stopped != nil && err == nil && !errors.Is(stopped, context.Canceled) {
		a.log.Warn().Err(stopped).Msg("the backend did not stop as it should")
	}
	return err
}

// awaitBackend waits until the backend answers, which it reports, has failed, or ctx ends. A launched one has its start
// timeout; a dialled one may come whenever somebody starts it, so it is not waited for longer than dialTime.
func (a *App) awaitBackend(ctx context.Context, backendDone chan error) (answers bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ready := make(chan error, 1)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	wg.Go(func() { ready <- a.backend.Ready(ctx) })
	var enough <-chan time.Time
	if a.cfg.Backends[0].Launch == nil {
		enough = time.After(dialTime)
	}
	select {
	case err := <-backendDone:
		close(backendDone)
		return false, a.startProblem(err)
	case err := <-ready:
		if err != nil && ctx.Err() == nil {
			return false, a.startProblem(err)
		}
		return err == nil, nil
	case <-enough:
		return false, nil
	}
}

// warnAbsent says that clients are served although the dialled backend does not answer, and why it does not.
func (a *App) warnAbsent(ctx context.Context) {
	addr := a.cfg.Backends[0].Dial
	why, fix := absence(ctx, addr)
	a.log.Warn().Str("url", a.URL()).Str("waitingFor", addr).Str("why", why).Str("fix", fix).
		Msg("serving without the backend; calls fail until it answers")
}

// absence says why nothing answers at the address of a backend, and what to do about it.
func absence(ctx context.Context, addr string) (why, fix string) {
	fix = "start the backend, or correct its address; mcpbridge connects as soon as it is there"
	network, rest, _ := strings.Cut(addr, ":")
	rest = strings.TrimPrefix(rest, "//")
	if network != "unix" {
		network, rest = "tcp", strings.TrimPrefix(rest, "/")
	}
	c, err := (&net.Dialer{Timeout: dialTime}).DialContext(ctx, network, rest)
	switch {
	case err == nil:
		c.Close() // nothing was sent
		return "something listens there, but it does not answer gRPC without TLS, or says that it is not ready",
			"look at the backend's log; it must serve mcpbridge.v1"
	case errors.Is(err, fs.ErrNotExist):
		return "there is no such file: " + rest, fix
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused: nothing listens there", fix
	case errors.Is(err, fs.ErrPermission):
		return "permission denied: " + rest, "let this user read and write the socket"
	}
	return cause(err).Error(), fix
}

// serveFront serves clients until ctx ends and the drain is over, stdin ends, or the front or the backend breaks.
func (a *App) serveFront(ctx, now context.Context, backendDone chan error) error {
	f := a.newFront(now)
	frontDone := make(chan error, 1)
	go func() { frontDone <- f.serve() }()

	select {
	case err := <-frontDone:
		f.end()
		if err != nil {
			return fmt.Errorf("serve %s: %w", a.URL(), err)
		}
		a.log.Info().Msg("the client has closed stdin")
		return nil
	case err := <-backendDone:
		close(backendDone)
		f.end()
		if frontErr := <-frontDone; frontErr != nil {
			a.log.Warn().Err(frontErr).Msg("serving clients ended badly")
		}
		return &problem{
			Exit: exitUnexpected, Code: "backend_gone", What: fmt.Sprintf("backend %q is gone for good", a.cfg.Backends[0].Name),
			Why: errText(err), Fix: "the log above says what it did last; start mcpbridge again", Cause: err,
		}
	case <-ctx.Done():
	}
	a.drain(now, f)
	f.end()
	return <-frontDone
}

// drain takes no new clients and waits until no call runs, or for as long as the configuration allows.
func (a *App) drain(now context.Context, f front) {
	a.log.Info().Int("calls", a.calls.drain()).Str("atMost", a.cfg.Serve.Drain.String()).
		Msg("draining; a second signal ends it now")
	ctx, cancel := context.WithTimeout(now, a.cfg.Serve.Drain)
	defer cancel()
	f.refuse()
	if left := a.calls.wait(ctx); left > 0 {
		a.log.Warn().Int("calls", left).Msg("cutting the calls that have not ended in time")
	}
}

// backendText says what the backend is, for people.
func (a *App) backendText() string {
	b := a.cfg.Backends[0]
	if b.Launch == nil {
		return b.Dial
	}
	return strings.Join(b.Launch.Command, " ")
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// listenProblem says why an address cannot be listened on.
func listenProblem(addr, where string, err error) error {
	p := &problem{
		Exit: exitConfig, Code: "listen", What: fmt.Sprintf("cannot listen on %s: %v", addr, cause(err)), Where: where, Cause: err,
		Fix: "choose another address with --http",
	}
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		host, _, _ := net.SplitHostPort(addr) // validate has split it before
		p.Code = "port_in_use"
		p.Why = "another process listens there" + holderText(addr)
		p.Fix = "end that process, or choose another port: --http " + net.JoinHostPort(host, "0") + " takes any free one"
	case errors.Is(err, syscall.EACCES):
		p.Why = "ports below 1024 are kept for the administrator"
		p.Fix = "choose a port above 1023"
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		p.Why = "this machine does not have that address"
		p.Fix = "use 127.0.0.1"
	}
	return p
}

// cause returns the innermost error of err.
func cause(err error) error {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err
		}
		err = inner
	}
}
