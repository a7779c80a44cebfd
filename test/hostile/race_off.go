//go:build !race

package hostile

// slowness is the slowdown caused by the race detector, which is off.
const slowness = 1
