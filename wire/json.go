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
	"github.com/millrace-dev/millrace/wire/internal/guard"
	"github.com/millrace-dev/millrace/wire/internal/head"
	"github.com/millrace-dev/millrace/wire/internal/json"
	"github.com/millrace-dev/millrace/wire/internal/share"
)

// jsonEncoding decodes JSON with Kubernetes' semantics: field names are case-sensitive,
// integers stay integers, unknown fields are ignored. It decodes objects with their Go type's table, or as
// maps, and leaves anything unusual to the reference.
type jsonEncoding struct {
	decoderConfig
	typeInfo *json.TypeInfo // nil for unstructured objects, or if the reference decodes all objects
	codec    *codec         // codec for packed objects; nil if the decoder cannot pack bytes as received
}

// maxReferenceDepth is the maximum nesting that the reference decoder supports.
const maxReferenceDepth = 10000

func newJSON(c decoderConfig) (encoding, error) {
	d := &jsonEncoding{decoderConfig: c}
	if c.opts.MaxDepth > maxReferenceDepth {
		d.opts.Reference = true
	}
	if k := json.TypeInfoOf(c.goType, c.fields); k.ReadsObjects() && !d.opts.Reference && c.form != formUnstructured {
		d.typeInfo = k
	}
	if p := c.output.packer; p != nil && !d.opts.Reference && (c.form == formUnstructured || d.typeInfo != nil && hasStandardMeta(c.goType)) {
		d.codec = p.codecs.get(c.goType, c.kindToSet(), formatJSON)
	}
	return d, nil
}

func (d *jsonEncoding) scan(s *frame.Source) *frame.JSON {
	return &frame.JSON{Source: s, MaxBytes: d.opts.MaxObjectBytes, MaxDepth: d.opts.MaxDepth}
}

func (d *jsonEncoding) fail(where string, raw []byte, err error) *Error {
	e := &Error{Media: MediaJSON, Where: where, Bytes: len(raw), Err: err}
	if len(raw) > 0 {
		h := json.ReadClaim(raw)
		e.Key = keyOf(h.Metadata.Namespace, h.Metadata.Name)
	}
	return e
}

func (d *jsonEncoding) wholeBody(body []byte) (frame.Item, error) {
	return onlyObject(d.scan(frame.FromBytes(body)))
}

// onlyObject reads a JSON object surrounded by nothing but white space. If the body is a complete value other
// than an object, it returns a syntax error rather than io.ErrUnexpectedEOF, even for a number, although more
// digits could have followed.
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

func (d *jsonEncoding) unwrap(i frame.Item) (frame.Item, error) {
	if err := d.opts.checkSize(i.Raw); err != nil {
		return i, d.fail("", i.Raw, err)
	}
	return i, nil
}

func (d *jsonEncoding) status(i frame.Item) error {
	if h := json.ReadClaim(i.Raw); !isStatus(h.APIVersion, h.Kind) {
		return nil
	}
	return decodeStatus(i.Raw)
}

func (d *jsonEncoding) watchError(i frame.Item) error {
	if _, err := d.unwrap(i); err != nil {
		return err
	}
	if h := json.ReadClaim(i.Raw); !isStatus(h.APIVersion, h.Kind) {
		return d.fail("", i.Raw, errNotStatus(h.APIVersion, h.Kind))
	}
	return decodeStatus(i.Raw)
}

func (d *jsonEncoding) frames(s *frame.Source) func() (frame.Item, error) {
	scan := d.scan(s)
	scan.MaxBytes, scan.MaxDepth = scan.MaxBytes+frame.Overhead, scan.MaxDepth+1 // for a frame
	return scan.NextFrame
}

func (d *jsonEncoding) splitFrame(i frame.Item) (string, frame.Item, error) {
	return json.SplitEvent(i, d.opts.MaxDepth)
}

func (d *jsonEncoding) frameBytes(i frame.Item) int { return len(i.Raw) }

// jsonObjectDecoder decodes for one goroutine.
type jsonObjectDecoder struct {
	*jsonEncoding
	*json.Decoder
}

func (d *jsonEncoding) newObjectDecoder(pool *share.Pool, versions bool) objectDecoder {
	r := json.NewDecoder(pool, d.fields)
	r.Versions = versions
	return jsonObjectDecoder{d, r}
}

// pack packs an item without decoding it. It returns false if decoding might fail.
func (d jsonObjectDecoder) pack(i frame.Item, needName bool) (packed object.Head, noKind, ok bool) {
	if d.codec == nil || len(i.Tape) == 0 {
		return packed, false, false
	}
	b := packBufferPool.Get().(*packBuffers)
	defer b.release()
	b.head.Wanted = d.output.packer.annotations
	kept, ok := d.Filter(d.typeInfo, &b.head, i, &b.raw)
	if !ok || needName && b.head.Name == "" {
		return packed, false, false
	}
	switch noKind = b.head.APIVersion == "" && b.head.Kind == ""; {
	case noKind, b.head.APIVersion == d.apiVersion && b.head.Kind == d.kind.Kind:
	case d.form == formMetadata && isMetadata(b.head.APIVersion, b.head.Kind, ""):
	default:
		return packed, false, false
	}
	return d.output.packer.packBytes(d.codec, &b.head, kept), noKind, true
}

