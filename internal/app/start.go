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
	// awaitTime is how long several backends may take to start before clients are served without those that are not
	// ready.
	awaitTime = 10 * time.Second
	// noticeTime is how long backends may take to start before that is logged.
	noticeTime = time.Second
)

// runBackends runs the backends until ctx ends, or the only one does not start.
func (a *App) runBackends(ctx context.Context) error {
	if len(a.backends) == 1 {
		return a.backends[0].run(ctx)
	}
	var wg sync.WaitGroup
	for _, b := range a.backends {
		wg.Go(func() { b.runWithRetries(ctx) })
	}
	wg.Wait()
	return nil
}

// awaitBackends waits until all backends are ready, a required one has failed, or ctx ends, and reports whether they
// are ready. A single launched backend has its start timeout. Other backends may become ready later, so awaitBackends
// waits at most awaitTime for several, and limits.AbsentTimeout for a dialed one. After noticeTime, it logs which
// backends it waits for.
func (a *App) awaitBackends(ctx context.Context, backendsDone chan error) (answer bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ready := make(chan error, 1)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	wg.Go(func() { ready <- a.ready(ctx) })
	var timeout <-chan time.Time
	switch {
	case len(a.backends) > 1:
		timeout = time.After(awaitTime)
	case a.backends[0].Command() == nil:
		timeout = time.After(limits.AbsentTimeout)
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
		case <-timeout:
			return false, nil
		case <-notice.C:
			a.logStarting()
		}
	}
}

// ready waits until the only backend is ready; or until each of several is ready, has failed to start, or has been
// dialed for limits.AbsentTimeout.
func (a *App) ready(ctx context.Context) error {
	if len(a.backends) == 1 {
		return (*a.backends[0].back.Load()).Ready(ctx)
	}
	timeout := make(chan struct{})
	defer time.AfterFunc(limits.AbsentTimeout, func() { close(timeout) }).Stop()
	for _, b := range a.backends {
		expired := timeout
		if b.Command() != nil {
			expired = nil
		}
		select {
		case <-b.startDone:
		case <-expired:
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
		why, fix := b.diagnose(ctx)
		where(a.Log.Warn()).Str("waitingFor", b.Text()).Str("why", why).Str("fix", fix).
			Msg("serving without the backend; calls fail until it answers")
		return
	}
	var names []string
	for _, b := range a.backends {
		names = append(names, b.Name)
		select {
		case <-b.startDone:
		default:
			why, fix := b.diagnose(ctx)
			a.Log.Warn().Str("backend", b.Name).Str("waitingFor", b.Text()).Str("why", why).Str("fix", fix).
				Msg("serving without this backend; calls of it fail until it answers")
		}
	}
	where(a.Log.Info()).Strs("backends", names).Msg("ready")
}

// logStarting logs which backends have not started yet.
func (a *App) logStarting() {
	canceled, cancel := context.WithCancel(context.Background())
	cancel()
	for _, b := range a.backends {
		if b.started(canceled, bridge.ModernEra) != nil {
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

// launches reports whether the bridge launches a backend.
func (a *App) launches() bool {
	return slices.ContainsFunc(a.backends, func(b *backend) bool { return b.Command() != nil })
}

// failedStart waits up to noticeTime for the only backend if it is still starting, and returns its error. A client that
// closes stdin at once is often a user who tries a command.
func (a *App) failedStart(backendsDone chan error) error {
	if len(a.backends) > 1 || a.backends[0].Command() == nil || a.backends[0].readiness() == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), noticeTime)
	defer cancel()
	if a.backends[0].started(ctx, bridge.ModernEra) != nil || a.backends[0].readiness() == nil {
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
