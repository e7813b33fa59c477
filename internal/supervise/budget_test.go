package supervise

import (
	"sync"
	"sync/atomic"
	"testing"
)

// The budget allows a hundred retries at first, and one more for every ten calls.
func TestRetriesAreLimited(t *testing.T) {
	t.Parallel()
	var b RetryBudget
	retries := func() int64 {
		var n atomic.Int64
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for range 100 {
					if b.Retry() {
						n.Add(1)
					}
				}
			})
		}
		wg.Wait()
		return n.Load()
	}
	for _, step := range []struct{ calls, retries int64 }{{1000, 100}, {0, 0}, {9, 0}, {1, 1}, {500, 50}, {2000, 100}} {
		for range step.calls {
			b.Called()
		}
		if got := retries(); got != step.retries {
			t.Errorf("after %d calls: got %d retries, want %d", step.calls, got, step.retries)
		}
	}
}
