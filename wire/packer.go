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
	compressor      *pack.Compressor
	metas           *metaTable
	codecs          codecs
	sharingDecoders sync.Pool // of *bodyDecoders
	plainDecoders   sync.Pool // of *bodyDecoders without a Pool: their objects share nothing
	pool            *Pool

	annotations []string                     // that can be read without decoding
	onOpen      func(*Packed, object.Object) // see OnOpen; may be nil
	onDamage    func(*Packed, error)         // see OnDamage; may be nil
	opened      atomic.Uint64                // counts objects that were made for somebody

	placeholders placeholders

	locks [16]sync.Mutex // each guards Packed.open of some

	mu       sync.Mutex // guards the rest; nothing of the user's is called while it is held
	decoders map[decoderKey]Decoder
	recent   [maxRecent]object.Object // are kept alive
	next     int                      // in recent
}

// PackerRef is a *Packer for packages that only pass it on; PackerOf returns it. A package that names a source
// refers to a PackerRef, and so does not compile again the generic types that packed objects are made of
// (docs/design/types.md).
type PackerRef interface{ isPacker() }

func (*Packer) isPacker() {}

// PackerOf returns the packer, nil for nil.
func PackerOf(p PackerRef) *Packer {
	packer, _ := p.(*Packer)
	return packer
}

// maxRecent is how many decoded objects a packer keeps alive: those that were opened last. So an object
// that several handlers get, or that is looked up again soon, is decoded once. They are some hundred KB
// of Pods.
const maxRecent = 64

// maxRecentBytes is how many bytes an object may have to be one of them.
const maxRecentBytes = 1 << 16

// NewPacker returns a packer that has packed nothing. Objects that it opens share equal
// parts by way of the pool, if that is not nil.
func NewPacker(pool *Pool) *Packer {
	p := &Packer{compressor: pack.NewCompressor(), metas: new(metaTable), pool: pool, annotations: []string{metav1.InitialEventsAnnotationKey}}
	p.sharingDecoders.New = func() any { return newBodyDecoders(pool) }
	p.plainDecoders.New = func() any { return newBodyDecoders(nil) }
	return p
}

// Decoder returns a decoder as NewDecoder does, which packs what it reads. Where it can it
// keeps the bytes as they came, without what opts.Keep leaves out, and makes no object of
// them: it only checks that this could be done. Bookmarks are kept as objects. Of the same options, which
// must not be changed, it returns the same decoder again.
func (p *Packer) Decoder(contentType string, opts *Options) (Decoder, error) {
	of := decoderKey{contentType, opts}
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
		p.decoders = make(map[decoderKey]Decoder)
	}
	p.decoders[of] = made
	return made, nil
}

// decoderKey identifies a decoder.
type decoderKey struct {
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
	return newDecoder(contentType, opts, output{convert: pack, convertBookmark: func(o object.Object) (object.Head, error) { return p.packWhole(o), nil }, packer: p})
}

// OnOpen has opened called with each object that is made of bytes, before anybody else has
// it. It must be called before anything is packed. What it is given must not be changed.
func (p *Packer) OnOpen(opened func(o *Packed, opened object.Object)) { p.onOpen = opened }

// OnDamage has damaged called with each object that turns out to be damaged, when that is found
// for the first time, and with the error of Open. It may be called in any goroutine and
// under any lock under which Open is. It must be called before anything is packed.
func (p *Packer) OnDamage(damaged func(o *Packed, err error)) { p.onDamage = damaged }

// KeepAnnotations keeps the values of some annotations uncompressed, so that reading one of
// them decodes nothing (see object.Annotation). Each takes as much memory as it is long. It must
// be called before anything is packed.
func (p *Packer) KeepAnnotations(keys []string) { p.annotations = append(p.annotations, keys...) }

// Opened is how many objects have been made of bytes.
func (p *Packer) Opened() uint64 { return p.opened.Load() }

// buffers are for bytes that are not compressed.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// maxReusedBytes is the size of the largest buffer that is reused.
const maxReusedBytes = 1 << 17

func putBuffer(b *[]byte) {
	if cap(*b) <= maxReusedBytes {
		buffers.Put(b)
	}
}

// packBuffers are what packing an object as it came needs, for reuse.
type packBuffers struct {
	head head.Head
	raw  []byte // the bytes of the object without dropped fields
}

var packBufferPool = sync.Pool{New: func() any { return new(packBuffers) }}

// release returns b to the pool. It refers to no object any more.
func (b *packBuffers) release() {
	b.head.Reset()
	if cap(b.raw) > maxReusedBytes {
		b.raw = nil
	}
	packBufferPool.Put(b)
}

// Pack packs o, of which it keeps nothing, unless bytes cannot give it back as it is: then o
// is kept. It fails with an *Error where o is too large.
func (p *Packer) Pack(o object.Object) (*Packed, error) {
	c := p.codecs.of(o)
	buffer := buffers.Get().(*[]byte)
	defer putBuffer(buffer)
	raw, at := appendHead((*buffer)[:0], o, p.annotations)
	head := len(raw)
	raw, ok := p.write(raw, c, o)
	*buffer = raw
	if len(raw) > math.MaxInt32 {
		return nil, &Error{Media: mediaPacked, Where: "object", Key: keyOf(o.GetNamespace(), o.GetName()), Bytes: len(raw), Err: ErrTooLarge}
	}
	meta := p.metas.intern(c, headOf(o))
	if !ok {
		meta = metaOfUnpacked(c, o)
	}
	return &Packed{packer: p, meta: meta, text: p.compressor.Pack(meta.group, raw[:head], raw[head:]), headEnds: at}, nil
}

