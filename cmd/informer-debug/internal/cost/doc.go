// Package cost implements the verb cost, which estimates the memory for caching a cluster. It reads samples, holds them
// in memory in one form after another, and extrapolates from the size of the heap.
package cost
