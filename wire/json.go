package wire

import (
	"fmt"
	"reflect"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kjson "sigs.k8s.io/json"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/wire/internal/fault"
	"github.com/millrace-dev/millrace/wire/internal/frame"
	"github.com/millrace-dev/millrace/wire/internal/json"
)

// jsonDecoder reads JSON with the semantics of Kubernetes: field names are
// case-sensitive, integers stay integers, unknown fields are ignored. It decodes
// objects with the table of their Go type, or without one, and leaves anything
// unusual to the reference.
type jsonDecoder[T object.Object] struct {
	*target[T]
	opts      Options
	how       *json.Kind      // nil for unstructured objects, and if the reference reads all
	bookmarks *jsonDecoder[T] // decodes bookmarks, which are never projected
}

// maxReferenceDepth is how deeply JSON may nest for the reference decoder.
const maxReferenceDepth = 10000

func newJSONDecoder[T object.Object](t *target[T], opts Options) *jsonDecoder[T] {
	d := &jsonDecoder[T]{target: t, opts: opts}
	if opts.MaxDepth > maxReferenceDepth {
		d.opts.Reference = true
	}
	if k := json.KindOf(t.goType, t.fields); k.ReadsObjects() && !d.opts.Reference && t.form != formUnstructured {
		d.how = k
	}
	if d.bookmarks = d; t.fields != nil {
		d.bookmarks = newJSONDecoder(t.whole(), opts)
	}
	return d
}

func (d *jsonDecoder[T]) scan(s *frame.Source) *frame.JSON {
	return &frame.JSON{Source: s, MaxBytes: d.opts.MaxObjectBytes, MaxDepth: d.opts.MaxDepth}
}

func (d *jsonDecoder[T]) newRun() *json.Run { return json.NewRun(d.opts.Pool.inner(), d.fields) }

func (d *jsonDecoder[T]) fail(where string, raw []byte, err error) *Error {
	e := &Error{Media: MediaJSON, Where: where, Bytes: len(raw), Err: err}
	if len(raw) > 0 {
		h := json.ReadClaim(raw)
		e.Key = keyOf(h.Metadata.Namespace, h.Metadata.Name)
	}
	return e
}

func (d *jsonDecoder[T]) Object(body []byte) (T, error) {
	var none T
	s := d.scan(frame.FromBytes(body))
	i, err := s.Value()
	if err == nil {
		err = s.AtEnd()
	}
	if err != nil {
		return none, d.fail("object", nil, err)
	}
	return d.decode(json.NewRun(nil, d.fields), i, false)
}

// decode decodes an object that must name its own kind. A Status instead of an
// object is returned as an *errors.StatusError.
func (d *jsonDecoder[T]) decode(run *json.Run, i frame.Item, named bool) (T, error) {
	var none T
	obj, bare, err := d.decodeItem(run, i, named)
	switch {
	case err == nil && !bare:
		return obj, nil
	case err == nil:
		err = d.wrongKind("", "")
	case !d.isStatus() && claimsStatus(i.Raw):
		return none, decodeStatus(i.Raw)
	}
	return none, d.fail("object", i.Raw, err)
}

// decodeItem decodes an object. bare means that the object does not fully name its
// kind.
func (d *jsonDecoder[T]) decodeItem(run *json.Run, i frame.Item, named bool) (obj T, bare bool, err error) {
	obj, err = d.unmarshal(run, i)
	if err != nil {
		h := json.ReadClaim(i.Raw)
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
	// apimachinery drops an APIVersion that it cannot parse.
	return obj, gvk.Kind == "" || gvk.Version == "", d.finish(obj, named)
}

// unmarshal decodes the selected fields of an object.
func (d *jsonDecoder[T]) unmarshal(run *json.Run, i frame.Item) (obj T, err error) {
	obj, err = d.new(), fault.ErrUnusual
	u, untyped := any(obj).(*unstructured.Unstructured)
	switch {
	case len(i.Tape) == 0 || d.opts.Reference:
	case untyped:
		u.Object, err = run.Content(i)
	case d.how != nil:
		err = run.Decode(d.how, reflect.ValueOf(obj).UnsafePointer(), i)
	}
	if err == nil {
		return obj, nil
	}
	obj = d.new()
	return obj, d.reference(obj, i.Raw)
}

// reference decodes raw into obj with apimachinery's own code.
func (d *jsonDecoder[T]) reference(obj T, raw []byte) error {
	if raw[0] != '{' {
		return fmt.Errorf("%w: want a JSON object", ErrSyntax)
	}
	var into any = obj
	if u, ok := into.(*unstructured.Unstructured); ok {
		into = &u.Object
	}
	if d.guard != nil {
		if err := json.Check(d.guard, raw); err != nil {
			return err
		}
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, into); err != nil {
		return fault.WithoutContent(err)
	}
	d.project(obj)
	return nil
}

// claimsStatus reports whether an object says that it is a Status.
func claimsStatus(raw []byte) bool {
	h := json.ReadClaim(raw)
	return isStatus(h.APIVersion, h.Kind)
}

func decodeStatus(raw []byte) error {
	status := new(metav1.Status)
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, status); err != nil {
		return &Error{Media: MediaJSON, Where: "status", Bytes: len(raw), Err: fault.WithoutContent(err)}
	}
	return apierrors.FromObject(status)
}

// known returns the caller's object if i is the same version of it.
func (d *jsonDecoder[T]) known(known Known[T], i frame.Item) (have T, ok bool) {
	if known == nil {
		return have, false
	}
	key, uid, rv, ok := json.HeadOf(i)
	if !ok {
		return have, false
	}
	return known.version(key, string(uid), rv)
}
