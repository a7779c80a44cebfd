package envtest

import "syscall"

// wokenByDeath makes the system resume a suspended child when the thread that started it dies, because
// only a running process notices that its stdin was closed, and ends.
func wokenByDeath() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGCONT}
}
