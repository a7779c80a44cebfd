// Package wire decodes responses of the Kubernetes API while they arrive: lists item by item,
// watches frame by frame.
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
// A [Decoder] reads JSON, protobuf or CBOR; the caller need not know which. For JSON and protobuf
// it finds the bounds of each object in the body and then decodes it in place with a table built
// from its Go type. If a table does not understand an object, apimachinery's own code, called the
// reference, decodes it again and its result counts. [Options].Reference uses only the reference.
// CBOR is also read item by item, but apimachinery's codec decodes every object.
//
// With a [Pool], equal parts of JSON and protobuf objects are decoded once and shared. With a
// [Cached] function, an object that the caller already has in the same version is not decoded at
// all.
//
// The TypeMeta of an object depends on Options.Type. API types have none, as with every
// typed client. Unstructured objects have their own. Metadata-only objects have
// the real kind, not "PartialObjectMetadata".
//
// A [Packer] keeps objects as compressed bytes. [Packer.Decoder] returns a decoder that packs
// objects without decoding them: it checks that the bytes can be decoded and keeps them as they
// came.
//
// Options.Keep selects [Fields]: wire.Only("spec.nodeName"), wire.Without("status"),
// [WithoutManagedFields]. Other fields are skipped, or in CBOR removed after decoding.
//
// # Guarantees
//
//   - A body that ends early is an error. It is never a shorter list or the end of a watch (L18). One
//     exception: a protobuf list may lack the empty fields after its last item.
//   - An object that cannot be decoded, is too large, nests too deeply, has no name or has the wrong
//     kind is an [*Error] that names the place and the object (L21). The iteration ends with it.
//   - Decoding returns for any bytes (W02). Buffers grow with the bytes received, not with announced
//     lengths. Sizes and the depth of CBOR are checked first, the depth of JSON while a value is read.
//     Types that contain themselves are not read from protobuf, because generated code recurses without
//     a bound. Two kinds of values are refused before the reference sees them, because it would take
//     too long: quantities with more than 1,024 digits or an exponent of more than two digits, and
//     protobuf map entries with wrong lengths.
//   - A decoded object takes at most MaxMemoryPerByte bytes per input byte plus MaxMemoryBase, not
//     counting its text and the spare capacity of lists and maps, which the reference does not trim.
//     Elements are counted before a list is allocated. An object that would take more fails with
//     [ErrTooDense], in every encoding, even if it shares parts or is packed. Decoding allocates at
//     most six times this amount in total: a table may give up at the end of an object, and the
//     reference, which grows its lists, then starts over.
//   - The result equals the reference's, whether a value or an error (W01).
//   - Sharing is invisible unless a program changes an object, and it keeps nothing alive (W03). A
//     shared object holds at most twice its own bytes.
//   - An idle watch holds a few kilobytes, whatever it has read. For untyped JSON it also holds the
//     names of up to 4,096 fields, at most 1.5 MB.
//   - A projected object equals the whole one with every other field zero. Name, namespace, UID and
//     resource version are always present (W04).
//   - Opening a packed object gives the object that a decoder would have returned (C01).
//   - Errors quote only the key of an object, the names of fields and types, and the kind it claims,
//     because it may be a Secret.
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
// There are three kinds of errors. An [*Error] is about the bytes: they are malformed, or end too
// early (io.ErrUnexpectedEOF). An *errors.StatusError of apimachinery was sent by the server, in an
// ERROR event or instead of an object. Any other error comes from the reader, usually because the
// connection broke.
//
// # Debugging
//
// Error.Where counts items and frames from 0. Error.Key is read from the malformed object, if
// possible. An [Event] has the size of its frame, the time when its last byte was read from the
// connection, and the time when it was decoded.
//
// # Where things are
//
// This package contains the API and reads lists and watches. Internal packages do the rest. A body
// passes through them from the top:
//
//	internal/frame      buffers the body, finds the end of a value, an item or a watch frame
//	internal/parallel   hands values to goroutines and results to the caller
//	internal/json       decodes an object from JSON, with or without a Go type
//	internal/protobuf   decodes an object from protobuf
//	internal/cbor       decodes an object from CBOR with apimachinery's codec
//	internal/selection  selects the fields of an object
//	internal/pack       compresses an object against similar ones
//	internal/head       holds the head of an object that is packed without decoding
//	internal/share      finds equal parts of objects
//	internal/memory     allocates text and slices, keeps buffers for reuse
//	internal/guard      bounds the memory of an object and the input of the reference
//	internal/fault      defines the errors for malformed bodies
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
