// Package hostile judges code that reads what strangers send: whatever the bytes
// are, it must come to an end soon, in little memory, and keep nothing.
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
// What is measured is the process: a test that uses a Budget must not run in
// parallel with others.
package hostile

import (
	"runtime"
	"runtime/metrics"
	"testing"
	"time"
)

// Budget is what reading an input may cost: a constant, and more for each of its
// bytes.
type Budget struct {
	Memory        int // in bytes, allocated in all, also what is garbage already
	MemoryPerByte int

	// By the clock, and ten times that with the race detector.
	Time        time.Duration // zero is a second
	TimePerByte time.Duration // zero is 10 µs: 16 MiB in less than three minutes
}

// tries is how often a reader that was over its budget is tried again. Other
// processes cost time and a first use costs memory; neither comes twice.
const tries = 3

// Within fails t if read costs more than an input of n bytes may.
func (b Budget) Within(t testing.TB, n int, read func()) {
	t.Helper()
	if b.Time == 0 {
		b.Time = time.Second // a machine may be busy with other things
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
	t.Errorf("%d bytes of input: allocated %d of %d bytes in %v of %v, also when tried again", n, allocated, memory, took, patience)
}

// cost measures one reading.
func cost(allocated func() uint64, read func()) (memory uint64, took time.Duration) {
	before, began := allocated(), time.Now()
	read()
	took = time.Since(began)
	return allocated() - before, took
}

// roughly returns how many bytes were allocated so far, but for what the processors
// have not told yet: some kilobytes. Unlike exactly, it stops nobody.
func roughly() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// exactly stops the world to count.
func exactly() uint64 {
	var now runtime.MemStats
	runtime.ReadMemStats(&now)
	return now.TotalAlloc
}
