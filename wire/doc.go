// Package wire decodes Kubernetes API responses as they arrive: lists item by item, watches frame
// by frame.
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
// A [Decoder] reads JSON, protobuf or CBOR; the caller does not need to know which. For JSON and protobuf, it
// finds the end of each object in the body, and then decodes the object in place using a table built from its
// Go type. If a table cannot handle an object, apimachinery's own code, called the reference, decodes the
// object again and its result is used. [Options].Reference uses only the reference. CBOR is also read item by
// item, but every object is decoded by apimachinery's codec.
//
// With a [Pool], equal values in JSON and protobuf objects are decoded once and shared. With a [Cached]
// function, an object is not decoded at all if the caller already has that version.
//
// An object's TypeMeta depends on Options.Type. It is empty for API types, as with every typed client.
// Unstructured objects retain theirs. In metadata-only objects it is the real kind, not
// "PartialObjectMetadata".
//
// A [Packer] keeps objects as compressed bytes. [Packer.Decoder] returns a decoder that packs
// objects without decoding them: it only checks that the bytes can be decoded, and keeps them as
// received.
//
// Options.Keep selects [Fields]: wire.Only("spec.nodeName"), wire.Without("status"),
// [WithoutManagedFields]. Other fields are skipped, or in CBOR removed after decoding.
//
// # Guarantees
//
//   - A body that ends early is an error. It never looks like a shorter list or the end of a watch (L18). The
//     one exception is a protobuf list, which may lack the empty fields after its last item.
//   - An object that cannot be decoded, is too large, nests too deeply, has no name or has the wrong
//     kind causes an [*Error] with its position and key (L21), which ends the iteration.
//   - Decoding terminates on any input (W02). Buffers grow with the bytes received, not with declared
//     lengths. Sizes and CBOR nesting are checked in advance, and JSON nesting while a value is read.
//     Recursive types are not decoded from protobuf, because generated code recurses without limit. Two
//     kinds of values are rejected before they reach the reference, because decoding them would take
//     too long: quantities with more than 1,024 digits or an exponent of more than two digits, and
//     protobuf map entries with wrong lengths.
//   - A decoded object uses at most MaxMemoryPerByte bytes per input byte plus MaxMemoryBase, not
//     counting its text and the spare capacity of lists and maps, which the reference does not trim.
//     Elements are counted before a list is allocated. An object that would use more fails with
//     [ErrTooDense], in every encoding, even if it shares values or is packed. Decoding allocates at
//     most six times this amount in total: a table may give up at the end of an object, and the
//     reference, which grows its lists, then starts over.
//   - The result, whether a value or an error, is the same as the reference's (W01).
//   - Sharing is invisible unless a program modifies an object, and does not by itself keep anything alive
//     (W03). An object that shares values keeps at most twice its own bytes alive.
//   - An idle watch usually uses a few kilobytes, and at most half a megabyte, no matter how much it has read.
//     For untyped JSON it also remembers the names of up to 4,096 fields, at most 1.5 MB.
//   - A projected object equals the whole object with all other fields set to zero. Name, namespace, UID and
//     resource version are always present (W04).
//   - Opening a packed object returns the object that a decoder would have returned (C01).
//   - Errors quote only an object's key, the names of fields and types, and the kind that it claims to
//     be, because the object may be a Secret.
//
// # Concurrency
//
// A Decoder is immutable and safe for concurrent use. An iterator is not safe for
// concurrent use, and reads only while it is ranged over: if the consumer stops or blocks, reading stops,
// which in turn blocks the sender. If a body arrives faster than one goroutine can decode it, the iterator
// starts a goroutine for each additional CPU. These goroutines only decode, and have exited by the time the
// iterator returns. Nothing it yields refers to its buffer.
//
// # Failure
//
// There are three kinds of errors. An [*Error] means that the bytes are malformed or end too early
// (io.ErrUnexpectedEOF). An apimachinery *errors.StatusError comes from the server, which sent it in an ERROR
// event or instead of an object. Any other error comes from the reader, usually because the connection broke.
//
// # Debugging
//
// Error.Where counts items and frames from 0. Error.Key is read from the malformed object, if
// possible. An [Event] contains its frame's size, the time when the frame's last byte was read
// from the connection, and the time when it was decoded.
//
// # Where things are
//
// This package contains the API and reads lists and watches. Internal packages do the rest. A body passes
// through them from top to bottom:
//
//	internal/frame      buffers the body, finds the end of a value, an item or a watch frame
//	internal/parallel   hands values to goroutines and results to the caller
//	internal/json       decodes an object from JSON, with or without a Go type
//	internal/protobuf   decodes an object from protobuf
//	internal/cbor       decodes an object from CBOR with apimachinery's codec
//	internal/selection  selects an object's fields
//	internal/pack       compresses an object against similar ones
//	internal/head       represents the head of an object that is packed without decoding
//	internal/share      finds equal values in objects
//	internal/memory     allocates text and slices, keeps buffers for reuse
//	internal/guard      limits an object's memory and the reference's input
//	internal/fault      defines the errors for malformed bodies
//
// The files in this package:
//
//	decoder.go                    reads objects, lists and watches of any encoding
//	{json,protobuf,cbor}_list.go  split a list into items
//	{json,protobuf,cbor}.go       split a frame, decode an object, or fall back to the reference
//	object_type.go                the objects' Go type and kind, and checks of the kind
//	lazy_head.go                  reads the head of an object before it is decoded
//	packer.go, packed.go          pack objects, and decode them again
//	codec.go                      encodes and decodes the bytes of a packed object
//	shared_meta.go                metadata that packed objects share
//	archive.go                    writes packed objects, and reads them back
package wire
