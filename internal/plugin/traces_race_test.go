//go:build race

package plugin

// memoryOfTraces is larger with the race detector, with which pools often drop what package regexp caches.
const memoryOfTraces = 512 << 10
