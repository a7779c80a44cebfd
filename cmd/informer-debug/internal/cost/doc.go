// Package cost implements the cost command, which estimates how much memory it takes to cache a cluster. It
// reads samples, loads them into memory in each form in turn, and extrapolates from the heap size.
package cost
