package wire

import (
	"reflect"
	"sync"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/wire/internal/memory"
)

// bares are objects that stand for packed ones. Each is known as long as anybody holds it,
// so that nobody need tell when it is of no use any more.
type bares struct {
	mu  sync.Mutex // guards all
	all map[memory.Weak]*Packed
}

// Bare returns an object of the same Go type that has nothing but the key, the UID and the
// resource version, to be given to what wants to know of an object no more than its
// version; see Packer.Behind. It reports false where the Go type does not let itself be made
// from nothing.
func (o *Packed) Bare() (bare object.Object, ok bool) {
	if o.meta.unpacked != nil {
		return o.meta.unpacked.(object.Object), true
	}
	defer func() { ok = recover() == nil }() // its metadata may be behind a pointer
	made := reflect.New(o.meta.layout.goType)
	bare = made.Interface().(object.Object)
	bare.SetNamespace(o.GetNamespace())
	bare.SetName(o.GetName())
	bare.SetUID(o.GetUID())
	bare.SetResourceVersion(o.GetResourceVersion())
	o.by.bares.add(made, o)
	return bare, true
}

// Behind returns the packed object that bare stands for, if Bare made it. It may be asked
// any number of times.
func (p *Packer) Behind(bare object.Object) (*Packed, bool) {
	v := reflect.ValueOf(bare)
	if v.Kind() != reflect.Pointer {
		return nil, false
	}
	b := &p.bares
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.all) == 0 {
		return nil, false
	}
	o, ok := b.all[memory.WeakTo(v)]
	return o, ok
}

func (b *bares) add(bare reflect.Value, o *Packed) {
	w := memory.WeakTo(bare)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.all == nil {
		b.all = make(map[memory.Weak]*Packed)
	}
	b.all[w] = o
	memory.OnCollect(bare, w, b.forget)
}

func (b *bares) forget(w memory.Weak) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.all, w)
}
