package wire

import (
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/wire/internal/fault"
	"github.com/millrace-dev/millrace/wire/internal/frame"
	"github.com/millrace-dev/millrace/wire/internal/guard"
)

// cborDecoder reads CBOR (RFC 8949, KEP-4222). It finds the objects in a body
// itself, but apimachinery's codec decodes them. Nothing is shared, and a
// projection is applied afterwards.
type cborDecoder[T object.Object] struct {
	*target[T]
	opts      Options
	bookmarks *cborDecoder[T] // decodes bookmarks, which are never projected
}

func newCBORDecoder[T object.Object](t *target[T], opts Options) *cborDecoder[T] {
	d := &cborDecoder[T]{target: t, opts: opts}
	if d.bookmarks = d; t.fields != nil {
		d.bookmarks = newCBORDecoder(t.whole(), opts)
	}
	return d
}

// scan returns a scanner for values of at most overhead bytes more than an object
// may have.
func (d *cborDecoder[T]) scan(s *frame.Source, overhead int) *frame.CBOR {
	return &frame.CBOR{Source: s, MaxBytes: d.opts.MaxObjectBytes + overhead, MaxDepth: d.opts.MaxDepth}
}

func (d *cborDecoder[T]) fail(where string, raw []byte, err error) *Error {
	key := readCBORIdentity(raw).key()
	key = object.Key{Namespace: strings.Clone(key.Namespace), Name: strings.Clone(key.Name)}
	return &Error{Media: MediaCBOR, Where: where, Key: key, Bytes: len(raw), Err: err}
}

func (d *cborDecoder[T]) Object(body []byte) (T, error) {
	var none T
	s := d.scan(frame.FromBytes(body), 0)
	raw, err := s.Value()
	if err == nil {
		err = s.AtEnd()
	}
	if err != nil {
		return none, d.fail("object", nil, err)
	}
	return d.decode(raw, false)
}

// decode decodes an object that must name its own kind. A Status instead of an
// object is returned as an *errors.StatusError.
func (d *cborDecoder[T]) decode(raw []byte, named bool) (T, error) {
	var none T
	obj, bare, err := d.decodeItem(raw, named)
	switch {
	case err == nil && !bare:
		return obj, nil
	case err == nil:
		err = d.wrongKind("", "")
	case !d.isStatus() && readCBORIdentity(raw).isStatus():
		return none, decodeCBORStatus(raw)
	}
	return none, d.fail("object", raw, err)
}

// decodeItem decodes an object. bare means that the object does not fully name its
// kind.
func (d *cborDecoder[T]) decodeItem(raw []byte, named bool) (obj T, bare bool, err error) {
	obj = d.new()
	if err := d.unmarshal(obj, raw); err != nil {
		h := readCBORIdentity(raw)
		if wrong := d.checkKind(h.APIVersion, h.Kind); wrong != nil {
			err = wrong
		}
		return obj, false, err
	}
	gvk := obj.GetObjectKind().GroupVersionKind()
	if gvk != d.kind {
		if err := d.checkKind(gvk.GroupVersion().String(), gvk.Kind); err != nil {
			return obj, false, err
		}
	}
	d.project(obj)
	return obj, gvk.Kind == "" || gvk.Version == "", d.finish(obj, named)
}

func (d *cborDecoder[T]) unmarshal(obj T, raw []byte) error {
	if d.guard != nil && mayHideAbsurd(raw) {
		var tree cborTree
		if err := unmarshalCBOR(raw, &tree); err != nil {
			return err
		}
		if err := d.guard.CheckValue(map[string]any(tree)); err != nil {
			return err
		}
	}
	if u, ok := any(obj).(*unstructured.Unstructured); ok {
		return unmarshalCBOR(raw, (*cborTree)(&u.Object))
	}
	return unmarshalCBOR(raw, obj)
}

// unmarshalCBOR decodes a map with apimachinery's codec, whatever kind it claims.
func unmarshalCBOR(raw []byte, into runtime.Object) error {
	w := cborWalk{raw: raw}
	if h, ok := w.enter(); !ok || h.Major != frame.CBORMap {
		return fmt.Errorf("%w: want a CBOR map", ErrSyntax)
	}
	anyKind := schema.GroupVersionKind{Version: "v1", Kind: "Any"} // if the map names none
	if _, _, err := cbor.NewSerializer(cborInto{into}, nil).Decode(raw, &anyKind, nil); err != nil {
		return fault.WithoutContent(err)
	}
	return nil
}

// cborInto makes a codec decode into an existing object.
type cborInto struct{ object runtime.Object }

func (i cborInto) New(schema.GroupVersionKind) (runtime.Object, error) { return i.object, nil }

// cborTree is an object without a Go type. The codec's own unstructured decoding
// refuses objects that do not name their kind, which items of a list may not.
type cborTree map[string]any

func (t *cborTree) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }

func (t *cborTree) DeepCopyObject() runtime.Object {
	copied := cborTree(runtime.DeepCopyJSON(*t))
	return &copied
}

func decodeCBORStatus(raw []byte) error {
	status := new(metav1.Status)
	if err := unmarshalCBOR(raw, status); err != nil {
		return &Error{Media: MediaCBOR, Where: "status", Bytes: len(raw), Err: err}
	}
	return apierrors.FromObject(status)
}

// mayHideAbsurd is guard.MayHoldAbsurd for CBOR: it reports whether a string in raw is
// absurd as a quantity, or may become so by its tags or when its pieces are put
// together. raw is as a scanner found it.
func mayHideAbsurd(raw []byte) bool {
	for n := 0; n < len(raw); {
		h, ok, err := frame.ReadCBORHead(raw[n:])
		if !ok || err != nil {
			return true
		}
		n += h.Size
		switch h.Major {
		case frame.CBORTag:
			if h.Value != frame.CBORSelfDescribed {
				return true
			}
		case frame.CBORBytes, frame.CBORText:
			if h.Indefinite || h.Value > uint64(len(raw)-n) || guard.Absurd(raw[n:n+int(h.Value)]) {
				return true
			}
			n += int(h.Value)
		}
	}
	return false
}
