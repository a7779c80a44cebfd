package wire

import (
	"fmt"
	"mime"
	"net/textproto"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/millrace-dev/millrace/object"
)

// The media types that a Decoder reads.
const (
	MediaJSON     = "application/json"
	MediaProtobuf = "application/vnd.kubernetes.protobuf"
	MediaCBOR     = "application/cbor"

	// MediaCBORSequence is what a server calls a watch in CBOR, for which it is
	// asked by MediaCBOR.
	MediaCBORSequence = "application/cbor-seq"
)

// DefaultMaxObjectBytes bounds one object on the wire. etcd takes requests of
// 1.5 MiB and the API server bodies of 3 MiB; JSON is at most a few times
// larger than what etcd stores. 16 MiB therefore never refuses what a server
// could have stored, and still bounds what one bad frame can cost.
const DefaultMaxObjectBytes = 16 << 20

// DefaultMaxDepth bounds how deeply arrays and objects of JSON or CBOR nest in
// one object. Schemas of custom resources, the deepest objects in practice, stay
// below a hundred; the recursion of a decoder at 1000 needs well under a
// megabyte of stack.
const DefaultMaxDepth = 1000

// Options says what a Decoder decodes and what it refuses.
type Options struct {
	// Scheme gives the kind of a Go type where Kind is empty, and the Go type
	// of Kind where T is an interface. It may be nil where neither is asked.
	Scheme *runtime.Scheme

	// Kind is the kind of the objects. Anything else in a body is ErrKind. It
	// may be empty where T is a pointer to a type that Scheme has once.
	Kind object.GVK

	// MaxObjectBytes bounds one object or watch frame, in bytes. Zero means
	// DefaultMaxObjectBytes.
	MaxObjectBytes int

	// MaxDepth bounds the nesting of JSON or CBOR within one object. Zero means
	// DefaultMaxDepth. Protobuf has no such bound because types that contain
	// themselves are not read from protobuf at all (see SupportsProtobuf).
	MaxDepth int

	// Fields says which fields of the objects are wanted. What is not wanted is
	// skipped: that it could be read is not checked. Bookmarks are read whole,
	// since what they have to say is in their annotations.
	Fields Fields

	// Pool, if not nil, lets the objects of lists and watches share equal parts
	// with all others that were decoded with the same pool. It is for objects
	// that nobody changes. What Object decodes is the caller's alone, and so is
	// what comes as CBOR.
	Pool *Pool

	// Reference has every object decoded by apimachinery's own code and by
	// nothing else: slower, without sharing, and the measure of the compiled
	// decoders.
	Reference bool
}

func (o Options) withDefaults() Options {
	if o.MaxObjectBytes <= 0 {
		o.MaxObjectBytes = DefaultMaxObjectBytes
	}
	if o.MaxDepth <= 0 {
		o.MaxDepth = DefaultMaxDepth
	}
	return o
}

// NewDecoder returns the decoder for the media type that contentType
// names; parameters such as "charset" or "stream=watch" are ignored. It fails
// with ErrMedia where there is no decoder for the media type or T cannot be
// read from it, with ErrKind where the kind or the Go type of the objects cannot be
// told from T and opts, and with ErrFields where opts names fields that the Go
// type does not have.
func NewDecoder[T object.Object](contentType string, opts Options) (Decoder[T], error) {
	opts = opts.withDefaults()
	media, err := mediaType(contentType)
	if err != nil {
		return nil, err
	}
	t, err := newTarget[T](opts)
	if err != nil {
		return nil, err
	}
	switch media {
	case MediaJSON:
		return newJSONDecoder(t, opts), nil
	case MediaProtobuf:
		if reason := protobufObstacle(t.goType); reason != "" {
			return nil, fmt.Errorf("%w: %v cannot be read from %s: %s", ErrMedia, t.goType, MediaProtobuf, reason)
		}
		return newProtobufDecoder(t, opts)
	case MediaCBOR, MediaCBORSequence:
		return newCBORDecoder(t, opts), nil
	}
	return nil, fmt.Errorf("%w: no decoder for %q, want %s, %s or %s", ErrMedia, excerpt(media), MediaJSON, MediaProtobuf, MediaCBOR)
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
