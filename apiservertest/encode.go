package apiservertest

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/millrace-dev/millrace/object"
)

// format is a response encoding: a media type, and whether objects are sent whole or as metadata only.
type format int

const (
	formatJSON format = iota
	formatProto
	formatCBOR
	formatMetaJSON
	formatMetaProto
	formatMetaCBOR

	formats
)

const (
	typeJSON  = "application/json"
	typeProto = "application/vnd.kubernetes.protobuf"
	typeCBOR  = "application/cbor"
	typeYAML  = "application/yaml"
)

func (f format) proto() bool { return f == formatProto || f == formatMetaProto }
func (f format) cbor() bool  { return f == formatCBOR || f == formatMetaCBOR }
func (f format) meta() bool  { return f >= formatMetaJSON }

func (f format) mediaType() string {
	switch {
	case f.proto():
		return typeProto
	case f.cbor():
		return typeCBOR
	}
	return typeJSON
}

// protoMagic starts every protobuf body in the Kubernetes API.
var protoMagic = []byte("k8s\x00")

// encoding is an object in one format. body is a complete response. item is the part of body used in a
// list; in JSON it is preceded by lead.
type encoding struct {
	once sync.Once
	body []byte
	lead string
	item []byte
	err  error
}

// encode returns v in format f. It encodes v only on the first call.
func (v *version) encode(f format) (*encoding, error) {
	e := &v.encodings[f]
	e.once.Do(func() { e.fill(v.res, v.obj, f) })
	if e.err != nil {
		return nil, fmt.Errorf("encode %s %s as %s: %w", v.res.GVR.Resource, v.path, f.mediaType(), e.err)
	}
	return e, nil
}

func (e *encoding) fill(res *Resource, obj object.Object, f format) {
	gvk := res.GVK()
	var source runtime.Object = obj
	if f.meta() {
		gvk = metav1.SchemeGroupVersion.WithKind("PartialObjectMetadata")
		source = meta.AsPartialObjectMetadata(obj)
	}
	if f.proto() {
		e.body, e.item, e.err = protoBody(gvk, source)
		return
	}
	if f.cbor() {
		e.body, e.item, e.err = cborBody(gvk, source, !res.untyped() && !f.meta())
		return
	}
	e.body, e.err = json.Marshal(source)
	e.item = e.body
	if e.err != nil || res.untyped() && !f.meta() {
		return // unstructured objects already contain their kind
	}
	head := fmt.Sprintf(`{"kind":%q,"apiVersion":%q,`, gvk.Kind, gvk.GroupVersion().String())
	e.body = append([]byte(head), e.body[1:]...)
	e.item, e.lead = e.body[len(head):], "{"
	if f.meta() { // the items of a metadata list contain their kind
		e.item, e.lead = e.body, ""
	}
}

// marshaler is implemented by API types with generated protobuf code.
type marshaler interface{ Marshal() ([]byte, error) }

// protoBody encodes obj as a protobuf response. It also returns the part of the response that encodes the
// object itself.
func protoBody(gvk object.GVK, obj any) (body, raw []byte, err error) {
	m, ok := obj.(marshaler)
	if !ok {
		return nil, nil, fmt.Errorf("object %T does not implement the protobuf marshalling interface and cannot be encoded to a protobuf message", obj)
	}
	if raw, err = m.Marshal(); err != nil {
		return nil, nil, err
	}
	head, err := protoHead(gvk, len(raw))
	if err != nil {
		return nil, nil, err
	}
	body = append(head, raw...)
	raw = body[len(head):len(body):len(body)]
	return append(body, protoTail...), raw, nil
}

// protoTail follows the object in a runtime.Unknown: an empty content encoding and an empty content type.
var protoTail = []byte{0x1a, 0, 0x22, 0}

// protoHead returns the magic number and the start of a runtime.Unknown, up to the size bytes of the
// object.
func protoHead(gvk object.GVK, size int) ([]byte, error) {
	kind := runtime.TypeMeta{APIVersion: gvk.GroupVersion().String(), Kind: gvk.Kind}
	typeMeta, err := kind.Marshal()
	if err != nil {
		return nil, fmt.Errorf("encode kind %v: %w", gvk, err)
	}
	head := append([]byte(nil), protoMagic...)
	head = appendField(head, 1, typeMeta)
	return appendTag(head, 2, size), nil
}

// appendTag appends the key and length of a length-delimited field.
func appendTag(dst []byte, field, size int) []byte {
	dst = binary.AppendUvarint(dst, uint64(field)<<3|2)
	return binary.AppendUvarint(dst, uint64(size))
}

func appendField(dst []byte, field int, value []byte) []byte {
	return append(appendTag(dst, field, len(value)), value...)
}

// tagSize returns the number of bytes appended by appendTag.
func tagSize(field, size int) int {
	return len(appendTag(make([]byte, 0, 2*binary.MaxVarintLen64), field, size))
}

// appendFrame appends a watch event: a line of JSON, a protobuf WatchEvent after its
// four-byte length, or a CBOR data item.
func appendFrame(dst []byte, f format, kind watch.EventType, body []byte) []byte {
	if f.cbor() {
		return appendCBORFrame(dst, kind, body)
	}
	if !f.proto() {
		dst = append(dst, `{"type":"`...)
		dst = append(dst, kind...)
		dst = append(dst, `","object":`...)
		dst = append(dst, body...)
		return append(dst, "}\n"...)
	}
	inner := tagSize(1, len(body)) + len(body)
	size := tagSize(1, len(kind)) + len(kind) + tagSize(2, inner) + inner
	dst = binary.BigEndian.AppendUint32(dst, uint32(size))
	dst = appendField(dst, 1, []byte(kind))
	dst = appendTag(dst, 2, inner)
	return appendField(dst, 1, body)
}

// encodeStatus encodes a Status as a response body.
func encodeStatus(status metav1.Status, f format) ([]byte, error) {
	gvk := object.GVK{Version: "v1", Kind: "Status"}
	if f.proto() {
		body, _, err := protoBody(gvk, &status)
		return body, err
	}
	if f.cbor() {
		body, _, err := cborBody(gvk, &status, false)
		return body, err
	}
	status.Kind, status.APIVersion = gvk.Kind, gvk.Version
	return json.Marshal(status)
}
