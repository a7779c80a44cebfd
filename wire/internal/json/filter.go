package json

import (
	"encoding/base64"
	"reflect"
	"slices"
	"unsafe"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/millrace-dev/millrace/wire/internal/fault"
	"github.com/millrace-dev/millrace/wire/internal/frame"
	"github.com/millrace-dev/millrace/wire/internal/guard"
	"github.com/millrace-dev/millrace/wire/internal/head"
)

// filter is the state of filtering one object.
type filter struct {
	head *head.Head
	out  []byte // the kept bytes of raw, up to done
	done int
	cut  bool // a field was dropped

	metadata bool // metadata was seen

	number   int64 // written to, but never read
	time     metav1.Time
	quantity resource.Quantity
	text     []byte
}

// level is a value's position in the object. Some fields get special treatment at certain positions.
type level uint8

const (
	atRoot level = iota
	atMetadata
	nested
)

func (l level) of(name string) level {
	if l == atRoot && name == "metadata" {
		return atMetadata
	}
	return nested
}

// Filter checks an object without decoding it, using the TypeInfo of its Go type or, if info is
// nil, without a type. It returns true if Decode or DecodeUntyped would succeed. In that case kept contains
// the bytes that they would read, either the object itself or a copy in room, and h contains its head. A
// typed object's TypeMeta is dropped. Filter also gives up in some cases that Decode supports, such as an
// escape in the object's name.
func (d *Decoder) Filter(info *TypeInfo, h *head.Head, i frame.Item, room *[]byte) (kept []byte, ok bool) {
	d.walk, d.Budget = walk{Item: i}, guard.BudgetOf(len(i.Raw))
	s := &d.filter
	s.head, s.out, s.done, s.cut, s.metadata = h, (*room)[:0], 0, false, false
	defer func() {
		d.walk = walk{}
		s.head, s.out = nil, nil
		s.text = reusable(s.text)
	}()
	var err error
	if info != nil {
		err = d.filterFields(info.table, atRoot)
	} else {
		err = d.filterObject(d.untyped.wanted, atRoot)
	}
	if err != nil {
		return nil, false
	}
	if !s.cut {
		return i.Raw, true
	}
	*room = append(s.out, i.Raw[s.done:]...)
	return *room, d.Budget.Take(len(i.Raw)-len(*room), guard.MemoryPerByte) // account for the kept bytes as if nothing had been dropped
}

// maxReusedText is the maximum size of a buffer that is kept between objects.
const maxReusedText = 1 << 12

// reusable returns the buffer to keep between objects, or nil if it is too large.
func reusable(b []byte) []byte {
	if cap(b) > maxReusedText {
		return nil
	}
	return b[:0]
}

// cutBytes drops the bytes from start to end.
func (d *Decoder) cutBytes(start, end int) {
	s := &d.filter
	s.out = append(s.out, d.Raw[s.done:start]...)
	s.done, s.cut = end, true
}

// fieldRow tracks an object's fields during filtering, so that exactly one comma separates the kept
// fields.
type fieldRow struct {
	end     int // of the previous field, or where the fields start
	kept    bool
	dropped bool
}

// keepField is called before the value of a field that is kept.
func (d *Decoder) keepField(r *fieldRow, start int) {
	if r.dropped && !r.kept {
		d.cutBytes(r.end, start)
	}
	r.kept = true
}

// dropField is called after a dropped field.
func (d *Decoder) dropField(r *fieldRow) {
	d.cutBytes(r.end, d.at)
	r.dropped = true
}

// filterValue checks a value the way value decodes it.
func (d *Decoder) filterValue(k *TypeInfo, at level) error {
	c := d.peek()
	if c == 'n' && k.op > opQuantity {
		return d.literal("null")
	}
	switch k.op {
	case opString:
		return d.filterText()
	case opStruct:
		return d.filterFields(k.table, at)
	case opPointer:
		if !d.Budget.Take(1, int64(k.elem.size)) {
			return fault.ErrUnusual
		}
		return d.filterValue(k.elem, nested)
	case opSlice:
		return d.filterSlice(k)
	case opMap:
		return d.filterMap(k)
	case opBool:
		if c == 't' {
			return d.literal("true")
		}
		return d.literal("false")
	case opInt, opUint, opFloat:
		return d.digits(k, unsafe.Pointer(&d.filter.number))
	case opBytes:
		return d.filterBase64()
	case opAny:
		return d.filterAny(nil, nested)
	case opTime:
		return d.time(&d.filter.time)
	case opQuantity:
		return d.filterQuantity()
	case opUnknown:
		return fault.ErrUnusual
	}
	return d.filterOther(k)
}

