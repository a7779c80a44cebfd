package protobuf

import (
	"bytes"
	"unsafe"

	"github.com/millrace-dev/millrace/wire/internal/fault"
	"github.com/millrace-dev/millrace/wire/internal/frame"
	"github.com/millrace-dev/millrace/wire/internal/memory"
	"github.com/millrace-dev/millrace/wire/internal/share"
)

// Decoder decodes protobuf objects one after another, using their tables. It is not safe for concurrent use.
//
// It handles the form that API servers write: the elements of a list or map are adjacent,
// messages occur once, and lists are not packed. For anything else it gives up with ErrUnusual, and the
// reference decodes the object again. It therefore does not need to know which input is invalid.
type Decoder struct {
	share.Sharer
	text     memory.Text
	Versions bool // the input may contain several versions of the same object

	textMode textMode
	filter   filter
}

// textMode determines where decoded text is stored.
type textMode uint8

const (
	textOfObject textMode = iota // into one allocation for the whole object
	textInPlace                  // text stays in the bytes of the current part
	textCopied                   // each string into its own allocation
)

// Decode decodes raw into the zeroed struct at at, which must be of the table's type. After an error
// the struct must not be used.
func (d *Decoder) Decode(table *Table, at unsafe.Pointer, raw []byte) error {
	d.BeginObject(d.nextObject(raw), len(raw))
	defer d.EndObject()
	d.textMode = textOfObject
	if err := d.fields(table, at, raw); err != nil {
		d.text.Discard()
		return err
	}
	d.text.Commit()
	return nil
}

// nextObject returns the number of the next object to decode.
func (d *Decoder) nextObject(raw []byte) uint8 {
	if !d.Versions || d.Pool == nil {
		return d.NextObject()
	}
	meta, _, _ := lengthField(raw, 1)
	name, _, _ := lengthField(meta, 1)
	return d.ObjectNamed(name)
}

// varint reads a number. n is 0 if there is none.
func varint(b []byte) (v uint64, n int) {
	if len(b) > 0 && b[0] < 0x80 {
		return uint64(b[0]), 1
	}
	for i := 0; i < len(b) && i < 10; i++ {
		c := b[i]
		if c < 0x80 {
			if i == 9 && c > 1 {
				return 0, 0
			}
			return v | uint64(c)<<(7*i), i + 1
		}
		v |= uint64(c&0x7f) << (7 * i)
	}
	return 0, 0
}

// fields decodes a message's fields into the struct at at.
func (d *Decoder) fields(table *Table, at unsafe.Pointer, msg []byte) error {
	for len(msg) > 0 {
		tag, n := varint(msg)
		if n == 0 {
			return fault.ErrUnusual
		}
		rest := msg[n:]
		value, n := varint(rest)
		if n == 0 {
			return fault.ErrUnusual
		}
		number := tag >> 3
		var f *tableField
		if number < uint64(len(table.fields)) {
			f = table.fields[number]
		}
		switch {
		case f == nil:
			if msg = skipField(msg); msg == nil {
				return fault.ErrUnusual
			}
		case tag != f.tag:
			return fault.ErrUnusual
		case f.wire == frame.WireVarint && f.op != opBools && f.op != opInt32s && f.op != opInt64s:
			if !d.Budget.Take(1, f.memory) {
				return fault.ErrUnusual
			}
			d.number(f, unsafe.Add(at, f.offset), value)
			msg = rest[n:]
		case f.wire == frame.WireBytes && value > uint64(len(rest)-n):
			return fault.ErrUnusual
		case f.op < opBools:
			end := n + int(value)
			if err := d.value(f, unsafe.Add(at, f.offset), rest[n:end:end]); err != nil {
				return err
			}
			msg = rest[end:]
		default:
			size, count := measureFields(msg, tag)
			if size == 0 {
				return fault.ErrUnusual
			}
			if err := d.repeated(f, unsafe.Add(at, f.offset), msg[:size:size], count, donorValue{}); err != nil {
				return err
			}
			msg = msg[size:]
		}
	}
	return nil
}

