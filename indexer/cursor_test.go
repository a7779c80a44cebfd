package indexer

import (
	"runtime"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// A loop over a lookup costs almost nothing per object, because the compiler inlines its body at
// the yield. It does not do so if an iterator has two yields.
func TestALoopOverALookupIsInlined(t *testing.T) {
	x := benchmarkCache(100)
	r := ReaderOf[meta](x)
	byApp, _ := AddIndex(x, "app", apps)
	loops := map[string]*runtime.Frame{}
	for range r.All() {
		loops["all"] = caller()
		break
	}
	for range r.Namespace("n1") {
		loops["namespace"] = caller()
		break
	}
	for range byApp.Get("7") {
		loops["index"] = caller()
		break
	}
	require.Len(t, loops, 3)
	for name, body := range loops {
		require.Nil(t, body.Func, "%s: %s is a function that is called", name, body.Function)
	}
}

// caller returns the frame of the function that calls it.
func caller() *runtime.Frame {
	var at [1]uintptr
	frame, _ := runtime.CallersFrames(at[:runtime.Callers(2, at[:])]).Next()
	return &frame
}

// The loops are in separate functions, because nothing is inlined in the body of a b.Loop loop.
func walkNamespace(r Reader[meta]) (n int) {
	for o := range r.Namespace("n1") {
		if o != nil {
			n++
		}
	}
	return n
}

func walkIndex(i *Index[meta, string]) (n int) {
	for o := range i.Get("7") {
		if o != nil {
			n++
		}
	}
	return n
}

func BenchmarkNamespace(b *testing.B) {
	for _, objects := range []int{1, 50, 500} {
		b.Run(strconv.Itoa(objects), func(b *testing.B) {
			r := ReaderOf[meta](benchmarkCache(50 * objects))
			for b.Loop() {
				walkNamespace(r)
			}
		})
	}
}

func BenchmarkParallelNamespaceOf200(b *testing.B) {
	r := ReaderOf[meta](benchmarkCache(10_000))
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			walkNamespace(r)
		}
	})
}

func BenchmarkIndexOf50(b *testing.B) {
	byApp, _ := AddIndex(benchmarkCache(10_000), "app", apps)
	for b.Loop() {
		walkIndex(byApp)
	}
}
