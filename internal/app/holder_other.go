//go:build !linux

package app

// holderText names the process that listens on an address. Only Linux tells.
func holderText(string) string { return "" }
