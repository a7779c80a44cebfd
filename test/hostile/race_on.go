//go:build race

package hostile

// slowness is the slowdown caused by the race detector.
const slowness = 10
