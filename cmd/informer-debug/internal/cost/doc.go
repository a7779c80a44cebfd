// Package cost implements the cost command, which estimates how much memory it takes to cache a cluster.
// It reads samples, keeps them in memory in one form after another, and extrapolates from the heap size.
package cost
