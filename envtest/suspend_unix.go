//go:build unix

package envtest

import (
	"errors"
	"fmt"
	"syscall"
)

// Suspend stops the process as it is, by SIGSTOP, until Resume. Its connections stay
// and are silent. Kill works on a suspended server; Stop and Restart let it go on, so
// that it can shut down. What asks it something fails at once.
//
// On Linux it returns when every thread has stopped. Elsewhere the process may go on
// for a moment: the signal is sent, and nothing tells when it has taken effect.
func (s *Server) Suspend() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.signal(syscall.SIGSTOP); err != nil {
		return err
	}
	if err := awaitStop(s.proc.cmd.Process.Pid); err != nil {
		return fmt.Errorf("envtest: wait until the server has stopped: %w", err)
	}
	s.suspended = true
	return nil
}

// Resume lets a suspended process go on. On one that runs it does nothing.
func (s *Server) Resume() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.signal(syscall.SIGCONT)
	if err == nil {
		s.suspended = false
	}
	return err
}

// wake is Resume for one that is about to be stopped, with the lock held: one that cannot
// be woken is killed after a while.
func (s *Server) wake() { _ = s.proc.cmd.Process.Signal(syscall.SIGCONT) }

// signal is called with the lock held.
func (s *Server) signal(sig syscall.Signal) error {
	err := errors.New("the server does not run")
	if s.proc != nil {
		err = s.proc.cmd.Process.Signal(sig)
	}
	if err != nil {
		return fmt.Errorf("envtest: send signal %q: %w", sig, err)
	}
	return nil
}
