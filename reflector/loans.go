package reflector

import (
	"hash/maphash"
	"reflect"
	"slices"
	"sync"
	"weak"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/wire"
)

// loans are the known objects that a source was given and may give back, more than once. What
// comes back is in use elsewhere. To ask again what is known would not tell: it may have changed
// meanwhile. They are held weakly, since of most that have changed nobody asks again, and a watch
// lasts.
type loans struct {
	known wire.Cached

	mu  sync.Mutex                      // guards out; nothing is called while it is held
	out map[uint64][]weak.Pointer[byte] // by the hash of the key, whose text would hold memory
}

// seed is that of the hashes.
var seed = maphash.MakeSeed()

// lend is the known function, with a note of what it gave.
func (l *loans) lend(key object.Key) (object.Head, bool) {
	o, ok := l.known(key)
	at := pointer(o)
	if !ok || at == nil {
		return nil, false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.out == nil {
		l.out = make(map[uint64][]weak.Pointer[byte])
	}
	hash, lent := maphash.Comparable(seed, object.KeyOf(o)), weak.Make(at)
	if n := len(l.out[hash]); n >= 4 && n&(n-1) == 0 { // now and then, for those who ask of every event
		l.out[hash] = slices.DeleteFunc(l.out[hash], func(lent weak.Pointer[byte]) bool { return lent.Value() == nil })
	}
	if !slices.Contains(l.out[hash], lent) {
		l.out[hash] = append(l.out[hash], lent)
	}
	return o, true
}

// back reports whether o was lent.
func (l *loans) back(o object.Head) bool {
	at := pointer(o)
	if at == nil {
		return false
	}
	hash := maphash.Comparable(seed, object.KeyOf(o))
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.out[hash], func(lent weak.Pointer[byte]) bool { return lent.Value() == at })
}

// pointer is where an object lies, which tells it from all others. It is nil where the object is
// no pointer.
func pointer(o any) *byte {
	if v := reflect.ValueOf(o); v.Kind() == reflect.Pointer {
		return (*byte)(v.UnsafePointer())
	}
	return nil
}
