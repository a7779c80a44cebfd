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
	"github.com/millrace-dev/millrace/wire/internal/protobuf"
	"github.com/millrace-dev/millrace/wire/internal/weight"
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

// DefaultMaxDepth is how deeply arrays and objects may nest in one JSON or CBOR
// object. Schemas of custom resources, the deepest objects in practice, stay below
// a hundred. At 1000 a decoder needs less than a megabyte of stack.
const DefaultMaxDepth = 1000

// MaxMemoryPerByte and MaxMemoryBase bound what one object becomes in memory: so many bytes for
// each byte of input, and so many more for every object, beside its text. An element of a list
// that is empty takes two bytes, and may be a struct of 400 bytes or more. Objects that servers
// store need less: a NetworkPolicy of empty rules 25 bytes for each byte, a LimitRange 50, and a
// custom resource in CBOR that is a list of nested one-letter maps 104. Refused objects are
// ErrTooDense. If Options.Keep leaves out the field that is too dense, the tables still read the
// rest of an object in JSON and protobuf; the reference, and every CBOR decoder, refuse it.
const (
	MaxMemoryPerByte = weight.PerByte
	MaxMemoryBase    = weight.Base
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
	// DefaultMaxDepth. Of CBOR, apimachinery v0.35 reads at most 64 levels, and at most
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
		o.MaxDepth = DefaultMaxDepth
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
	return newDecoder(contentType, opts, wholes())
}

// newDecoder returns the decoder of objects, of which it makes a product.
func newDecoder(contentType string, opts Options, p product) (Decoder, error) {
	opts = opts.withDefaults()
	media, err := mediaType(contentType)
	if err != nil {
		return nil, err
	}
	t, err := newTarget(opts)
	if err != nil {
		return nil, err
	}
	var newEncoding func(reads) (encoding, error)
	switch media {
	case MediaJSON:
		newEncoding = newJSON
	case MediaProtobuf:
		if reason := protobuf.Obstacle(t.goType); reason != "" {
			return nil, fmt.Errorf("%w: %v cannot be read from %s: %s", ErrMedia, t.goType, MediaProtobuf, reason)
		}
		newEncoding = newProtobuf
	case MediaCBOR, MediaCBORSequence:
		newEncoding = newCBOR
	default:
		return nil, fmt.Errorf("%w: no decoder for %q, want %s, %s or %s", ErrMedia, fault.Excerpt(media), MediaJSON, MediaProtobuf, MediaCBOR)
	}
	d, err := newDecoderOf(reads{t, opts, p}, newEncoding)
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
