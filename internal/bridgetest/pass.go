package bridgetest

import (
	"testing/synctest"
	"time"
)

// Pass advances the time of a testing/synctest bubble, and waits until all of its goroutines are blocked. It panics
// outside a bubble.
func Pass(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // by the bubble's clock
	synctest.Wait()
}
