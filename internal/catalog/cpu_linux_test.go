package catalog

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// spent returns the time that a processor spends on f: how busy the machine is does not count.
func spent(f func()) time.Duration {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	began := threadTime()
	f()
	return threadTime() - began
}

func threadTime() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		panic(err)
	}
	return time.Duration(t.Nano())
}
