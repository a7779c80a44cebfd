// Package wire decodes what the Kubernetes API sends: lists item by item and
// watches frame by frame, while they arrive.
//
// # Usage
//
//	dec, err := wire.NewDecoder(resp.Header.Get("Content-Type"), wire.Options{
//		Type: reflect.TypeFor[*corev1.Pod](),
//		Kind: corev1.SchemeGroupVersion.WithKind("Pod"),
//	})
//	var meta metav1.ListMeta
//	for pod, err := range dec.List(resp.Body, &meta, nil) { ... }
//
// A Decoder reads JSON, protobuf or CBOR, and its caller need not know which. In
// JSON and protobuf it finds each object in the body without decoding it, then
// decodes it in place with a table built from its Go type. If a table does not
// understand an object, apimachinery's own code, the reference, decodes it again
// and has the last word. Options.Reference uses the reference alone. CBOR is also
// read item by item, but apimachinery's codec decodes every object.
//
// With Options.Pool, equal parts of JSON and protobuf objects are decoded once
// and shared. With a Cached function, an object the caller already has in the same
// version is not decoded at all.
//
// The TypeMeta of an object depends on Options.Type. API types have none, as with every
// typed client. Unstructured objects have their own. Metadata-only objects have
// the real kind, not "PartialObjectMetadata".
//
// A Packer keeps objects as bytes. Packer.Decoder returns a decoder that packs what it reads
// without making objects of it: it keeps the bytes as they came, once it has checked that they
// can be decoded.
//
// Options.Keep selects fields: wire.Only("spec.nodeName"),
// wire.Without("status"), wire.WithoutManagedFields. Other fields are skipped, or
// in CBOR removed after decoding.
//
// # Guarantees
//
//   - A body that ends early is an error. It is never a shorter list or the end
//     of a watch (L18). There is one exception: a protobuf list may lack the empty
//     fields after its last item.
//   - An object that cannot be decoded, is too large, nests too deeply, has no
//     name or has the wrong kind is an *Error that says where and which (L21).
//     Nothing is yielded after it.
//   - Decoding returns for any bytes (W02). Memory grows with what has arrived,
//     not with what a length announces. Sizes and the depth of CBOR are checked
//     first, the depth of JSON while a value is read. Types that contain
//     themselves are not read from protobuf, because generated code recurses
//     without a bound. The following are refused before the reference sees them,
//     because it would take too long: quantities with more than 1,024 digits or an
//     exponent of more than two, and protobuf map entries whose lengths lie.
//   - An object becomes at most MaxMemoryPerByte bytes for each of its bytes, and
//     MaxMemoryBase more, beside its text and the room that lists and maps keep to grow, which
//     the reference does not trim. Elements are counted before a list is made.
//     An object that would become more is ErrTooDense, in whatever encoding and also
//     if it shares parts or is packed. To decode one allocates six times as much at
//     most, in all: its table may give up at the end, and the reference, which grows
//     its lists, starts when nothing refers to that attempt any more.
//   - The result is the reference's, whether a value or an error (W01).
//   - Sharing is invisible as long as nobody changes an object, and keeps nothing
//     alive (W03). Sharing makes an object hold at most twice its own bytes.
//   - A watch that waits holds a few kilobytes, whatever it has read, and of untyped
//     JSON the names of up to 4,096 places in its objects, at most 1.5 MB.
//   - A projected object equals the whole one with every other field zero. Name,
//     namespace, UID and resource version are always there (W04).
//   - A packed object can be opened, and is then what a decoder would have made of it
//     (C01).
//   - Errors quote nothing of an object except its key, the names of fields and
//     types, and the kind it claims. Objects may be Secrets.
//
// # Concurrency
//
// A Decoder is immutable and safe for concurrent use. An iterator belongs to one
// goroutine and reads only while it is ranged over: a consumer that stops or
// blocks stops the reading, and with it the sender. If a body arrives faster than
// one goroutine decodes, the iterator starts one for each other processor. They
// only decode, and the iterator waits for them before it ends. Nothing it yields
// refers to its buffer.
//
// # Failure
//
// There are three kinds of errors. An *Error is about the bytes: they are bad, or
// end too early (io.ErrUnexpectedEOF). An *errors.StatusError of apimachinery is
// the server speaking: an ERROR event, or a Status instead of an object. Any other
// error comes from the reader: the connection broke, which says nothing about the
// bytes.
//
// # Debugging
//
// Error.Where counts items and frames from 0. Error.Key is read from what is left
// of a bad object, if possible. An Event has the size of its frame, the time when
// its last byte was read from the connection, and the time when it was decoded.
//
// # Where things are
//
// This package is what users see, and reads lists and watches. The work is done in
// rooms below it. A body passes through them from the top:
//
//	internal/frame      buffers the body, finds where a value, an item or a watch frame ends
//	internal/parallel   hands values to goroutines, results to the caller
//	internal/json       decodes an object from JSON, with or without a Go type
//	internal/protobuf   decodes an object from protobuf
//	internal/cbor       decodes an object from CBOR with apimachinery's codec
//	internal/selection  says which fields of an object are wanted
//	internal/pack       keeps bytes small, beside their siblings
//	internal/head       holds the head of an object that is packed as it came
//	internal/share      finds parts that objects have in common
//	internal/memory     makes text and slices, keeps what is used again
//	internal/guard      bounds the memory of an object, and what the reference may read
//	internal/fault      holds the reasons to refuse a body
//
// The files of this package:
//
//	decoder.go                    reads objects, lists and watches of any encoding
//	{json,protobuf,cbor}_list.go  split a list into items
//	{json,protobuf,cbor}.go       split a frame, decode an object, or fall back to the reference
//	object_type.go                Go type and kind of the objects, and checks of their kind
//	lazy_head.go                  reads the head of an object before it is decoded
//	packer.go, packed.go          pack objects, and decode them again
//	codec.go                      encodes and decodes the bytes of a packed object
//	shared_meta.go                metadata that packed objects share
//	archive.go                    writes packed objects, and reads them back
package wire
