// Package crew decodes the values of a body on all processors and yields them in order.
// The goroutine that reads the body finds the values and helps to decode them. Others
// only decode, and end with the work they were started for.
package crew
