package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/wire/internal/pack"
)

// ErrKeptWhole means that a packed object cannot be archived, since bytes cannot give it
// back: it is there as an object.
var ErrKeptWhole = errors.New("bytes cannot give the object back as it is")

// Archive writes packed objects so that the packer of another process can take them back
// without decoding any (see Packer.Extract). What objects have in common is written with the
// first that needs it, so that they are to be read in the same order. It belongs to one
// goroutine. The zero Archive has written nothing.
type Archive struct {
	texts   pack.Archive
	begun   bool
	metas   map[*sharedMeta]uint64 // their numbers, from 1
	layouts map[*layout]uint64     // likewise
}

// Append appends o. It fails with an *Error that wraps ErrKeptWhole, or ErrDamaged where that
// is known of o.
func (a *Archive) Append(dst []byte, o *Packed) ([]byte, error) {
	switch fail := (&Error{Media: mediaPacked, Where: "object", Key: keyOf(o.GetNamespace(), o.GetName())}); {
	case o.meta.unpacked != nil:
		fail.Err = ErrKeptWhole
		return dst, fail
	case o.lost.Load():
		fail.Err = ErrDamaged
		return dst, fail
	}
	if !a.begun {
		a.begun = true
		dst = pack.AppendString(dst, o.by.atHand())
	}
	dst, err := a.appendMeta(dst, o.meta)
	if err != nil {
		return dst, err
	}
	for _, end := range []uint32{o.name, o.uid, o.rv} {
		dst = binary.AppendUvarint(dst, uint64(end))
	}
	return a.texts.Append(dst, o.text), nil
}

// atHand names the annotations that are kept at hand.
func (p *Packer) atHand() string { return strings.Join(p.annotations, ",") }

func (a *Archive) appendMeta(dst []byte, m *sharedMeta) ([]byte, error) {
	number, ok := a.metas[m]
	if ok {
		return binary.AppendUvarint(dst, number), nil
	}
	if a.metas == nil {
		a.metas = make(map[*sharedMeta]uint64)
	}
	number = uint64(len(a.metas) + 1)
	a.metas[m] = number
	dst = binary.AppendUvarint(dst, number)
	dst = a.appendLayout(dst, m.layout)
	dst = pack.AppendString(pack.AppendString(dst, m.firstName), m.namespace)
	labels := m.allLabels(m.firstName)
	dst = appendLength(dst, len(labels), labels == nil)
	for key, value := range labels {
		dst = pack.AppendString(pack.AppendString(dst, key), value)
	}
	dst = appendLength(dst, len(m.owners), m.owners == nil)
	for i := range m.owners {
		owner, err := m.owners[i].Marshal()
		if err != nil {
			return dst, err
		}
		dst = pack.AppendString(dst, owner)
	}
	if m.deleted == nil {
		return append(dst, 0), nil
	}
	return binary.AppendUvarint(append(dst, 1), uint64(m.deleted.Unix())), nil
}

func (a *Archive) appendLayout(dst []byte, l *layout) []byte {
	number, ok := a.layouts[l]
	if ok {
		return binary.AppendUvarint(dst, number)
	}
	if a.layouts == nil {
		a.layouts = make(map[*layout]uint64)
	}
	number = uint64(len(a.layouts) + 1)
	a.layouts[l] = number
	dst = append(binary.AppendUvarint(dst, number), byte(l.code))
	for _, s := range []string{l.kind.Group, l.kind.Version, l.kind.Kind} {
		dst = pack.AppendString(dst, s)
	}
	return dst
}

// appendLength appends a length, with none told from zero.
func appendLength(dst []byte, n int, none bool) []byte {
	if none {
		return append(dst, 0)
	}
	return binary.AppendUvarint(dst, uint64(n)+1)
}

// Extract returns the objects that an Archive wrote, n of them, which must be all of raw. They
// are of a Go type, a pointer that is an object.Object. Nothing is decoded, and nothing of raw is kept. It
// fails with an *Error that wraps ErrDamaged where raw is not what an Archive wrote; what is
// inside of an object shows only when that is opened.
func (p *Packer) Extract(raw []byte, n int, goType reflect.Type) ([]*Packed, error) {
	if want := reflect.TypeFor[object.Object](); goType == nil || goType.Kind() != reflect.Pointer || !goType.AssignableTo(want) {
		return nil, &Error{Media: mediaPacked, Where: "archive", Err: fmt.Errorf("%w: its objects are to be %v, which are no %v", ErrDamaged, goType, want)}
	}
	return p.extract(raw, n, &extract{goType: goType.Elem()})
}

