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

// knownObjects notes the known objects that a source was given and may return, more than once. A
// returned one has been transformed before and is in use elsewhere. A second look-up would not tell
// it from others: the known object of its key may have changed. They are held weakly, because a watch
// lasts and the source never returns most of them.
type knownObjects struct {
	known wire.Cached

	mu    sync.Mutex                      // guards given; nothing is called while it is held
	given map[uint64][]weak.Pointer[byte] // by the hash of the key, whose text would hold memory
}

// seed is that of the hashes.
var seed = maphash.MakeSeed()

// lookup is the known function. It notes each object that it returns.
func (l *knownObjects) lookup(key object.Key) (object.Head, bool) {
	o, ok := l.known(key)
	where := pointer(o)
	if !ok || where == nil {
		return nil, false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.given == nil {
		l.given = make(map[uint64][]weak.Pointer[byte])
	}
	hash, at := maphash.Comparable(seed, object.KeyOf(o)), weak.Make(where)
	if n := len(l.given[hash]); n >= 4 && n&(n-1) == 0 { // now and then, for those who ask of every event
		l.given[hash] = slices.DeleteFunc(l.given[hash], func(given weak.Pointer[byte]) bool { return given.Value() == nil })
	}
	if !slices.Contains(l.given[hash], at) {
		l.given[hash] = append(l.given[hash], at)
	}
	return o, true
}

// gave reports whether lookup has returned o.
func (l *knownObjects) gave(o object.Head) bool {
	at := pointer(o)
	if at == nil {
		return false
	}
	hash := maphash.Comparable(seed, object.KeyOf(o))
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.given[hash], func(given weak.Pointer[byte]) bool { return given.Value() == at })
}

// pointer is where an object lies, which tells it from all others. It is nil where the object is
// no pointer.
func pointer(o any) *byte {
	if v := reflect.ValueOf(o); v.Kind() == reflect.Pointer {
		return (*byte)(v.UnsafePointer())
	}
	return nil
}
