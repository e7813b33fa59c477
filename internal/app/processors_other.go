//go:build !unix

package app

import "time"

// processorTime is not available: Go uses all processors.
func processorTime() (took time.Duration, ok bool) { return 0, false }
