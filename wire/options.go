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

// The media types that a [Decoder] supports.
const (
	MediaJSON     = "application/json"
	MediaProtobuf = "application/vnd.kubernetes.protobuf"
	MediaCBOR     = "application/cbor"

	// MediaCBORSequence is the content type of a CBOR watch. To request it, use MediaCBOR.
	MediaCBORSequence = "application/cbor-seq"
)

// DefaultMaxObjectBytes is the default size limit for an object. etcd accepts requests of 1.5
// MiB, the API server bodies of 3 MiB, and JSON is at most a few times larger than the stored
// form. 16 MiB is therefore enough for anything that a server could store, while limiting the damage that a
// single bad frame can do.
const DefaultMaxObjectBytes = 16 << 20

// defaultMaxDepth is the default for [Options].MaxDepth. In practice, the deepest objects are custom
// resource schemas, which have fewer than a hundred levels. With a limit of 1000, a decoder needs less
// than a megabyte of stack.
const defaultMaxDepth = 1000

// MaxMemoryPerByte and MaxMemoryBase limit the memory of a decoded object: it may use
// MaxMemoryBase bytes, plus MaxMemoryPerByte for each byte of input, plus its text. An empty list element
// takes up two bytes of input and may turn into a struct of 400 bytes or more. Objects stored by servers need
// less: 25 bytes per byte for a NetworkPolicy with empty rules, 50 for a LimitRange, and 104 for a custom
// resource in CBOR that is a list of nested one-letter maps. Larger objects fail with [ErrTooDense]. If
// Options.Keep leaves out the field that is too dense, the tables for JSON and protobuf still decode the rest
// of the object; the reference and every CBOR decoder reject it.
const (
	MaxMemoryPerByte = guard.MemoryPerByte
	MaxMemoryBase    = guard.MemoryBase
)

// Options configures a [Decoder].
type Options struct {
	// Scheme determines the kind if Kind is empty, and the Go type for Kind if Type is an
	// interface. It may be nil if neither is needed.
	Scheme *runtime.Scheme

	// Kind is the objects' kind. A body of any other kind fails with ErrKind, and so does a Type that is
	// registered in Scheme only under other kinds. Kind may be empty if Type points to a type that is
	// registered in Scheme under exactly one kind.
	Kind object.GVK

	// Type is the type that the program uses for the objects: a pointer to a struct, such as
	// *corev1.Pod, *unstructured.Unstructured or *metav1.PartialObjectMetadata, or an interface
	// that they implement. If Type is an interface, Scheme determines the struct, and objects of unknown
	// kinds are unstructured. Nil means object.Object.
	Type reflect.Type

	// MaxObjectBytes is the size limit for an object, in bytes, not counting the surrounding list
	// or frame. Zero means DefaultMaxObjectBytes; more than 1 GB means 1 GB.
	MaxObjectBytes int

	// MaxDepth is the maximum nesting depth of arrays and objects in one JSON or CBOR object. Zero means
	// 1,000. For CBOR, apimachinery v0.35 supports at most 64 levels, 1,024 elements per array and 1,024
	// entries per map. There is no limit for protobuf, because recursive types are not decoded from
	// protobuf; see [SupportsProtobuf].
	MaxDepth int

	// Keep selects the fields to decode. Other fields are skipped without checking that they could
	// be decoded. Bookmarks are always decoded completely, because their annotations carry information.
	Keep Fields

	// Pool, if not nil, lets objects in lists and watches share equal values with all other
	// objects decoded with the same pool. Such objects must not be modified. Objects returned by
	// Decoder.Object, and objects decoded from CBOR, share nothing, and the caller owns them.
	Pool *Pool

	// Reference decodes every object with apimachinery's own code. It is slower, and objects share
	// nothing. Tests use it to verify the tables.
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

// NewDecoder returns the decoder for a content type. Parameters such as "charset" or "stream=watch"
// are ignored. It fails with [ErrMedia] if there is no decoder for the media type or the Go type
// cannot be decoded from it, with [ErrKind] if opts does not determine the kind and a Go type that fits
// it, and with [ErrFields] if opts.Keep contains a path to a field that the Go type lacks.
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
	// Ignore malformed parameters as long as the media type itself is clear.
	media, _, _ = strings.Cut(contentType, ";")
	media = strings.ToLower(textproto.TrimString(media))
	if media == "" {
		return "", fmt.Errorf("%w: the content type is empty", ErrMedia)
	}
	return media, nil
}

// A Pool lets objects share equal values. If many objects contain the same environment, probe or set of
// labels, it is decoded once, and all of them point to the same copy. Objects that share values must not be
// modified (L16). Use [NewPool] to create a Pool.
//
// The parts that can be shared are pointers, slices, maps and strings inside objects. A pool
// identifies a part by the bytes from which it was decoded, and refers to it weakly: when the last
// object that uses a part is garbage collected, the pool forgets the part and its bytes (W03). A part is
// remembered once it appears in a second object, so content that never repeats costs only a hash and no
// memory. Sharing starts to save memory once three objects have the same part; with only two, the pool's
// copy of the bytes costs up to a tenth of the part's memory. Versions of the same object in a watch are
// not treated as different objects. The parts inside a remembered part are not remembered separately.
//
// A Pool is safe for concurrent use.
type Pool struct {
	shared *share.Pool
}

// NewPool returns an empty pool. It uses about a kilobyte and grows with the number of parts in
// use.
func NewPool() *Pool { return &Pool{shared: share.NewPool()} }

// Forget makes the pool forget all parts. Call it after a shared part has been modified in violation of L16,
// so that objects decoded later do not share any of the current parts. Existing objects keep theirs.
func (p *Pool) Forget() { p.shared.Forget() }

// Len returns the number of parts that the pool remembers.
func (p *Pool) Len() int { return p.shared.Len() }

// sharePool returns the pool for decoders to use, or nil if p is nil.
func (p *Pool) sharePool() *share.Pool {
	if p == nil {
		return nil
	}
	return p.shared
}
