//go:build unix

package envtest

import (
	"errors"
	"fmt"
	"syscall"
)

// Suspend stops the process with SIGSTOP until Resume is called. Its connections remain open, but
// nothing is sent over them. Kill works on a suspended server; Stop and Restart resume it first, to shut
// it down. Other calls fail immediately.
//
// On Linux, Suspend returns once all threads have stopped. On other systems the process may keep running
// for a moment, since the signal takes effect asynchronously.
func (s *Server) Suspend() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.signal(syscall.SIGSTOP); err != nil {
		return err
	}
	if err := awaitStop(s.proc.cmd.Process.Pid); err != nil {
		return fmt.Errorf("envtest: wait for the server to stop: %w", err)
	}
	s.suspended = true
	return nil
}

// Resume resumes a suspended process. It does nothing if the process is running.
func (s *Server) Resume() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.signal(syscall.SIGCONT)
	if err == nil {
		s.suspended = false
	}
	return err
}

// wake resumes a process that is about to be shut down. The caller holds mu. If it fails, the
// process is killed after a timeout.
func (s *Server) wake() { _ = s.proc.cmd.Process.Signal(syscall.SIGCONT) }

// signal sends a signal. The caller holds mu.
func (s *Server) signal(sig syscall.Signal) error {
	err := errors.New("the server is not running")
	if s.proc != nil {
		err = s.proc.cmd.Process.Signal(sig)
	}
	if err != nil {
		return fmt.Errorf("envtest: send signal %q: %w", sig, err)
	}
	return nil
}
