package wire

import (
	"reflect"
	"sync"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/wire/internal/memory"
)

// placeholders maps placeholders to packed objects. An entry is removed when its placeholder is
// garbage collected.
type placeholders struct {
	mu  sync.Mutex // guards all
	all map[memory.Weak]*Packed
}

// Placeholder returns an object of the same Go type that has only the key, the UID and the resource
// version, for code that only compares versions. [Packer.PackedOf] returns the packed object for
// it. Placeholder returns false if the Go type's setters panic on an empty object.
func (o *Packed) Placeholder() (placeholder object.Object, ok bool) {
	if o.meta.unpacked != nil {
		return o.meta.unpacked.(object.Object), true
	}
	defer func() { ok = recover() == nil }() // the metadata may be behind a pointer
	made := reflect.New(o.meta.codec.goType)
	placeholder = made.Interface().(object.Object)
	placeholder.SetNamespace(o.GetNamespace())
	placeholder.SetName(o.GetName())
	placeholder.SetUID(o.GetUID())
	placeholder.SetResourceVersion(o.GetResourceVersion())
	o.packer.placeholders.add(made, o)
	return placeholder, true
}

// PackedOf returns the packed object for a placeholder returned by [Packed.Placeholder]. It returns
// false for other objects.
func (p *Packer) PackedOf(placeholder object.Object) (*Packed, bool) {
	v := reflect.ValueOf(placeholder)
	if v.Kind() != reflect.Pointer {
		return nil, false
	}
	b := &p.placeholders
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.all) == 0 {
		return nil, false
	}
	o, ok := b.all[memory.WeakTo(v)]
	return o, ok
}

func (b *placeholders) add(placeholder reflect.Value, o *Packed) {
	w := memory.WeakTo(placeholder)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.all == nil {
		b.all = make(map[memory.Weak]*Packed)
	}
	b.all[w] = o
	memory.OnCollect(placeholder, w, b.forget)
}

func (b *placeholders) forget(w memory.Weak) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.all, w)
}
