package wire

import (
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/wire/internal/cbor"
	"github.com/millrace-dev/millrace/wire/internal/frame"
	"github.com/millrace-dev/millrace/wire/internal/guard"
	"github.com/millrace-dev/millrace/wire/internal/head"
)

// cborDecoder reads CBOR (RFC 8949, KEP-4222). It finds the objects in a body
// itself, but apimachinery's codec decodes them. Nothing is shared, and a
// projection is applied afterwards.
type cborDecoder struct {
	*target
	opts      Options
	make      product
	bookmarks *cborDecoder // decodes bookmarks, which are never projected

	wanted   func(object.Head) bool // nil where all objects are
	selected func(selector string)  // nil where nobody asks
}

func newCBORDecoder(t *target, opts Options, p product) *cborDecoder {
	d := &cborDecoder{target: t, opts: opts, make: p}
	if d.bookmarks = d; t.fields != nil || p.packer != nil {
		d.bookmarks = newCBORDecoder(t.whole(), opts, p.ofBookmarks())
	}
	return d
}

func (d *cborDecoder) scan(s *frame.Source) *frame.CBOR {
	return &frame.CBOR{Source: s, MaxBytes: d.opts.MaxObjectBytes, MaxDepth: d.opts.MaxDepth}
}

func (d *cborDecoder) fail(where string, raw []byte, err error) *Error {
	i := cbor.ReadIdentity(raw)
	return &Error{Media: MediaCBOR, Where: where, Key: keyOf(i.Namespace, i.Name), Bytes: len(raw), Err: err}
}

func (d *cborDecoder) Object(body []byte) (object.Head, error) {
	s := d.scan(frame.FromBytes(body))
	s.MaxDepth++ // the tag in front, which items of a list do not have
	raw, err := s.Value()
	if err == nil {
		err = s.AtEnd()
	}
	if err != nil {
		return nil, d.fail("object", nil, err)
	}
	return d.decode(raw, false)
}

// Choosing implements Decoder.
func (d *cborDecoder) Choosing(wanted func(object.Head) bool) Decoder {
	choosing := *d
	choosing.wanted = wanted
	return &choosing
}

// Selected implements Decoder.
func (d *cborDecoder) Selected(told func(selector string)) Decoder {
	telling := *d
	telling.selected = told
	return &telling
}

// tell tells by which selector a list was selected, if by any.
func (d *cborDecoder) tell(selector string) {
	if d.selected != nil && selector != "" {
		d.selected(selector)
	}
}

// decode decodes an object that must name its own kind. A Status instead of an
// object is returned as an *errors.StatusError.
func (d *cborDecoder) decode(raw []byte, named bool) (object.Head, error) {
	made, bare, err := d.decodeItem(raw, named)
	switch {
	case err == nil && !bare:
		return made, nil
	case err == nil:
		err = d.wrongKind("", "")
	case !d.isStatus() && claimsCBORStatus(raw):
		return nil, decodeCBORStatus(raw)
	}
	return nil, d.fail("object", raw, err)
}

// decodeItem makes what is wanted of an object. bare means that it does not fully name its
// kind.
func (d *cborDecoder) decodeItem(raw []byte, named bool) (made object.Head, bare bool, err error) {
	obj, bare, err := d.object(raw, named)
	if err == nil {
		made, err = d.make.of(obj)
	}
	return made, bare, err
}

// object decodes an object, and finishes it.
func (d *cborDecoder) object(raw []byte, named bool) (obj object.Object, bare bool, err error) {
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

func (d *cborDecoder) unmarshal(obj object.Object, raw []byte) error {
	if err := cbor.Check(d.guard, raw); err != nil {
		return err
	}
	if d.form != formUnstructured && cbor.MayHideAbsurd(raw) {
		if err := cbor.Check(guard.Untyped, raw); err != nil {
			return err
		}
		var tree cbor.Tree
		if err := cbor.Unmarshal(raw, &tree); err != nil {
			return err
		}
		if err := d.guard.CheckValue(map[string]any(tree)); err != nil {
			return err
		}
	}
	if u, ok := obj.(*unstructured.Unstructured); ok {
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

// identify implements glanced.
func (d *cborDecoder) identify(i frame.Item) (v object.Version, ok bool) {
	of := cbor.ReadIdentity(i.Raw)
	if !of.Sound || of.Name == "" || of.UID == "" || d.checkKind(of.APIVersion, of.Kind) != nil {
		return v, false
	}
	return object.Version{Key: object.Key{Namespace: of.Namespace, Name: of.Name}, UID: types.UID(of.UID), RV: of.RV}, true
}

// readHead implements glanced: there is no short way.
func (d *cborDecoder) readHead(*head.Head, frame.Item) bool { return false }

// decodeWhole implements glanced.
func (d *cborDecoder) decodeWhole(i frame.Item) (object.Object, error) {
	obj, _, err := d.bookmarks.object(i.Raw, false)
	return obj, err
}

// known returns the caller's object if raw is the same version of it.
func (d *cborDecoder) known(known Known, raw []byte) (have object.Head, ok bool) {
	if known == nil {
		return have, false
	}
	v, ok := d.identify(frame.Item{Raw: raw})
	if !ok {
		return have, false
	}
	return known.version(v)
}
