package limit

import (
	"container/list"
	"context"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/mcpbridge/mcpbridge/bridge"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// A lot is as many places as calls may have at a time, and the calls that wait for one, of which the oldest is the next. It may be
// used concurrently.
//
// A queue is for bursts. One that stays makes every call wait and lets none succeed that would not have without it: calls beyond
// what can be done are refused sooner or later, and sooner is better. So calls have their patience together, from the first that
// has to wait on, and once one was refused, further ones have a twentieth of it, which is enough for no place to be empty. That
// ends when none has been refused for ten times the patience. (CoDel does so with packets. It takes a queue that is empty for the
// end, and calls that last as long as one another empty it again and again.)
type lot struct {
	most     int
	patience time.Duration
	whose    string // for who is refused

	mu      sync.Mutex
	taken   int
	waiting list.List // of chan struct{}, which is closed when the place is given
	since   time.Time // when the patience of who waits began
	refused time.Time // when somebody was last
}

func newLot(most int, patience time.Duration, whose string) *lot {
	return &lot{most: most, patience: patience, whose: whose}
}

// enter takes a place, or waits for one as long as a call may wait. Whoever has entered leaves.
func (l *lot) enter(ctx context.Context) error {
	l.mu.Lock()
	if l.taken < l.most {
		l.taken++
		l.mu.Unlock()
		return nil
	}
	now := time.Now()
	if l.waiting.Len() == 0 && now.Sub(l.refused) > 10*l.patience {
		l.since = now
	}
	wait := max(l.since.Add(l.patience).Sub(now), l.patience/20)
	turn := make(chan struct{})
	me := l.waiting.PushBack(turn)
	l.mu.Unlock()
	late := time.NewTimer(wait)
	defer late.Stop()
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
	case <-late.C:
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-turn: // at the last moment: the place is the call's, which ends at once if its context has ended
		return nil
	default:
	}
	l.waiting.Remove(me)
	if ctx.Err() != nil {
		return bridge.Canceled(ctx, false)
	}
	l.refused = time.Now()
	return l.refusal()
}

// leave gives a place back: to who has waited for the longest time.
func (l *lot) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if next := l.waiting.Front(); next != nil {
		close(l.waiting.Remove(next).(chan struct{}))
		return
	}
	l.taken--
}

func (l *lot) refusal() error {
	e := bridge.Failed(codes.ResourceExhausted, pb.CallFailure_OUTCOME_NOT_EXECUTED, bridge.ReasonOverloaded,
		"%d calls are running, which is %s most: call again when one of them has ended", l.most, l.whose)
	e.Failure.RetryAfterMs = proto.Int64(l.patience.Milliseconds())
	return e
}
