//go:build !unix

package main

import "os/exec"

// interruptible does nothing. Without interrupts, canceling cmd's context loses the results of the last few
// seconds.
func interruptible(*exec.Cmd) {}
