package wire

import (
	"bytes"
	"errors"
	"math"
	"reflect"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/wire/internal/head"
	"github.com/millrace-dev/millrace/wire/internal/memory"
	"github.com/millrace-dev/millrace/wire/internal/pack"
)

// ErrDamaged means that the bytes of a packed object cannot be read any more.
var ErrDamaged = pack.ErrDamaged

// mediaPacked is what an Error says of packed objects.
const mediaPacked = "packed bytes"

// Packer packs the objects of one cache. An object is compressed against another one of
// the same controller, with which it shares nearly all, or else against samples of all
// objects. Make it with NewPacker. It is safe for concurrent use.
type Packer struct {
	shelf   *pack.Shelf
	metas   *metaTable
	layouts layouts
	openers sync.Pool // of *opener
	copiers sync.Pool // of *opener; what they make shares nothing
	pool    *Pool

	annotations []string                     // that are kept at hand
	onOpen      func(*Packed, object.Object) // see OnOpen; may be nil
	onLose      func(*Packed, error)         // see OnLose; may be nil
	opened      atomic.Uint64                // counts objects that were made for somebody

	placeholders placeholders

	locks [16]sync.Mutex // each guards Packed.open of some

	mu       sync.Mutex // guards the rest; nothing of the user's is called while it is held
	decoders map[decoderOf]Decoder
	recent   [lastOpened]object.Object // are kept in use
	next     int                       // in recent
}

// Packing is a *Packer to those that pass it on; PackerOf returns it. A package that names a source reaches
// a Packing, and so does not compile again the generic types that packed objects are made of
// (docs/design/types.md).
type Packing interface{ packs() }

func (*Packer) packs() {}

// PackerOf returns the packer, nil for nil.
func PackerOf(p Packing) *Packer {
	packer, _ := p.(*Packer)
	return packer
}

// lastOpened is how many objects stay in use although nobody holds them: those that were
// opened last. So what several handlers hear of, or what is looked up again soon, is made
// once. It is some hundred KB of Pods.
const lastOpened = 64

// largestOpened is how many bytes an object may have to be one of them.
const largestOpened = 1 << 16

// NewPacker returns a packer that has packed nothing. Objects that it opens share equal
// parts by way of the pool, if that is not nil.
func NewPacker(pool *Pool) *Packer {
	p := &Packer{shelf: pack.NewShelf(), metas: new(metaTable), pool: pool, annotations: []string{metav1.InitialEventsAnnotationKey}}
	p.openers.New = func() any { return newOpener(pool) }
	p.copiers.New = func() any { return newOpener(nil) }
	return p
}

// Decoder returns a decoder as NewDecoder does, which packs what it reads. Where it can it
// keeps the bytes as they came, without what opts.Keep leaves out, and makes no object of
// them: it only checks that this could be done. Bookmarks are kept as objects. Of the same options, which
// must not be changed, it returns the same decoder again.
func (p *Packer) Decoder(contentType string, opts *Options) (Decoder, error) {
	of := decoderOf{contentType, opts}
	p.mu.Lock()
	have, ok := p.decoders[of]
	p.mu.Unlock()
	if ok {
		return have, nil
	}
	made, err := p.newDecoder(contentType, *opts)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if have, ok := p.decoders[of]; ok { // another goroutine was faster
		return have, nil
	}
	if p.decoders == nil {
		p.decoders = make(map[decoderOf]Decoder)
	}
	p.decoders[of] = made
	return made, nil
}

// decoderOf identifies a decoder.
type decoderOf struct {
	contentType string
	opts        *Options
}

func (p *Packer) newDecoder(contentType string, opts Options) (Decoder, error) {
	pack := func(o object.Object) (object.Head, error) {
		packed, err := p.Pack(o)
		if err != nil {
			return nil, err
		}
		return packed, nil
	}
	return newDecoder(contentType, opts, product{of: pack, bookmark: func(o object.Object) (object.Head, error) { return p.keep(o), nil }, packer: p})
}

// OnOpen has opened called with each object that is made of bytes, before anybody else has
// it. It must be called before anything is packed. What it is given must not be changed.
func (p *Packer) OnOpen(opened func(o *Packed, opened object.Object)) { p.onOpen = opened }

// OnLose has lost called with each object that turns out to be damaged, when that is found
// for the first time, and with the error of Open. It may be called in any goroutine and
// under any lock under which Open is. It must be called before anything is packed.
func (p *Packer) OnLose(lost func(o *Packed, err error)) { p.onLose = lost }

