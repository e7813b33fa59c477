package bridgetest

import (
	"testing/synctest"
	"time"
)

// Pass advances the time of a testing/synctest bubble, and waits until everything that is due then is done. It panics
// outside a bubble.
func Pass(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // by the bubble's clock
	synctest.Wait()
}
