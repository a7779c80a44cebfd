package main

import (
	"fmt"
	"os"
	"regexp"
	"runtime"
	"strconv"
	"syscall"
)

// Figures are what a process has needed.
type Figures struct {
	CPU      float64        // seconds of processor time, user's and system's
	Heap     int64          // bytes that are in use after a garbage collection
	Peak     int64          // bytes that the process has had in memory at most
	Requests map[string]int // to the API server, by verb and resource
}

// measure takes the figures of this process; the requests are left out.
func measure() (f Figures, err error) {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		return f, err
	}
	f.CPU = float64(used.Utime.Nano()+used.Stime.Nano()) / 1e9
	if f.Peak, err = peak(); err != nil {
		return f, err
	}
	runtime.GC()
	runtime.GC() // frees what the first one finalized
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	f.Heap = int64(memory.HeapAlloc)
	return f, nil
}

var highWater = regexp.MustCompile(`VmHWM:\s+(\d+) kB`)

// peak reads the greatest resident set from Linux's proc(5).
func peak() (int64, error) {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	found := highWater.FindSubmatch(text)
	if found == nil {
		return 0, fmt.Errorf("/proc/self/status has no VmHWM")
	}
	kilobytes, err := strconv.ParseInt(string(found[1]), 10, 64)
	return kilobytes << 10, err
}
