package wire

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/object"
)

// frameOverhead is what a watch frame may have beyond its object: the type of
// the event and the envelope, with their lengths.
const frameOverhead = 1 << 10

// maxSmallField bounds the fields of a list body that are not items.
const maxSmallField = 1 << 20

// protobufDecoder reads protobuf with the Unmarshal method of the Go type.
type protobufDecoder[T object.Object] struct {
	*target[T]
	opts Options
}

func (d *protobufDecoder[T]) fail(where string, raw []byte, err error) *Error {
	e := &Error{Media: MediaProtobuf, Where: where, Bytes: len(raw), Err: err}
	// Every API type has its ObjectMeta as field 1, as PartialObjectMetadata has.
	var head metav1.PartialObjectMetadata
	if len(raw) > 0 && head.Unmarshal(raw) == nil {
		e.Key = object.Key{Namespace: excerpt(head.Namespace), Name: excerpt(head.Name)}
	}
	return e
}

func (d *protobufDecoder[T]) Object(body []byte) (T, error) {
	return d.open(body, "object", false)
}

// open decodes an object in its envelope, which must name its kind.
func (d *protobufDecoder[T]) open(body []byte, where string, named bool) (T, error) {
	var none T
	if len(body) > d.opts.MaxObjectBytes+frameOverhead {
		return none, d.fail(where, nil, fmt.Errorf("%w: %d bytes, more than %d", ErrTooLarge, len(body), d.opts.MaxObjectBytes))
	}
	e, err := openEnvelope(body)
	if err != nil {
		return none, d.fail(where, nil, err)
	}
	if e.isStatus() && !d.isStatus() {
		return none, unmarshalStatus(e.raw)
	}
	if err = d.checkKind(e.apiVersion, e.kind); err == nil && e.kind == "" {
		err = d.wrongKind(e.apiVersion, e.kind)
	}
	if err != nil {
		return none, d.fail(where, e.raw, err)
	}
	return d.decode(e.raw, where, named)
}

func (d *protobufDecoder[T]) decode(raw []byte, where string, named bool) (T, error) {
	var none T
	if d.quantities != nil {
		if err := d.quantities.checkProto(raw); err != nil {
			return none, d.fail(where, raw, err)
		}
	}
	obj := d.new()
	if err := any(obj).(unmarshaler).Unmarshal(raw); err != nil {
		return none, d.fail(where, raw, withoutContent(err))
	}
	if err := d.finish(obj, named); err != nil {
		return none, d.fail(where, raw, err)
	}
	return obj, nil
}

func unmarshalStatus(raw []byte) error {
	status := new(metav1.Status)
	if err := status.Unmarshal(raw); err != nil {
		return &Error{Media: MediaProtobuf, Where: "status", Bytes: len(raw), Err: withoutContent(err)}
	}
	return apierrors.FromObject(status)
}
