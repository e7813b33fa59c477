//go:build unix

package app

import (
	"syscall"
	"time"
)

// processorTime returns the processor time of the process.
func processorTime() (took time.Duration, ok bool) {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0, false
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), true
}
