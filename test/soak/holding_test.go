package soak

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"slices"

	"github.com/stretchr/testify/require"
)

// holding is the resources of an idle process.
type holding struct {
	bytes, objects uint64 // reachable heap
	goroutines     int
	files          int
	watches        int
	connections    int
	series         int // metric series
}

func (h holding) String() string {
	return fmt.Sprintf("%.1f MB, %d heap objects, %d goroutines, %d files, %d watches, %d connections, %d series",
		float64(h.bytes)/1e6, h.objects, h.goroutines, h.files, h.watches, h.connections, h.series)
}

func (c *cluster) hold() (h holding) {
	for range 3 { // memory held by weak pointers and finalizers is freed by the next collection
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	h.bytes, h.objects = m.HeapAlloc, m.HeapObjects
	h.goroutines = runtime.NumGoroutine()
	files, err := os.ReadDir("/proc/self/fd")
	if err == nil { // other systems do not count them
		h.files = len(files)
	}
	h.watches = c.srv.Stats().Open("watch", "")
	for _, p := range c.replicas {
		h.connections += p.link.Open()
		c.mu.Lock()
		families, err := p.Metrics().Gather()
		c.mu.Unlock()
		require.NoError(c.t, err)
		for _, f := range families {
			h.series += len(f.Metric)
		}
	}
	return h
}

// keepHeap writes a heap profile.
func (c *cluster) keepHeap(day int) {
	if *heaps == "" {
		return
	}
	f, err := os.Create(filepath.Join(*heaps, fmt.Sprintf("day-%d.pprof", day+1)))
	require.NoError(c.t, err)
	require.NoError(c.t, pprof.WriteHeapProfile(f))
	require.NoError(c.t, f.Close())
}

// settled is how many days must be compared before memory is meaningful: the history of the
// simulated server fills during the first days.
const settled = 12

// slack is by which fraction the memory of the second half of the days may exceed that of the
// first. few is the same for goroutines, connections and series: an idle connection may live for
// another minute, and a response code may occur for the first time.
const (
	slack = 0.02
	few   = 0.1
)

// grown returns the resources that grew in the second half of the days.
func grown(days []holding) (what []string) {
	if len(days) < 2 {
		return nil
	}
	first, second := days[:len(days)/2], days[len(days)/2:]
	more := func(name string, of func(holding) float64, slack float64) {
		before, after := slices.MaxFunc(first, by(of)), slices.MinFunc(second, by(of))
		if of(after) > of(before)*(1+slack) {
			what = append(what, fmt.Sprintf("%s grow: at most %v in the first half, at least %v in the second", name, of(before), of(after)))
		}
	}
	if len(days) >= settled {
		more("bytes", func(h holding) float64 { return float64(h.bytes) }, slack)
		more("heap objects", func(h holding) float64 { return float64(h.objects) }, slack)
	}
	more("goroutines", func(h holding) float64 { return float64(h.goroutines) }, few)
	more("files", func(h holding) float64 { return float64(h.files) }, 0)
	more("watches", func(h holding) float64 { return float64(h.watches) }, 0)
	more("connections", func(h holding) float64 { return float64(h.connections) }, few)
	more("series", func(h holding) float64 { return float64(h.series) }, few)
	return what
}

func by(of func(holding) float64) func(a, b holding) int {
	return func(a, b holding) int {
		switch {
		case of(a) < of(b):
			return -1
		case of(a) > of(b):
			return 1
		}
		return 0
	}
}
