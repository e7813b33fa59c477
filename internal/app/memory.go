package app

import (
	"math"
	"os"
	"runtime/debug"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/rs/zerolog"

	"github.com/mcpbridge/mcpbridge/internal/limit"
)

// memoryShare is the part of the container's memory that the bridge may use by default. The rest is for memory that Go
// does not count, and for backends in the same container.
const memoryShare = .85

// newMemory returns a monitor of the memory of the process, and sets the limit of the garbage collector. It returns nil
// if there is no limit.
func newMemory(configured int, log zerolog.Logger) *limit.Memory {
	fromEnv := int64(0)
	if os.Getenv("GOMEMLIMIT") != "" {
		fromEnv = debug.SetMemoryLimit(-1) // -1 only returns the limit
	}
	maxBytes := memoryOf(int64(configured), fromEnv, containerMemory())
	if maxBytes == math.MaxInt64 {
		return nil
	}
	ballast := ballastSize()
	debug.SetMemoryLimit(maxBytes + ballast)
	return limit.NewMemory(maxBytes, func(collect bool) int64 { return limit.MemoryInUse(collect) - ballast }, log)
}

// memoryOf returns how many bytes the bridge may use: the configured number, GOMEMLIMIT, or a share of the container's
// memory. Without any, it returns math.MaxInt64. configured and fromEnv are 0 if not set.
func memoryOf(configured, fromEnv, container int64) int64 {
	switch {
	case configured > 0:
		return configured
	case fromEnv > 0:
		return fromEnv
	case container < math.MaxInt64:
		return int64(memoryShare * float64(container))
	}
	return math.MaxInt64
}

// Ballast returns memory that must stay referenced while the process runs, and is never touched. It uses none of the
// machine's memory, but the garbage collector counts it, and so waits until the heap has grown by as much. The bridge
// itself needs a few MiB and allocates several times the size of every call; without ballast it would collect after
// every 4 MiB, at an eighth of its whole cost. A higher GOGC would help as much while the heap is small, but let a
// large one grow without need.
//
// Go clears an allocation as a whole if any part of it was in use before, so that one large block could be touched.
func Ballast() [][]byte {
	ballast := make([][]byte, ballastSize()/ballastBlock)
	for i := range ballast {
		ballast[i] = make([]byte, ballastBlock)
	}
	return ballast
}

const ballastBlock = 1 << 20

// ballastSize returns the size of the ballast. It is 0 if the operator has set GOGC or GOMEMLIMIT.
func ballastSize() int64 {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return 0
	}
	return min(64<<20, containerMemory()/8) / ballastBlock * ballastBlock
}

// containerMemory returns the memory limit of the container, or math.MaxInt64.
func containerMemory() int64 {
	const unlimited = 1 << 60 // version 1 of cgroups has a large number
	n, err := memlimit.FromCgroup()
	if err != nil || n >= unlimited {
		return math.MaxInt64
	}
	return int64(n)
}
