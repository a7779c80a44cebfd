package main

import (
	"fmt"
	"os"
	"regexp"
	"runtime"
	"strconv"
	"syscall"
)

// Figures are the resources used by a process.
type Figures struct {
	CPU      float64        // user and system time
	Heap     int64          // bytes in use after a garbage collection
	Peak     int64          // peak memory of the process, in bytes
	Requests map[string]int // to the API server, by verb and resource
}

// measure returns the figures of this process, without requests.
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
	runtime.GC() // frees objects finalized by the first one
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	f.Heap = int64(memory.HeapAlloc)
	return f, nil
}

var highWater = regexp.MustCompile(`VmHWM:\s+(\d+) kB`)

// peak reads the peak resident set from Linux's proc(5).
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
