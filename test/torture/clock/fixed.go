//go:build !clocksteps || !linux || !cgo

package clock

import "time"

// Set sets the wall clock of this process so far ahead of the machine's, or behind it. In this
// build it returns ErrFixed.
func Set(time.Duration) error { return ErrFixed }
