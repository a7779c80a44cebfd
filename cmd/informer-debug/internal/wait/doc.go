// Package wait implements the verb wait, which checks a cache whenever it changes, until a condition on it or its
// objects is true.
package wait
