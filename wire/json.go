package wire

import (
	"fmt"
	"reflect"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	kjson "sigs.k8s.io/json"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/wire/internal/fault"
	"github.com/millrace-dev/millrace/wire/internal/frame"
	"github.com/millrace-dev/millrace/wire/internal/head"
	"github.com/millrace-dev/millrace/wire/internal/json"
)

// jsonDecoder reads JSON with the semantics of Kubernetes: field names are
// case-sensitive, integers stay integers, unknown fields are ignored. It decodes
// objects with the table of their Go type, or without one, and leaves anything
// unusual to the reference.
type jsonDecoder struct {
	*target
	opts      Options
	make      product
	how       *json.Kind   // nil for unstructured objects, and if the reference reads all
	layout    *layout      // of packed objects; nil where they are not packed as they come
	bookmarks *jsonDecoder // decodes bookmarks, which are never projected

	wanted   func(object.Head) bool // nil where all objects are
	selected func(selector string)  // nil where nobody asks
}

// maxReferenceDepth is how deeply JSON may nest for the reference decoder.
const maxReferenceDepth = 10000

func newJSONDecoder(t *target, opts Options, p product) *jsonDecoder {
	d := &jsonDecoder{target: t, opts: opts, make: p}
	if opts.MaxDepth > maxReferenceDepth {
		d.opts.Reference = true
	}
	if k := json.KindOf(t.goType, t.fields); k.ReadsObjects() && !d.opts.Reference && t.form != formUnstructured {
		d.how = k
	}
	if p.packer != nil && !d.opts.Reference && (t.form == formUnstructured || d.how != nil && hasPlainHead(t.goType)) {
		d.layout = p.packer.layouts.get(t.goType, t.named(), codeJSON)
	}
	if d.bookmarks = d; t.fields != nil || p.packer != nil {
		d.bookmarks = newJSONDecoder(t.whole(), opts, p.ofBookmarks())
	}
	return d
}

func (d *jsonDecoder) scan(s *frame.Source) *frame.JSON {
	return &frame.JSON{Source: s, MaxBytes: d.opts.MaxObjectBytes, MaxDepth: d.opts.MaxDepth}
}

func (d *jsonDecoder) newRun() *json.Run { return json.NewRun(d.opts.Pool.inner(), d.fields) }

func (d *jsonDecoder) fail(where string, raw []byte, err error) *Error {
	e := &Error{Media: MediaJSON, Where: where, Bytes: len(raw), Err: err}
	if len(raw) > 0 {
		h := json.ReadClaim(raw)
		e.Key = keyOf(h.Metadata.Namespace, h.Metadata.Name)
	}
	return e
}

func (d *jsonDecoder) Object(body []byte) (object.Head, error) {
	i, err := onlyObject(d.scan(frame.FromBytes(body)))
	if err != nil {
		return nil, d.fail("object", nil, err)
	}
	return d.decode(json.NewRun(nil, d.fields), i, false)
}

// onlyObject reads a JSON object, with nothing but white space around it. A body that is whole
// and something else has not ended early, although more digits might have come.
func onlyObject(s *frame.JSON) (frame.Item, error) {
	if c, err := s.Space(); err == nil && c != '{' {
		return frame.Item{}, s.Syntax("a JSON object")
	}
	i, err := s.Value()
	if err == nil {
		err = s.AtEnd()
	}
	return i, err
}

// Choosing implements Decoder.
func (d *jsonDecoder) Choosing(wanted func(object.Head) bool) Decoder {
	choosing := *d
	choosing.wanted = wanted
	return &choosing
}

// Selected implements Decoder.
func (d *jsonDecoder) Selected(told func(selector string)) Decoder {
	telling := *d
	telling.selected = told
	return &telling
}

// tell tells by which selector a list was selected, if by any.
func (d *jsonDecoder) tell(selector string) {
	if d.selected != nil && selector != "" {
		d.selected(selector)
	}
}

