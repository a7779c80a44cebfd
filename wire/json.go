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
)

// jsonDecoder reads JSON with the semantics of Kubernetes: field names are
// case-sensitive, integers stay integers, unknown fields are ignored. It decodes
// objects with the table of their Go type, or without one, and leaves anything
// unusual to the reference.
type jsonDecoder[T object.Object] struct {
	*target[T]
	opts      Options
	how       *jsonKind       // nil for unstructured objects, and if the reference reads all
	bookmarks *jsonDecoder[T] // decodes bookmarks, which are never projected
}

// maxReferenceDepth is how deeply JSON may nest for the reference decoder.
const maxReferenceDepth = 10000

func newJSONDecoder[T object.Object](t *target[T], opts Options) *jsonDecoder[T] {
	d := &jsonDecoder[T]{target: t, opts: opts}
	if opts.MaxDepth > maxReferenceDepth {
		d.opts.Reference = true
	}
	if k := jsonKindOf(t.goType, t.fields); k.op == jsonStruct && !d.opts.Reference && t.form != formUnstructured {
		d.how = k
	}
	if d.bookmarks = d; t.fields != nil {
		d.bookmarks = newJSONDecoder(t.whole(), opts)
	}
	return d
}

func (d *jsonDecoder[T]) scan(s *frame.Source) *frame.JSON {
	return &frame.JSON{Source: s, MaxBytes: min(d.opts.MaxObjectBytes, 1<<30), MaxDepth: d.opts.MaxDepth}
}

func (d *jsonDecoder[T]) newRun() *jsonRun { return newJSONRun(d.opts.Pool.inner(), d.fields) }

func (d *jsonDecoder[T]) fail(where string, raw []byte, err error) *Error {
	e := &Error{Media: MediaJSON, Where: where, Bytes: len(raw), Err: err}
	if len(raw) > 0 {
		e.Key = readHead(raw).key()
	}
	return e
}

// head is what an object says about itself. It is read for error messages, and
// for bodies that may be a Status.
type head struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Namespace string `json:"namespace"`
		Name      string `json:"name"`
	} `json:"metadata"`
}

func (h head) isStatus() bool { return h.Kind == "Status" && h.APIVersion == "v1" }

func (h head) key() object.Key {
	return object.Key{Namespace: fault.Excerpt(h.Metadata.Namespace), Name: fault.Excerpt(h.Metadata.Name)}
}

// readHead reads as much of the head as it can. The object was already refused, so
// a second failure would say nothing new.
func readHead(raw []byte) (h head) {
	_ = kjson.UnmarshalCaseSensitivePreserveInts(raw, &h)
	return h
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
	return d.decode(newJSONRun(nil, d.fields), i, false)
}

// decode decodes an object that must name its own kind. A Status instead of an
// object is returned as an *errors.StatusError.
func (d *jsonDecoder[T]) decode(run *jsonRun, i frame.Item, named bool) (T, error) {
	var none T
	obj, bare, err := d.decodeItem(run, i, named)
	switch {
	case err == nil && !bare:
		return obj, nil
	case err == nil:
		err = d.wrongKind("", "")
	case !d.isStatus() && readHead(i.Raw).isStatus():
		return none, decodeStatus(i.Raw)
	}
	return none, d.fail("object", i.Raw, err)
}

// decodeItem decodes an object. bare means that the object does not fully name its
// kind.
func (d *jsonDecoder[T]) decodeItem(run *jsonRun, i frame.Item, named bool) (obj T, bare bool, err error) {
	obj, err = d.unmarshal(run, i)
	if err != nil {
		h := readHead(i.Raw)
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
	// apimachinery drops an apiVersion that it cannot parse.
	return obj, gvk.Kind == "" || gvk.Version == "", d.finish(obj, named)
}

func (t *target[T]) isStatus() bool { return t.kind.Kind == "Status" && t.apiVersion == "v1" }

// unmarshal decodes the selected fields of an object.
func (d *jsonDecoder[T]) unmarshal(run *jsonRun, i frame.Item) (obj T, err error) {
	obj, err = d.new(), fault.ErrUnusual
	u, untyped := any(obj).(*unstructured.Unstructured)
	switch {
	case len(i.Tape) == 0 || d.opts.Reference:
	case untyped:
		u.Object, err = run.content(i)
	case d.how != nil:
		err = run.decode(d.how, reflect.ValueOf(obj).UnsafePointer(), i)
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
		if err := checkJSON(d.guard, raw); err != nil {
			return err
		}
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, into); err != nil {
		return fault.WithoutContent(err)
	}
	d.project(obj)
	return nil
}

func decodeStatus(raw []byte) error {
	status := new(metav1.Status)
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, status); err != nil {
		return &Error{Media: MediaJSON, Where: "status", Bytes: len(raw), Err: fault.WithoutContent(err)}
	}
	return apierrors.FromObject(status)
}
