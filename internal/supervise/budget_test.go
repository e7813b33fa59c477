package supervise

import (
	"sync"
	"sync/atomic"
	"testing"
)

// A hundred calls are made again at once, whoever they are of, and one more for every ten calls that are made meanwhile.
func TestRetriesHaveABudget(t *testing.T) {
	t.Parallel()
	var b RetryBudget
	all := func() int64 {
		var made atomic.Int64
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for range 100 {
					if b.Retry() {
						made.Add(1)
					}
				}
			})
		}
		wg.Wait()
		return made.Load()
	}
	for _, step := range []struct{ calls, retries int64 }{{1000, 100}, {0, 0}, {9, 0}, {1, 1}, {500, 50}, {2000, 100}} {
		for range step.calls {
			b.Called()
		}
		if got := all(); got != step.retries {
			t.Errorf("after %d calls, %d were made again, want %d", step.calls, got, step.retries)
		}
	}
}
