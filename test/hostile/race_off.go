//go:build !race

package hostile

// slowness is how many times slower the race detector makes everything: it is off.
const slowness = 1
