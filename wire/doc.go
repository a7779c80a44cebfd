// Package wire turns the bytes of the Kubernetes API into objects: lists item
// by item, watches frame by frame, while they arrive.
//
// # Usage
//
//	dec, err := wire.NewDecoder[*corev1.Pod](resp.Header.Get("Content-Type"), wire.Options{
//		Kind: corev1.SchemeGroupVersion.WithKind("Pod"),
//	})
//	var meta metav1.ListMeta
//	for pod, err := range dec.List(resp.Body, &meta, nil) { ... }
//
// Decoder is the seam: whoever reads bodies knows nothing of encodings. It reads
// JSON and protobuf: it finds each object in the body without decoding it, and
// decodes it in place by a table of its Go type, built at first use. Whatever a
// table does not understand is decoded again by apimachinery's own code, the
// reference, which has the last word. Options.Reference leaves nothing else.
// CBOR is read item by item too, but every object is left to apimachinery's
// codec.
//
// With Options.Pool, equal parts of objects are decoded once and shared, in JSON
// and protobuf; with a Known function, an object that the caller has in the same
// version is not decoded at all.
//
// What an object carries as its TypeMeta depends on T. API types have none, as
// from every typed client; unstructured objects have their own; metadata-only
// objects have the real kind, not "PartialObjectMetadata".
//
// Options.Fields says which fields are wanted: wire.Only("spec.nodeName"),
// wire.Without("status"), wire.WithoutManagedFields. The others are skipped; of
// CBOR, they are taken out when all was decoded.
//
// # Guarantees
//
//   - A body that ends early is an error, never a shorter list and never the
//     end of a watch (L18). The one exception is a protobuf list that lacks
//     only the empty fields behind its last item.
//   - What cannot be decoded, is too large, nests too deeply, has no name or is
//     of another kind than expected is an *Error that says where and which
//     (L21). No later item or frame is yielded after it.
//   - For any bytes, decoding returns (W02): memory grows with what has
//     arrived, not with what a length announces; sizes and the depth of CBOR
//     are checked before, the depth of JSON while a value is read; types that
//     contain themselves are not read from protobuf, whose generated code
//     recurses without a bound; and what apimachinery's code would take long for
//     is refused before it is called: quantities of more than 1,024 digits or with
//     an exponent of more than three, map entries in protobuf whose lengths lie,
//     long lists of what cannot be their elements.
//   - Whatever the bytes, the result is that of the reference, be it a value or
//     an error (W01).
//   - Sharing changes nothing for who does not change objects, and keeps nothing
//     alive (W03). On its account an object holds at most twice its own bytes.
//   - A watch that waits holds a few kilobytes, whatever it has read.
//   - An object with some of its fields equals the whole one with every other
//     field zero; name, namespace, UID and resource version are always there
//     (W04).
//   - Errors quote nothing of the object but its key, names of fields and
//     types, and what it says of its kind (objects may be Secrets).
//
// # Concurrency
//
// A Decoder is immutable and may be used from many goroutines. An iterator
// belongs to one goroutine and reads only while it is ranged over: a consumer
// that stops or blocks stops the reading, and with it the sender. Where a list
// arrives faster than one goroutine decodes, the iterator starts one for each
// other processor, which do nothing but decode, and waits for them when it ends.
// Nothing that is yielded refers to the buffer.
//
// # Failure
//
// Three kinds of errors can be told apart. An *Error is about the bytes: they
// were read and are no good, or end too early (io.ErrUnexpectedEOF). An
// *errors.StatusError of apimachinery is the server speaking: an ERROR event,
// or a Status where something else was expected. Anything else comes from the
// reader: the connection broke, which says nothing about the bytes.
//
// # Debugging
//
// Error.Where counts items and frames from 0. Error.Key is read from what is
// left of a bad object where that is possible. Event carries the size of the
// frame, when its last byte was read from the connection, and when it was
// decoded.
package wire
