package main

import (
	"context"
	"strings"
	"sync"

	"github.com/rs/zerolog"

	"github.com/mcpbridge/mcpbridge/bridge"
)

// A connected is the backends of a configuration while a command calls them and serves nobody.
type connected struct {
	// Handler is all of them as one.
	Handler bridge.Handler
	// Names are their names, and Down says why those of several do not answer that do not.
	Names []string
	Down  map[string]error
	// Launched says that one of them is a program that has been started.
	Launched bool
	// AuthFix is what to do when a backend wants to know who calls.
	AuthFix string
}

// connectOptions say how a command reaches its backends.
type connectOptions struct {
	// Now ends when there is no time left for backends to end.
	Now context.Context //nolint:containedctx // it outlives the context of the call
	// Log is the command's log, and BackendLog that of the backends.
	Log, BackendLog zerolog.Logger
	// Wrap returns what is called in place of the Handler of each backend.
	Wrap func(bridge.Handler) bridge.Handler
	// Waiting shows what is waited for until end is called.
	Waiting func(what string) (end func())
}

// connect starts or connects the backends, calls do, and stops them. Of several, those that do not answer are left out, with a
// warning.
func connect(ctx context.Context, cfg *loaded, o connectOptions, do func(*connected) error) error {
	c := &connected{Down: map[string]error{}}
	var backends []*backend
	handlers := map[string]bridge.Handler{}
	for i := range cfg.Backends {
		b := newBackend(cfg, i, nil, o.BackendLog, nil)
		b.cfg, b.wrap = b.counting(), o.Wrap
		backends = append(backends, b)
		handlers[b.Name] = catalogOf(b, o.Log)
		c.Names = append(c.Names, b.Name)
	}
	var err error
	if c.Handler, err = merge(cfg, backends, handlers, o.Log); err != nil {
		return err
	}
	if c.AuthFix = "say who you are: auth, or env, of the backend in the configuration"; len(backends) == 1 {
		c.AuthFix = backends[0].authFix()
	}

	// The backends outlive ctx: a call that is cancelled has to be told to the server.
	running, stop := context.WithCancel(o.Now)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	errs := make([]error, len(backends))
	var ready sync.WaitGroup
	var starting []string
	for i, b := range backends {
		if b.command() != nil {
			c.Launched = true
		}
		if errs[i] = b.open(); errs[i] != nil {
			continue
		}
		wg.Go(func() {
			if err := b.run(running); err != nil {
				b.log.Debug().Err(err).Str("backend", b.Name).Msg("the backend did not start") // Ready says so, too
			}
		})
		ready.Go(func() { errs[i] = b.reach(ctx) })
		if b.command() != nil {
			starting = append(starting, b.text())
		}
	}
	end := func() {}
	if len(starting) > 0 {
		end = o.Waiting("starting " + strings.Join(starting, ", "))
	}
	ready.Wait()
	end()
	for i, err := range errs {
		if err == nil {
			continue
		}
		c.Down[backends[i].Name] = err
		if len(c.Down) == len(backends) {
			return err // of several, the last one; the others have been told
		}
		p := asProblem(err)
		warn := o.Log.Warn().Str("backend", backends[i].Name).Str("why", p.Why)
		if p.Fix != "" {
			warn = warn.Str("fix", p.Fix)
		}
		warn.Msg(p.What)
	}
	return do(c)
}
