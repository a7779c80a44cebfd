package protobuf

import (
	"reflect"
	"unsafe"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/millrace-dev/millrace/wire/internal/fault"
	"github.com/millrace-dev/millrace/wire/internal/frame"
	"github.com/millrace-dev/millrace/wire/internal/memory"
)

// list decodes a list's elements. Each element may reuse the donor's element with the same index.
func (d *Decoder) list(f *tableField, run []byte, count int, donor donorValue) (unsafe.Pointer, error) {
	p := f.elements.Make(count)
	size := f.typ.Size()
	for i := range count {
		element := unsafe.Add(p, uintptr(i)*size)
		if f.wire == frame.WireVarint {
			_, n := varint(run)
			v, m := varint(run[n:])
			run = run[n+m:]
			switch f.op {
			case opBools:
				*(*bool)(element) = uint(v) != 0
			case opInt32s:
				*(*int32)(element) = int32(v)
			case opInt64s:
				*(*int64)(element) = int64(v)
			}
			continue
		}
		var raw []byte
		raw, run = nextValue(run)
		var err error
		if len(donor.raw) > 0 {
			var was []byte
			was, donor.raw = nextValue(donor.raw)
			err = d.elementReusing(f, element, raw, donorValue{unsafe.Add(donor.at, uintptr(i)*size), was})
			if err != nil {
				return nil, err
			}
			continue
		}
		switch f.op {
		case opStrings:
			d.ownString((*string)(element), raw)
		case opStructs:
			if len(raw) > 0 { // do not use physical memory for empty elements
				memory.Touch(element, size)
			}
			err = d.fields(f.table, element, raw)
		case opUnmarshalers:
			err = d.unmarshalOwn(f, element, raw)
		}
		if err != nil {
			return nil, err
		}
	}
	return p, nil
}

// pair splits a map entry, which is a message with the key in field 1 and the value in field 2.
func pair(run []byte) (key, value, rest []byte, err error) {
	entry, rest := nextValue(run)
	key, value, err = keyAndValue(entry)
	return key, value, rest, err
}

func keyAndValue(entry []byte) (key, value []byte, err error) {
	key, entry, ok := lengthField(entry, 1)
	if !ok {
		return nil, nil, fault.ErrUnusual
	}
	value, entry, ok = lengthField(entry, 2)
	if !ok || len(entry) > 0 {
		return nil, nil, fault.ErrUnusual
	}
	return key, value, nil
}

// wellFormedMap reports whether all entries of a map have the form that pair supports. For other entries,
// generated code may produce a result that depends on the bytes after them, because it reads keys and values
// past the end of their entry.
func wellFormedMap(run []byte) bool {
	for len(run) > 0 {
		var err error
		if _, _, run, err = pair(run); err != nil {
			return false
		}
	}
	return true
}

// lengthField splits off the first field if it has this number.
func lengthField(msg []byte, number byte) (value, rest []byte, ok bool) {
	if len(msg) < 2 || msg[0] != number<<3|frame.WireBytes {
		return nil, nil, false
	}
	size, n := varint(msg[1:])
	if n == 0 || size > uint64(len(msg)-1-n) {
		return nil, nil, false
	}
	end := 1 + n + int(size)
	return msg[1+n : end : end], msg[end:], true
}

// readStringPairs reads a map with string keys and values, or with named types that have the same
// layout.
func readStringPairs(_ *Decoder, _ *pairs, at unsafe.Pointer, run []byte, count int) error {
	m := make(map[string]string, count)
	for len(run) > 0 {
		key, value, rest, err := pair(run)
		if err != nil {
			return err
		}
		m[memory.String(key)] = memory.String(value)
		run = rest
	}
	*(*map[string]string)(at) = m
	return nil
}

// readQuantityPairs reads a map of quantities whose keys are strings or a named string type.
func readQuantityPairs(_ *Decoder, _ *pairs, at unsafe.Pointer, run []byte, count int) error {
	m := make(map[string]resource.Quantity, count)
	for len(run) > 0 {
		key, value, rest, err := pair(run)
		if err != nil {
			return err
		}
		var q resource.Quantity
		if err := unmarshalQuantity(&q, value); err != nil {
			return fault.ErrUnusual
		}
		m[memory.String(key)] = q
		run = rest
	}
	*(*map[string]resource.Quantity)(at) = m
	return nil
}

// readAnyPairs reads any other map.
func readAnyPairs(d *Decoder, p *pairs, at unsafe.Pointer, run []byte, count int) error {
	m := reflect.MakeMapWithSize(p.typ, count)
	for len(run) > 0 {
		key, value, rest, err := pair(run)
		if err != nil {
			return err
		}
		k, v := reflect.New(p.key), reflect.New(p.value.typ)
		d.ownString((*string)(k.UnsafePointer()), key)
		if err := d.value(p.value, v.UnsafePointer(), value); err != nil {
			return err
		}
		m.SetMapIndex(k.Elem(), v.Elem())
		run = rest
	}
	*(*unsafe.Pointer)(at) = m.UnsafePointer()
	return nil
}