func (p *Packer) extract(raw []byte, n int, x *extract) ([]*Packed, error) {
	x.by, x.in = p, p.shelf.NewExtract(raw)
	if n < 0 {
		return nil, &Error{Media: mediaPacked, Where: "archive", Bytes: len(raw), Err: fmt.Errorf("%w: %d objects", ErrDamaged, n)}
	}
	if n > 0 {
		if have := string(x.in.Bytes()); have != p.atHand() && !x.any {
			return nil, &Error{Media: mediaPacked, Where: "archive", Bytes: len(raw), Err: fmt.Errorf("%w: its objects have the annotations %.200q at hand, want %.200q", ErrDamaged, have, p.atHand())}
		}
	}
	objects := make([]*Packed, 0, min(n, len(raw)))
	for range n {
		o, err := x.object()
		if err != nil {
			return nil, &Error{Media: mediaPacked, Where: whereItem(len(objects)), Bytes: len(raw), Err: err}
		}
		objects = append(objects, o)
	}
	if x.in.Left() > 0 {
		return nil, &Error{Media: mediaPacked, Where: "archive", Bytes: len(raw), Err: fmt.Errorf("%w: %d bytes behind the last object", ErrDamaged, x.in.Left())}
	}
	return objects, nil
}

// ArchivedHeads returns the heads of the objects that an Archive wrote, whatever they are
// themselves. It fails as Extract does.
func ArchivedHeads(raw []byte, n int) ([]object.Head, error) {
	p := NewPacker(nil)
	objects, err := p.extract(raw, n, &extract{any: true, goType: reflect.TypeFor[metav1.PartialObjectMetadata]()})
	heads := make([]object.Head, len(objects))
	for i, o := range objects {
		heads[i] = o
	}
	return heads, err
}

// usualCommon is more labels or owners than an object has as a rule. Room for more is made
// when they are there: a damaged length is not believed.
const usualCommon = 16

// extract reads an archive.
type extract struct {
	any     bool // nothing is to be read but metadata, so that any type will do
	by      *Packer
	in      *pack.Extract
	goType  reflect.Type // what an object points to
	metas   []*sharedMeta
	layouts []*layout
}

func (x *extract) object() (*Packed, error) {
	m, err := x.meta()
	if err != nil {
		return nil, err
	}
	name, uid, rv := x.in.Uvarint(), x.in.Uvarint(), x.in.Uvarint()
	text, err := x.in.Text(m.group)
	if err != nil {
		return nil, err
	}
	if name == 0 || name > uid || uid > rv || rv > uint64(len(text.Prefix())) {
		return nil, fmt.Errorf("%w: the name of an object", ErrDamaged)
	}
	return &Packed{by: x.by, meta: m, text: text, ends: ends{uint32(name), uint32(uid), uint32(rv)}}, nil
}

func (x *extract) meta() (*sharedMeta, error) {
	number := x.in.Uvarint()
	if 0 < number && number <= uint64(len(x.metas)) {
		return x.metas[number-1], nil
	}
	l, err := x.layout()
	if err != nil {
		return nil, err
	}
	var common metav1.PartialObjectMetadata
	common.Name, common.Namespace = string(x.in.Bytes()), string(x.in.Bytes())
	if n, none := x.length(); !none {
		common.Labels = make(map[string]string, min(n, usualCommon))
		for range n {
			key := string(x.in.Bytes())
			common.Labels[key] = string(x.in.Bytes())
		}
	}
	if n, none := x.length(); !none {
		common.OwnerReferences = make([]metav1.OwnerReference, 0, min(n, usualCommon))
		for range n {
			var owner metav1.OwnerReference
			if owner.Unmarshal(x.in.Bytes()) != nil || x.in.Failed() {
				return nil, fmt.Errorf("%w: an owner", ErrDamaged)
			}
			common.OwnerReferences = append(common.OwnerReferences, owner)
		}
	}
	if x.in.Byte() != 0 {
		common.DeletionTimestamp = new(metav1.Unix(int64(x.in.Uvarint()), 0))
	}
	if x.in.Failed() || number != uint64(len(x.metas)+1) {
		return nil, fmt.Errorf("%w: what objects have in common", ErrDamaged)
	}
	m := x.by.metas.intern(l, headOf(&common))
	x.metas = append(x.metas, m)
	return m, nil
}

func (x *extract) layout() (*layout, error) {
	number := x.in.Uvarint()
	if 0 < number && number <= uint64(len(x.layouts)) {
		return x.layouts[number-1], nil
	}
	code := code(x.in.Byte())
	kind := object.GVK{Group: string(x.in.Bytes()), Version: string(x.in.Bytes()), Kind: string(x.in.Bytes())}
	if x.in.Failed() || number != uint64(len(x.layouts)+1) {
		return nil, fmt.Errorf("%w: a type", ErrDamaged)
	}
	goType := x.goType
	if x.any && code == codeTree {
		goType = reflect.TypeFor[unstructured.Unstructured]()
	}
	o, ok := reflect.New(goType).Interface().(object.Object)
	if !ok {
		return nil, fmt.Errorf("%w: a %v is not an object", ErrDamaged, goType)
	}
	if !x.any && (!fits(code, o) || code == codeTree && !kind.Empty()) {
		return nil, fmt.Errorf("%w: %v is written in another way", ErrDamaged, goType)
	}
	l := x.by.layouts.get(goType, kind, code)
	x.layouts = append(x.layouts, l)
	return l, nil
}

// length reads what appendLength wrote. Each of that many takes a byte at least.
func (x *extract) length() (n int, none bool) {
	length := x.in.Uvarint()
	if length == 0 || length-1 > uint64(x.in.Left()) {
		return 0, true
	}
	return int(length - 1), false
}
