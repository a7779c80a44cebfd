//go:build unix

package main

import (
	"os/exec"
	"syscall"
)

// interruptible ends cmd, when its context does, with an interrupt, which lets go test
// write down what it has. It must reach the children of go test too.
func interruptible(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) }
}
