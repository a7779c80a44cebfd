package scenario

import (
	"context"
	"iter"
	"sync/atomic"
)

// Window is how many events of a Feed may be on their way to a handler: the next
// one comes when one of them was heard.
type Window struct {
	taken chan struct{} // has a token for each event on its way
	heard atomic.Int64
}

// Window puts a window of n events before f.
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

// Hear is called for each event by the one handler.
func (w *Window) Hear() {
	w.heard.Add(1)
	<-w.taken
}

// Heard is how many events were.
func (w *Window) Heard() int64 { return w.heard.Load() }
