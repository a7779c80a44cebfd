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
type protobufDecoder[H object.Head] struct {
	*target
	opts      Options
	make      product[H]
	table     *protobuf.Table     // nil for the reference alone
	messages  *protobuf.Guard     // of what the reference reads
	layout    *layout             // of packed objects; nil where they are not packed as they come
	bookmarks *protobufDecoder[H] // decodes bookmarks, which are never projected
}

func newProtobufDecoder[H object.Head](t *target, opts Options, p product[H]) (*protobufDecoder[H], error) {
	d := &protobufDecoder[H]{target: t, opts: opts, make: p, messages: protobuf.GuardOf(t.goType, map[reflect.Type]*protobuf.Guard{})}
	var err error
	if d.bookmarks = d; t.fields != nil || p.packer != nil {
		if d.bookmarks, err = newProtobufDecoder(t.whole(), opts, p.ofBookmarks()); err != nil {
			return nil, err
		}
	}
	if !opts.Reference && protobuf.HasTable(t.goType) {
		d.table, err = protobuf.TableOf(t.goType, t.fields)
	}
	if p.packer != nil && d.table != nil {
		d.layout = p.packer.layout(t.goType, t.named(), codeProtobuf)
	}
	return d, err
}

// newRun returns what decodes the objects of one list or watch.
func (d *protobufDecoder[H]) newRun() *protobuf.Run {
	return &protobuf.Run{Sharer: share.Sharer{Pool: d.opts.Pool.inner()}}
}

func (d *protobufDecoder[H]) fail(where string, raw []byte, err error) *Error {
	// As much of the key as can be read: the object was refused already.
	h, _ := protobuf.HeadOf(raw)
	return &Error{Media: MediaProtobuf, Where: where, Key: keyOf(string(h.Namespace), string(h.Name)), Bytes: len(raw), Err: err}
}

func (d *protobufDecoder[H]) Object(body []byte) (H, error) {
	return d.open(new(protobuf.Run), body, nil, false)
}

// open decodes an object in its envelope, which must name its kind. A known object
// is returned instead.
func (d *protobufDecoder[H]) open(run *protobuf.Run, body []byte, known Known[H], named bool) (H, error) {
	var none H
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

// decode makes what is wanted of raw: it packs the bytes as they are, if it can, or else
// decodes them.
func (d *protobufDecoder[H]) decode(run *protobuf.Run, raw []byte, named bool) (H, error) {
	if packed, ok := d.pack(run, raw, named); ok {
		return packed, nil
	}
	obj, err := d.object(run, raw, named)
	if err != nil {
		var none H
		return none, err
	}
	return d.make.of(obj)
}

// pack packs raw without decoding it, if that would succeed.
func (d *protobufDecoder[H]) pack(run *protobuf.Run, raw []byte, named bool) (packed H, ok bool) {
	if d.layout == nil {
		return packed, false
	}
	b := benches.Get().(*bench)
	defer b.clean()
	b.head.Wanted = d.make.packer.kept()
	kept, ok := run.Sift(d.table, &b.head, raw, &b.room)
	if !ok || named && b.head.Name == "" {
		return packed, false
	}
	return d.make.packer.packBytes(d.layout, &b.head, kept), true
}

// object decodes raw with the table, or else with the reference.
func (d *protobufDecoder[H]) object(run *protobuf.Run, raw []byte, named bool) (object.Object, error) {
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
func (d *protobufDecoder[H]) unmarshal(obj object.Object, raw []byte) error {
	if err := d.messages.Check(raw); err != nil {
		return err
	}
	if err := obj.(protobuf.Unmarshaler).Unmarshal(raw); err != nil {
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
func (d *protobufDecoder[H]) known(k Known[H], raw []byte) (have H, ok bool) {
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
