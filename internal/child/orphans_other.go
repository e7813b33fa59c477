//go:build !linux

package child

import "sync"

// State of ReapOrphans, which exists on Linux only.
var (
	startMu  sync.RWMutex
	children sync.Map
)
