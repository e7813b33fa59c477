package bridge

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A context ends at its deadline by the wall clock, even if the machine is suspended before it.
func TestWallDeadlineCountsSuspension(t *testing.T) {
	over := errors.New("over")
	for name, c := range map[string]struct {
		suspended, after time.Duration
	}{
		"awake":     {0, time.Hour},
		"suspended": {50 * time.Minute, 10 * time.Minute},
		"too long":  {2 * time.Hour, 15 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begin := time.Now()
				var suspended atomic.Int64
				now := func() time.Time { return time.Now().Add(time.Duration(suspended.Load())) }
				ctx, cancel := withWallDeadline(t.Context(), begin.Add(time.Hour), over, now)
				defer cancel()
				suspended.Store(int64(c.suspended))
				<-ctx.Done()
				if took := time.Since(begin); took != c.after || context.Cause(ctx) != over {
					t.Errorf("ended after %v with %v", took, context.Cause(ctx))
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := WithWallDeadline(t.Context(), time.Now().Add(-time.Second), over)
		defer cancel()
		<-ctx.Done()
	})
}
