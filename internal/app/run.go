package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/mcpbridge/mcpbridge/internal/lifecycle"
	"github.com/mcpbridge/mcpbridge/internal/problem"
)

const (
	// acceptTime is how long calls are accepted after serve.preDrain: clients with open connections notice the shutdown
	// by the next response. It ends early when no call has been in flight for quietTime.
	acceptTime = 2 * time.Second
	quietTime  = 100 * time.Millisecond
)

// Run starts the backends and serves them until ctx ends, the client closes stdin, or a front fails. A single launched
// backend must start; a dialed one, or one of several, may become ready later. When ctx ends, Run accepts no more calls
// and waits for those in flight as long as the configuration allows, or until abort ends. When it returns, everything
// that it started has ended.
func (a *App) Run(ctx, abort context.Context) error {
	probes := a.newProbeServer()
	var background sync.WaitGroup
	defer background.Wait()
	probeCtx, stopProbes := context.WithCancel(context.WithoutCancel(ctx))
	defer stopProbes()
	background.Go(func() { probes.run(probeCtx) })
	if a.Reap != nil {
		background.Go(func() { a.Reap(probeCtx) })
	}
	// The backends run on when abort ends: clients must first receive errors that their calls were interrupted, instead
	// of errors of a backend that exited.
	backendCtx, stopBackends := context.WithCancel(context.WithoutCancel(abort))
	backendsDone := make(chan error, 1)
	go func() { backendsDone <- a.runBackends(backendCtx) }()
	a.resumeTasks()

	reportReady := func(ready bool) {
		a.logReady(ctx, ready)
		a.lifecycle.Advance(lifecycle.Running)
	}
	var err error
	if a.stdio && a.launches() { // a stdio client is served while backends start: its timeout may be short
		a.reportStarted()
		background.Go(func() {
			if ready, err := a.awaitBackends(probeCtx, nil); err == nil && probeCtx.Err() == nil {
				reportReady(ready)
			}
		})
		err = a.serveFronts(ctx, abort, backendsDone)
	} else {
		var ready bool
		if ready, err = a.awaitBackends(ctx, backendsDone); err == nil && ctx.Err() == nil {
			reportReady(ready)
			a.reportStarted()
			err = a.serveFronts(ctx, abort, backendsDone)
		} else {
			a.closeListeners() // nothing was accepted
		}
	}
	if closeErr := a.tasks.Close(); closeErr != nil {
		a.Log.Error().Err(closeErr).Msg("the store of tasks was not closed")
	}
	stopBackends()
	for _, e := range a.endpoints() {
		e.mcp.Close()
	}
	if stopErr, ok := <-backendsDone; ok && stopErr != nil && err == nil && !errors.Is(stopErr, context.Canceled) {
		a.Log.Warn().Err(stopErr).Msg("the backend did not stop cleanly")
	}
	return err
}

// serveFronts serves clients until ctx ends and the drain is over, stdin ends, or a front or the backends fail.
func (a *App) serveFronts(ctx, abort context.Context, backendsDone chan error) error {
	fronts, err := a.newFronts()
	if err != nil {
		a.closeListeners()
		return err
	}
	frontDone := make(chan error, len(fronts))
	for _, f := range fronts {
		go func() { frontDone <- f.serve() }()
	}
	var background sync.WaitGroup
	defer background.Wait()
	beating, stopBeats := context.WithCancel(a.lifecycle.Until(lifecycle.LameDuck))
	defer stopBeats()
	background.Go(func() { a.beat(beating, fronts) })
	// endAll shuts down the fronts, and returns the first error.
	endAll := func(remaining int) (err error) {
		var wg sync.WaitGroup
		for _, f := range fronts {
			wg.Go(func() { f.end(abort) }) // in parallel: slow readers of one front do not delay the others
		}
		wg.Wait()
		for range remaining {
			if e := <-frontDone; err == nil {
				err = e
			}
		}
		return err
	}

	select {
	case err := <-frontDone:
		if startErr := a.failedStart(backendsDone); startErr != nil {
			_ = endAll(len(fronts) - 1) // failed is the cause
			return startErr
		}
		if endErr := endAll(len(fronts) - 1); err == nil {
			err = endErr
		}
		if err != nil {
			return fmt.Errorf("serve %s: %w", cmp.Or(a.URL(), a.GRPC()), err)
		}
		a.Log.Info().Msg("the client has closed stdin")
		return nil
	case err := <-backendsDone:
		close(backendsDone)
		if frontErr := endAll(len(fronts)); frontErr != nil {
			a.Log.Warn().Err(frontErr).Msg("serving clients failed")
		}
		if err != nil { // the only backend has not started
			return a.backends[0].startProblem(err)
		}
		return &problem.Error{
			Exit: problem.ExitUnexpected, Code: "backend_gone",
			What: fmt.Sprintf("backend %q ended and is not restarted", a.backends[0].Name),
			Why:  errText(err), Fix: "see the log above; start mcpbridge again", Cause: err,
		}
	case <-ctx.Done():
	}
	a.drain(abort, fronts)
	return endAll(len(fronts))
}

// drain passes through the phases up to Finishing, which the fronts observe. From the beginning, new connections to
// inherited sockets wait for the next process, which answers their calls. After serve.preDrain, in which load
// balancers notice the shutdown, it accepts calls until none has been in flight for quietTime, and then waits for those
// in flight, for serve.drain in all. A panic in one phase does not prevent the next one.
func (a *App) drain(abort context.Context, fronts []front) {
	a.Log.Info().Int("calls", a.lifecycle.InFlight()).Str("atMost", a.cfg.Serve.Drain.String()).
		Msg("draining; a second signal exits at once")
	phase := func(name string, do func()) {
		defer a.panics.Recover(name, nil)
		do()
	}
	phase("lame duck", func() {
		a.Sockets.pause()
		a.lifecycle.Advance(lifecycle.LameDuck)
		wait, stop := context.WithTimeout(abort, a.cfg.Serve.PreDrain)
		defer stop()
		<-wait.Done()
	})
	ctx, cancel := context.WithTimeout(abort, a.cfg.Serve.Drain)
	defer cancel()
	phase("draining", func() {
		a.lifecycle.Advance(lifecycle.Draining)
		accept, stop := context.WithTimeout(ctx, acceptTime)
		defer stop()
		a.lifecycle.AwaitQuiet(accept, quietTime)
	})
	phase("finishing", func() {
		a.lifecycle.Advance(lifecycle.Finishing)
		a.Log.Info().Msg("refusing new calls")
		if remaining := a.lifecycle.AwaitIdle(ctx); remaining > 0 {
			a.Log.Warn().Int("calls", remaining).Msg("canceling the calls that have not ended in time")
		}
		for _, f := range fronts {
			f.flush(ctx)
		}
	})
}
