//go:build !linux

package child

// Stopped returns false: this platform does not report stopped processes.
func (*Process) Stopped() bool { return false }

// IsStopped returns false: this platform does not report stopped processes.
func IsStopped(int) bool { return false }
