//go:build !race

package hostile

// slowness is the slowdown caused by the race detector. It is 1 because the race detector is off.
const slowness = 1