// packBytes packs bytes that l can read, of which it keeps nothing. They are not read here.
func (p *Packer) packBytes(c *codec, h *head.Head, raw []byte) *Packed {
	meta := p.metas.intern(c, h)
	var room [256]byte
	prefix, at := appendNames(room[:0], h.Name, h.UID, h.RV)
	prefix = appendRest(prefix, h.Generation, p.annotations, h.Annotation)
	return &Packed{packer: p, meta: meta, text: p.compressor.Pack(meta.group, prefix, raw), headEnds: at}
}

// packWhole returns a Packed that holds o itself.
func (p *Packer) packWhole(o object.Object) *Packed {
	prefix, at := appendHead(nil, o, p.annotations)
	return &Packed{packer: p, meta: metaOfUnpacked(p.codecs.of(o), o), text: pack.Plain(prefix), headEnds: at}
}

// write appends the bytes of o. It reports false, and appends nothing, where o is not what
// comes back of them: a form may leave out what an API server never sends, such as the
// fraction of a second.
func (p *Packer) write(dst []byte, c *codec, o object.Object) (raw []byte, ok bool) {
	if c.format == formatNone {
		return dst, false
	}
	start := len(dst)
	var written object.Object = o
	if c.format != formatTree { // to write a quantity notes its text in it, and others may have the object
		copied, ok := o.DeepCopyObject().(object.Object)
		if !ok {
			return dst, false
		}
		written = copied
	}
	raw, err := c.append(dst, written)
	if err != nil {
		return raw[:start], false
	}
	if c.format == formatTree {
		return raw, true
	}
	dec := p.sharingDecoders.Get().(*bodyDecoders)
	defer p.sharingDecoders.Put(dec)
	back, err := c.read(dec, raw[start:])
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
	if a.meta.unpacked == nil && b.meta.unpacked == nil && a.meta.codec == b.meta.codec {
		one, err := a.packer.compressor.Unpack(nil, a.text)
		other, err2 := b.packer.compressor.Unpack(nil, b.text)
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
	return p.unpack(o, &p.sharingDecoders)
}

// unpack decodes the object of o with one of some decoders, which are *bodyDecoders.
func (p *Packer) unpack(o *Packed, decoders *sync.Pool) (opened object.Object, err error) {
	buffer := buffers.Get().(*[]byte)
	defer putBuffer(buffer)
	raw, err := o.packer.compressor.Unpack((*buffer)[:0], o.text)
	*buffer = raw
	if err != nil {
		return opened, err
	}
	dec := decoders.Get().(*bodyDecoders)
	defer decoders.Put(dec)
	made, err := o.meta.codec.read(dec, raw)
	if err != nil {
		return opened, errors.Join(ErrDamaged, err)
	}
	return made, nil
}

// unpackBoth makes the objects of both.
func (p *Packer) unpackBoth(c *codec, o, old *Packed) (now, was object.Object, ok bool) {
	room, oldRoom := buffers.Get().(*[]byte), buffers.Get().(*[]byte)
	defer putBuffer(room)
	defer putBuffer(oldRoom)
	raw, err := o.packer.compressor.Unpack((*room)[:0], o.text)
	*room = raw
	if err != nil {
		return now, was, false
	}
	oldRaw, err := old.packer.compressor.Unpack((*oldRoom)[:0], old.text)
	*oldRoom = oldRaw
	if err != nil {
		return now, was, false
	}
	dec := p.sharingDecoders.Get().(*bodyDecoders)
	defer p.sharingDecoders.Put(dec)
	made, err := c.read(dec, raw)
	if err != nil {
		return now, was, false
	}
	oldMade, err := c.readReusing(dec, oldRaw, made, raw)
	if err != nil {
		return now, was, false
	}
	return made, oldMade, true
}

// inUse returns the object of o if anybody holds it.
func (p *Packer) inUse(o *Packed) (opened object.Object, ok bool) {
	lock := p.lock(o)
	lock.Lock()
	at := o.opened.Value()
	lock.Unlock()
	if at == nil {
		return opened, false
	}
	return reflect.NewAt(o.meta.codec.goType, at).Interface().(object.Object), true
}

// publish makes opened the object that all get who open o, unless there is one.
func (p *Packer) publish(o *Packed, opened object.Object) object.Object {
	opened = p.shareOpened(o, opened)
	if o.text.Size() > maxRecentBytes {
		return opened
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.recent[p.next] = opened
	p.next = (p.next + 1) % maxRecent
	return opened
}

// shareOpened is publish without keeping the object alive.
func (p *Packer) shareOpened(o *Packed, opened object.Object) object.Object {
	lock := p.lock(o)
	lock.Lock()
	defer lock.Unlock() // what copies an object may panic
	if at := o.opened.Value(); at != nil {
		return reflect.NewAt(o.meta.codec.goType, at).Interface().(object.Object)
	}
	if p.onOpen != nil {
		p.onOpen(o, opened)
	}
	p.opened.Add(1)
	o.opened = memory.WeakTo(reflect.ValueOf(opened))
	return opened
}

// noteDamage notes that o is damaged, and returns the error that says so.
func (p *Packer) noteDamage(o *Packed, err error) error {
	err = &Error{Media: mediaPacked, Where: "object", Key: keyOf(o.GetNamespace(), o.GetName()), Bytes: o.text.HeldBytes(), Err: err}
	if !o.damaged.Swap(true) && p.onDamage != nil {
		p.onDamage(o, err)
	}
	return err
}

func (p *Packer) lock(o *Packed) *sync.Mutex {
	return &p.locks[(o.name^o.uid^uint32(o.text.HeldBytes()))%uint32(len(p.locks))]
}
