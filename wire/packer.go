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

// ErrDamaged means that the bytes of a packed object are corrupt.
var ErrDamaged = pack.ErrDamaged

// mediaPacked is the Media field of errors about packed objects.
const mediaPacked = "packed bytes"

// A Packer compresses the objects in one cache. It compresses an object against another one with the same
// controller, which is usually nearly identical, or against samples of all objects if there is none. Use
// [NewPacker] to create one. It is safe for concurrent use.
type Packer struct {
	compressor      *pack.Compressor
	metas           *metaTable
	codecs          codecs
	sharingDecoders sync.Pool // of *bodyDecoders
	plainDecoders   sync.Pool // *bodyDecoders without a Pool, whose objects share nothing
	pool            *Pool

	annotations []string                     // can be read without decoding
	onOpen      func(*Packed, object.Object) // see OnOpen; may be nil
	onDamage    func(*Packed, error)         // see OnDamage; may be nil
	opened      atomic.Uint64                // counts decoded objects

	placeholders placeholders

	locks [16]sync.Mutex // each guards the open field of some Packed objects

	mu       sync.Mutex // guards the fields below; not held while user code runs
	decoders map[decoderKey]Decoder
	recent   [maxRecent]object.Object // kept alive
	next     int                      // index in recent
}

// PackerRef is a *Packer for packages that only pass it on; [PackerOf] returns the Packer. A package that
// uses a PackerRef avoids compiling the generic types of packed objects again (docs/design/types.md).
type PackerRef interface{ isPacker() }

func (*Packer) isPacker() {}

// PackerOf returns p as a *Packer, or nil if p is nil.
func PackerOf(p PackerRef) *Packer {
	packer, _ := p.(*Packer)
	return packer
}

// maxRecent is the number of most recently opened objects that a packer keeps alive. This way, an object
// that several handlers receive, or that is soon read again, is decoded only once. For Pods, this costs a
// few hundred kilobytes.
const maxRecent = 64

// maxRecentBytes is the maximum size of an object that a packer keeps alive.
const maxRecentBytes = 1 << 16

// NewPacker returns an empty packer. If pool is not nil, objects opened by the packer share equal
// values through it.
func NewPacker(pool *Pool) *Packer {
	p := &Packer{compressor: pack.NewCompressor(), metas: new(metaTable), pool: pool, annotations: []string{metav1.InitialEventsAnnotationKey}}
	p.sharingDecoders.New = func() any { return newBodyDecoders(pool) }
	p.plainDecoders.New = func() any { return newBodyDecoders(nil) }
	return p
}

