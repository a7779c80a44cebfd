// Package hostile checks code that reads untrusted input. For any input, the code must finish quickly, use
// little memory, and retain nothing.
//
// # Usage
//
//	var budget = hostile.Budget{Memory: 1 << 20, MemoryPerByte: 100}
//
//	func FuzzThing(f *testing.F) {
//		var kept hostile.Kept
//		f.Fuzz(func(t *testing.T, body []byte) {
//			budget.Within(t, len(body), func() { read(body) })
//			kept.Nothing(t)
//		})
//	}
//
// # Concurrency
//
// A Budget measures the whole process, so a test that uses one must not run in parallel with others.
package hostile

import (
	"runtime"
	"runtime/metrics"
	"testing"
	"time"
)

// Budget is the maximum cost of reading an input: a constant plus an amount per byte.
type Budget struct {
	Memory        int // bytes allocated in total, including garbage
	MemoryPerByte int

	// The maximum wall time, which is multiplied by ten with the race detector.
	Time        time.Duration // zero means a second
	TimePerByte time.Duration // zero means 10 µs, or less than three minutes for 16 MiB
}

// tries is how many times to retry a reader that exceeded its budget, since other processes use CPU time too,
// and first-time use may allocate.
const tries = 3

// Within fails t if read costs more than allowed for an input of n bytes.
func (b Budget) Within(t testing.TB, n int, read func()) {
	t.Helper()
	if b.Time == 0 {
		b.Time = time.Second // the machine may just be busy
	}
	if b.TimePerByte == 0 {
		b.TimePerByte = 10 * time.Microsecond
	}
	memory := uint64(b.Memory) + uint64(b.MemoryPerByte)*uint64(n)
	patience := slowness * (b.Time + b.TimePerByte*time.Duration(n))
	allocated, took := cost(roughly, read)
	for range tries {
		if allocated <= memory && took <= patience {
			return
		}
		allocated, took = cost(exactly, read)
	}
	t.Errorf("%d bytes of input: allocated %d of %d bytes in %v of %v, even after retries", n, allocated, memory, took, patience)
}

// cost measures one call of read.
func cost(allocated func() uint64, read func()) (memory uint64, took time.Duration) {
	before, began := allocated(), time.Now()
	read()
	took = time.Since(began)
	return allocated() - before, took
}

// roughly returns the number of bytes allocated so far, except for some kilobytes that are not yet flushed
// from per-P caches. Unlike exactly, it does not stop the world.
func roughly() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// exactly returns the number of bytes allocated so far. It stops the world to count them.
func exactly() uint64 {
	var now runtime.MemStats
	runtime.ReadMemStats(&now)
	return now.TotalAlloc
}
