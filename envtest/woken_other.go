//go:build !linux

package envtest

import "syscall"

// wokenByDeath asks for nothing: here nobody wakes a child that is suspended.
func wokenByDeath() *syscall.SysProcAttr { return nil }
