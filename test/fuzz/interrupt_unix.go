//go:build unix

package main

import (
	"os/exec"
	"syscall"
)

// interruptible makes cmd and its children receive an interrupt when cmd's context is canceled, so that go
// test saves its results.
func interruptible(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) }
}