// decode decodes an object that must name its own kind. A Status instead of an
// object is returned as an *errors.StatusError.
func (d *jsonDecoder) decode(run *json.Run, i frame.Item, named bool) (object.Head, error) {
	made, bare, err := d.decodeItem(run, i, named)
	switch {
	case err == nil && !bare:
		return made, nil
	case err == nil:
		err = d.wrongKind("", "")
	case !d.isStatus() && claimsStatus(i.Raw):
		return nil, decodeStatus(i.Raw)
	}
	return nil, d.fail("object", i.Raw, err)
}

// decodeItem makes what is wanted of an item: it packs the bytes as they are, if it can, or
// else decodes them. bare means that the object does not fully name its kind.
func (d *jsonDecoder) decodeItem(run *json.Run, i frame.Item, named bool) (made object.Head, bare bool, err error) {
	if made, bare, ok := d.pack(run, i, named); ok {
		return made, bare, nil
	}
	obj, bare, err := d.object(run, i, named)
	if err == nil {
		made, err = d.make.of(obj)
	}
	return made, bare, err
}

// pack packs an item without decoding it, if that would succeed.
func (d *jsonDecoder) pack(run *json.Run, i frame.Item, named bool) (packed object.Head, bare, ok bool) {
	if d.layout == nil || len(i.Tape) == 0 {
		return packed, false, false
	}
	b := benches.Get().(*bench)
	defer b.clean()
	b.head.Wanted = d.make.packer.annotations
	kept, ok := run.Sift(d.how, &b.head, i, &b.room)
	if !ok || named && b.head.Name == "" {
		return packed, false, false
	}
	switch bare = b.head.APIVersion == "" && b.head.Kind == ""; {
	case bare, b.head.APIVersion == d.apiVersion && b.head.Kind == d.kind.Kind:
	case d.form == formMetadata && isMetadata(b.head.APIVersion, b.head.Kind, ""):
	default:
		return packed, false, false
	}
	return d.make.packer.packBytes(d.layout, &b.head, kept), bare, true
}

// object decodes an object, and finishes it.
func (d *jsonDecoder) object(run *json.Run, i frame.Item, named bool) (obj object.Object, bare bool, err error) {
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
func (d *jsonDecoder) unmarshal(run *json.Run, i frame.Item) (obj object.Object, err error) {
	obj, err = d.new(), fault.ErrUnusual
	u, untyped := obj.(*unstructured.Unstructured)
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
func (d *jsonDecoder) reference(obj object.Object, raw []byte) error {
	if raw[0] != '{' {
		return fmt.Errorf("%w: want a JSON object", ErrSyntax)
	}
	var into any = obj
	if u, ok := into.(*unstructured.Unstructured); ok {
		into = &u.Object
	}
	if err := json.Check(d.guard, raw); err != nil {
		return err
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

// identify implements glanced.
func (d *jsonDecoder) identify(i frame.Item) (v object.Version, ok bool) {
	of, ok := json.IdentityOf(i)
	if !ok || d.checkKind(of.APIVersion, of.Kind) != nil {
		return v, false
	}
	return object.Version{Key: object.Key{Namespace: of.Namespace, Name: of.Name}, UID: types.UID(of.UID), RV: of.RV}, true
}

// readHead implements glanced.
func (d *jsonDecoder) readHead(h *head.Head, i frame.Item) bool { return json.ReadHead(h, i) }

// decodeWhole implements glanced.
func (d *jsonDecoder) decodeWhole(i frame.Item) (object.Object, error) {
	obj, _, err := d.bookmarks.object(json.NewRun(nil, nil), i, false)
	return obj, err
}

// known returns the caller's object if i is the same version of it.
func (d *jsonDecoder) known(known Known, i frame.Item) (have object.Head, ok bool) {
	if known == nil {
		return have, false
	}
	v, ok := d.identify(i)
	if !ok {
		return have, false
	}
	return known.version(v)
}
