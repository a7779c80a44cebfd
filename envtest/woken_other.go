//go:build !linux

package envtest

import "syscall"

// wokenByDeath returns nil, since this system cannot resume a suspended child.
func wokenByDeath() *syscall.SysProcAttr { return nil }
