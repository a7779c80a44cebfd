package wire

import (
	"encoding/binary"
	"fmt"
	"reflect"
	"slices"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/wire/internal/memory"
	"github.com/millrace-dev/millrace/wire/internal/pack"
)

// Packed is an object kept as compressed bytes. Its head can be read at any time; [Packed.Open]
// decodes the object. Packed objects are created by a [Packer]. The content never changes. A Packed
// is safe for concurrent use.
type Packed struct {
	packer *Packer
	meta   *sharedMeta
	text   pack.Text // name, UID, resource version and packedRest, then the object
	headEnds
	damaged atomic.Bool // set when corruption is detected
	opened  memory.Weak
}

// Type returns the object's Go type, a pointer.
func (o *Packed) Type() reflect.Type { return reflect.PointerTo(o.meta.codec.goType) }

// GetNamespace returns the namespace.
func (o *Packed) GetNamespace() string { return o.meta.namespace }

// GetName returns the name. The string shares memory with the object.
func (o *Packed) GetName() string { return o.text.Prefix()[:o.name] }

// GetUID returns the UID.
func (o *Packed) GetUID() types.UID { return types.UID(o.text.Prefix()[o.name:o.uid]) }

// GetResourceVersion returns the resource version.
func (o *Packed) GetResourceVersion() string {
	if o.damaged.Load() {
		return ""
	}
	return o.text.Prefix()[o.uid:o.rv]
}

// GetGeneration returns the generation.
func (o *Packed) GetGeneration() int64 { return packedRest(o.text.Prefix()[o.rv:]).generation() }

// GetDeletionTimestamp returns the time of the deletion request, or nil. It may be shared with
// other objects.
func (o *Packed) GetDeletionTimestamp() *metav1.Time { return o.meta.deleted }

// GetLabels returns the labels, which other objects may share. It allocates a map if one of the
// labels has the object's name as its value; [Packed.Labels] does not.
func (o *Packed) GetLabels() map[string]string { return o.meta.allLabels(o.GetName()) }

// Labels returns the labels in the form that selectors match against. See [object.Labels].
func (o *Packed) Labels() labels.Labels {
	if len(o.meta.derived) == 0 {
		return labels.Set(o.meta.labels)
	}
	return (*packedLabels)(o)
}

// packedLabels are the labels of a packed object.
type packedLabels Packed

func (l *packedLabels) Has(key string) bool {
	_, ok := l.Lookup(key)
	return ok
}

func (l *packedLabels) Get(key string) string {
	value, _ := l.Lookup(key)
	return value
}

func (l *packedLabels) Lookup(key string) (value string, ok bool) {
	return l.meta.label(key, (*Packed)(l).GetName())
}

// GetOwnerReferences returns the owners. They may be shared with other objects.
func (o *Packed) GetOwnerReferences() []metav1.OwnerReference { return o.meta.owners }

// GetAnnotation returns an annotation. It opens the object unless [Packer.KeepAnnotations] includes
// the key. It returns false if the object cannot be opened.
func (o *Packed) GetAnnotation(key string) (value string, ok bool) {
	if n := slices.Index(o.packer.annotations, key); n >= 0 {
		return packedRest(o.text.Prefix()[o.rv:]).annotation(n)
	}
	value, ok = o.GetAnnotations()[key]
	return value, ok
}

// GetAnnotations opens the object and returns its annotations, or nil if it cannot be opened.
func (o *Packed) GetAnnotations() map[string]string {
	opened, err := o.Open()
	if err != nil {
		return nil
	}
	return opened.GetAnnotations()
}

// Open returns the object, which must not be modified. As long as any caller is using it, all callers of Open
// get the same object. Open fails with an [*Error] that wraps [ErrDamaged]. From then on, the Packed has no
// resource version, because its state is unknown.
func (o *Packed) Open() (object.Object, error) {
	if whole, ok := o.meta.unpacked.(object.Object); ok {
		return whole, nil
	}
	if opened, ok := o.packer.inUse(o); ok {
		return opened, nil
	}
	opened, err := o.packer.unpack(o, &o.packer.sharingDecoders)
	if err != nil {
		return opened, o.packer.noteDamage(o, err)
	}
	return o.packer.publish(o, opened), nil
}

// OpenBoth opens both o and old, which is another state of the same object. It is faster than opening them
// one by one, and the two objects share unchanged values. It opens neither of them and returns false if one
// cannot be opened or is already in use, or if a small old object would then keep a large o alive. It also
// returns false with [Packer.OnOpen], because a change to one object could corrupt the other.
func (o *Packed) OpenBoth(old *Packed) (now, was object.Object, ok bool) {
	p, c := o.packer, o.meta.codec
	if p.pool == nil || p.onOpen != nil || c.table == nil || old.meta.codec != c || o.meta.unpacked != nil || old.meta.unpacked != nil {
		return now, was, false
	}
	if o.text.Size() > maxRecentBytes && old.text.Size() <= maxRecentBytes {
		return now, was, false // the old object stays in use (see publish) and would keep the new one's text alive
	}
	_, used := p.inUse(o)
	_, oldUsed := p.inUse(old)
	if used || oldUsed {
		return now, was, false
	}
	if now, was, ok = p.unpackBoth(c, o, old); ok {
		now, was = p.publish(o, now), p.publish(old, was)
	}
	return now, was, ok
}

