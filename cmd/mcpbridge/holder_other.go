//go:build !linux

package main

// holderText names the process that listens on an address. Only Linux tells.
func holderText(string) string { return "" }
