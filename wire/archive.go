package wire

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/wire/internal/pack"
)

// ErrKeptWhole is returned for a packed object that cannot be archived because its bytes would not decode
// to an equal object. The packer keeps the object itself instead.
var ErrKeptWhole = errors.New("the bytes would not decode to an equal object")

// An Archive writes packed objects in a form that a [Packer] in another process can load without decoding
// them; see [Packer.Extract]. Metadata shared by several objects is written along with the first one, so
// objects must be read in the order in which they were written. An Archive is not safe for concurrent use.
// The zero Archive is ready to use.
type Archive struct {
	texts   pack.Archive
	started bool
	metas   map[*sharedMeta]uint64 // numbered from 1
	codecs  map[*codec]uint64      // numbered from 1
}

// Append appends o to dst. The error is an [*Error] that wraps [ErrKeptWhole], or [ErrDamaged] if o
// is known to be corrupt.
func (a *Archive) Append(dst []byte, o *Packed) ([]byte, error) {
	switch fail := (&Error{Media: mediaPacked, Where: "object", Key: keyOf(o.GetNamespace(), o.GetName())}); {
	case o.meta.unpacked != nil:
		fail.Err = ErrKeptWhole
		return dst, fail
	case o.damaged.Load():
		fail.Err = ErrDamaged
		return dst, fail
	}
	if !a.started {
		a.started = true
		dst = pack.AppendString(dst, o.packer.annotationKeys())
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

// annotationKeys returns the keys of the annotations that can be read without decoding.
func (p *Packer) annotationKeys() string { return strings.Join(p.annotations, ",") }

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
	dst = a.appendCodec(dst, m.codec)
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

func (a *Archive) appendCodec(dst []byte, c *codec) []byte {
	number, ok := a.codecs[c]
	if ok {
		return binary.AppendUvarint(dst, number)
	}
	if a.codecs == nil {
		a.codecs = make(map[*codec]uint64)
	}
	number = uint64(len(a.codecs) + 1)
	a.codecs[c] = number
	dst = append(binary.AppendUvarint(dst, number), byte(c.format))
	for _, s := range []string{c.kind.Group, c.kind.Version, c.kind.Kind} {
		dst = pack.AppendString(dst, s)
	}
	return dst
}

// appendLength appends a length. If none is set, it encodes a nil value rather than an empty one.
func appendLength(dst []byte, n int, none bool) []byte {
	if none {
		return append(dst, 0)
	}
	return binary.AppendUvarint(dst, uint64(n)+1)
}

// Extract returns the n objects that an [Archive] wrote to raw. goType is their Go type, a pointer
// that implements [object.Object]. Extract does not decode the objects and does not retain raw. It
// fails with an [*Error] that wraps [ErrDamaged] if raw was not written by an Archive. Corruption
// inside an object is detected only when the object is opened.
func (p *Packer) Extract(raw []byte, n int, goType reflect.Type) ([]*Packed, error) {
	if want := reflect.TypeFor[object.Object](); goType == nil || goType.Kind() != reflect.Pointer || !goType.AssignableTo(want) {
		return nil, &Error{Media: mediaPacked, Where: "archive", Err: fmt.Errorf("%w: cannot extract %v: it does not implement %v", ErrDamaged, goType, want)}
	}
	return p.extract(raw, n, &archiveReader{goType: goType.Elem()})
}

func (p *Packer) extract(raw []byte, n int, x *archiveReader) ([]*Packed, error) {
	x.packer, x.in = p, p.compressor.NewArchiveReader(raw)
	if n < 0 {
		return nil, &Error{Media: mediaPacked, Where: "archive", Bytes: len(raw), Err: fmt.Errorf("%w: %d objects", ErrDamaged, n)}
	}
	if n > 0 {
		if have := string(x.in.Bytes()); have != p.annotationKeys() && !x.headsOnly {
			return nil, &Error{Media: mediaPacked, Where: "archive", Bytes: len(raw), Err: fmt.Errorf("%w: its objects keep the annotations %.200q, want %.200q", ErrDamaged, have, p.annotationKeys())}
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
		return nil, &Error{Media: mediaPacked, Where: "archive", Bytes: len(raw), Err: fmt.Errorf("%w: %d bytes after the last object", ErrDamaged, x.in.Left())}
	}
	return objects, nil
}

// ArchivedHeads returns the heads of the n objects that an [Archive] wrote to raw, regardless of
// their Go type. It returns the same errors as [Packer.Extract].
func ArchivedHeads(raw []byte, n int) ([]object.Head, error) {
	p := NewPacker(nil)
	objects, err := p.extract(raw, n, &archiveReader{headsOnly: true, goType: reflect.TypeFor[metav1.PartialObjectMetadata]()})
	heads := make([]object.Head, len(objects))
	for i, o := range objects {
		heads[i] = o
	}
	return heads, err
}

// initialCommon is the initial capacity for labels and owners, which is enough for most objects. Slices
// grow beyond it only as elements are read, because the stored length may be corrupt.
const initialCommon = 16

// archiveReader reads an archive.
type archiveReader struct {
	headsOnly bool // only metadata is read, so any type will do
	packer    *Packer
	in        *pack.ArchiveReader
	goType    reflect.Type // the pointer's element type
	metas     []*sharedMeta
	codecs    []*codec
}

func (x *archiveReader) object() (*Packed, error) {
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
		return nil, fmt.Errorf("%w: invalid object name", ErrDamaged)
	}
	return &Packed{packer: x.packer, meta: m, text: text, headEnds: headEnds{uint32(name), uint32(uid), uint32(rv)}}, nil
}

func (x *archiveReader) meta() (*sharedMeta, error) {
	number := x.in.Uvarint()
	if 0 < number && number <= uint64(len(x.metas)) {
		return x.metas[number-1], nil
	}
	c, err := x.codec()
	if err != nil {
		return nil, err
	}
	var common metav1.PartialObjectMetadata
	common.Name, common.Namespace = string(x.in.Bytes()), string(x.in.Bytes())
	if n, none := x.length(); !none {
		common.Labels = make(map[string]string, min(n, initialCommon))
		for range n {
			key := string(x.in.Bytes())
			common.Labels[key] = string(x.in.Bytes())
		}
	}
	if n, none := x.length(); !none {
		common.OwnerReferences = make([]metav1.OwnerReference, 0, min(n, initialCommon))
		for range n {
			var owner metav1.OwnerReference
			if owner.Unmarshal(x.in.Bytes()) != nil || x.in.Failed() {
				return nil, fmt.Errorf("%w: invalid owner", ErrDamaged)
			}
			common.OwnerReferences = append(common.OwnerReferences, owner)
		}
	}
	if x.in.Byte() != 0 {
		common.DeletionTimestamp = new(metav1.Unix(int64(x.in.Uvarint()), 0))
	}
	if x.in.Failed() || number != uint64(len(x.metas)+1) {
		return nil, fmt.Errorf("%w: invalid shared metadata", ErrDamaged)
	}
	m := x.packer.metas.intern(c, headOf(&common))
	x.metas = append(x.metas, m)
	return m, nil
}

func (x *archiveReader) codec() (*codec, error) {
	number := x.in.Uvarint()
	if 0 < number && number <= uint64(len(x.codecs)) {
		return x.codecs[number-1], nil
	}
	format := format(x.in.Byte())
	kind := object.GVK{Group: string(x.in.Bytes()), Version: string(x.in.Bytes()), Kind: string(x.in.Bytes())}
	if x.in.Failed() || number != uint64(len(x.codecs)+1) {
		return nil, fmt.Errorf("%w: invalid type", ErrDamaged)
	}
	goType := x.goType
	if x.headsOnly && format == formatTree {
		goType = reflect.TypeFor[unstructured.Unstructured]()
	}
	o, ok := reflect.New(goType).Interface().(object.Object)
	if !ok {
		return nil, fmt.Errorf("%w: a %v is not an object", ErrDamaged, goType)
	}
	if !x.headsOnly && (!formatFits(format, o) || format == formatTree && !kind.Empty()) {
		return nil, fmt.Errorf("%w: %v was archived in another format", ErrDamaged, goType)
	}
	c := x.packer.codecs.get(goType, kind, format)
	x.codecs = append(x.codecs, c)
	return c, nil
}

// length reads a length written by appendLength. It fails if the length exceeds the number of bytes left,
// because each element takes at least one byte.
func (x *archiveReader) length() (n int, none bool) {
	length := x.in.Uvarint()
	if length == 0 || length-1 > uint64(x.in.Left()) {
		return 0, true
	}
	return int(length - 1), false
}

// TypeFingerprint returns a string that changes whenever the objects' Go type does, that is, whenever the
// type is renamed or the name, type or tag of a field changes at any depth. A program can extract objects
// archived by another program if the fingerprints are equal.
func TypeFingerprint(goType reflect.Type) string {
	hash := sha256.New()
	fingerprint{hash, make(map[reflect.Type]int)}.write(goType)
	return hex.EncodeToString(hash.Sum(nil)[:12])
}

// fingerprint describes types, each only once.
type fingerprint struct {
	to   io.Writer
	seen map[reflect.Type]int
}

func (s fingerprint) write(t reflect.Type) {
	if n, ok := s.seen[t]; ok {
		fmt.Fprintf(s.to, "#%d;", n)
		return
	}
	s.seen[t] = len(s.seen)
	fmt.Fprintf(s.to, "%s %s.%s(", t.Kind(), t.PkgPath(), t.Name())
	switch t.Kind() {
	case reflect.Array:
		fmt.Fprint(s.to, t.Len())
		s.write(t.Elem())
	case reflect.Pointer, reflect.Slice:
		s.write(t.Elem())
	case reflect.Map:
		s.write(t.Key())
		s.write(t.Elem())
	case reflect.Struct:
		for i := range t.NumField() {
			f := t.Field(i)
			fmt.Fprintf(s.to, "%q %q ", f.Name, f.Tag)
			s.write(f.Type)
		}
	}
	fmt.Fprint(s.to, ");")
}
