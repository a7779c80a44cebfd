package wire

import (
	"reflect"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/wire/internal/fault"
	"github.com/millrace-dev/millrace/wire/internal/frame"
	"github.com/millrace-dev/millrace/wire/internal/head"
	"github.com/millrace-dev/millrace/wire/internal/memory"
	"github.com/millrace-dev/millrace/wire/internal/protobuf"
	"github.com/millrace-dev/millrace/wire/internal/share"
)

// maxSmallField bounds the fields of a list body that are not items.
const maxSmallField = 1 << 20

// protobufDecoder decodes protobuf with the table of the Go type, and falls back to
// the type's Unmarshal method.
type protobufDecoder struct {
	*target
	opts      Options
	make      product
	table     *protobuf.Table  // nil for the reference alone
	messages  *protobuf.Guard  // of what the reference reads
	layout    *layout          // of packed objects; nil where they are not packed as they come
	bookmarks *protobufDecoder // decodes bookmarks, which are never projected

	wanted   func(object.Head) bool // nil where all objects are
	selected func(selector string)  // nil where nobody asks
}

func newProtobufDecoder(t *target, opts Options, p product) (*protobufDecoder, error) {
	d := &protobufDecoder{target: t, opts: opts, make: p, messages: protobuf.GuardOf(t.goType, map[reflect.Type]*protobuf.Guard{})}
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
		d.layout = p.packer.layouts.get(t.goType, t.named(), codeProtobuf)
	}
	return d, err
}

// newRun returns what decodes the objects of one list or watch.
func (d *protobufDecoder) newRun() *protobuf.Run {
	return &protobuf.Run{Sharer: share.Sharer{Pool: d.opts.Pool.inner()}}
}

func (d *protobufDecoder) fail(where string, raw []byte, err error) *Error {
	// As much of the key as can be read: the object was refused already.
	h, _ := protobuf.HeadOf(raw)
	return &Error{Media: MediaProtobuf, Where: where, Key: keyOf(string(h.Namespace), string(h.Name)), Bytes: len(raw), Err: err}
}

func (d *protobufDecoder) Object(body []byte) (object.Head, error) {
	raw, err := d.open(body)
	if err != nil {
		return nil, err
	}
	return d.opened(new(protobuf.Run), raw, nil, false)
}

// Choosing implements Decoder.
func (d *protobufDecoder) Choosing(wanted func(object.Head) bool) Decoder {
	choosing := *d
	choosing.wanted = wanted
	return &choosing
}

// Selected implements Decoder.
func (d *protobufDecoder) Selected(told func(selector string)) Decoder {
	telling := *d
	telling.selected = told
	return &telling
}

// tell tells by which selector a list was selected, if by any.
func (d *protobufDecoder) tell(selector string) {
	if d.selected != nil && selector != "" {
		d.selected(selector)
	}
}

// open returns the bytes of an object out of its envelope, which must name its kind.
func (d *protobufDecoder) open(body []byte) (raw []byte, err error) {
	e, err := protobuf.Open(MediaProtobuf, body)
	if err != nil {
		return nil, d.fail("object", nil, err)
	}
	if err := d.opts.checkSize(e.Raw); err != nil {
		return nil, d.fail("object", e.Raw, err)
	}
	if isStatus(e.APIVersion, e.Kind) && !d.isStatus() {
		return nil, unmarshalStatus(e.Raw)
	}
	if err = d.checkKind(e.APIVersion, e.Kind); err == nil && e.Kind == "" {
		err = d.wrongKind(e.APIVersion, e.Kind)
	}
	if err != nil {
		return nil, d.fail("object", e.Raw, err)
	}
	return e.Raw, nil
}

// opened decodes an object that was in an envelope. A known object is returned instead.
func (d *protobufDecoder) opened(run *protobuf.Run, raw []byte, known Known, named bool) (object.Head, error) {
	if have, ok := d.known(known, raw); ok {
		return have, nil
	}
	obj, err := d.decode(run, raw, named)
	if err != nil {
		return nil, d.fail("object", raw, err)
	}
	return obj, nil
}

// decode makes what is wanted of raw: it packs the bytes as they are, if it can, or else
// decodes them.
func (d *protobufDecoder) decode(run *protobuf.Run, raw []byte, named bool) (object.Head, error) {
	if packed, ok := d.pack(run, raw, named); ok {
		return packed, nil
	}
	obj, err := d.object(run, raw, named)
	if err != nil {
		return nil, err
	}
	return d.make.of(obj)
}

// pack packs raw without decoding it, if that would succeed.
func (d *protobufDecoder) pack(run *protobuf.Run, raw []byte, named bool) (packed object.Head, ok bool) {
	if d.layout == nil {
		return packed, false
	}
	b := benches.Get().(*bench)
	defer b.clean()
	b.head.Wanted = d.make.packer.annotations
	kept, ok := run.Sift(d.table, &b.head, raw, &b.room)
	if !ok || named && b.head.Name == "" {
		return packed, false
	}
	return d.make.packer.packBytes(d.layout, &b.head, kept), true
}

// object decodes raw with the table, or else with the reference.
func (d *protobufDecoder) object(run *protobuf.Run, raw []byte, named bool) (object.Object, error) {
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
func (d *protobufDecoder) unmarshal(obj object.Object, raw []byte) error {
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

// identify implements glanced.
func (d *protobufDecoder) identify(i frame.Item) (v object.Version, ok bool) {
	h, ok := protobuf.HeadOf(i.Raw)
	if !ok || len(h.Name) == 0 {
		return v, false
	}
	// The strings last as long as the bytes do, which is longer than the call.
	v.Key = object.Key{Namespace: memory.String(h.Namespace), Name: memory.String(h.Name)}
	v.UID, v.RV = types.UID(memory.String(h.UID)), memory.String(h.RV)
	return v, true
}

// readHead implements glanced.
func (d *protobufDecoder) readHead(h *head.Head, i frame.Item) bool {
	return protobuf.ReadHead(h, i.Raw)
}

// decodeWhole implements glanced.
func (d *protobufDecoder) decodeWhole(i frame.Item) (object.Object, error) {
	return d.bookmarks.object(new(protobuf.Run), i.Raw, false)
}

// known returns the caller's object if raw is the same version of it.
func (d *protobufDecoder) known(k Known, raw []byte) (have object.Head, ok bool) {
	if k == nil {
		return have, false
	}
	v, ok := d.identify(frame.Item{Raw: raw})
	if !ok {
		return have, false
	}
	return k.version(v)
}
