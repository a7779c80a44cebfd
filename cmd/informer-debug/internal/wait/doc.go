// Package wait is the verb wait: it looks at a cache when it changes, until a condition is true of it
// or of objects in it.
package wait
