package bridge

import (
	"context"
	"math"
	"time"
)

// wallEvery is how often the wall clock is looked at: timers stand still while the machine is suspended.
const wallEvery = 15 * time.Second

// WithWallDeadline returns a context that ends at a time of the wall clock, such as the end of a token, for the given cause.
func WithWallDeadline(parent context.Context, until time.Time, cause error) (context.Context, context.CancelFunc) {
	return withWallDeadline(parent, until, cause, time.Now)
}

func withWallDeadline(parent context.Context, until time.Time, cause error, now func() time.Time) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(parent)
	left := func() time.Duration { return min(until.Round(0).Sub(now().Round(0)), wallEvery) }
	var timer *time.Timer
	begun := make(chan struct{})
	timer = time.AfterFunc(math.MaxInt64, func() {
		<-begun
		if wait := left(); wait > 0 && ctx.Err() == nil {
			timer.Reset(wait)
			return
		}
		cancel(cause)
	})
	close(begun)
	timer.Reset(max(left(), 0))
	return ctx, func() {
		timer.Stop()
		cancel(context.Canceled)
	}
}
