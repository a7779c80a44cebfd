package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// memoryGroup creates a cgroup with a memory limit and no swap. Call remove to delete its directory once all
// its processes have exited.
func memoryGroup(limit uint64) (dir string, remove func(), err error) {
	root, files := "/sys/fs/cgroup/memory", []string{"memory.limit_in_bytes"} // version 1
	if _, err := os.Stat(root); errors.Is(err, fs.ErrNotExist) {
		root, files = "/sys/fs/cgroup", []string{"memory.max", "memory.swap.max"}
	}
	dir, err = os.MkdirTemp(root, "informer-bench-")
	if err != nil {
		return "", nil, fmt.Errorf("create a cgroup, which requires root: %w", err)
	}
	remove = func() {
		for range 100 {
			if os.Remove(dir) == nil {
				return
			}
			time.Sleep(10 * time.Millisecond) // the kernel removes an exited process with a short delay
		}
	}
	values := []string{strconv.FormatUint(limit, 10), "0"}
	for i, name := range files {
		err := os.WriteFile(filepath.Join(dir, name), []byte(values[i]), 0o644)
		if err != nil && !(name == "memory.swap.max" && errors.Is(err, fs.ErrNotExist)) { // the kernel does not support swap
			remove()
			return "", nil, err
		}
	}
	return dir, remove, nil
}
