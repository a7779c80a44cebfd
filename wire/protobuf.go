package wire

import (
	"bytes"
	"reflect"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/wire/internal/fault"
	"github.com/millrace-dev/millrace/wire/internal/frame"
	"github.com/millrace-dev/millrace/wire/internal/head"
	"github.com/millrace-dev/millrace/wire/internal/protobuf"
	"github.com/millrace-dev/millrace/wire/internal/share"
)

// maxSmallField limits the size of a list body's fields other than its items.
const maxSmallField = 1 << 20

// protobufEncoding decodes protobuf with the Go type's table, and falls back to the type's
// Unmarshal method.
type protobufEncoding struct {
	decoderConfig
	table    *protobuf.Table // nil if all decoding is left to the reference
	messages *protobuf.Guard // guards the messages that the reference decodes
	codec    *codec          // codec for packed objects; nil if the decoder cannot pack bytes as received
}

func newProtobuf(c decoderConfig) (encoding, error) {
	d := &protobufEncoding{decoderConfig: c, messages: protobuf.GuardOf(c.goType, map[reflect.Type]*protobuf.Guard{})}
	var err error
	if !c.opts.Reference && protobuf.HasTable(c.goType) {
		d.table, err = protobuf.TableOf(c.goType, c.fields)
	}
	if p := c.output.packer; p != nil && d.table != nil {
		d.codec = p.codecs.get(c.goType, c.kindToSet(), formatProtobuf)
	}
	return d, err
}

func (d *protobufEncoding) fail(where string, raw []byte, err error) *Error {
	if bytes.HasPrefix(raw, []byte(protobuf.Magic)) {
		raw = nil // an envelope is not an object
	}
	// The object has already been rejected, so an incomplete key will do.
	of, _ := protobuf.IdentityOf(raw)
	return &Error{Media: MediaProtobuf, Where: where, Key: keyOf(of.Namespace, of.Name), Bytes: len(raw), Err: err}
}

func (d *protobufEncoding) wholeBody(body []byte) (frame.Item, error) {
	return frame.Item{Raw: body}, nil
}

// unwrap removes an object's envelope. The envelope must specify its kind.
func (d *protobufEncoding) unwrap(i frame.Item) (frame.Item, error) {
	e, err := protobuf.Open(MediaProtobuf, i.Raw)
	if err != nil {
		return i, d.fail("object", nil, err)
	}
	if err := d.opts.checkSize(e.Raw); err != nil {
		return i, d.fail("object", e.Raw, err)
	}
	if isStatus(e.APIVersion, e.Kind) && !d.isStatus() {
		return i, unmarshalStatus(e.Raw)
	}
	if err := d.checkNamed(e.APIVersion, e.Kind); err != nil {
		return i, d.fail("object", e.Raw, err)
	}
	return frame.Item{Raw: e.Raw}, nil
}

// status always returns nil, because the envelope distinguishes a Status from an object.
func (d *protobufEncoding) status(frame.Item) error { return nil }

func (d *protobufEncoding) watchError(i frame.Item) error {
	e, err := protobuf.Open(MediaProtobuf, i.Raw)
	if err == nil && !isStatus(e.APIVersion, e.Kind) {
		err = errNotStatus(e.APIVersion, e.Kind)
	}
	if err != nil {
		return d.fail("", nil, err)
	}
	return unmarshalStatus(e.Raw)
}

func (d *protobufEncoding) frames(s *frame.Source) func() (frame.Item, error) {
	return (&frame.Protobuf{Source: s, MaxBytes: d.opts.MaxObjectBytes}).NextFrame
}

func (d *protobufEncoding) splitFrame(i frame.Item) (string, frame.Item, error) {
	typ, raw, err := protobuf.SplitEvent(i.Raw)
	return typ, frame.Item{Raw: raw}, err
}

func (d *protobufEncoding) frameBytes(i frame.Item) int { return frame.FramePrefix + len(i.Raw) }

// protobufObjectDecoder decodes for one goroutine.
type protobufObjectDecoder struct {
	*protobufEncoding
	*protobuf.Decoder
}

func (d *protobufEncoding) newObjectDecoder(pool *share.Pool, versions bool) objectDecoder {
	return protobufObjectDecoder{d, &protobuf.Decoder{Sharer: share.Sharer{Pool: pool}, Versions: versions}}
}

func (d protobufObjectDecoder) pack(i frame.Item, needName bool) (packed object.Head, noKind, ok bool) {
	if d.codec == nil {
		return nil, false, false
	}
	b := packBufferPool.Get().(*packBuffers)
	defer b.release()
	b.head.Wanted = d.output.packer.annotations
	kept, ok := d.Filter(d.table, &b.head, i.Raw, &b.raw)
	if !ok || needName && b.head.Name == "" {
		return nil, false, false
	}
	return d.output.packer.packBytes(d.codec, &b.head, kept), false, true
}

// object decodes with the table, or with the reference if the table gives up. noKind is always
// false: the list specifies the kind of its items, and the envelope specifies the kind of any other
// object.
func (d protobufObjectDecoder) object(i frame.Item, needName bool) (obj object.Object, noKind bool, err error) {
	obj = d.new()
	if d.table == nil || d.Decode(d.table, reflect.ValueOf(obj).UnsafePointer(), i.Raw) != nil {
		obj = d.new()
		if err := d.unmarshal(obj, i.Raw); err != nil {
			return obj, false, err
		}
	}
	return obj, false, d.finish(obj, needName)
}

// unmarshal decodes raw with the reference.
func (d *protobufEncoding) unmarshal(obj object.Object, raw []byte) error {
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

func (d *protobufEncoding) identify(i frame.Item) (v object.Version, ok bool) {
	of, ok := protobuf.IdentityOf(i.Raw)
	if !ok || of.Name == "" {
		return v, false
	}
	return of.Version(), true
}

func (d *protobufEncoding) readHead(h *head.Head, i frame.Item) bool {
	return protobuf.ReadHead(h, i.Raw)
}
