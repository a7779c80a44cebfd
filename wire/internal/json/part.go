package json

import (
	"bytes"
	"reflect"
	"unsafe"

	"github.com/millrace-dev/millrace/wire/internal/fault"
	"github.com/millrace-dev/millrace/wire/internal/memory"
)

// part decodes a pointer, a slice or a map. The result is either shared or new.
func (d *Decoder) part(k *TypeInfo, at unsafe.Pointer) error {
	if c := d.peek(); k.share == nil || c != '{' && c != '[' {
		return d.decodePart(k, at)
	}
	raw := d.containerBytes()
	if !d.Worthwhile(k.share, len(raw)) {
		return d.decodePart(k, at)
	}
	found, n, hash, keep := d.Find(k.share, raw)
	if found != nil && d.Budget < 0 {
		return fault.ErrUnusual
	}
	if found != nil {
		d.skipContainer()
		if k.op == opSlice {
			memory.PutSlice(at, found, n)
		} else {
			*(*unsafe.Pointer)(at) = found
		}
		return nil
	}
	if !keep || k.projected && !d.worthKeeping(k, raw) || k.unshareable(raw) {
		return d.decodePart(k, at)
	}
	was := d.backing
	kept := d.BeginPart(raw)
	d.backing = backing{raw: kept, start: d.at}
	err := d.decodePart(k, at)
	d.backing = was
	holds := d.EndPart(raw)
	if err != nil {
		return err
	}
	if k.op == opSlice {
		if n = memory.SliceLen(at); n == 0 {
			return nil
		}
	}
	d.Remember(k.share, hash, kept, *(*unsafe.Pointer)(at), n, holds)
	return nil
}

// worthKeeping reports whether a projected part may be remembered. A remembered part keeps all its bytes
// alive, so they must not use more memory than the part itself.
func (d *Decoder) worthKeeping(k *TypeInfo, raw []byte) bool {
	n := 1
	if k.op != opPointer {
		n = d.count(k.elem.first)
	}
	return len(raw) <= n*int(k.elem.size)
}

// decodePart decodes a pointer, a slice or a map into new memory.
func (d *Decoder) decodePart(k *TypeInfo, at unsafe.Pointer) error {
	switch k.op {
	case opPointer:
		return d.pointer(k, at)
	case opSlice:
		return d.slice(k, at)
	}
	if d.peek() != '{' {
		return fault.ErrUnusual
	}
	// A map's strings cannot be moved later, so allocate their memory now.
	was := d.backing
	switch {
	case was.raw != nil:
	case k.projected:
		d.backing = backing{copyStrings: true}
	default:
		d.backing = backing{raw: bytes.Clone(d.containerBytes()), start: d.at}
	}
	var err error
	if k.elem.op == opString {
		err = d.strings(k, at)
	} else {
		err = d.pairs(k, at)
	}
	d.backing = was
	return err
}

func (d *Decoder) pointer(k *TypeInfo, at unsafe.Pointer) error {
	if !d.Budget.Take(1, int64(k.elem.size)) {
		return fault.ErrUnusual
	}
	p := reflect.New(k.elem.typ).UnsafePointer()
	if err := d.value(k.elem, p); err != nil {
		return err
	}
	*(*unsafe.Pointer)(at) = d.small(k.elem, p)
	return nil
}

// small returns the shared copy of the value at p if the value is a common one, and p itself
// otherwise.
func (d *Decoder) small(k *TypeInfo, p unsafe.Pointer) unsafe.Pointer {
	if d.Pool == nil {
		return p
	}
	var shared unsafe.Pointer
	switch {
	case k.op == opBool:
		shared = unsafe.Pointer(d.Pool.Bool(*(*bool)(p)))
	case k.op == opInt && k.bits == 32:
		shared = unsafe.Pointer(d.Pool.Int32(*(*int32)(p)))
	case k.op == opInt && k.bits == 64:
		shared = unsafe.Pointer(d.Pool.Int64(*(*int64)(p)))
	}
	if shared == nil {
		return p
	}
	return shared
}

func (d *Decoder) slice(k *TypeInfo, at unsafe.Pointer) error {
	if d.peek() != '[' {
		return fault.ErrUnusual
	}
	n := d.count(k.elem.first)
	if n == uncountable || !d.Budget.Take(n, int64(k.elem.size)) {
		return fault.ErrUnusual
	}
	array := k.elements.Make(n)
	i := 0
	for more := d.enter(']'); more; i++ {
		if i == n {
			return fault.ErrUnusual
		}
		if err := d.value(k.elem, unsafe.Add(array, uintptr(i)*k.elem.size)); err != nil {
			return err
		}
		var err error
		if more, err = d.more(']'); err != nil {
			return err
		}
	}
	if i != n {
		return fault.ErrUnusual
	}
	memory.PutSlice(at, array, n)
	return nil
}

// strings decodes a map with string keys and values, or with named types that have the same layout.
func (d *Decoder) strings(k *TypeInfo, at unsafe.Pointer) error {
	n := d.count(0)
	if n == uncountable || !d.Budget.Take(1, k.mapBytes.Of(n)) {
		return fault.ErrUnusual
	}
	m := make(map[string]string, n)
	for more := d.enter('}'); more; {
		var key, value string
		if err := d.string(&key); err != nil {
			return err
		}
		if err := d.colon(); err != nil {
			return err
		}
		if d.peek() == 'n' {
			if err := d.literal("null"); err != nil {
				return err
			}
		} else if err := d.string(&value); err != nil {
			return err
		}
		m[key] = value
		var err error
		if more, err = d.more('}'); err != nil {
			return err
		}
	}
	*(*map[string]string)(at) = m
	return nil
}

// pairs decodes any other map.
func (d *Decoder) pairs(k *TypeInfo, at unsafe.Pointer) error {
	n := d.count(k.elem.first)
	if n == uncountable || !d.Budget.Take(1, k.mapBytes.Of(n)) {
		return fault.ErrUnusual
	}
	m := reflect.MakeMapWithSize(k.typ, n)
	key, value := reflect.New(k.typ.Key()), reflect.New(k.elem.typ)
	for more := d.enter('}'); more; {
		if err := d.string((*string)(key.UnsafePointer())); err != nil {
			return err
		}
		if err := d.colon(); err != nil {
			return err
		}
		value.Elem().SetZero()
		if err := d.value(k.elem, value.UnsafePointer()); err != nil {
			return err
		}
		m.SetMapIndex(key.Elem(), value.Elem())
		var err error
		if more, err = d.more('}'); err != nil {
			return err
		}
	}
	*(*unsafe.Pointer)(at) = m.UnsafePointer()
	return nil
}
