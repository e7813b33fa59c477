//go:build !race

package plugin

// memoryOfTraces is the maximum memory for parsing lines, besides ten times their bytes.
const memoryOfTraces = 64 << 10
