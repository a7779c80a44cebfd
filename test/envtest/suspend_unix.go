//go:build unix

package envtest

import (
	"errors"
	"fmt"
	"syscall"
)

// Suspend stops the process as it is, by SIGSTOP, until Resume. Its connections stay
// and are silent. Kill works on a suspended server; Stop and Restart wait for it in
// vain and then kill it.
func (s *Server) Suspend() error { return s.signal(syscall.SIGSTOP) }

// Resume lets a suspended process go on. On one that runs it does nothing.
func (s *Server) Resume() error { return s.signal(syscall.SIGCONT) }

func (s *Server) signal(sig syscall.Signal) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := errors.New("the server does not run")
	if s.proc != nil {
		err = s.proc.cmd.Process.Signal(sig)
	}
	if err != nil {
		return fmt.Errorf("envtest: send signal %q: %w", sig, err)
	}
	return nil
}
