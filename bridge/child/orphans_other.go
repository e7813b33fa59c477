//go:build !linux

package child

import (
	"context"
	"sync"
)

// started and beginning are for BuryOrphans of Linux.
var (
	beginning sync.RWMutex
	started   sync.Map
)

// BuryOrphans does nothing here: no container's first process is one of this system.
func BuryOrphans(ctx context.Context) { <-ctx.Done() }
