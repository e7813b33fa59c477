//go:build !linux

package child

// Stopped reports whether the process has been stopped. Here that cannot be told.
func (*Process) Stopped() bool { return false }

// IsStopped reports whether a process has been stopped. Here that cannot be told.
func IsStopped(int) bool { return false }