func (d jsonObjectDecoder) object(i frame.Item, needName bool) (obj object.Object, noKind bool, err error) {
	obj, err = d.unmarshal(i)
	if err != nil {
		h := json.ReadClaim(i.Raw)
		if wrong := d.checkKind(h.APIVersion, h.Kind); wrong != nil {
			err = wrong
		}
		return obj, false, err
	}
	gvk := obj.GetObjectKind().GroupVersionKind()
	if gvk != d.kind {
		apiVersion := gvk.GroupVersion().String()
		if apiVersion == "" && gvk.Kind != "" {
			apiVersion = json.ReadClaim(i.Raw).APIVersion // apimachinery drops an apiVersion that it cannot parse
		}
		if err := d.checkKind(apiVersion, gvk.Kind); err != nil {
			return obj, false, err
		}
	}
	return obj, gvk.Kind == "" || gvk.Version == "", d.finish(obj, needName)
}

// unmarshal decodes an object's selected fields.
func (d jsonObjectDecoder) unmarshal(i frame.Item) (obj object.Object, err error) {
	obj, err = d.new(), fault.ErrUnusual
	u, untyped := obj.(*unstructured.Unstructured)
	switch {
	case len(i.Tape) == 0 || d.opts.Reference:
	case untyped:
		u.Object, err = d.DecodeUntyped(i)
	case d.typeInfo != nil:
		err = d.Decode(d.typeInfo, reflect.ValueOf(obj).UnsafePointer(), i)
	}
	if err == nil {
		return obj, nil
	}
	obj = d.new()
	return obj, d.reference(obj, i.Raw)
}

// reference decodes raw into obj with apimachinery's own code.
func (d *jsonEncoding) reference(obj object.Object, raw []byte) error {
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

func decodeStatus(raw []byte) error {
	status := new(metav1.Status)
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, status); err != nil {
		return &Error{Media: MediaJSON, Where: "status", Bytes: len(raw), Err: fault.WithoutContent(err)}
	}
	return apierrors.FromObject(status)
}

func (d *jsonEncoding) identify(i frame.Item) (v object.Version, ok bool) {
	of, ok := json.IdentityOf(i)
	if !ok || d.checkKind(of.APIVersion, of.Kind) != nil {
		return v, false
	}
	return of.Version(), true
}

func (d *jsonEncoding) readHead(h *head.Head, i frame.Item) bool { return json.ReadHead(h, i) }

// UnmarshalJSON decodes untrusted JSON, such as a value in a webhook request, the way apimachinery
// does. It rejects an object whose own apiVersion and kind are missing or differ from kind. It also
// rejects everything that a [Decoder] rejects (W02): text nested deeper than 1,000 levels, values
// that would keep apimachinery's code busy for hours, and objects that would take more memory than
// [MaxMemoryPerByte] allows. It does not require a name. Its errors wrap [ErrKind], [ErrSyntax],
// [ErrTooDeep], [ErrTooDense], [ErrQuantity] or io.ErrUnexpectedEOF. They quote only the apiVersion
// and kind, because the object may be a Secret. It is safe for concurrent use.
func UnmarshalJSON[T object.Object](raw []byte, kind object.GVK) (T, error) {
	o, err := unmarshalJSON(raw, Options{Kind: kind, Type: reflect.TypeFor[T]()})
	made, _ := o.(T)
	return made, err
}

func unmarshalJSON(raw []byte, opts Options) (object.Object, error) {
	t, err := newObjectType(opts)
	if err != nil {
		return nil, err
	}
	s := &frame.JSON{Source: frame.FromBytes(raw), MaxBytes: max(len(raw), 1), MaxDepth: defaultMaxDepth}
	if _, err := onlyObject(s); err != nil {
		return nil, fault.Truncated(err)
	}
	if h := json.ReadClaim(raw); !t.matches(h.APIVersion, h.Kind) {
		return nil, t.wrongKind(h.APIVersion, h.Kind, "")
	}
	if err := json.Check(t.guard, raw); err != nil {
		return nil, err
	}
	obj := t.new()
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, obj); err != nil {
		return nil, fault.WithoutContent(err)
	}
	return obj, nil
}

// EstimateJSONMemory estimates how many bytes of memory apimachinery's code needs to decode raw
// into a value of type t, a pointer. While growing lists, apimachinery may need three times as much. raw must
// be valid JSON. EstimateJSONMemory refuses nothing.
func EstimateJSONMemory(raw []byte, t reflect.Type) int64 {
	return json.EstimateMemory(guard.Of(t), raw)
}
