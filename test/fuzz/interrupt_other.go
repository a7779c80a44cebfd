//go:build !unix

package main

import "os/exec"

// interruptible leaves cmd as it is: what it has in the last seconds is lost when its
// context ends, since there is no interrupt to send.
func interruptible(*exec.Cmd) {}
