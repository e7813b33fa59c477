//go:build !race

package plugin

// memoryOfTraces is what reading any lines may take at most, besides ten times their bytes.
const memoryOfTraces = 64 << 10
