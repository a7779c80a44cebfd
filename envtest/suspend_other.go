//go:build !unix

package envtest

import (
	"errors"
	"fmt"
	"runtime"
)

// Suspend always fails, since this system lacks the signals.
func (s *Server) Suspend() error { return errNoSignals() }

// Resume always fails, like Suspend.
func (s *Server) Resume() error { return errNoSignals() }

func errNoSignals() error {
	return fmt.Errorf("envtest: suspend a process on %s: %w", runtime.GOOS, errors.ErrUnsupported)
}

func (s *Server) wake() {} // a process is never suspended
