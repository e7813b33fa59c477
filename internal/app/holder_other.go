//go:build !linux

package app

// holderText returns the name of the process that listens on an address. Only Linux provides it.
func holderText(string) string { return "" }
