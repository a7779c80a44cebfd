package wire

import (
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/wire/internal/cbor"
	"github.com/millrace-dev/millrace/wire/internal/frame"
	"github.com/millrace-dev/millrace/wire/internal/guard"
	"github.com/millrace-dev/millrace/wire/internal/head"
	"github.com/millrace-dev/millrace/wire/internal/share"
)

// cborEncoding decodes CBOR (RFC 8949, KEP-4222). It splits a body into objects itself, and uses
// apimachinery's codec to decode them. Objects share no values, and unselected fields are removed after
// decoding.
type cborEncoding struct{ decoderConfig }

func newCBOR(c decoderConfig) (encoding, error) { return &cborEncoding{c}, nil }

func (d *cborEncoding) scan(s *frame.Source) *frame.CBOR {
	return &frame.CBOR{Source: s, MaxBytes: d.opts.MaxObjectBytes, MaxDepth: d.opts.MaxDepth}
}

func (d *cborEncoding) fail(where string, raw []byte, err error) *Error {
	of, _ := cbor.IdentityOf(raw)
	return &Error{Media: MediaCBOR, Where: where, Key: keyOf(of.Namespace, of.Name), Bytes: len(raw), Err: err}
}

func (d *cborEncoding) wholeBody(body []byte) (frame.Item, error) {
	s := d.scan(frame.FromBytes(body))
	s.MaxDepth++ // the leading tag, which list items do not have
	raw, err := s.Value()
	if err == nil {
		err = s.AtEnd()
	}
	return frame.Item{Raw: raw}, err
}

func (d *cborEncoding) unwrap(i frame.Item) (frame.Item, error) {
	if err := d.opts.checkSize(i.Raw); err != nil {
		return i, d.fail("", i.Raw, err)
	}
	return i, nil
}

func (d *cborEncoding) status(i frame.Item) error {
	if of, _ := cbor.IdentityOf(i.Raw); !isStatus(of.APIVersion, of.Kind) {
		return nil
	}
	return decodeCBORStatus(i.Raw)
}

func (d *cborEncoding) watchError(i frame.Item) error {
	if _, err := d.unwrap(i); err != nil {
		return err
	}
	if of, _ := cbor.IdentityOf(i.Raw); !isStatus(of.APIVersion, of.Kind) {
		return d.fail("", i.Raw, errNotStatus(of.APIVersion, of.Kind))
	}
	return decodeCBORStatus(i.Raw)
}

func (d *cborEncoding) frames(s *frame.Source) func() (frame.Item, error) {
	scan := d.scan(s)
	scan.MaxBytes, scan.MaxDepth = scan.MaxBytes+frame.Overhead, scan.MaxDepth+3 // leaves room for a frame and a tag around both maps
	return scan.NextFrame
}

func (d *cborEncoding) splitFrame(i frame.Item) (string, frame.Item, error) {
	typ, raw, err := cbor.SplitEvent(i.Raw)
	return typ, frame.Item{Raw: raw}, err
}

func (d *cborEncoding) frameBytes(i frame.Item) int { return len(i.Raw) }

// newObjectDecoder returns the encoding itself, because it keeps no state between objects.
func (d *cborEncoding) newObjectDecoder(*share.Pool, bool) objectDecoder { return d }

// pack always returns false, because every object must be decoded by apimachinery's codec.
func (d *cborEncoding) pack(frame.Item, bool) (packed object.Head, noKind, ok bool) {
	return nil, false, false
}

func (d *cborEncoding) object(i frame.Item, needName bool) (obj object.Object, noKind bool, err error) {
	raw := i.Raw
	obj = d.new()
	if err := d.unmarshal(obj, raw); err != nil {
		of, _ := cbor.IdentityOf(raw)
		if wrong := d.checkKind(of.APIVersion, of.Kind); wrong != nil {
			err = wrong
		}
		return obj, false, err
	}
	gvk := obj.GetObjectKind().GroupVersionKind()
	if gvk != d.kind {
		apiVersion := gvk.GroupVersion().String()
		if apiVersion == "" && gvk.Kind != "" {
			of, _ := cbor.IdentityOf(raw)
			apiVersion = of.APIVersion // apimachinery drops an apiVersion that it cannot parse
		}
		if err := d.checkKind(apiVersion, gvk.Kind); err != nil {
			return obj, false, err
		}
	}
	d.project(obj)
	return obj, gvk.Kind == "" || gvk.Version == "", d.finish(obj, needName)
}

func (d *cborEncoding) unmarshal(obj object.Object, raw []byte) error {
	if err := cbor.Check(d.guard, raw); err != nil {
		return err
	}
	if d.form != formUnstructured && cbor.MayHideAbsurdQuantity(raw) {
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

func decodeCBORStatus(raw []byte) error {
	status := new(metav1.Status)
	if err := cbor.Unmarshal(raw, status); err != nil {
		return &Error{Media: MediaCBOR, Where: "status", Bytes: len(raw), Err: err}
	}
	return apierrors.FromObject(status)
}

func (d *cborEncoding) identify(i frame.Item) (v object.Version, ok bool) {
	of, ok := cbor.IdentityOf(i.Raw)
	if !ok || of.Name == "" || of.UID == "" || d.checkKind(of.APIVersion, of.Kind) != nil {
		return v, false
	}
	return of.Version(), true
}

// readHead always returns false, because reading the head requires decoding the object.
func (d *cborEncoding) readHead(*head.Head, frame.Item) bool { return false }
