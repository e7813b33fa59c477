package bridge

import (
	"context"
	"math"
	"time"
)

// checkInterval is the interval at which the wall clock is read, because timers stop while the machine is suspended.
const checkInterval = 15 * time.Second

// WithWallDeadline returns a context that is canceled with cause when the wall clock reaches a time, such as a token's
// expiry.
func WithWallDeadline(parent context.Context, until time.Time, cause error) (context.Context, context.CancelFunc) {
	return withWallDeadline(parent, until, cause, time.Now)
}

func withWallDeadline(
	parent context.Context, until time.Time, cause error, now func() time.Time,
) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(parent)
	remaining := func() time.Duration { return min(until.Round(0).Sub(now().Round(0)), checkInterval) }
	var timer *time.Timer
	timerSet := make(chan struct{})
	timer = time.AfterFunc(math.MaxInt64, func() {
		<-timerSet
		if wait := remaining(); wait > 0 && ctx.Err() == nil {
			timer.Reset(wait)
			return
		}
		cancel(cause)
	})
	close(timerSet)
	timer.Reset(max(remaining(), 0))
	return ctx, func() {
		timer.Stop()
		cancel(context.Canceled)
	}
}
