//go:build unix

package app

import (
	"syscall"
	"time"
)

// processorTime returns how much time of processors the process has taken so far.
func processorTime() (took time.Duration, ok bool) {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0, false
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), true
}
