package main

import (
	"bytes"
	"math"
	"os"
	"strconv"
)

// ballast returns memory to keep for as long as the process lives, and never to touch. It takes none of the machine's
// memory, but the garbage collector counts it, and so waits until the heap has grown by as much. The bridge itself needs a
// few MiB and makes garbage of several times the size of every call; without ballast it would collect after every 4 MiB, at
// an eighth of its whole cost. A higher GOGC would help as much while the heap is small, but let a large one grow without need.
//
// Whoever sets GOGC or GOMEMLIMIT has decided otherwise.
func ballast() []byte {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return nil
	}
	return make([]byte, min(64<<20, memoryLimit()/8))
}

// memoryLimit returns how much memory the container may use, if it is known and limited.
func memoryLimit() int64 {
	for _, path := range []string{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"} { // version 2 and 1
		data, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		if limit, err := strconv.ParseInt(string(bytes.TrimSpace(data)), 10, 64); err == nil {
			return limit
		}
	}
	return math.MaxInt64
}
