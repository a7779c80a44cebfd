package memory

import (
	"runtime"
	"syscall"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// TestReadingTouchedMemoryCostsNoSecondFault reads and then writes each page of fresh memory, as a decoder does.
func TestReadingTouchedMemoryCostsNoSecondFault(t *testing.T) {
	runtime.LockOSThread() // page faults are counted by thread
	defer runtime.UnlockOSThread()
	const pages = 1000
	size := syscall.Getpagesize()
	fresh, err := syscall.Mmap(-1, 0, pages*size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	require.NoError(t, err)
	defer func() { require.NoError(t, syscall.Munmap(fresh)) }()

	Touch(unsafe.Pointer(&fresh[0]), pages*uintptr(size))
	before := pageFaults(t)
	for at := 0; at < len(fresh); at += size {
		if fresh[at] == 0 {
			fresh[at] = 1
		}
	}
	require.Less(t, pageFaults(t)-before, pages/2)
}

func pageFaults(t *testing.T) int {
	const thread = 1 // RUSAGE_THREAD
	var used syscall.Rusage
	require.NoError(t, syscall.Getrusage(thread, &used))
	return int(used.Minflt)
}
