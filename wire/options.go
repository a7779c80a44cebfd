package wire

import (
	"fmt"
	"mime"
	"net/textproto"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/wire/internal/fault"
	"github.com/millrace-dev/millrace/wire/internal/guard"
	"github.com/millrace-dev/millrace/wire/internal/protobuf"
	"github.com/millrace-dev/millrace/wire/internal/share"
)

// The media types that a Decoder reads.
const (
	MediaJSON     = "application/json"
	MediaProtobuf = "application/vnd.kubernetes.protobuf"
	MediaCBOR     = "application/cbor"

	// MediaCBORSequence is the content type of a watch in CBOR. Ask for it with
	// MediaCBOR.
	MediaCBORSequence = "application/cbor-seq"
)

// DefaultMaxObjectBytes is the size of the largest object that is read. etcd
// takes requests of 1.5 MiB, the API server bodies of 3 MiB, and JSON is at most a
// few times larger than what etcd stores. 16 MiB is therefore enough for anything
// that a server could store, and limits what one bad frame can cost.
const DefaultMaxObjectBytes = 16 << 20

// defaultMaxDepth is how deeply arrays and objects may nest in one JSON or CBOR
// object. Schemas of custom resources, the deepest objects in practice, stay below
// a hundred. At 1000 a decoder needs less than a megabyte of stack.
const defaultMaxDepth = 1000

// MaxMemoryPerByte and MaxMemoryBase bound what one object becomes in memory: so many bytes for
// each byte of input, and so many more for every object, beside its text. An element of a list
// that is empty takes two bytes, and may be a struct of 400 bytes or more. Objects that servers
// store need less: a NetworkPolicy of empty rules 25 bytes for each byte, a LimitRange 50, and a
// custom resource in CBOR that is a list of nested one-letter maps 104. Refused objects are
// ErrTooDense. If Options.Keep leaves out the field that is too dense, the tables still read the
// rest of an object in JSON and protobuf; the reference, and every CBOR decoder, refuse it.
const (
	MaxMemoryPerByte = guard.MemoryPerByte
	MaxMemoryBase    = guard.MemoryBase
)

// Options says what a Decoder decodes and what it refuses.
type Options struct {
	// Scheme names the kind of Type if Kind is empty, and the Go type of Kind if Type
	// is an interface. If neither is needed, it may be nil.
	Scheme *runtime.Scheme

	// Kind is the kind of the objects. Any other kind in a body is ErrKind, and so is a Type that
	// Scheme knows under other kinds only. Kind may be empty if Type points to a type that
	// Scheme knows under one kind.
	Kind object.GVK

	// Type is what a program calls the objects: a pointer to a struct, such as *corev1.Pod,
	// *unstructured.Unstructured or *metav1.PartialObjectMetadata, or an interface that they
	// implement. For an interface, Scheme tells the struct, and a kind that it does not know is
	// unstructured. Nil means object.Object.
	Type reflect.Type

	// MaxObjectBytes is the size of the largest object, in bytes, without what is
	// around it in a list or a watch. Zero means DefaultMaxObjectBytes; more than
	// 1 GB means 1 GB.
	MaxObjectBytes int

	// MaxDepth is how deeply JSON or CBOR may nest in one object. Zero means
	// 1,000. Of CBOR, apimachinery v0.35 reads at most 64 levels, and at most
	// 1,024 elements of an array or entries of a map. Protobuf needs no such limit,
	// because types that contain themselves are not read from protobuf (see
	// SupportsProtobuf).
	MaxDepth int

	// Keep selects the fields of objects to decode. Others are skipped without a
	// check that they could be read. Bookmarks are read whole, because their
	// message is in their annotations.
	Keep Fields

	// Pool, if not nil, lets objects of lists and watches share equal parts with
	// all others decoded with the same pool. Nobody may change such objects. What
	// Object returns, and what is decoded from CBOR, belongs to the caller alone.
	Pool *Pool

	// Reference decodes every object with apimachinery's own code only. It is
	// slower, shares nothing, and is what the compiled decoders are measured by.
	Reference bool
}

