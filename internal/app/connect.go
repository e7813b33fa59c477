package app

import (
	"context"
	"strings"
	"sync"

	"github.com/rs/zerolog"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/config"
	"github.com/mcpbridge/mcpbridge/internal/problem"
)

// A Connection holds the backends of a configuration while a client command calls them.
type Connection struct {
	// Handler presents all backends as one.
	Handler bridge.Handler
	// Names are the names of all backends. Down maps the unavailable ones to their errors.
	Names       []string
	Unavailable map[string]error
	// Launched reports whether a backend is a program that mcpbridge launched.
	Launched bool
	// AuthFix is the fix to show when a backend requires authentication.
	AuthFix string
}

// ConnectOptions are the options of Connect.
type ConnectOptions struct {
	// Abort ends when backends must be killed instead of stopped.
	Abort context.Context //nolint:containedctx // it outlives the context of the call
	// Log is the command's log, and BackendLog that of the backends.
	Log, BackendLog zerolog.Logger
	// Backends are the options of the backends.
	Backends BackendOptions
	// ShowProgress shows that an operation is in progress until end is called.
	ShowProgress func(what string) (end func())
}

// Connect launches or dials the backends, calls do, and stops them. Unavailable backends are omitted with a warning; if
// all are, it returns the last error.
func Connect(ctx context.Context, cfg *config.Config, o ConnectOptions, do func(*Connection) error) error {
	c := &Connection{Unavailable: map[string]error{}}
	var backends []*backend
	handlers := map[string]bridge.Handler{}
	for i := range cfg.Backends {
		b := newBackend(cfg, i, nil, o.BackendLog, nil, o.Backends)
		b.countLogins()
		backends = append(backends, b)
		handlers[b.Name] = catalogOf(b, nil, o.Log)
		c.Names = append(c.Names, b.Name)
	}
	var err error
	if c.Handler, err = merge(cfg, backends, handlers, o.Log); err != nil {
		return err
	}
	if c.AuthFix = "configure credentials: auth or env of the backend in the configuration"; len(backends) == 1 {
		c.AuthFix = backends[0].authFix()
	}

	// The backends outlive ctx: servers are notified that a call was canceled.
	backendCtx, stop := context.WithCancel(o.Abort)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	errs := make([]error, len(backends))
	var ready sync.WaitGroup
	var starting []string
	for i, b := range backends {
		if b.Command() != nil {
			c.Launched = true
		}
		if errs[i] = b.open(); errs[i] != nil {
			continue
		}
		wg.Go(func() {
			if err := b.run(backendCtx); err != nil {
				// Ready returns the error too
				b.log.Debug().Err(err).Str("backend", b.Name).Msg("the backend did not start")
			}
		})
		ready.Go(func() { errs[i] = b.awaitReady(ctx) })
		if b.Command() != nil {
			starting = append(starting, b.Text())
		}
	}
	end := func() {}
	if len(starting) > 0 {
		end = o.ShowProgress("starting " + strings.Join(starting, ", "))
	}
	ready.Wait()
	end()
	for i, err := range errs {
		if err == nil {
			continue
		}
		c.Unavailable[backends[i].Name] = err
		if len(c.Unavailable) == len(backends) {
			return err // the others have been logged
		}
		p := problem.Of(err)
		warn := o.Log.Warn().Str("backend", backends[i].Name).Str("why", p.Why)
		if p.Fix != "" {
			warn = warn.Str("fix", p.Fix)
		}
		warn.Msg(p.What)
	}
	return do(c)
}
