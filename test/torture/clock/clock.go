// Package clock steps this process's wall clock, as NTP or an administrator might step a machine's. It
// affects neither other processes nor the monotonic clock, which Go uses to measure durations.
//
// The Go runtime reads the time using a kernel function mapped into every process (vDSO(7)). This package
// replaces that function with its own. The runtime has no API for that, so it must be enabled explicitly,
// on Linux and with cgo:
//
//	go test -tags clocksteps -ldflags=-checklinkname=0
package clock

import "errors"

// ErrFixed is returned if the wall clock cannot be stepped.
var ErrFixed = errors.New("the wall clock cannot be stepped: build on Linux with cgo and -tags clocksteps -ldflags=-checklinkname=0")
