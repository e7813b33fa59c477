package app

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/limits"
)

const (
	// awaitTime is how long several backends may take to answer before clients are served without the others.
	awaitTime = 10 * time.Second
	// noticeTime is how long backends may start without a line in the log.
	noticeTime = time.Second
)

// runBackends runs the backends until ctx ends, or the only one does not start.
func (a *App) runBackends(ctx context.Context) error {
	if len(a.backends) == 1 {
		return a.backends[0].run(ctx)
	}
	var wg sync.WaitGroup
	for _, b := range a.backends {
		wg.Go(func() { b.keep(ctx) })
	}
	wg.Wait()
	return nil
}

// awaitBackends waits until all backends are ready, which it logs, a required one has failed, or ctx ends. A backend
// that is launched alone has its start timeout; others may become ready later, so it waits at most awaitTime for them.
// After noticeTime, it logs which backends it waits for.
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
	case a.backends[0].Command() == nil:
		enough = time.After(limits.AbsentTimeout)
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
			a.logStarting()
		}
	}
}

// ready waits until the only backend answers; or each of several answers, does not start, or has been dialled for long
// enough.
func (a *App) ready(ctx context.Context) error {
	if len(a.backends) == 1 {
		return (*a.backends[0].back.Load()).Ready(ctx)
	}
	enough := make(chan struct{})
	defer time.AfterFunc(limits.AbsentTimeout, func() { close(enough) }).Stop()
	for _, b := range a.backends {
		dialled := enough
		if b.Command() != nil {
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

// logReady logs the backends that are served, and those that are not ready.
func (a *App) logReady(ctx context.Context, ready bool) {
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
			where(a.Log.Info()).Str("backend", b.Text()).Msg("ready")
			return
		}
		why, fix := b.absence(ctx)
		where(a.Log.Warn()).Str("waitingFor", b.Text()).Str("why", why).Str("fix", fix).
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
			a.Log.Warn().Str("backend", b.Name).Str("waitingFor", b.Text()).Str("why", why).Str("fix", fix).
				Msg("serving without this backend; calls of it fail until it answers")
		}
	}
	where(a.Log.Info()).Strs("backends", names).Msg("ready")
}

// logStarting logs which backends have not started yet.
func (a *App) logStarting() {
	now, cancel := context.WithCancel(context.Background())
	cancel()
	for _, b := range a.backends {
		if b.started(now, bridge.ModernEra) != nil {
			atMost := limits.Timeouts{Start: b.Command().StartTimeout}.OrDefaults().Start
			a.Log.Info().Str("backend", b.Name).Str("command", b.Text()).Stringer("atMost", atMost).
				Msg("the backend is starting")
		}
	}
}

func (a *App) reportStarted() {
	if a.Started != nil {
		a.Started(a)
	}
}

// launches reports whether a backend is a program that is started.
func (a *App) launches() bool {
	return slices.ContainsFunc(a.backends, func(b *backend) bool { return b.Command() != nil })
}

// failedStart returns the error of the only backend if it is still starting or has just failed to start: a client that
// closes stdin at once is often a user who tries a command.
func (a *App) failedStart(backendsDone chan error) error {
	if len(a.backends) > 1 || a.backends[0].Command() == nil || a.backends[0].now() == nil {
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