// KeepAnnotations has the values of some annotations kept at hand, so that to ask for one of
// them opens nothing (see object.Annotation). Each takes as much memory as it is long. It must
// be called before anything is packed.
func (p *Packer) KeepAnnotations(keys []string) { p.annotations = append(p.annotations, keys...) }

// Opened is how many objects have been made of bytes.
func (p *Packer) Opened() uint64 { return p.opened.Load() }

// buffers are for bytes that are not compressed.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// largestBuffer is how large a buffer may be that is kept.
const largestBuffer = 1 << 17

func giveBack(b *[]byte) {
	if cap(*b) <= largestBuffer {
		buffers.Put(b)
	}
}

// Pack packs o, of which it keeps nothing, unless bytes cannot give it back as it is: then o
// is kept. It fails with an *Error where o is too large.
func (p *Packer) Pack(o object.Object) (*Packed, error) {
	layout := p.layouts.of(o)
	buffer := buffers.Get().(*[]byte)
	defer giveBack(buffer)
	raw, at := appendHead((*buffer)[:0], o, p.annotations)
	head := len(raw)
	raw, ok := p.write(raw, layout, o)
	*buffer = raw
	if len(raw) > math.MaxInt32 {
		return nil, &Error{Media: mediaPacked, Where: "object", Key: keyOf(o.GetNamespace(), o.GetName()), Bytes: len(raw), Err: ErrTooLarge}
	}
	meta := p.metas.intern(layout, headOf(o))
	if !ok {
		meta = metaOfUnpacked(layout, o)
	}
	return &Packed{by: p, meta: meta, text: p.shelf.Pack(meta.group, raw[:head], raw[head:]), ends: at}, nil
}

// packBytes packs bytes that l can read, of which it keeps nothing. They are not read here.
func (p *Packer) packBytes(l *layout, h *head.Head, raw []byte) *Packed {
	meta := p.metas.intern(l, h)
	var room [256]byte
	prefix, at := appendNames(room[:0], h.Name, h.UID, h.RV)
	prefix = appendRest(prefix, h.Generation, p.annotations, h.Annotation)
	return &Packed{by: p, meta: meta, text: p.shelf.Pack(meta.group, prefix, raw), ends: at}
}

// keep returns o, packed as it is.
func (p *Packer) keep(o object.Object) *Packed {
	prefix, at := appendHead(nil, o, p.annotations)
	return &Packed{by: p, meta: metaOfUnpacked(p.layouts.of(o), o), text: pack.Plain(prefix), ends: at}
}

// write appends the bytes of o. It reports false, and appends nothing, where o is not what
// comes back of them: a form may leave out what an API server never sends, such as the
// fraction of a second.
func (p *Packer) write(dst []byte, l *layout, o object.Object) (raw []byte, ok bool) {
	if l.code == codeNone {
		return dst, false
	}
	start := len(dst)
	var written object.Object = o
	if l.code != codeTree { // to write a quantity notes its text in it, and others may have the object
		copied, ok := o.DeepCopyObject().(object.Object)
		if !ok {
			return dst, false
		}
		written = copied
	}
	raw, err := l.append(dst, written)
	if err != nil {
		return raw[:start], false
	}
	if l.code == codeTree {
		return raw, true
	}
	with := p.openers.Get().(*opener)
	defer p.openers.Put(with)
	back, err := l.read(with, raw[start:])
	if err != nil || !sameContent(o, back) {
		return raw[:start], false
	}
	return raw, true
}

// sameContent reports whether a and b mean the same. As a rule they are the same in all, which
// takes a small part of the time to find out.
func sameContent(a, b object.Object) (same bool) {
	if reflect.DeepEqual(a, b) {
		return true
	}
	// It panics at a field that is not exported, such as those of a time.Time. Nobody can say
	// then that they are the same.
	defer func() { _ = recover() }()
	return equality.Semantic.DeepEqual(a, b)
}

// Equal reports whether a and b have the same content.
func (p *Packer) Equal(a, b *Packed) bool {
	if a == b {
		return true
	}
	if a.meta.unpacked == nil && b.meta.unpacked == nil && a.meta.layout == b.meta.layout {
		one, err := p.raw(nil, a)
		other, err2 := p.raw(nil, b)
		if err == nil && err2 == nil && bytes.Equal(one, other) {
			return true
		}
	}
	// A server may write the same content in several ways.
	one, err := p.content(a)
	other, err2 := p.content(b)
	return err == nil && err2 == nil && reflect.DeepEqual(one, other)
}

