//go:build unix

package config

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
)

// endWhole has a command killed together with what it has started. It gets a process group
// of its own for that, which no key of a terminal interrupts.
func endWhole(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error {
		err := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		if errors.Is(err, syscall.ESRCH) {
			return os.ErrProcessDone
		}
		return err
	}
}
