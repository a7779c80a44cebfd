package torture

import (
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"time"
)

// remains are resources that may be left over.
type remains struct {
	goroutines  int // started by Millrace
	connections int
	heap        int // bytes in use
}

// heapSlack is by how much the heap may differ, because the number of objects differs.
const heapSlack = 24 << 20

// left counts the resources in use after everything has settled.
func (w *world) left() remains {
	for _, f := range w.subjects {
		f.settle()
	}
	for _, client := range slices.AppendSeq(slices.Clone(w.candidates.clients), maps.Values(w.clients)) {
		client.CloseIdleConnections() // a clock step leaves more of them, because net/http then considers them old
	}
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return remains{len(ours()), w.front.connections() + w.certs.connections(), int(m.HeapAlloc)}
}

// nothingIsLeft compares the resources in use with those before. Dead connections are found in less
// than a minute, and idle ones of a stopped manager are closed in two.
func (w *world) nothingIsLeft(before remains) {
	began, late := time.Now(), false
	answer := until(patience, func() (answer string) {
		defer func() {
			if time.Since(began) > slow && answer != "" && !late {
				late = true
				fmt.Printf("     %v after that: %s\n", slow, answer)
			}
		}()
		now := w.left()
		switch {
		case now.goroutines > before.goroutines+8:
			return fmt.Sprintf("%d goroutines, %d before:\n%s", now.goroutines, before.goroutines, strings.Join(ours(), "\n\n"))
		case now.connections > before.connections+6:
			return fmt.Sprintf("%d connections, %d before", now.connections, before.connections)
		case now.heap > before.heap*3/2+heapSlack:
			time.Sleep(time.Second)
			return fmt.Sprintf("%d MB in use, %d before", now.heap>>20, before.heap>>20)
		}
		return ""
	})
	if answer != "" {
		w.complain("left over: %s", answer)
	}
}

// ours returns the stacks of the goroutines that Millrace has started.
func ours() []string {
	buf := make([]byte, 1<<20)
	for {
		n := runtime.Stack(buf, true)
		if n < len(buf) {
			buf = buf[:n]
			break
		}
		buf = make([]byte, 2*len(buf))
	}
	return slices.DeleteFunc(strings.Split(string(buf), "\n\n"), func(stack string) bool {
		_, creator, _ := strings.Cut(stack, "created by ")
		return !strings.HasPrefix(creator, "github.com/millrace-dev/millrace/") ||
			strings.HasPrefix(creator, "github.com/millrace-dev/millrace/test/") || strings.HasPrefix(creator, "github.com/millrace-dev/millrace/envtest.")
	})
}
