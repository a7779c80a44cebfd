// Package cost is the verb cost: what it would take to cache a cluster. It reads samples, holds them
// in memory in one form after the other, and scales what the heap says.
package cost
