package scenario

import (
	"context"
	"iter"
	"sync/atomic"
)

// Window limits how many of a Feed's events are in flight. Each event the handler receives lets the feed send
// another.
type Window struct {
	taken chan struct{} // one token per event in flight
	heard atomic.Int64
}

// Window adds a window of n events to f.
func (f *Feed[T]) Window(n int) *Window {
	w := &Window{taken: make(chan struct{}, n)}
	all := f.events
	f.events = func(ctx context.Context) iter.Seq[T] {
		return func(yield func(T) bool) {
			for o := range all(ctx) {
				select {
				case w.taken <- struct{}{}:
				case <-ctx.Done():
					return
				}
				if !yield(o) {
					return
				}
			}
		}
	}
	return w
}

// The only handler must call Hear for each event.
func (w *Window) Hear() {
	w.heard.Add(1)
	<-w.taken
}

// Heard returns the number of events received.
func (w *Window) Heard() int64 { return w.heard.Load() }
