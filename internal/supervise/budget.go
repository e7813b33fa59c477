package supervise

import "sync/atomic"

const (
	// retriesAtOnce is the number of retries in a burst, and callsPerRetry the number of calls for each further one.
	retriesAtOnce = 100
	callsPerRetry = 10
)

// A RetryBudget limits the retries of calls that a backend may have received: the calls to a backend that crashes on
// them would otherwise be sent twice, and again after its restart. The zero value is a full budget. It may be used
// concurrently.
type RetryBudget struct {
	spent atomic.Int64 // in calls
}

// Called counts a call.
func (b *RetryBudget) Called() {
	for {
		n := b.spent.Load()
		if n == 0 || b.spent.CompareAndSwap(n, n-1) {
			return
		}
	}
}

// Retry reports whether a call may be retried, and counts it if so.
func (b *RetryBudget) Retry() bool {
	for {
		n := b.spent.Load()
		if n > (retriesAtOnce-1)*callsPerRetry {
			return false
		}
		if b.spent.CompareAndSwap(n, n+callsPerRetry) {
			return true
		}
	}
}
