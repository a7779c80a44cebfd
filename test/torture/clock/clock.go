// Package clock steps the wall clock of this process, as NTP or a hand steps that of a machine.
// The monotonic clock, by which Go measures durations, goes on as before; other processes
// notice nothing.
//
// The Go runtime reads the time by a function of the kernel's that lies in every process
// (vDSO(7)). This package puts one of its own before it. The runtime does not offer that, so it
// has to be asked for, on Linux and with cgo:
//
//	go test -tags clocksteps -ldflags=-checklinkname=0
package clock

import "errors"

// ErrFixed is returned where the wall clock cannot be stepped.
var ErrFixed = errors.New("the wall clock cannot be stepped: build on Linux with cgo and -tags clocksteps -ldflags=-checklinkname=0")
