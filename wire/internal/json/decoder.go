package json

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"reflect"
	"strconv"
	"time"
	"unsafe"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kjson "sigs.k8s.io/json"

	"github.com/millrace-dev/millrace/wire/internal/fault"
	"github.com/millrace-dev/millrace/wire/internal/frame"
	"github.com/millrace-dev/millrace/wire/internal/guard"
	"github.com/millrace-dev/millrace/wire/internal/memory"
	"github.com/millrace-dev/millrace/wire/internal/selection"
	"github.com/millrace-dev/millrace/wire/internal/share"
)

// Decoder decodes JSON objects one after another: typed objects with the [TypeInfo] of their Go
// type, others as maps (see untypedDecoder). It is not safe for concurrent use.
//
// It handles the forms that API servers write. For anything else, valid or not, it gives up with ErrUnusual,
// and the reference decodes the object from scratch. It can therefore treat unusual input and invalid input
// alike.
type Decoder struct {
	walk
	share.Sharer
	untyped   untypedDecoder
	text      memory.Text
	backing   backing
	unescaped []byte // strings in the object that contained escapes
	filter    filter

	Versions bool // the input may contain several versions of the same object

	// The most recent value of each field, indexed by the field's place. It is kept because values often
	// repeat.
	nextField []*tableField            // the next field
	texts     memory.WeakTable[string] // the field's text, if many objects have the same one
}

// backing is memory that the current part will keep alive: a copy of the item's bytes from start onward.
// Strings may point into it.
type backing struct {
	raw         []byte
	start       int
	copyStrings bool // there is no such memory; strings are allocated one by one
}

// NewDecoder returns a decoder for objects with the wanted fields. The TypeInfo of typed objects
// must be for the same selection.
func NewDecoder(pool *share.Pool, wanted *selection.Tree) *Decoder {
	d := &Decoder{Sharer: share.Sharer{Pool: pool}}
	d.untyped = untypedDecoder{walk: &d.walk, Sharer: share.Sharer{Pool: pool}, paths: newPaths(wanted)}
	return d
}

// Decode decodes i into the zeroed struct at at. After an error the struct must not be used.
func (d *Decoder) Decode(info *TypeInfo, at unsafe.Pointer, i frame.Item) error {
	d.begin(i)
	err := d.value(info, at)
	return d.end(err)
}

// DecodeUntyped is like Decode, but for objects without a Go type.
func (d *Decoder) DecodeUntyped(i frame.Item) (map[string]any, error) {
	d.begin(i)
	v, err := d.untyped.value(d.untyped.root)
	m, ok := v.(map[string]any)
	if err == nil && !ok {
		err = fault.ErrUnusual
	}
	return m, d.end(err)
}

func (d *Decoder) begin(i frame.Item) {
	d.walk = walk{Item: i}
	d.backing = backing{}
	d.unescaped = nil
	object := d.nextObject()
	d.Sharer.BeginObject(object, len(i.Raw))
	d.untyped.Sharer.BeginObject(object, len(i.Raw))
	d.untyped.begin()
}

// nextObject returns the number of the next object to decode.
func (d *Decoder) nextObject() uint8 {
	if !d.Versions || d.Pool == nil {
		return d.NextObject()
	}
	return d.ObjectNamed(nameOf(d.Item))
}

// end finishes an object, or discards it if err is not nil.
func (d *Decoder) end(err error) error {
	if err == nil {
		d.text.Commit()
	} else {
		d.text.Discard()
	}
	d.walk, d.unescaped = walk{}, nil
	d.texts.Release()
	d.EndObject()
	d.untyped.end()
	return err
}

