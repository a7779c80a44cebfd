package wire

import (
	"reflect"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/wire/internal/fault"
	"github.com/millrace-dev/millrace/wire/internal/memory"
	"github.com/millrace-dev/millrace/wire/internal/protobuf"
	"github.com/millrace-dev/millrace/wire/internal/share"
)

// maxSmallField bounds the fields of a list body that are not items.
const maxSmallField = 1 << 20

// protobufDecoder decodes protobuf with the table of the Go type, and falls back to
// the type's Unmarshal method.
type protobufDecoder[T object.Object] struct {
	*target[T]
	opts      Options
	table     *protobuf.Table     // nil for the reference alone
	messages  *protobuf.Guard     // of what the reference reads
	bookmarks *protobufDecoder[T] // decodes bookmarks, which are never projected
}

func newProtobufDecoder[T object.Object](t *target[T], opts Options) (*protobufDecoder[T], error) {
	d := &protobufDecoder[T]{target: t, opts: opts, messages: protobuf.GuardOf(t.goType, make(map[reflect.Type]*protobuf.Guard))}
	var err error
	if d.bookmarks = d; t.fields != nil {
		if d.bookmarks, err = newProtobufDecoder(t.whole(), opts); err != nil {
			return nil, err
		}
	}
	if !opts.Reference && protobuf.HasTable(t.goType) {
		d.table, err = protobuf.TableOf(t.goType, t.fields)
	}
	return d, err
}

// newRun returns what decodes the objects of one list or watch.
func (d *protobufDecoder[T]) newRun() *protobuf.Run {
	return &protobuf.Run{Sharer: share.Sharer{Pool: d.opts.Pool.inner()}}
}

func (d *protobufDecoder[T]) fail(where string, raw []byte, err error) *Error {
	// As much of the key as can be read: the object was refused already.
	h, _ := protobuf.HeadOf(raw)
	return &Error{Media: MediaProtobuf, Where: where, Key: keyOf(string(h.Namespace), string(h.Name)), Bytes: len(raw), Err: err}
}

func (d *protobufDecoder[T]) Object(body []byte) (T, error) {
	return d.open(new(protobuf.Run), body, nil, false)
}

// open decodes an object in its envelope, which must name its kind. A known object
// is returned instead.
func (d *protobufDecoder[T]) open(run *protobuf.Run, body []byte, known Known[T], named bool) (T, error) {
	var none T
	e, err := protobuf.Open(MediaProtobuf, body)
	if err != nil {
		return none, d.fail("object", nil, err)
	}
	if err := d.opts.checkSize(e.Raw); err != nil {
		return none, d.fail("object", e.Raw, err)
	}
	if isStatus(e.APIVersion, e.Kind) && !d.isStatus() {
		return none, unmarshalStatus(e.Raw)
	}
	if err = d.checkKind(e.APIVersion, e.Kind); err == nil && e.Kind == "" {
		err = d.wrongKind(e.APIVersion, e.Kind)
	}
	if err != nil {
		return none, d.fail("object", e.Raw, err)
	}
	if have, ok := d.known(known, e.Raw); ok {
		return have, nil
	}
	obj, err := d.decode(run, e.Raw, named)
	if err != nil {
		return none, d.fail("object", e.Raw, err)
	}
	return obj, nil
}

// decode decodes raw with the table, or else with the reference.
func (d *protobufDecoder[T]) decode(run *protobuf.Run, raw []byte, named bool) (T, error) {
	obj := d.new()
	if d.table == nil || run.Decode(d.table, reflect.ValueOf(obj).UnsafePointer(), raw) != nil {
		obj = d.new()
		if err := d.unmarshal(obj, raw); err != nil {
			return obj, err
		}
	}
	return obj, d.finish(obj, named)
}

// unmarshal is the reference.
func (d *protobufDecoder[T]) unmarshal(obj T, raw []byte) error {
	if err := d.messages.Check(raw); err != nil {
		return err
	}
	if err := any(obj).(protobuf.Unmarshaler).Unmarshal(raw); err != nil {
		return fault.WithoutContent(err)
	}
	d.project(obj)
	return nil
}

func unmarshalStatus(raw []byte) error {
	status := new(metav1.Status)
	if err := status.Unmarshal(raw); err != nil {
		return &Error{Media: MediaProtobuf, Where: "status", Bytes: len(raw), Err: fault.WithoutContent(err)}
	}
	return apierrors.FromObject(status)
}

// known returns the caller's object if raw is the same version of it.
func (d *protobufDecoder[T]) known(k Known[T], raw []byte) (have T, ok bool) {
	if k == nil {
		return have, false
	}
	h, ok := protobuf.HeadOf(raw)
	if !ok {
		return have, false
	}
	// The strings last as long as raw does, which is longer than the call.
	key := object.Key{Namespace: memory.String(h.Namespace), Name: memory.String(h.Name)}
	return k.version(key, memory.String(h.UID), memory.String(h.RV))
}
