package main

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// cpuTime returns the CPU time used by all threads of a process. It reads the clock described in
// clock_getcpuclockid(3), whose ID is derived from the process ID.
func cpuTime(pid int) (time.Duration, error) {
	const perProcess, scheduler = 0, 2
	var t unix.Timespec
	if err := unix.ClockGettime(int32(^pid)<<3|perProcess|scheduler, &t); err != nil {
		return 0, fmt.Errorf("read the CPU clock of process %d: %w", pid, err)
	}
	return time.Duration(t.Nano()), nil
}

// memory returns a process's resident memory, and its peak since the process started or since the last
// resetPeak. Unlike the maximum from getrusage(2), this peak does not include the parent's memory at the time
// of the fork.
func memory(pid int) (resident, peak uint64, err error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, 0, err
	}
	for name, value := range map[string]*uint64{"VmRSS:": &resident, "VmHWM:": &peak} {
		_, rest, found := bytes.Cut(status, []byte("\n"+name))
		fields := bytes.Fields(rest)
		if !found || len(fields) == 0 {
			return 0, 0, fmt.Errorf("the kernel reports no %s for process %d", name, pid)
		}
		kibibytes, err := strconv.ParseUint(string(fields[0]), 10, 64)
		if err != nil {
			return 0, 0, fmt.Errorf("%s of process %d: %w", name, pid, err)
		}
		*value = kibibytes << 10
	}
	return resident, peak, nil
}

// resetPeak resets the peak to the current resident memory; see clear_refs in proc(5).
func resetPeak(pid int) error {
	return os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0)
}
