//go:build unix

package config

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
)

// endWhole makes Cancel kill the command and its children. It puts the command in its own process group, so
// Ctrl-C in a terminal does not reach it.
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
