package main

import (
	"slices"
	"testing"
)

// docs/security.md names an existing test for each limit.
func TestEveryLimitHasATest(t *testing.T) {
	t.Parallel()
	n, tests, wrong, err := limitTests()
	if err != nil || len(wrong) > 0 || n < 20 || tests < n {
		t.Errorf("%d limits, %d tests, not there: %q, %v", n, tests, wrong, err)
	}
	if got, want := through("L08 to L11"), []string{"L08", "L09", "L10", "L11"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
