package protobuf

import (
	"bytes"
	"reflect"
	"unsafe"

	"github.com/millrace-dev/millrace/wire/internal/fault"
	"github.com/millrace-dev/millrace/wire/internal/frame"
	"github.com/millrace-dev/millrace/wire/internal/memory"
	"github.com/millrace-dev/millrace/wire/internal/share"
)

// Run decodes objects from protobuf by their tables, one after the other.
// It belongs to one goroutine.
//
// It reads the form that API servers write: elements of a list or a map side by
// side, messages once, lists unpacked. At anything else it gives up with
// ErrUnusual, and the reference decodes the object again. So it need not know what
// is an error.
type Run struct {
	share.Sharer
	text     memory.Text
	Versions bool // of one object there may be several

	own   textOf
	sieve sieve
}

// textOf says where text goes that is read.
type textOf uint8

const (
	ownObject textOf = iota // into one piece of memory for the whole object
	ownRaw                  // nowhere: the current part keeps the memory it lies in
	ownCopies               // each string into memory of its own
)

// Decode decodes raw into the zeroed struct at at, of the table's type. After an
// error the struct is useless.
func (d *Run) Decode(table *Table, at unsafe.Pointer, raw []byte) error {
	d.BeginObject(d.nextObject(raw), len(raw))
	d.own = ownObject
	if err := d.fields(table, at, raw); err != nil {
		d.text.Discard()
		return err
	}
	d.text.Commit()
	return nil
}

// nextObject says which object is at hand.
func (d *Run) nextObject(raw []byte) uint8 {
	if !d.Versions || d.Pool == nil {
		return d.NextObject()
	}
	meta, _, _ := lengthField(raw, 1)
	name, _, _ := lengthField(meta, 1)
	return d.ObjectNamed(name)
}

// varint reads a number. n is 0 where there is none.
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

// fields decodes the fields of a message into the struct at at.
func (d *Run) fields(table *Table, at unsafe.Pointer, msg []byte) error {
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
			if !d.Budget.Take(1, f.each) {
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
			size, count := measure(msg, tag)
			if size == 0 {
				return fault.ErrUnusual
			}
			if err := d.many(f, unsafe.Add(at, f.offset), msg[:size:size], count, like{}); err != nil {
				return err
			}
			msg = msg[size:]
		}
	}
	return nil
}

// skipField returns what follows the first field of msg, or nil where that is
// not a field of a kind in use.
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

