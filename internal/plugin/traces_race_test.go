//go:build race

package plugin

// memoryOfTraces is more than without the race detector, under which pools often forget what package regexp keeps from
// line to line.
const memoryOfTraces = 512 << 10