// Copy returns an object that the caller owns and may modify. If the object is in use, Copy copies
// it; otherwise, it decodes the bytes. It fails in the same cases as [Packed.Open].
func (o *Packed) Copy() (object.Object, error) {
	if shared, ok := o.InUse(); ok {
		return shared.DeepCopyObject().(object.Object), nil
	}
	made, err := o.packer.unpack(o, &o.packer.plainDecoders)
	if err != nil {
		return made, o.packer.noteDamage(o, err)
	}
	o.packer.opened.Add(1)
	return made, nil
}

// InUse returns the opened object if any caller is still using it.
func (o *Packed) InUse() (object.Object, bool) {
	if whole, ok := o.meta.unpacked.(object.Object); ok {
		return whole, true
	}
	return o.packer.inUse(o)
}

// KeptWhole reports whether the packer keeps the object itself, because its bytes would not decode
// to an equal object.
func (o *Packed) KeptWhole() bool { return o.meta.unpacked != nil }

// Size returns how much memory the object uses, in bytes, not counting the object that [Packed.Open] returns.
// Labels and owners shared by several objects are attributed to the first of them.
func (o *Packed) Size() int {
	size := o.text.HeldBytes() + packedSize
	if o.meta.firstName == o.GetName() {
		size += o.meta.memorySize()
	}
	return size
}

// packedSize is the size of a Packed.
const packedSize = 80

// String returns the key and the size, but no content.
func (o *Packed) String() string {
	return fmt.Sprintf("%s, packed in %d bytes", object.FormatKey(object.KeyOf(o)), o.Size())
}

// headEnds are the end offsets of the fields in a packed object's prefix. The packedRest follows
// the last field.
type headEnds struct{ name, uid, rv uint32 }

// appendHead appends o's head to dst, without its sharedMeta.
func appendHead(dst []byte, o object.Head, annotations []string) ([]byte, headEnds) {
	dst, at := appendNames(dst, o.GetName(), string(o.GetUID()), o.GetResourceVersion())
	have := o.GetAnnotations()
	return appendRest(dst, o.GetGeneration(), annotations, func(key string) (string, bool) {
		value, ok := have[key]
		return value, ok
	}), at
}

// appendNames appends the fields of a head that have a headEnds entry.
func appendNames(dst []byte, name, uid, rv string) ([]byte, headEnds) {
	start := len(dst)
	var at headEnds
	dst = append(dst, name...)
	at.name = uint32(len(dst) - start)
	dst = append(dst, uid...)
	at.uid = uint32(len(dst) - start)
	dst = append(dst, rv...)
	at.rv = uint32(len(dst) - start)
	return dst, at
}

// packedRest contains the rest of an object's head, without names, versions and shared metadata: the
// generation, followed by the annotations that can be read without decoding, each with its index in the
// packer's list. It is empty if the object has neither.
type packedRest string

// appendRest appends a packedRest that includes the listed annotations if the object has them.
func appendRest(dst []byte, generation int64, annotations []string, annotation func(key string) (value string, ok bool)) []byte {
	start := len(dst)
	dst = binary.AppendVarint(dst, generation)
	for n, key := range annotations {
		if value, ok := annotation(key); ok {
			dst = binary.AppendUvarint(dst, uint64(n))
			dst = binary.AppendUvarint(dst, uint64(len(value)))
			dst = append(dst, value...)
		}
	}
	if len(dst) == start+1 && dst[start] == 0 {
		return dst[:start]
	}
	return dst
}

func (r packedRest) generation() int64 {
	folded, _ := r.number()
	return int64(folded>>1) ^ -int64(folded&1) // zigzag encoding, as in binary.Varint
}

// annotation returns the annotation at index n in the packer's list.
func (r packedRest) annotation(n int) (value string, ok bool) {
	_, r = r.number()
	for len(r) > 0 {
		var at, size uint64
		at, r = r.number()
		size, r = r.number()
		size = min(size, uint64(len(r))) // a corrupt text may specify too large a size
		if at == uint64(n) {
			return string(r[:size]), true
		}
		r = r[size:]
	}
	return "", false
}

// number reads an unsigned number and returns the remaining bytes.
func (r packedRest) number() (uint64, packedRest) {
	var n uint64
	for i := range min(len(r), binary.MaxVarintLen64) {
		n |= uint64(r[i]&0x7f) << (7 * i)
		if r[i] < 0x80 {
			return n, r[i+1:]
		}
	}
	return n, ""
}
