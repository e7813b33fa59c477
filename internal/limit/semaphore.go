package limit

import (
	"container/list"
	"context"
	"math"
	"sync"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/mcpbridge/mcpbridge/bridge"
)

// A semaphore limits concurrent calls. Calls wait in the order of their arrival. It may be used concurrently.
//
// A queue absorbs bursts. A permanent queue only delays every call, because as many are rejected in the end. So the
// first call in the queue sets a deadline for all calls in it, after maxWait. After the deadline, a call waits for at
// most a twentieth of maxWait, which keeps all slots in use. A call that finds the queue empty sets a new deadline, but
// only if no call was rejected for ten times maxWait. (CoDel works like this for packets, but an empty queue is enough
// for a new deadline. With calls of equal duration, the queue becomes empty again and again.)
type semaphore struct {
	limit   int
	maxWait time.Duration // if negative, calls wait until their contexts end
	scope   string        // in errors

	mu           sync.Mutex
	inUse        int
	waiting      list.List // of chan struct{}, closed when the call may run
	waitingSince time.Time // maxWait before the deadline of the queue
	rejectedAt   time.Time
}

func newSemaphore(limit int, maxWait time.Duration, scope string) *semaphore {
	return &semaphore{limit: limit, maxWait: maxWait, scope: scope}
}

// acquire waits for a slot, for a limited time.
func (s *semaphore) acquire(ctx context.Context) error {
	s.mu.Lock()
	if s.inUse < s.limit {
		s.inUse++
		s.mu.Unlock()
		return nil
	}
	now := time.Now()
	if s.waiting.Len() == 0 && now.Sub(s.rejectedAt) > 10*s.maxWait {
		s.waitingSince = now
	}
	wait := max(s.waitingSince.Add(s.maxWait).Sub(now), s.maxWait/20)
	if s.maxWait < 0 {
		wait = math.MaxInt64
	}
	turn := make(chan struct{})
	element := s.waiting.PushBack(turn)
	s.mu.Unlock()
	late := time.NewTimer(wait)
	defer late.Stop()
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
	case <-late.C:
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-turn: // at the same time as the timeout
		return nil
	default:
	}
	s.waiting.Remove(element)
	if ctx.Err() != nil {
		return bridge.Canceled(ctx, false)
	}
	s.rejectedAt = time.Now()
	return s.overloaded()
}

// release passes the slot to the oldest waiting call.
func (s *semaphore) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if next := s.waiting.Front(); next != nil {
		close(s.waiting.Remove(next).(chan struct{}))
		return
	}
	s.inUse--
}

func (s *semaphore) overloaded() error {
	e := bridge.Failed(codes.ResourceExhausted, bridge.OutcomeNotExecuted, bridge.ReasonOverloaded,
		"too many concurrent calls (%s limit is %d): try again later", s.scope, s.limit)
	e.RetryAfter = s.maxWait
	return e
}