// skipField returns the bytes after the first field of msg, or nil if that field is invalid or of an
// unused type.
func skipField(msg []byte) []byte {
	_, rest, err := NextField(msg)
	if err != nil {
		return nil
	}
	if rest == nil {
		rest = []byte{}
	}
	return rest
}

// measureFields returns the total size and the count of the fields with this tag at the start of msg. size is
// 0 if they are malformed.
func measureFields(msg []byte, tag uint64) (size, count int) {
	for size < len(msg) {
		got, n := varint(msg[size:])
		if n == 0 {
			return 0, 0
		}
		if got != tag {
			break
		}
		at := size + n
		value, n := varint(msg[at:])
		if n == 0 {
			return 0, 0
		}
		at += n
		if tag&7 == frame.WireBytes {
			if value > uint64(len(msg)-at) {
				return 0, 0
			}
			at += int(value)
		}
		size = at
		count++
	}
	return size, count
}

// nextValue splits the first field off a run whose tag is known and which measureFields has checked.
func nextValue(run []byte) (value, rest []byte) {
	_, n := varint(run)
	run = run[n:]
	size, n := varint(run)
	end := n + int(size)
	return run[n:end:end], run[end:]
}

// number stores a value that is a number.
func (d *Decoder) number(f *tableField, at unsafe.Pointer, v uint64) {
	switch f.op {
	case opBool:
		*(*bool)(at) = uint(v) != 0 // generated code reads it into an int
	case opInt32:
		*(*int32)(at) = int32(v)
	case opInt64:
		*(*int64)(at) = int64(v)
	case opBoolPtr:
		*(**bool)(at) = d.Bool(uint(v) != 0)
	case opInt32Ptr:
		*(**int32)(at) = d.Int32(int32(v))
	case opInt64Ptr:
		*(**int64)(at) = d.Int64(int64(v))
	}
}

// value stores a length-delimited value.
func (d *Decoder) value(f *tableField, at unsafe.Pointer, raw []byte) error {
	switch f.op {
	case opString:
		if *(*string)(at) != "" {
			return fault.ErrUnusual // a second occurrence; text.SetString allows one call per string
		}
		d.string(f, (*string)(at), raw)
	case opBytes:
		if len(*(*[]byte)(at)) > 0 {
			return fault.ErrUnusual
		}
		d.bytes((*[]byte)(at), raw)
	case opStruct:
		return d.fields(f.table, at, raw)
	case opUnmarshaler:
		return d.unmarshalOwn(f, at, raw)
	case opStringPtr:
		if !d.Budget.Take(1, f.memory) {
			return fault.ErrUnusual
		}
		s := new(string)
		d.ownString(s, raw)
		*(**string)(at) = s
	case opStructPtr, opUnmarshalerPtr:
		if *(*unsafe.Pointer)(at) != nil {
			return fault.ErrUnusual
		}
		p, _, err := d.part(f, raw, 1, donorValue{})
		*(*unsafe.Pointer)(at) = p
		return err
	}
	return nil
}

// string stores a field's text, which is shared if other objects have the same text.
func (d *Decoder) string(f *tableField, at *string, raw []byte) {
	if w := share.Word(raw); w != "" {
		*at = w
		return
	}
	if d.textMode == textInPlace || !d.Worthwhile(f.share, len(raw)) {
		d.ownString(at, raw)
		return
	}
	found, n, hash, keep := d.Find(f.share, raw)
	switch {
	case found != nil:
		*at = unsafe.String((*byte)(found), n)
	case keep:
		*at = d.Pool.RememberString(hash, raw)
	default:
		d.ownString(at, raw)
	}
}

