//go:build !linux

package catalog

import "time"

// spent returns how long f takes.
func spent(f func()) time.Duration {
	began := time.Now()
	f()
	return time.Since(began)
}
