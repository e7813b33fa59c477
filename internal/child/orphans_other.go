//go:build !linux

package child

import "sync"

// What BuryOrphans needs on Linux.
var (
	beginning sync.RWMutex
	started   sync.Map
)
