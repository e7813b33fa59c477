package bridgetest

import (
	"testing/synctest"
	"time"
)

// Pass lets so much time pass in a bubble of testing/synctest, and waits until all that is due then has been done. It panics
// outside of one.
func Pass(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // by the bubble's clock
	synctest.Wait()
}
