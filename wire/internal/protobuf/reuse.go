package protobuf

import (
	"bytes"
	"math"
	"reflect"
	"unsafe"

	"github.com/millrace-dev/millrace/wire/internal/fault"
	"github.com/millrace-dev/millrace/wire/internal/memory"
)

// DecodeReusing decodes raw like Decode, and reuses parts of donor, an object of the same type that was
// decoded from was. For fields with the same bytes in both, the new object shares donor's strings, lists,
// maps and pointers. It also gives up in some cases that Decode supports, such as fields in an order that API
// servers do not use.
func (d *Decoder) DecodeReusing(table *Table, at unsafe.Pointer, raw []byte, donor unsafe.Pointer, was []byte) error {
	d.BeginObject(d.nextObject(raw), len(raw))
	defer d.EndObject()
	d.textMode = textOfObject
	if err := d.fieldsReusing(table, at, raw, donorValue{donor, was}); err != nil {
		d.text.Discard()
		return err
	}
	d.text.Commit()
	return nil
}

// donorValue is a value in the donor: a struct, or the elements of a list. The zero donorValue represents no
// value.
type donorValue struct {
	at  unsafe.Pointer
	raw []byte // its encoding; for a list, its fields
}

// fieldsReusing decodes a message's fields, and reuses those of a struct of the same type. It walks both
// messages in parallel, because field numbers ascend. If those of the donor do not, a field may occur
// twice, so fieldsReusing gives up.
func (d *Decoder) fieldsReusing(table *Table, at unsafe.Pointer, msg []byte, donor donorValue) error {
	if donor.at == nil {
		return d.fields(table, at, msg)
	}
	was, before := donor.raw, uint64(0)
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
		size, count := measureFields(msg, tag)
		if size == 0 {
			return fault.ErrUnusual
		}
		run := msg[:size:size]
		msg = msg[size:]
		var next uint64
		if was, next = skipTo(was, tag); next != tag {
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
			oldSize, oldCount = measureFields(was, tag)
		}
		donorField := was[:oldSize:oldSize]
		was = was[oldSize:]
		if len(was) > 0 {
			if next, _ = varint(was); next>>3 <= number {
				return fault.ErrUnusual
			}
		}
		if err := d.fieldReusing(table, f, at, run, count, donorValue{donor.at, donorField}, oldCount); err != nil {
			return err
		}
	}
	if was, _ = skipTo(was, math.MaxUint64); was == nil {
		return fault.ErrUnusual
	}
	return nil
}

// startsWith reports whether a message's first field has that tag.
func startsWith(msg []byte, tag uint64) bool {
	next, _ := varint(msg)
	return len(msg) > 0 && next == tag
}

// skipTo returns the rest of a message from the first field whose tag is at least the given one, along with
// that field's tag. It returns nil if the field numbers do not ascend.
func skipTo(msg []byte, tag uint64) (rest []byte, next uint64) {
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

// fieldReusing decodes all values of one field, contained in run, and reuses the donor's field.
func (d *Decoder) fieldReusing(table *Table, f *tableField, at unsafe.Pointer, run []byte, count int, donor donorValue, oldCount int) error {
	from, to := unsafe.Add(donor.at, f.offset), unsafe.Add(at, f.offset)
	if string(run) == string(donor.raw) && !f.hasQuantity && !f.anyUnshareable(run) {
		if f.op == opMap && !wellFormedMap(run) {
			return fault.ErrUnusual
		}
		f.copy(to, from)
		return nil
	}
	once := count == 1 && oldCount == 1
	switch {
	case f.op == opStruct && once:
		raw, _ := nextValue(run)
		was, _ := nextValue(donor.raw)
		return d.fieldsReusing(f.table, to, raw, donorValue{from, was})
	case f.op == opStructPtr && once:
		raw, _ := nextValue(run)
		was, _ := nextValue(donor.raw)
		p, _, err := d.part(f, raw, 1, donorValue{*(*unsafe.Pointer)(from), was})
		*(*unsafe.Pointer)(to) = p
		return err
	case (f.op == opStructs || f.op == opStrings) && memory.SliceLen(from) == oldCount:
		return d.repeated(f, to, run, count, donorValue{*(*unsafe.Pointer)(from), donor.raw})
	}
	return d.fields(table, at, run)
}

// elementReusing decodes an element of a list of structs or strings, and reuses one of the donor's.
func (d *Decoder) elementReusing(f *tableField, at unsafe.Pointer, raw []byte, donor donorValue) error {
	same := bytes.Equal(raw, donor.raw)
	switch {
	case f.op == opStrings && same:
		*(*string)(at) = *(*string)(donor.at)
	case f.op == opStrings:
		d.ownString((*string)(at), raw)
	case same && !f.hasQuantity && !f.unshareable(raw):
		copyValue(f.typ, at, donor.at)
	default:
		return d.fieldsReusing(f.table, at, raw, donor)
	}
	return nil
}

// copy copies a field's value, but not what it points to.
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
	case opBytes, opBools, opInt32s, opInt64s, opStrings, opStructs, opUnmarshalers:
		*(*[]byte)(to) = *(*[]byte)(from)
	case opStruct, opUnmarshaler:
		copyValue(f.typ, to, from)
	default: // a pointer, a map
		*(*unsafe.Pointer)(to) = *(*unsafe.Pointer)(from)
	}
}

func copyValue(t reflect.Type, to, from unsafe.Pointer) {
	reflect.NewAt(t, to).Elem().Set(reflect.NewAt(t, from).Elem())
}
