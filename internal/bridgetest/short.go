package bridgetest

import "testing"

// SkipIfShort skips a slow test with `go test -short`, which is for editing only: make test and CI do not use it.
func SkipIfShort(tb testing.TB) {
	tb.Helper()
	if testing.Short() {
		tb.Skip("starts programs or takes long")
	}
}
