// Package clock steps the wall clock of this process, as NTP or an administrator steps that of a machine.
// The monotonic clock, which Go uses to measure durations, is unaffected, and so are other processes.
//
// The Go runtime reads the time with a kernel function mapped into every process (vDSO(7)). This package
// replaces it by its own. The runtime offers no API for that, so it must be enabled, on Linux and with cgo:
//
//	go test -tags clocksteps -ldflags=-checklinkname=0
package clock

import "errors"

// ErrFixed is returned if the wall clock cannot be stepped.
var ErrFixed = errors.New("the wall clock cannot be stepped: build on Linux with cgo and -tags clocksteps -ldflags=-checklinkname=0")
