// Package wait implements the wait command, which checks a cache on every change until it or its objects
// meet a condition.
package wait
