//go:build !linux

package envtest

import "syscall"

// wokenByDeath returns nil: on this system a suspended child is not resumed.
func wokenByDeath() *syscall.SysProcAttr { return nil }
