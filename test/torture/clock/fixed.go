//go:build !clocksteps || !linux || !cgo

package clock

import "time"

// Set sets the offset of this process's wall clock from the machine's. In this build it returns [ErrFixed].
func Set(time.Duration) error { return ErrFixed }
