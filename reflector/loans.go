package reflector

import (
	"sync"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/wire"
)

// loans are the known objects that a source was given and may give back. What
// comes back is in use elsewhere. To ask again what is known would not tell: it
// may have changed meanwhile.
type loans[T object.Head] struct {
	known wire.Known[T]

	mu  sync.Mutex // guards out; nothing is called while it is held
	out map[any]struct{}
}

// lend is the known function, with a note of what it gave.
func (l *loans[T]) lend(key object.Key) (T, bool) {
	o, ok := l.known(key)
	if !ok {
		return o, false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.out == nil {
		l.out = make(map[any]struct{})
	}
	l.out[o] = struct{}{}
	return o, true
}

// back reports whether o was lent, and ends that loan.
func (l *loans[T]) back(o T) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, ok := l.out[o]
	delete(l.out, o)
	return ok
}
