package sharedinformer

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/reflector"
)

// MutationError tells that somebody changed an object of the cache (L16).
type MutationError struct {
	Type string // Go type of the object
	Path string // the first altered field, such as .Spec.NodeName
}

func (e *MutationError) Error() string {
	return fmt.Sprintf("%s in the cache was changed at %s: objects from a cache are shared, copy with DeepCopy before changing them", e.Type, e.Path)
}

// mutationDetector keeps a copy of each cached object and compares the two.
type mutationDetector[T object.Object] struct {
	every  time.Duration
	report func(*reflector.Failure)

	mu      sync.Mutex // guards watched; report is not called while it is held
	watched map[object.Key]original[T]
}

// original is a shared object and what it looked like when it was cached.
type original[T object.Object] struct {
	shared, copy T
}

func newMutationDetector[T object.Object](every time.Duration, report func(*reflector.Failure)) *mutationDetector[T] {
	return &mutationDetector[T]{every: every, report: report, watched: make(map[object.Key]original[T])}
}

// learn copies what is put into the cache, and returns what leaves it. It must
// be called while nobody else can reach the new objects, because a handler may
// change one as soon as it hears of it.
func (m *mutationDetector[T]) learn(events []Event[T]) (left []original[T]) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range events {
		e := &events[i]
		key := object.KeyOf(e.Object)
		if before, ok := m.watched[key]; ok {
			left = append(left, before)
		}
		if e.Type == Delete {
			delete(m.watched, key)
			continue
		}
		m.watched[key] = original[T]{shared: e.Object, copy: e.Object.DeepCopyObject().(T)}
	}
	return left
}

// checkLeft reports what was changed while it was in the cache.
func (m *mutationDetector[T]) checkLeft(left []original[T]) {
	m.check(left, func(original[T]) bool { return true })
}

// run compares everything now and then, and once more when ctx is done.
func (m *mutationDetector[T]) run(ctx context.Context) {
	ticker := time.NewTicker(m.every)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			m.checkAll()
		case <-ctx.Done():
			m.checkAll()
			return
		}
	}
}

func (m *mutationDetector[T]) checkAll() {
	m.mu.Lock()
	all := make([]original[T], 0, len(m.watched))
	for _, o := range m.watched {
		all = append(all, o)
	}
	m.mu.Unlock()
	m.check(all, m.unwatch)
}

// check reports those that were changed and that it is the first to report.
func (m *mutationDetector[T]) check(originals []original[T], first func(original[T]) bool) {
	for _, o := range originals {
		path, differ := firstDifference(o.copy, o.shared)
		if !differ || !first(o) {
			continue
		}
		m.report(&reflector.Failure{
			Phase: reflector.PhaseCache, Key: object.KeyOf(o.copy),
			Err: &MutationError{Type: fmt.Sprintf("%T", o.shared), Path: path},
		})
	}
}

// unwatch stops watching o. It reports false where o has left the cache
// meanwhile, because then checkLeft looks at it.
func (m *mutationDetector[T]) unwatch(o original[T]) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := object.KeyOf(o.copy)
	if now, ok := m.watched[key]; !ok || any(now.shared) != any(o.shared) {
		return false
	}
	delete(m.watched, key)
	return true
}