// content is the object of o, which may be one that nobody else has.
func (p *Packer) content(o *Packed) (any, error) {
	if o.meta.unpacked != nil {
		return o.meta.unpacked, nil
	}
	return p.unpack(o, &p.openers)
}

// raw appends the bytes of o.
func (p *Packer) raw(dst []byte, o *Packed) ([]byte, error) {
	return o.by.shelf.Unpack(dst, o.text)
}

// unpack makes the object of o with one of some openers.
func (p *Packer) unpack(o *Packed, openers *sync.Pool) (opened object.Object, err error) {
	buffer := buffers.Get().(*[]byte)
	defer giveBack(buffer)
	raw, err := p.raw((*buffer)[:0], o)
	*buffer = raw
	if err != nil {
		return opened, err
	}
	with := openers.Get().(*opener)
	defer openers.Put(with)
	made, err := o.meta.layout.read(with, raw)
	if err != nil {
		return opened, errors.Join(ErrDamaged, err)
	}
	return made, nil
}

// both opens two states of one object. It reports false where it does not. Where mutations are
// looked for, an object has nothing that another one might spoil.
func (p *Packer) both(o, old *Packed) (now, was object.Object, ok bool) {
	l := o.meta.layout
	if p.pool == nil || p.onOpen != nil || l.table == nil || old.meta.layout != l || o.meta.unpacked != nil || old.meta.unpacked != nil {
		return now, was, false
	}
	if o.text.Size() > largestOpened && old.text.Size() <= largestOpened {
		return now, was, false // the old one stays in use (see publish), and would keep the text of the new one
	}
	_, used := p.inUse(o)
	_, oldUsed := p.inUse(old)
	if used || oldUsed {
		return now, was, false
	}
	if now, was, ok = p.unpackBoth(l, o, old); ok {
		now, was = p.publish(o, now), p.publish(old, was)
	}
	return now, was, ok
}

// unpackBoth makes the objects of both.
func (p *Packer) unpackBoth(l *layout, o, old *Packed) (now, was object.Object, ok bool) {
	room, oldRoom := buffers.Get().(*[]byte), buffers.Get().(*[]byte)
	defer giveBack(room)
	defer giveBack(oldRoom)
	raw, err := p.raw((*room)[:0], o)
	*room = raw
	if err != nil {
		return now, was, false
	}
	oldRaw, err := p.raw((*oldRoom)[:0], old)
	*oldRoom = oldRaw
	if err != nil {
		return now, was, false
	}
	with := p.openers.Get().(*opener)
	defer p.openers.Put(with)
	made, err := l.read(with, raw)
	if err != nil {
		return now, was, false
	}
	oldMade, err := l.readBeside(with, oldRaw, made, raw)
	if err != nil {
		return now, was, false
	}
	return made, oldMade, true
}

// inUse returns the object of o if anybody holds it.
func (p *Packer) inUse(o *Packed) (opened object.Object, ok bool) {
	lock := p.lock(o)
	lock.Lock()
	at := o.open.Value()
	lock.Unlock()
	if at == nil {
		return opened, false
	}
	return reflect.NewAt(o.meta.layout.goType, at).Interface().(object.Object), true
}

// publish makes opened the object that all get who open o, unless there is one.
func (p *Packer) publish(o *Packed, opened object.Object) object.Object {
	opened = p.settle(o, opened)
	if o.text.Size() > largestOpened {
		return opened
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.recent[p.next] = opened
	p.next = (p.next + 1) % lastOpened
	return opened
}

// settle is publish for those who hold the object.
func (p *Packer) settle(o *Packed, opened object.Object) object.Object {
	lock := p.lock(o)
	lock.Lock()
	defer lock.Unlock() // what copies an object may panic
	if at := o.open.Value(); at != nil {
		return reflect.NewAt(o.meta.layout.goType, at).Interface().(object.Object)
	}
	if p.onOpen != nil {
		p.onOpen(o, opened)
	}
	p.opened.Add(1)
	o.open = memory.WeakTo(reflect.ValueOf(opened))
	return opened
}

// lose notes that o is damaged, and returns the error that says so.
func (p *Packer) lose(o *Packed, err error) error {
	err = &Error{Media: mediaPacked, Where: "object", Key: keyOf(o.GetNamespace(), o.GetName()), Bytes: o.text.Held(), Err: err}
	if !o.lost.Swap(true) && p.onLose != nil {
		p.onLose(o, err)
	}
	return err
}

func (p *Packer) lock(o *Packed) *sync.Mutex {
	return &p.locks[(o.name^o.uid^uint32(o.text.Held()))%uint32(len(p.locks))]
}
