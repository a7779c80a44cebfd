//go:build unix

package main

import (
	"os/exec"
	"syscall"
)

// interruptible makes the end of cmd's context interrupt it and its children, so that go test saves its
// results.
func interruptible(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) }
}