func (o Options) withDefaults() Options {
	if o.MaxObjectBytes <= 0 {
		o.MaxObjectBytes = DefaultMaxObjectBytes
	}
	if o.MaxDepth <= 0 {
		o.MaxDepth = defaultMaxDepth
	}
	o.MaxObjectBytes, o.MaxDepth = min(o.MaxObjectBytes, 1<<30), min(o.MaxDepth, 1<<30)
	return o
}

// checkSize fails if an object is too large.
func (o *Options) checkSize(raw []byte) error {
	if len(raw) > o.MaxObjectBytes {
		return fmt.Errorf("%w: %d bytes, more than %d", ErrTooLarge, len(raw), o.MaxObjectBytes)
	}
	return nil
}

// NewDecoder returns the decoder for a content type. Parameters such as "charset"
// or "stream=watch" are ignored. It fails with
//
//   - ErrMedia if no decoder reads the media type, or objects cannot be read from it
//   - ErrKind if opts do not determine the kind or the Go type of the objects
//   - ErrFields if opts.Keep names a field that the Go type does not have
func NewDecoder(contentType string, opts Options) (Decoder, error) {
	return newDecoder(contentType, opts, objectOutput())
}

// newDecoder returns the decoder that yields out.
func newDecoder(contentType string, opts Options, out output) (Decoder, error) {
	opts = opts.withDefaults()
	media, err := mediaType(contentType)
	if err != nil {
		return nil, err
	}
	t, err := newObjectType(opts)
	if err != nil {
		return nil, err
	}
	var newEncoding func(decoderConfig) (encoding, error)
	switch media {
	case MediaJSON:
		newEncoding = newJSON
	case MediaProtobuf:
		if reason := protobuf.UnsupportedReason(t.goType); reason != "" {
			return nil, fmt.Errorf("%w: %v cannot be read from %s: %s", ErrMedia, t.goType, MediaProtobuf, reason)
		}
		newEncoding = newProtobuf
	case MediaCBOR, MediaCBORSequence:
		newEncoding = newCBOR
	default:
		return nil, fmt.Errorf("%w: no decoder for %q, want %s, %s or %s", ErrMedia, fault.Excerpt(media), MediaJSON, MediaProtobuf, MediaCBOR)
	}
	d, err := newDecoderOf(decoderConfig{t, opts, out}, newEncoding)
	if err != nil {
		return nil, err
	}
	return d, nil
}

func mediaType(contentType string) (string, error) {
	media, _, err := mime.ParseMediaType(contentType)
	if err == nil {
		return media, nil
	}
	// A malformed parameter is no reason to refuse a body whose type is plain.
	media, _, _ = strings.Cut(contentType, ";")
	media = strings.ToLower(textproto.TrimString(media))
	if media == "" {
		return "", fmt.Errorf("%w: the content type is empty", ErrMedia)
	}
	return media, nil
}

// A Pool lets objects share equal parts. The same environment, probes or labels
// are decoded once, and all objects that have them point to the one copy. Nobody
// may change objects that share parts (L16). Use NewPool to make one.
//
// A part is a pointer, a slice, a map or a string inside an object. A pool knows it
// by the bytes from which it was decoded, and refers to it weakly: when the last
// object that uses a part is gone, the pool forgets the part and its bytes (W03).
// A part is remembered when it is seen in a second object, so content that never
// repeats costs a hash and no memory. Sharing begins to pay with the third object
// that has a part; if there are only two, the copied bytes cost up to a tenth of
// their memory. Versions of one object in a watch do not count as different
// objects, and a part within a part that is being remembered is not remembered by
// itself.
//
// A Pool is safe for concurrent use.
type Pool struct {
	shared *share.Pool
}

// NewPool returns an empty pool. It takes about a kilobyte, and grows with the
// number of parts in use.
func NewPool() *Pool { return &Pool{shared: share.NewPool()} }

// Forget makes the pool forget all parts. Call it when somebody has changed a
// shared part in spite of L16: objects decoded later get none of the parts known
// now. Objects that have such parts keep them.
func (p *Pool) Forget() { p.shared.Forget() }

// Len returns the number of parts that the pool knows now.
func (p *Pool) Len() int { return p.shared.Len() }

// sharePool returns the pool as decoders use it, or nil for a nil Pool.
func (p *Pool) sharePool() *share.Pool {
	if p == nil {
		return nil
	}
	return p.shared
}
