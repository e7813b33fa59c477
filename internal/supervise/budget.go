package supervise

import "sync/atomic"

const (
	// retriesAtOnce is how many calls may be made again at once, and callsPerRetry how many calls there must be for
	// each after that.
	retriesAtOnce = 100
	callsPerRetry = 10
)

// A RetryBudget bounds how many calls are made again that a backend may have seen: those of a backend that dies of them
// would otherwise come twice, and again when it is back. The zero value is a full one. It may be used concurrently.
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

// Retry reports whether a call may be made again, and counts it if so.
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
