package main

import (
	"bytes"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/millrace-dev/millrace/cmd/informer-bench/results"
)

// environment describes this machine.
func environment(args []string, rounds int, versions map[string]string) results.Env {
	return results.Env{
		Date:        time.Now().UTC().Truncate(time.Second),
		Command:     strings.Join(append([]string{"informer-bench"}, args...), " "),
		Go:          runtime.Version(),
		OS:          runtime.GOOS,
		Arch:        runtime.GOARCH,
		CPU:         procField("/proc/cpuinfo", "model name"),
		Cores:       runtime.NumCPU(),
		MemoryBytes: memoryTotal(),
		Rounds:      rounds,
		Versions:    versions,
	}
}

func memoryTotal() uint64 {
	text, _, _ := strings.Cut(procField("/proc/meminfo", "MemTotal"), " ")
	kibibytes, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0
	}
	return kibibytes << 10
}

// procField returns the first value of a field in a /proc file, or "" if there is no such field or no /proc.
func procField(path, name string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	for line := range bytes.Lines(text) {
		field, value, found := strings.Cut(string(line), ":")
		if found && strings.TrimSpace(field) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