func (d *Decoder) ownString(at *string, raw []byte) {
	switch d.textMode {
	case textInPlace:
		*at = memory.String(raw)
	case textCopied:
		*at = string(raw)
	default:
		d.text.SetString(at, raw)
	}
}

func (d *Decoder) bytes(at *[]byte, raw []byte) {
	switch d.textMode {
	case textInPlace:
		*at = raw
	case textCopied:
		*at = bytes.Clone(raw)
	default:
		d.text.SetBytes(at, raw)
	}
}

// repeated stores a list or map with the count values in run, and may reuse a donor's values.
func (d *Decoder) repeated(f *tableField, at unsafe.Pointer, run []byte, count int, donor donorValue) error {
	if *(*unsafe.Pointer)(at) != nil {
		return fault.ErrUnusual // they are not all adjacent
	}
	p, n, err := d.part(f, run, count, donor)
	if err != nil {
		return err
	}
	if f.op == opMap {
		*(*unsafe.Pointer)(at) = p
	} else {
		memory.PutSlice(at, p, n)
	}
	return nil
}

// part returns the decoded part: either a shared one or a new one, which may reuse a donor's values.
func (d *Decoder) part(f *tableField, raw []byte, count int, donor donorValue) (unsafe.Pointer, int, error) {
	if !d.Worthwhile(f.share, len(raw)) {
		return d.decodePart(f, raw, count, donor)
	}
	found, n, hash, keep := d.Find(f.share, raw)
	if found != nil && d.Budget < 0 {
		return nil, 0, fault.ErrUnusual
	}
	if found != nil {
		return found, n, nil
	}
	// A projected part would keep all of its bytes alive, including those of dropped fields.
	if !keep || f.projected && len(raw) > count*int(f.typ.Size()) || f.partUnshareable(raw) {
		return d.decodePart(f, raw, count, donor)
	}
	was := d.textMode
	raw, d.textMode = d.BeginPart(raw), textInPlace
	p, n, err := d.decodePart(f, raw, count, donorValue{}) // the part has its own copy of the bytes
	d.textMode = was
	holds := d.EndPart(raw)
	if err != nil {
		return nil, 0, err
	}
	d.Remember(f.share, hash, raw, p, n, holds)
	return p, n, nil
}

// unmarshalOwn calls a type's Unmarshal method.
func (d *Decoder) unmarshalOwn(f *tableField, at unsafe.Pointer, raw []byte) error {
	if f.guard.check(raw, &d.Budget) != nil {
		return fault.ErrUnusual
	}
	return fault.Unusual(f.unmarshal(at, raw))
}

// decodePart decodes a part into new memory, which it first deducts from the budget. It gives up if the
// object becomes too large.
func (d *Decoder) decodePart(f *tableField, raw []byte, count int, donor donorValue) (unsafe.Pointer, int, error) {
	if f.op == opMap && !d.Budget.Take(1, f.pairs.mapBytes.Of(count)) || !d.Budget.Take(count, f.memory) {
		return nil, 0, fault.ErrUnusual
	}
	switch f.op {
	case opStructPtr:
		p := memory.New(f.typ).UnsafePointer()
		if donor.at != nil {
			return p, 1, d.fieldsReusing(f.table, p, raw, donor)
		}
		return p, 1, d.fields(f.table, p, raw)
	case opUnmarshalerPtr:
		p := memory.New(f.typ).UnsafePointer()
		return p, 1, d.unmarshalOwn(f, p, raw)
	case opMap:
		// A map's strings cannot be moved later, so they are copied now.
		was := d.textMode
		switch {
		case was == textInPlace:
		case f.projected:
			d.textMode = textCopied
		default:
			raw, d.textMode = bytes.Clone(raw), textInPlace
		}
		var p unsafe.Pointer
		err := f.pairs.read(d, f.pairs, unsafe.Pointer(&p), raw, count)
		d.textMode = was
		return p, count, err
	}
	p, err := d.list(f, raw, count, donor)
	return p, count, err
}
