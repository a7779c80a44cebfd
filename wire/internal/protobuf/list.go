package protobuf

import (
	"unsafe"

	"github.com/millrace-dev/millrace/wire/internal/frame"
)

// list decodes the elements of a list, each beside the one in its place of another list.
func (d *Run) list(f *tableField, run []byte, count int, old like) (unsafe.Pointer, error) {
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
		raw, run = next(run)
		var err error
		if len(old.raw) > 0 {
			var was []byte
			was, old.raw = next(old.raw)
			err = d.element(f, element, raw, like{unsafe.Add(old.at, uintptr(i)*size), was})
			if err != nil {
				return nil, err
			}
			continue
		}
		switch f.op {
		case opStrings:
			d.ownString((*string)(element), raw)
		case opStructs:
			err = d.fields(f.table, element, raw)
		case opOwns:
			err = d.readOwn(f, element, raw)
		}
		if err != nil {
			return nil, err
		}
	}
	return p, nil
}
