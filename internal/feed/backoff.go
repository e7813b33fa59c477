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

// A Backoff is the pause before the next attempt, which doubles each time. The zero Backoff is the first.
type Backoff struct{ next time.Duration }

// Next returns the pause before the next attempt.
func (b *Backoff) Next() time.Duration { return max(b.next, backoffMin) }

// Reset sets the next pause to the first one.
func (b *Backoff) Reset() { b.next = 0 }

// Wait waits for the pause. It returns false if ctx ends first.
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

// Follow calls listen, which makes one Listen call, until ctx ends or isFinal returns true, and returns the last error.
// listen calls reset to set the next pause to the first one. isFinal is called with the error of listen and the
// following pause.
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

// isUnimplemented reports whether err means that Listen is not implemented.
func isUnimplemented(err error) bool {
	return err != nil && bridge.AsError(err).Code == codes.Unimplemented
}