// measure returns how many bytes and how many fields the fields with this tag
// at the beginning of msg have. size is 0 where they are broken.
func measure(msg []byte, tag uint64) (size, count int) {
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

// next splits the first field, whose tag is known and which measure has seen,
// off a run.
func next(run []byte) (value, rest []byte) {
	_, n := varint(run)
	run = run[n:]
	size, n := varint(run)
	end := n + int(size)
	return run[n:end:end], run[end:]
}

// number stores a value that is a number.
func (d *Run) number(f *tableField, at unsafe.Pointer, v uint64) {
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

// value stores a value that is bytes.
func (d *Run) value(f *tableField, at unsafe.Pointer, raw []byte) error {
	switch f.op {
	case opString:
		if *(*string)(at) != "" {
			return fault.ErrUnusual // twice, and loose holds a place once
		}
		d.string(f, (*string)(at), raw)
	case opBytes:
		if len(*(*[]byte)(at)) > 0 {
			return fault.ErrUnusual
		}
		d.bytes((*[]byte)(at), raw)
	case opStruct:
		return d.fields(f.table, at, raw)
	case opOwn:
		return d.readOwn(f, at, raw)
	case opStringPtr:
		if !d.Budget.Take(1, f.each) {
			return fault.ErrUnusual
		}
		s := new(string)
		d.ownString(s, raw)
		*(**string)(at) = s
	case opStructPtr, opOwnPtr:
		if *(*unsafe.Pointer)(at) != nil {
			return fault.ErrUnusual
		}
		p, _, err := d.part(f, raw, 1, like{})
		*(*unsafe.Pointer)(at) = p
		return err
	}
	return nil
}

// string stores the text of a field, which many objects may have.
func (d *Run) string(f *tableField, at *string, raw []byte) {
	if w := share.Word(raw); w != "" {
		*at = w
		return
	}
	if d.own == ownRaw || !d.Worthwhile(f.share, len(raw)) {
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

func (d *Run) ownString(at *string, raw []byte) {
	switch d.own {
	case ownRaw:
		*at = memory.String(raw)
	case ownCopies:
		*at = string(raw)
	default:
		d.text.SetString(at, raw)
	}
}

func (d *Run) bytes(at *[]byte, raw []byte) {
	switch d.own {
	case ownRaw:
		*at = raw
	case ownCopies:
		*at = bytes.Clone(raw)
	default:
		d.text.SetBytes(at, raw)
	}
}

// many stores the count values of a list or a map, which are all of run, beside those of another
// list if there is one.
func (d *Run) many(f *tableField, at unsafe.Pointer, run []byte, count int, old like) error {
	if *(*unsafe.Pointer)(at) != nil {
		return fault.ErrUnusual // they are not all side by side
	}
	p, n, err := d.part(f, run, count, old)
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

// part returns memory with what raw stands for: one that is shared, or one of
// its own, decoded beside another one if there is one.
func (d *Run) part(f *tableField, raw []byte, count int, old like) (unsafe.Pointer, int, error) {
	if !d.Worthwhile(f.share, len(raw)) {
		return d.make(f, raw, count, old)
	}
	found, n, hash, keep := d.Find(f.share, raw)
	if found != nil && d.Budget < 0 {
		return nil, 0, fault.ErrUnusual
	}
	if found != nil {
		return found, n, nil
	}
	// A projected part would hold all its bytes, also those that are left out.
	if !keep || f.partly && len(raw) > count*int(f.typ.Size()) || f.partApart(raw) {
		return d.make(f, raw, count, old)
	}
	was := d.own
	raw, d.own = d.BeginPart(raw), ownRaw
	p, n, err := d.make(f, raw, count, like{}) // its bytes are its own
	d.own = was
	holds := d.EndPart(raw)
	if err != nil {
		return nil, 0, err
	}
	d.Remember(f.share, hash, raw, p, n, holds)
	return p, n, nil
}

// readOwn has a type read itself.
func (d *Run) readOwn(f *tableField, at unsafe.Pointer, raw []byte) error {
	if f.guard.check(raw, &d.Budget) != nil {
		return fault.ErrUnusual
	}
	return fault.Unusual(f.own(at, raw))
}

// make decodes a part into memory of its own. It counts the memory first, and gives up if the
// object becomes too large.
func (d *Run) make(f *tableField, raw []byte, count int, old like) (unsafe.Pointer, int, error) {
	if f.op == opMap && !d.Budget.Take(1, f.pairs.mapBytes.Of(count)) || !d.Budget.Take(count, f.each) {
		return nil, 0, fault.ErrUnusual
	}
	switch f.op {
	case opStructPtr:
		p := reflect.New(f.typ).UnsafePointer()
		if old.at != nil {
			return p, 1, d.beside(f.table, p, raw, old)
		}
		return p, 1, d.fields(f.table, p, raw)
	case opOwnPtr:
		p := reflect.New(f.typ).UnsafePointer()
		return p, 1, d.readOwn(f, p, raw)
	case opMap:
		// The strings of a map cannot be moved later, so they get their own memory
		// now.
		was := d.own
		switch {
		case was == ownRaw:
		case f.partly:
			d.own = ownCopies
		default:
			raw, d.own = bytes.Clone(raw), ownRaw
		}
		var p unsafe.Pointer
		err := f.pairs.read(d, f.pairs, unsafe.Pointer(&p), raw, count)
		d.own = was
		return p, count, err
	}
	p, err := d.list(f, raw, count, old)
	return p, count, err
}
