//go:build !unix

package envtest

import (
	"errors"
	"fmt"
	"runtime"
)

// Suspend fails: there are no such signals here.
func (s *Server) Suspend() error { return errNoSignals() }

// Resume fails as Suspend does.
func (s *Server) Resume() error { return errNoSignals() }

func errNoSignals() error {
	return fmt.Errorf("envtest: suspend a process on %s: %w", runtime.GOOS, errors.ErrUnsupported)
}

func (s *Server) wake() {} // none is suspended
