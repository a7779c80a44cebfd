// Package wait implements the wait command, which checks a cache after every change until the cache or its
// objects meet a condition.
package wait
