//go:build !linux

package main

import (
	"errors"
	"time"
)

var errLinux = errors.New("measuring another process's CPU time and memory requires Linux")

func cpuTime(int) (time.Duration, error)            { return 0, errLinux }
func memory(int) (resident, peak uint64, err error) { return 0, 0, errLinux }
func resetPeak(int) error                           { return errLinux }

func memoryGroup(uint64) (string, func(), error) { return "", nil, errLinux }
