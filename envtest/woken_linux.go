package envtest

import "syscall"

// wokenByDeath has the system wake a child that is suspended when the thread that has
// started it dies: only one that is awake sees that its stdin has been closed, and ends.
func wokenByDeath() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGCONT}
}