func (d *Decoder) filterSlice(k *TypeInfo) error {
	if d.peek() != '[' {
		return fault.ErrUnusual
	}
	for more := d.enter(']'); more; {
		if !d.Budget.Take(1, int64(k.elem.size)) {
			return fault.ErrUnusual
		}
		err := d.filterValue(k.elem, nested)
		if err != nil {
			return err
		}
		if more, err = d.more(']'); err != nil {
			return err
		}
	}
	return nil
}

func (d *Decoder) filterMap(k *TypeInfo) error {
	if d.peek() != '{' {
		return fault.ErrUnusual
	}
	more := d.enter('}')
	if !more && !d.Budget.Take(1, k.mapBytes.Of(0)) {
		return fault.ErrUnusual
	}
	for size := k.mapBytes.First; more; size = k.mapBytes.Each {
		if !d.Budget.Take(1, size) {
			return fault.ErrUnusual
		}
		err := d.filterText()
		if err == nil {
			err = d.colon()
		}
		if err == nil {
			err = d.filterValue(k.elem, nested)
		}
		if err != nil {
			return err
		}
		if more, err = d.more('}'); err != nil {
			return err
		}
	}
	return nil
}

func (d *Decoder) filterText() error {
	text, plain, err := d.walk.text()
	if err != nil || plain {
		return err
	}
	s := &d.filter
	text, err = unescape(s.text[:0], text)
	if err == nil {
		s.text = text
	}
	return err
}

func (d *Decoder) filterBase64() error {
	text, plain, err := d.walk.text()
	if err != nil || !plain {
		return fault.ErrUnusual
	}
	s := &d.filter
	s.text = slices.Grow(s.text[:0], base64.StdEncoding.DecodedLen(len(text)))
	_, err = base64.StdEncoding.Decode(s.text[:cap(s.text)], text)
	return fault.Unusual(err)
}

// filterQuantity checks a value the way quantity decodes it.
func (d *Decoder) filterQuantity() error {
	if start := d.at; d.peek() == '"' {
		if text, plain, err := d.walk.text(); err == nil && plain && guard.PlainQuantity(text) {
			return nil
		}
		d.at = start
	}
	return d.quantity(&d.filter.quantity)
}

// filterOther checks a value the way unmarshalOther decodes it.
func (d *Decoder) filterOther(k *TypeInfo) error {
	switch k.typ {
	case reflect.TypeFor[metav1.FieldsV1](): // accepts anything
		return d.skip()
	case reflect.TypeFor[intstr.IntOrString]():
		if d.peek() == '"' {
			start := d.at
			if _, plain, err := d.walk.text(); err == nil && plain {
				return nil
			}
			d.at = start
		}
	}
	return d.unmarshalOther(k, reflect.New(k.typ).UnsafePointer())
}

// filterFields checks an object the way fields decodes it.
func (d *Decoder) filterFields(t *table, at level) error {
	if d.peek() != '{' {
		return fault.ErrUnusual
	}
	var seen [maxFields / 64]uint64
	place := t.start
	more := d.enter('}')
	for r := (fieldRow{end: d.at}); more; {
		d.peek()
		start := d.at
		f, err := d.field(t, place)
		if err != nil {
			return err
		}
		var keep bool
		if f != nil {
			word, bit := f.number/64, uint64(1)<<(f.number%64)
			if seen[word]&bit != 0 {
				return fault.ErrUnusual
			}
			seen[word] |= bit
			place = f.place
			keep = at != atRoot || f.name != "apiVersion" && f.name != "kind"
		}
		if keep {
			d.keepField(&r, start)
		}
		switch {
		case f == nil:
			err = d.skip()
		case at == nested:
			err = d.filterValue(f.typeInfo, nested)
		default:
			d.peek()
			start := d.at
			if err = d.filterValue(f.typeInfo, at.of(f.name)); err == nil {
				err = d.recordHeadField(at, f.name, d.Raw[start:d.at], !f.typeInfo.projected)
			}
		}
		if err != nil {
			return err
		}
		if !keep {
			d.dropField(&r)
		}
		r.end = d.at
		if more, err = d.more('}'); err != nil {
			return err
		}
	}
	return nil
}
