package hostile

import (
	"runtime"
	"testing"
	"time"
)

const (
	// looks is the number of inputs between heap checks. Checking each input would be slow, since a garbage
	// collection takes as long as reading hundreds of small inputs.
	looks = 4096

	// mayGrow limits how much the live heap may grow between checks, in bytes. It leaves room for bounded
	// caches and the fuzzer's own memory.
	mayGrow = 32 << 20
)

// Kept detects memory that is retained after reading inputs. The zero value is ready to use. It is not safe
// for concurrent use.
type Kept struct {
	inputs     int
	began      bool
	heap       uint64 // at the first check
	goroutines int
}

// Nothing must be called after each input. Every 4096th call fails t if the live heap or the number of
// goroutines has grown since the first check.
func (k *Kept) Nothing(t testing.TB) {
	t.Helper()
	if k.inputs++; k.inputs%looks != 0 {
		return
	}
	k.look(t)
}

func (k *Kept) look(t testing.TB) {
	t.Helper()
	runtime.GC()
	runtime.GC() // the content of a sync.Pool survives the first
	var now runtime.MemStats
	runtime.ReadMemStats(&now)
	goroutines := settled(k.goroutines)
	if !k.began {
		k.began, k.heap, k.goroutines = true, now.HeapAlloc, goroutines
		return
	}
	if now.HeapAlloc > k.heap+mayGrow {
		t.Errorf("after %d inputs %d bytes are live, %d at the first check", k.inputs, now.HeapAlloc, k.heap)
	}
	if goroutines > k.goroutines {
		stacks := make([]byte, 64<<10)
		t.Errorf("after %d inputs there are %d goroutines, %d at the first check:\n%s", k.inputs, goroutines, k.goroutines, stacks[:runtime.Stack(stacks, true)])
	}
}

// settled waits for goroutines that are about to exit, and returns how many remain.
func settled(want int) int {
	for range 100 {
		if runtime.NumGoroutine() <= want {
			break
		}
		time.Sleep(time.Millisecond)
	}
	return runtime.NumGoroutine()
}
