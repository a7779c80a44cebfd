package protobuf

import (
	"bytes"
	"math"
	"reflect"
	"unsafe"

	"github.com/millrace-dev/millrace/wire/internal/fault"
	"github.com/millrace-dev/millrace/wire/internal/memory"
)

// DecodeBeside decodes raw as Decode does, beside an object of the same type that was decoded from
// was. Where both have the same bytes, the new object has what that one has: strings, lists, maps,
// and what pointers point to are there once. It also gives up at some things that Decode
// understands, such as fields in another order than an API server's.
func (d *Run) DecodeBeside(table *Table, at unsafe.Pointer, raw []byte, other unsafe.Pointer, was []byte) error {
	d.BeginObject(d.nextObject(raw), len(raw))
	d.own = ownObject
	if err := d.beside(table, at, raw, like{other, was}); err != nil {
		d.text.Discard()
		return err
	}
	d.text.Commit()
	return nil
}

// like is a value of another object: a struct, or the elements of a list. The zero like is none.
type like struct {
	at  unsafe.Pointer
	raw []byte // what it was decoded from; of a list, its fields
}

// beside decodes the fields of a message beside a struct of the same type. It walks both
// messages in step, for fields ascend. Where those of the other do not, there may be several
// of one field, and it gives up.
func (d *Run) beside(table *Table, at unsafe.Pointer, msg []byte, other like) error {
	if other.at == nil {
		return d.fields(table, at, msg)
	}
	was, before := other.raw, uint64(0)
	for len(msg) > 0 {
		tag, n := varint(msg)
		if n == 0 {
			return fault.ErrUnusual
		}
		number := tag >> 3
		var f *tableField
		if number < uint64(len(table.fields)) {
			f = table.fields[number]
		}
		if f == nil {
			if msg = skipField(msg); msg == nil {
				return fault.ErrUnusual
			}
			continue
		}
		if tag != f.tag || number <= before {
			return fault.ErrUnusual
		}
		before = number
		size, count := measure(msg, tag)
		if size == 0 {
			return fault.ErrUnusual
		}
		run := msg[:size:size]
		msg = msg[size:]
		var next uint64
		if was, next = upTo(was, tag); next != tag {
			if was == nil {
				return fault.ErrUnusual
			}
			if err := d.fields(table, at, run); err != nil {
				return err
			}
			continue
		}
		oldSize, oldCount := size, count
		if size > len(was) || string(was[:size]) != string(run) || startsWith(was[size:], tag) {
			oldSize, oldCount = measure(was, tag)
		}
		old := was[:oldSize:oldSize]
		was = was[oldSize:]
		if len(was) > 0 {
			if next, _ = varint(was); next>>3 <= number {
				return fault.ErrUnusual
			}
		}
		if err := d.field(table, f, at, run, count, like{other.at, old}, oldCount); err != nil {
			return err
		}
	}
	if was, _ = upTo(was, math.MaxUint64); was == nil {
		return fault.ErrUnusual
	}
	return nil
}

// startsWith reports whether the first field of a message has that tag.
func startsWith(msg []byte, tag uint64) bool {
	next, _ := varint(msg)
	return len(msg) > 0 && next == tag
}

// upTo returns what is left of a message from its first field whose tag is not smaller, and that
// tag. It returns nil where fields do not ascend.
func upTo(msg []byte, tag uint64) (rest []byte, next uint64) {
	for before := uint64(0); len(msg) > 0; before = next {
		var n int
		if next, n = varint(msg); n == 0 || next>>3 < before>>3 || next>>3 == before>>3 && next != before {
			return nil, 0
		}
		if next >= tag {
			return msg, next
		}
		if msg = skipField(msg); msg == nil {
			return nil, 0
		}
	}
	return []byte{}, 0
}

// field decodes what there is of one field, which is all of run, beside the same field of the
// struct that old is of.
func (d *Run) field(table *Table, f *tableField, at unsafe.Pointer, run []byte, count int, old like, oldCount int) error {
	from, to := unsafe.Add(old.at, f.offset), unsafe.Add(at, f.offset)
	if string(run) == string(old.raw) && !f.notes && !f.anyApart(run) {
		if f.op == opMap && !closed(run) {
			return fault.ErrUnusual
		}
		f.copy(to, from)
		return nil
	}
	once := count == 1 && oldCount == 1
	switch {
	case f.op == opStruct && once:
		raw, _ := next(run)
		was, _ := next(old.raw)
		return d.beside(f.table, to, raw, like{from, was})
	case f.op == opStructPtr && once:
		raw, _ := next(run)
		was, _ := next(old.raw)
		p, _, err := d.part(f, raw, 1, like{*(*unsafe.Pointer)(from), was})
		*(*unsafe.Pointer)(to) = p
		return err
	case (f.op == opStructs || f.op == opStrings) && memory.SliceLen(from) == oldCount:
		return d.many(f, to, run, count, like{*(*unsafe.Pointer)(from), old.raw})
	}
	return d.fields(table, at, run)
}

// element decodes an element of a list of structs or strings beside another one.
func (d *Run) element(f *tableField, at unsafe.Pointer, raw []byte, old like) error {
	same := bytes.Equal(raw, old.raw)
	switch {
	case f.op == opStrings && same:
		*(*string)(at) = *(*string)(old.at)
	case f.op == opStrings:
		d.ownString((*string)(at), raw)
	case same && !f.notes && !f.apart(raw):
		copyValue(f.typ, at, old.at)
	default:
		return d.beside(f.table, at, raw, old)
	}
	return nil
}

// copy copies the value of a field. What it refers to is there once.
func (f *tableField) copy(to, from unsafe.Pointer) {
	switch f.op {
	case opBool:
		*(*bool)(to) = *(*bool)(from)
	case opInt32:
		*(*int32)(to) = *(*int32)(from)
	case opInt64:
		*(*int64)(to) = *(*int64)(from)
	case opString:
		*(*string)(to) = *(*string)(from)
	case opBytes, opBools, opInt32s, opInt64s, opStrings, opStructs, opOwns:
		*(*[]byte)(to) = *(*[]byte)(from)
	case opStruct, opOwn:
		copyValue(f.typ, to, from)
	default: // a pointer, a map
		*(*unsafe.Pointer)(to) = *(*unsafe.Pointer)(from)
	}
}

func copyValue(t reflect.Type, to, from unsafe.Pointer) {
	reflect.NewAt(t, to).Elem().Set(reflect.NewAt(t, from).Elem())
}
