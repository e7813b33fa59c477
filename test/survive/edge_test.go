package main

import (
	"slices"
	"testing"
)

// Each limit in docs/security.md names an existing test.
func TestEveryLimitHasATest(t *testing.T) {
	t.Parallel()
	n, tests, wrong, err := limitTests()
	if err != nil || len(wrong) > 0 || n < 20 || tests < n {
		t.Errorf("got %d limits, %d tests, missing tests %q, error %v, want no missing ones", n, tests, wrong, err)
	}
	if got, want := through("L08 to L11"), []string{"L08", "L09", "L10", "L11"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
