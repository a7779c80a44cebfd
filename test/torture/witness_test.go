package torture

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/sharedinformer"
)

// witness is a handler that knows only the events it has received. It complains about every call
// that does not follow from the earlier ones (L01, L03, L04), that brings nothing new (L17), or
// that precedes the cache (L05).
type witness[T object.Object] struct {
	name     string
	complain func(format string, args ...any)
	cache    func(object.Key) (T, bool)
	heard    *atomic.Int64
	calls    atomic.Int32 // in progress
	gone     atomic.Bool  // it was removed

	mu    sync.Mutex // guards known
	known map[object.Key]T
}

// Handle implements sharedinformer.Handler.
func (w *witness[T]) Handle(_ context.Context, e sharedinformer.Event[T]) error {
	if w.calls.Add(1) > 1 {
		w.complain("%s: two calls at once", w.name)
	}
	defer w.calls.Add(-1)
	if w.heard.Add(1); w.gone.Load() {
		w.complain("%s: called after it has left", w.name)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	key := object.KeyOf(e.Object)
	last, known := w.known[key]
	switch e.Type {
	case sharedinformer.Add:
		if known {
			w.complain("%s: add of %s %s, which is known as %s", w.name, key, text(e.Object), text(last))
		}
		w.known[key] = e.Object
	case sharedinformer.Update:
		switch {
		case !known:
			w.complain("%s: update of %s, which was not added", w.name, key)
		case last.GetUID() != e.Object.GetUID():
			w.complain("%s: update of %s from %s to %s, which is another object", w.name, key, text(last), text(e.Object))
		case any(last) != any(e.Old):
			w.complain("%s: update of %s from %s, last told of was %s", w.name, key, text(e.Old), text(last))
		case newer(last, e.Object):
			w.complain("%s: update of %s back from %s to %s", w.name, key, text(last), text(e.Object))
		case last.GetResourceVersion() == e.Object.GetResourceVersion():
			w.complain("%s: update of %s to %s, which it was told of before", w.name, key, text(e.Object))
		}
		w.known[key] = e.Object
	case sharedinformer.Delete:
		if !known || last.GetUID() != e.Object.GetUID() {
			w.complain("%s: delete of %s %s, known %t as %s", w.name, key, text(e.Object), known, text(last))
		}
		delete(w.known, key)
	default:
		w.complain("%s: unexpected %s of %s", w.name, e.Type, key)
	}
	if now, ok := w.cache(key); ok && e.Type != sharedinformer.Delete && now.GetUID() == e.Object.GetUID() && newer(e.Object, now) {
		w.complain("%s: %s of %s %s, but the cache has %s", w.name, e.Type, key, text(e.Object), text(now))
	}
	return nil
}

// knows returns a copy of the objects it knows.
func (w *witness[T]) knows() map[object.Key]T {
	w.mu.Lock()
	defer w.mu.Unlock()
	known := make(map[object.Key]T, len(w.known))
	for key, o := range w.known {
		known[key] = o
	}
	return known
}

// text returns what distinguishes a state of an object from others.
func text[T object.Object](o T) string {
	var none T
	if any(o) == any(none) {
		return "nothing"
	}
	return fmt.Sprintf("%s@%s", o.GetUID(), o.GetResourceVersion())
}

// newer reports whether a is a later version than b.
func newer[T object.Object](a, b T) bool {
	order, err := object.CompareRV(a.GetResourceVersion(), b.GetResourceVersion())
	return err != nil || order > 0
}
