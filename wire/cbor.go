package wire

import (
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/wire/internal/cbor"
	"github.com/millrace-dev/millrace/wire/internal/frame"
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

func (d *cborDecoder[T]) scan(s *frame.Source) *frame.CBOR {
	return &frame.CBOR{Source: s, MaxBytes: d.opts.MaxObjectBytes, MaxDepth: d.opts.MaxDepth}
}

func (d *cborDecoder[T]) fail(where string, raw []byte, err error) *Error {
	i := cbor.ReadIdentity(raw)
	return &Error{Media: MediaCBOR, Where: where, Key: keyOf(i.Namespace, i.Name), Bytes: len(raw), Err: err}
}

func (d *cborDecoder[T]) Object(body []byte) (T, error) {
	var none T
	s := d.scan(frame.FromBytes(body))
	s.MaxDepth++ // the tag in front, which items of a list do not have
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
	case !d.isStatus() && claimsCBORStatus(raw):
		return none, decodeCBORStatus(raw)
	}
	return none, d.fail("object", raw, err)
}

// decodeItem decodes an object. bare means that the object does not fully name its
// kind.
func (d *cborDecoder[T]) decodeItem(raw []byte, named bool) (obj T, bare bool, err error) {
	obj = d.new()
	if err := d.unmarshal(obj, raw); err != nil {
		h := cbor.ReadIdentity(raw)
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
	if d.guard != nil && cbor.MayHideAbsurd(raw) {
		var tree cbor.Tree
		if err := cbor.Unmarshal(raw, &tree); err != nil {
			return err
		}
		if err := d.guard.CheckValue(map[string]any(tree)); err != nil {
			return err
		}
	}
	if u, ok := any(obj).(*unstructured.Unstructured); ok {
		return cbor.Unmarshal(raw, (*cbor.Tree)(&u.Object))
	}
	return cbor.Unmarshal(raw, obj)
}

// claimsCBORStatus reports whether an object says that it is a Status.
func claimsCBORStatus(raw []byte) bool {
	i := cbor.ReadIdentity(raw)
	return isStatus(i.APIVersion, i.Kind)
}

func decodeCBORStatus(raw []byte) error {
	status := new(metav1.Status)
	if err := cbor.Unmarshal(raw, status); err != nil {
		return &Error{Media: MediaCBOR, Where: "status", Bytes: len(raw), Err: err}
	}
	return apierrors.FromObject(status)
}

// known returns the caller's object if raw is the same version of it.
func (d *cborDecoder[T]) known(known Known[T], raw []byte) (have T, ok bool) {
	if known == nil {
		return have, false
	}
	i := cbor.ReadIdentity(raw)
	if !i.Sound || i.UID == "" {
		return have, false
	}
	return known.version(object.Key{Namespace: i.Namespace, Name: i.Name}, i.UID, i.RV)
}
