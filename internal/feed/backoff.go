package feed

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/mcpbridge/mcpbridge/bridge"
)

// The pauses between two attempts: the first one, and the longest.
const (
	backoffMin = 100 * time.Millisecond
	backoffMax = 10 * time.Second
)

// A Backoff is the pause before the next attempt, which is twice as long each time. The zero Backoff is the first.
type Backoff struct{ next time.Duration }

// Next returns the pause before the next attempt.
func (b *Backoff) Next() time.Duration { return max(b.next, backoffMin) }

// Reset makes the next pause the first again.
func (b *Backoff) Reset() { b.next = 0 }

// Wait waits for the pause. It reports false if ctx ends before.
func (b *Backoff) Wait(ctx context.Context) bool {
	t := time.NewTimer(b.Next())
	defer t.Stop()
	b.next = min(2*b.Next(), backoffMax)
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// Follow calls listen, which is one Listen call, again and again until ctx ends or its error is final, and returns that
// error. Listen calls reset when the next pause is to be the first again. IsFinal is called with what listen returns
// and the pause that follows.
func Follow(ctx context.Context, listen func(reset func()) error,
	isFinal func(err error, again time.Duration) bool,
) error {
	var b Backoff
	for {
		err := listen(b.Reset)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case isFinal(err, b.Next()):
			return err
		}
		if !b.Wait(ctx) {
			return ctx.Err()
		}
	}
}

// isUnimplemented reports whether err is that there is no Listen.
func isUnimplemented(err error) bool {
	return err != nil && bridge.AsError(err).Code == codes.Unimplemented
}
