//go:build !race

package hostile

// slowness is how many times slower the race detector makes everything. It is 1 because the race
// detector is off.
const slowness = 1
