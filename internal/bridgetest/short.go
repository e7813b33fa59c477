package bridgetest

import "testing"

// SkipIfShort skips a test that starts programs or takes long if `go test` has -short. That is for a quick look while
// editing: nothing else in the repository uses it.
func SkipIfShort(tb testing.TB) {
	tb.Helper()
	if testing.Short() {
		tb.Skip("starts programs or takes long")
	}
}
