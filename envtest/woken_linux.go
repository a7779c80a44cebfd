package envtest

import "syscall"

// wokenByDeath makes the kernel resume a suspended child when the thread that started it dies, since only a
// running process notices that its stdin was closed and exits.
func wokenByDeath() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGCONT}
}
