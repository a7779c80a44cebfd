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

// sieve is the state of sifting one object.
type sieve struct {
	head *head.Head
	out  []byte // what is left of raw up to done
	done int
	cut  bool // something was left out

	metadata bool // was met

	number   int64 // is written to, and never read
	time     metav1.Time
	quantity resource.Quantity
	text     []byte
}

// level is where a value is: some fields are known by it.
type level uint8

const (
	atRoot level = iota
	atMetadata
	below
)

func (l level) of(name string) level {
	if l == atRoot && name == "metadata" {
		return atMetadata
	}
	return below
}

// Sift reads an object without decoding it: by the kind of its Go type, or as it comes where
// that is nil. It reports true where Decode or Content would decode it, and then returns
// what these would look at, which is the object itself or in room, and what it says of
// itself in h. A typed object is left without its TypeMeta. Sift also gives up at some
// things that Decode understands, such as an escape in the name of the object.
func (d *Run) Sift(kind *Kind, h *head.Head, i frame.Item, room *[]byte) (kept []byte, ok bool) {
	d.walk, d.Budget = walk{Item: i}, guard.BudgetOf(len(i.Raw))
	s := &d.sieve
	s.head, s.out, s.done, s.cut, s.metadata = h, (*room)[:0], 0, false, false
	defer func() {
		d.walk = walk{}
		s.head, s.out = nil, nil
		s.text = idle(s.text)
	}()
	var err error
	if kind != nil {
		err = d.siftFields(kind.table, atRoot)
	} else {
		err = d.siftObject(d.free.wanted, atRoot)
	}
	if err != nil {
		return nil, false
	}
	if !s.cut {
		return i.Raw, true
	}
	*room = append(s.out, i.Raw[s.done:]...)
	return *room, d.Budget.Take(len(i.Raw)-len(*room), guard.MemoryPerByte) // what is kept counts as all that there is
}

// idleText is the largest buffer, in bytes, that is kept between objects.
const idleText = 1 << 12

// idle is a buffer that is kept between objects, if it is not too large.
func idle(b []byte) []byte {
	if cap(b) > idleText {
		return nil
	}
	return b[:0]
}

// leave leaves out the bytes from start to end.
func (d *Run) leave(start, end int) {
	s := &d.sieve
	s.out = append(s.out, d.Raw[s.done:start]...)
	s.done, s.cut = end, true
}

// row is the fields of an object as they are sifted: between those that stay there is one
// comma.
type row struct {
	end   int // of the field before, or where the fields begin
	stay  bool
	leave bool
}

// stays is called at a field that stays, before its value.
func (d *Run) stays(r *row, start int) {
	if r.leave && !r.stay {
		d.leave(r.end, start)
	}
	r.stay = true
}

// leaves is called behind a field that does not stay.
func (d *Run) leaves(r *row) {
	d.leave(r.end, d.at)
	r.leave = true
}

// sift is value for a sieve.
func (d *Run) sift(k *Kind, at level) error {
	c := d.peek()
	if c == 'n' && k.op > opQuantity {
		return d.word("null")
	}
	switch k.op {
	case opString:
		return d.siftText()
	case opStruct:
		return d.siftFields(k.table, at)
	case opPointer:
		if !d.Budget.Take(1, int64(k.elem.size)) {
			return fault.ErrUnusual
		}
		return d.sift(k.elem, below)
	case opSlice:
		return d.siftSlice(k)
	case opMap:
		return d.siftMap(k)
	case opBool:
		if c == 't' {
			return d.word("true")
		}
		return d.word("false")
	case opInt, opUint, opFloat:
		return d.digits(k, unsafe.Pointer(&d.sieve.number))
	case opBytes:
		return d.siftBase64()
	case opAny:
		return d.siftAny(nil, below)
	case opTime:
		return d.time(&d.sieve.time)
	case opQuantity:
		return d.siftQuantity()
	case opUnknown:
		return fault.ErrUnusual
	}
	return d.siftForeign(k)
}

func (d *Run) siftSlice(k *Kind) error {
	if d.peek() != '[' {
		return fault.ErrUnusual
	}
	for more := d.enter(']'); more; {
		if !d.Budget.Take(1, int64(k.elem.size)) {
			return fault.ErrUnusual
		}
		err := d.sift(k.elem, below)
		if err != nil {
			return err
		}
		if more, err = d.more(']'); err != nil {
			return err
		}
	}
	return nil
}

func (d *Run) siftMap(k *Kind) error {
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
		err := d.siftText()
		if err == nil {
			err = d.colon()
		}
		if err == nil {
			err = d.sift(k.elem, below)
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

func (d *Run) siftText() error {
	text, plain, err := d.walk.text()
	if err != nil || plain {
		return err
	}
	s := &d.sieve
	text, err = unescape(s.text[:0], text)
	if err == nil {
		s.text = text
	}
	return err
}

func (d *Run) siftBase64() error {
	text, plain, err := d.walk.text()
	if err != nil || !plain {
		return fault.ErrUnusual
	}
	s := &d.sieve
	s.text = slices.Grow(s.text[:0], base64.StdEncoding.DecodedLen(len(text)))
	_, err = base64.StdEncoding.Decode(s.text[:cap(s.text)], text)
	return fault.Unusual(err)
}

// siftQuantity is quantity for a sieve.
func (d *Run) siftQuantity() error {
	if start := d.at; d.peek() == '"' {
		if text, plain, err := d.walk.text(); err == nil && plain && guard.PlainQuantity(text) {
			return nil
		}
		d.at = start
	}
	return d.quantity(&d.sieve.quantity)
}

// siftForeign is foreign for a sieve.
func (d *Run) siftForeign(k *Kind) error {
	switch k.typ {
	case reflect.TypeFor[metav1.FieldsV1](): // takes anything
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
	return d.foreign(k, reflect.New(k.typ).UnsafePointer())
}

// siftFields is fields for a sieve.
func (d *Run) siftFields(t *table, at level) error {
	if d.peek() != '{' {
		return fault.ErrUnusual
	}
	var seen [maxFields / 64]uint64
	place := t.start
	more := d.enter('}')
	for r := (row{end: d.at}); more; {
		d.peek()
		start := d.at
		f, err := d.field(t, place)
		if err != nil {
			return err
		}
		var stays bool
		if f != nil {
			word, bit := f.number/64, uint64(1)<<(f.number%64)
			if seen[word]&bit != 0 {
				return fault.ErrUnusual
			}
			seen[word] |= bit
			place = f.place
			stays = at != atRoot || f.name != "apiVersion" && f.name != "kind"
		}
		if stays {
			d.stays(&r, start)
		}
		switch {
		case f == nil:
			err = d.skip()
		case at == below:
			err = d.sift(f.kind, below)
		default:
			d.peek()
			start := d.at
			if err = d.sift(f.kind, at.of(f.name)); err == nil {
				err = d.noteField(at, f.name, d.Raw[start:d.at], !f.kind.partly)
			}
		}
		if err != nil {
			return err
		}
		if !stays {
			d.leaves(&r)
		}
		r.end = d.at
		if more, err = d.more('}'); err != nil {
			return err
		}
	}
	return nil
}