// value decodes a value of type k into the zeroed memory at at.
func (d *Decoder) value(k *TypeInfo, at unsafe.Pointer) error {
	c := d.peek()
	if c == 'n' && k.op > opQuantity {
		return d.literal("null")
	}
	switch k.op {
	case opString:
		return d.string((*string)(at))
	case opStruct:
		return d.fields(k.table, at)
	case opPointer, opSlice, opMap:
		return d.part(k, at)
	case opBool:
		*(*bool)(at) = c == 't'
		if c == 't' {
			return d.literal("true")
		}
		return d.literal("false")
	case opInt, opUint, opFloat:
		return d.digits(k, at)
	case opBytes:
		return d.base64((*[]byte)(at))
	case opAny:
		return d.any((*any)(at))
	case opTime:
		return d.time((*metav1.Time)(at))
	case opQuantity:
		return d.quantity((*resource.Quantity)(at))
	}
	if k.op == opUnknown {
		return fault.ErrUnusual
	}
	return d.unmarshalOther(k, at)
}

// fields decodes an object into the struct at at.
func (d *Decoder) fields(t *table, at unsafe.Pointer) error {
	if d.peek() != '{' {
		return fault.ErrUnusual
	}
	var seen [maxFields / 64]uint64
	place := t.start
	for more := d.enter('}'); more; {
		f, err := d.field(t, place)
		if err != nil {
			return err
		}
		if f == nil {
			err = d.skip()
		} else {
			word, bit := f.number/64, uint64(1)<<(f.number%64)
			if seen[word]&bit != 0 {
				return fault.ErrUnusual // the reference merges the second one into the first
			}
			seen[word] |= bit
			place = f.place
			into := unsafe.Add(at, f.offset)
			if f.share != nil && d.peek() == '"' {
				err = d.fieldText(f, (*string)(into))
			} else {
				err = d.value(f.typeInfo, into)
			}
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

// field reads a name and the colon after it, and returns the field with that name, or nil. place is
// the previous field's place.
func (d *Decoder) field(t *table, place int) (*tableField, error) {
	if d.peek() != '"' {
		return nil, fault.ErrUnusual
	}
	for place >= len(d.nextField) {
		d.nextField = append(d.nextField, nil)
	}
	if f := d.nextField[place]; f != nil {
		rest := d.Raw[d.at+1:]
		if l := len(f.name); l < len(rest) && rest[l] == '"' && string(rest[:l]) == f.name {
			d.at += l + 2
			return f, d.colon()
		}
	}
	name, plain, err := d.walk.text()
	if err != nil || !plain {
		return nil, fault.ErrUnusual
	}
	f := t.byName[string(name)]
	if f != nil {
		d.nextField[place] = f
	}
	return f, d.colon()
}

// fieldText reads the text in a field whose values often repeat.
func (d *Decoder) fieldText(f *tableField, at *string) error {
	text, plain, err := d.walk.text()
	if err != nil {
		return err
	}
	if !plain {
		return d.keepText(at, text, plain)
	}
	usual := d.texts.At(f.place)
	if string(text) == *usual {
		*at = *usual
		return nil
	}
	if w := share.Word(text); w != "" {
		*at, *usual = w, w
		return nil
	}
	if d.backing.raw != nil || !d.Worthwhile(f.share, len(text)) {
		return d.keepText(at, text, true)
	}
	found, n, hash, keep := d.Find(f.share, text)
	switch {
	case found != nil:
		*at = unsafe.String((*byte)(found), n)
		*usual = *at
	case keep:
		*at = d.Pool.RememberString(hash, text)
	default:
		return d.keepText(at, text, true)
	}
	return nil
}

func (d *Decoder) string(at *string) error {
	text, plain, err := d.walk.text()
	if err != nil {
		return err
	}
	return d.keepText(at, text, plain)
}

// keepText stores text that was just read.
func (d *Decoder) keepText(at *string, text []byte, plain bool) (err error) {
	switch {
	case plain && d.backing.raw != nil:
		// The text ends one byte before d.at, at the quote.
		end := d.at - 1 - d.backing.start
		*at = memory.String(d.backing.raw[end-len(text) : end])
	case plain && d.backing.copyStrings:
		*at = string(text)
	case plain:
		d.text.SetString(at, text)
	case d.backing.copyStrings || d.backing.raw != nil:
		text, err = unescape(nil, text)
		*at = string(text)
	default:
		text, err = d.unescape(text)
		d.text.SetString(at, text)
	}
	return err
}

// unescape unescapes text into memory that is retained until the object has been decoded.
func (d *Decoder) unescape(text []byte) ([]byte, error) {
	start := len(d.unescaped)
	all, err := unescape(d.unescaped, text)
	if err != nil {
		return nil, err
	}
	d.unescaped = all
	return all[start:], nil
}

func (d *Decoder) digits(k *TypeInfo, at unsafe.Pointer) error {
	text, whole, err := d.number()
	if err != nil {
		return err
	}
	if k.op == opFloat {
		v, err := strconv.ParseFloat(memory.String(text), k.bits)
		if err != nil {
			return fault.ErrUnusual
		}
		if k.bits == 32 {
			*(*float32)(at) = float32(v)
		} else {
			*(*float64)(at) = v
		}
		return nil
	}
	if !whole {
		return fault.ErrUnusual
	}
	v, err := wholeNumber(text)
	if err != nil || k.op == opUint && (text[0] == '-' || k.bits < 64 && v>>k.bits != 0) ||
		k.op == opInt && v<<(64-k.bits)>>(64-k.bits) != v {
		return fault.ErrUnusual
	}
	switch k.bits {
	case 8:
		*(*int8)(at) = int8(v)
	case 16:
		*(*int16)(at) = int16(v)
	case 32:
		*(*int32)(at) = int32(v)
	default:
		*(*int64)(at) = v
	}
	return nil
}

func (d *Decoder) base64(at *[]byte) error {
	text, plain, err := d.walk.text()
	if err != nil || !plain {
		return fault.ErrUnusual
	}
	data := make([]byte, base64.StdEncoding.DecodedLen(len(text)))
	n, err := base64.StdEncoding.Decode(data, text)
	*at = data[:n:n]
	return fault.Unusual(err)
}

// time is like metav1.Time.UnmarshalJSON, but with fewer allocations.
func (d *Decoder) time(at *metav1.Time) error {
	if d.peek() == 'n' {
		return d.literal("null")
	}
	text, plain, err := d.walk.text()
	if err != nil || !plain {
		return fault.ErrUnusual
	}
	t, err := time.Parse(time.RFC3339, memory.String(text))
	if err != nil {
		return fault.ErrUnusual
	}
	at.Time = t.Local()
	return nil
}

// quantity decodes a quantity. It fails if parsing would take too long.
func (d *Decoder) quantity(at *resource.Quantity) error {
	d.peek()
	start := d.at
	if err := d.skip(); err != nil {
		return err
	}
	raw := d.Raw[start:d.at]
	if bytes.IndexByte(raw, '\\') >= 0 || guard.AbsurdQuantity(bytes.Trim(raw, `"`)) {
		return fault.ErrUnusual
	}
	return fault.Unusual(at.UnmarshalJSON(raw))
}

// unmarshalOther decodes a value using its own method or the reference.
func (d *Decoder) unmarshalOther(k *TypeInfo, at unsafe.Pointer) error {
	d.peek()
	start := d.walk
	if err := d.skip(); err != nil {
		return err
	}
	if k.guard != nil {
		c := check{walk: start, budget: d.Budget}
		if c.value(k.guard) != nil {
			return fault.ErrUnusual
		}
		d.Budget = c.budget
	}
	raw := d.Raw[start.at:d.at:d.at]
	value := reflect.NewAt(k.typ, at)
	var err error
	if into := value.Interface(); k.op == opUnmarshaler {
		err = into.(json.Unmarshaler).UnmarshalJSON(raw)
	} else {
		err = kjson.UnmarshalCaseSensitivePreserveInts(raw, into)
	}
	memory.Clip(value.Elem())
	return fault.Unusual(err)
}

// any decodes a value into an any.
func (d *Decoder) any(at *any) (err error) {
	f := &d.untyped
	f.ContinueFrom(&d.Sharer)
	*at, err = f.value(f.embedded)
	d.ContinueFrom(&f.Sharer)
	return err
}