// Decoder is like [NewDecoder], but the decoder packs the objects it reads. If possible, it keeps the bytes
// as received, minus the fields that opts.Keep leaves out, and only checks that they can be decoded.
// Bookmarks are not packed. Calls with equal options return the same decoder. opts must not be modified after
// the call.
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
	if have, ok := p.decoders[of]; ok { // another goroutine got there first
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

// OnOpen registers opened, which is called with each decoded object before any caller gets it.
// opened must not modify the object. OnOpen must be called before anything is packed.
func (p *Packer) OnOpen(opened func(o *Packed, opened object.Object)) { p.onOpen = opened }

// OnDamage registers damaged, which is called with the error from [Packed.Open], once for each corrupt
// object, when the corruption is detected. It may be called from any goroutine, while holding any lock that
// the caller of Open holds. OnDamage must be called before anything is packed.
func (p *Packer) OnDamage(damaged func(o *Packed, err error)) { p.onDamage = damaged }

// KeepAnnotations keeps the values of the given annotations uncompressed, so that they can be read
// without decoding the object. See [object.Annotation]. Each value takes up its full length in
// memory. KeepAnnotations must be called before anything is packed.
func (p *Packer) KeepAnnotations(keys []string) { p.annotations = append(p.annotations, keys...) }

// Opened returns how many objects have been decoded.
func (p *Packer) Opened() uint64 { return p.opened.Load() }

// buffers contains buffers for uncompressed bytes.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// maxReusedBytes is the maximum size of a buffer that is reused.
const maxReusedBytes = 1 << 17

func putBuffer(b *[]byte) {
	if cap(*b) <= maxReusedBytes {
		buffers.Put(b)
	}
}

// packBuffers are the reusable buffers for packing bytes as received.
type packBuffers struct {
	head head.Head
	raw  []byte // the object's bytes without dropped fields
}

var packBufferPool = sync.Pool{New: func() any { return new(packBuffers) }}

// release returns b to the pool and drops its references to the object.
func (b *packBuffers) release() {
	b.head.Reset()
	if cap(b.raw) > maxReusedBytes {
		b.raw = nil
	}
	packBufferPool.Put(b)
}

// Pack compresses o. The result does not refer to o, unless decoding its bytes would not yield an equal
// object, in which case it keeps o itself. Pack fails with an [*Error] if o is too large.
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

// packBytes packs bytes that c can decode. It neither decodes them nor keeps a reference to them.
func (p *Packer) packBytes(c *codec, h *head.Head, raw []byte) *Packed {
	meta := p.metas.intern(c, h)
	var room [256]byte
	prefix, at := appendNames(room[:0], h.Name, h.UID, h.RV)
	prefix = appendRest(prefix, h.Generation, p.annotations, h.Annotation)
	return &Packed{packer: p, meta: meta, text: p.compressor.Pack(meta.group, prefix, raw), headEnds: at}
}

// packWhole returns a Packed that keeps o itself.
func (p *Packer) packWhole(o object.Object) *Packed {
	prefix, at := appendHead(nil, o, p.annotations)
	return &Packed{packer: p, meta: metaOfUnpacked(p.codecs.of(o), o), text: pack.Plain(prefix), headEnds: at}
}

// write appends o's encoding to dst. It returns false and appends nothing if the encoding does not
// decode to an equal object: a format may omit details that an API server never sends, such as
// fractions of a second.
func (p *Packer) write(dst []byte, c *codec, o object.Object) (raw []byte, ok bool) {
	if c.format == formatNone {
		return dst, false
	}
	start := len(dst)
	var written object.Object = o
	if c.format != formatTree { // encoding a quantity caches its text in it, and other code may be using the object
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
	if err == nil && sameContent(o, back) {
		return raw, true
	}
	if err == nil && c.format == formatJSON {
		var whole []byte
		if whole, err = withEmpty(o, raw[start:]); err == nil {
			raw = append(raw[:start], whole...)
			back, err = c.read(dec, raw[start:])
		}
		if err == nil && sameContent(o, back) {
			return raw, true
		}
	}
	return raw[:start], false
}

// sameContent reports whether a and b have the same meaning. Usually they are deeply equal, which is quick
// to check. Only built-in types do not distinguish an empty list or map from none.
func sameContent(a, b object.Object) (same bool) {
	if reflect.DeepEqual(a, b) {
		return true
	}
	// Semantic.DeepEqual panics on unexported fields, such as those of a time.Time. The objects are then
	// considered different.
	defer func() { _ = recover() }()
	if object.IsBuiltin(elemType(a)) {
		return equality.Semantic.DeepEqual(a, b)
	}
	return equality.Semantic.DeepEqualWithNilDifferentFromEmpty(a, b)
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
	// A server may encode the same content in several ways.
	one, err := p.content(a)
	other, err2 := p.content(b)
	return err == nil && err2 == nil && reflect.DeepEqual(one, other)
}

// content returns o's object for a comparison. The object may be temporary.
func (p *Packer) content(o *Packed) (any, error) {
	if o.meta.unpacked != nil {
		return o.meta.unpacked, nil
	}
	return p.unpack(o, &p.sharingDecoders)
}

// unpack decodes o with one of the decoders, which are *bodyDecoders.
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

// unpackBoth decodes both objects.
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

// inUse returns o's opened object if any caller is still using it.
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

// publish makes opened the object that all callers of Open receive, unless there already is one. It returns
// the published object.
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

// shareOpened is like publish, but does not keep the object alive.
func (p *Packer) shareOpened(o *Packed, opened object.Object) object.Object {
	lock := p.lock(o)
	lock.Lock()
	defer lock.Unlock() // functions that copy an object may panic
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

// noteDamage marks o as corrupt and returns the error for it.
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
