//go:build race

package hostile

// slowness is how many times slower the race detector makes everything.
const slowness = 10
