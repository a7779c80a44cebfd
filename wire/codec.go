package wire

import (
	stdjson "encoding/json"
	"fmt"
	"maps"
	"reflect"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kjson "sigs.k8s.io/json"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/wire/internal/fault"
	"github.com/millrace-dev/millrace/wire/internal/frame"
	"github.com/millrace-dev/millrace/wire/internal/guard"
	"github.com/millrace-dev/millrace/wire/internal/json"
	"github.com/millrace-dev/millrace/wire/internal/memory"
	"github.com/millrace-dev/millrace/wire/internal/pack"
	"github.com/millrace-dev/millrace/wire/internal/protobuf"
	"github.com/millrace-dev/millrace/wire/internal/share"
)

// codec encodes objects of one Go type for packing, and decodes them again. It stores their kind if
// the bytes do not include it. A codec is immutable.
type codec struct {
	goType   reflect.Type // the pointer's element type
	kind     object.GVK   // the objects' kind; zero if they have none, or if the bytes include it
	format   format
	table    *protobuf.Table // nil if protobuf is left to the reference
	jsonType *json.TypeInfo  // nil if JSON is left to the reference, or there is no Go type

	messages *protobuf.Guard // for the reference
	guard    *guard.Guard    // for the reference
}

type format uint8

const (
	formatProtobuf format = iota
	formatTree
	formatJSON
	formatNone // objects are kept as is
)

// generated is the interface that the API's generated types implement.
type generated interface {
	Size() int
	MarshalToSizedBuffer([]byte) (int, error)
	Unmarshal([]byte) error
}

// formatOf returns the format in which o is encoded, and its kind if the bytes do not include it.
func formatOf(o object.Object) (format, object.GVK) {
	switch o.(type) {
	case *unstructured.Unstructured:
		return formatTree, object.GVK{}
	case generated:
		if !protobuf.ContainsItself(elemType(o)) { // generated code would recurse as deep as corrupt input demands
			return formatProtobuf, o.GetObjectKind().GroupVersionKind()
		}
	}
	if isAPIType(elemType(o)) {
		return formatJSON, object.GVK{}
	}
	return formatNone, object.GVK{}
}

// formatFits reports whether objects like o may be stored in format c, which is the one that Pack uses
// or JSON as written by a server.
func formatFits(c format, o object.Object) bool {
	usual, _ := formatOf(o)
	_, untyped := o.(*unstructured.Unstructured)
	return c != formatNone && (c == usual || c == formatJSON && (untyped || isAPIType(elemType(o))))
}

func newCodec(goType reflect.Type, kind object.GVK, format format) *codec {
	c := &codec{goType: goType, kind: kind, format: format}
	switch {
	case format == formatProtobuf:
		c.messages = protobuf.GuardOf(goType, map[reflect.Type]*protobuf.Guard{})
		if protobuf.HasTable(goType) {
			c.table, _ = protobuf.TableOf(goType, nil) // on failure, fall back to the reference
		}
	case format == formatJSON:
		c.guard = guard.Of(goType)
	}
	switch {
	case format == formatJSON && goType != reflect.TypeFor[unstructured.Unstructured]():
		if k := json.TypeInfoOf(goType, nil); k.ReadsObjects() {
			c.jsonType = k
		}
	}
	return c
}

// elemType returns the type that o points to, or o's own type if it is not a pointer.
func elemType(o object.Object) reflect.Type {
	t := reflect.TypeOf(o)
	if t.Kind() == reflect.Pointer {
		return t.Elem()
	}
	return t
}

// isAPIType reports whether t is an API type, that is, one meant to be encoded as JSON.
func isAPIType(t reflect.Type) bool {
	if t.Kind() != reflect.Struct {
		return false
	}
	field, ok := t.FieldByName("TypeMeta")
	return ok && field.Anonymous && field.Type == reflect.TypeFor[metav1.TypeMeta]()
}

// hasStandardMeta reports whether an API type's methods return the metadata in the field "metadata", an
// embedded ObjectMeta.
func hasStandardMeta(t reflect.Type) bool {
	if !isAPIType(t) {
		return false
	}
	field, ok := t.FieldByName("ObjectMeta")
	name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
	if !ok || !field.Anonymous || field.Type != reflect.TypeFor[metav1.ObjectMeta]() || name != "metadata" {
		return false
	}
	want := &metav1.ObjectMeta{
		Namespace: "a", Name: "b", UID: "c", ResourceVersion: "d",
		Labels: map[string]string{"e": "f"}, OwnerReferences: []metav1.OwnerReference{{Name: "g"}},
		Generation: 1, DeletionTimestamp: &metav1.Time{}, Annotations: map[string]string{"h": "i"},
	}
	made := reflect.New(t)
	made.Elem().FieldByIndex(field.Index).Set(reflect.ValueOf(*want))
	o := made.Interface().(object.Object)
	return o.GetNamespace() == want.Namespace && o.GetName() == want.Name && o.GetUID() == want.UID && o.GetResourceVersion() == want.ResourceVersion &&
		o.GetGeneration() == want.Generation && o.GetDeletionTimestamp() == want.DeletionTimestamp &&
		maps.Equal(o.GetAnnotations(), want.Annotations) && maps.Equal(o.GetLabels(), want.Labels) && reflect.DeepEqual(o.GetOwnerReferences(), want.OwnerReferences)
}

// append appends o's encoding to dst.
func (c *codec) append(dst []byte, o object.Object) ([]byte, error) {
	switch c.format {
	case formatNone:
		return dst, nil
	case formatTree:
		return pack.AppendTree(dst, o.(*unstructured.Unstructured).Object)
	case formatJSON:
		raw, err := stdjson.Marshal(o)
		return append(dst, raw...), err
	}
	m := o.(generated)
	size := m.Size()
	start := len(dst)
	if cap(dst)-start < size {
		dst = append(make([]byte, 0, start+size), dst...)
	}
	dst = dst[:start+size]
	if n, err := m.MarshalToSizedBuffer(dst[start:]); err != nil || n != size {
		return dst, fmt.Errorf("%d of %d bytes: %w", n, size, err)
	}
	return dst, nil
}

// bodyDecoders holds the decoders that one goroutine uses for packed objects.
type bodyDecoders struct {
	protobuf protobuf.Decoder
	json     *json.Decoder
}

func newBodyDecoders(pool *Pool) *bodyDecoders {
	dec := &bodyDecoders{protobuf: protobuf.Decoder{Sharer: share.Sharer{Pool: pool.sharePool()}}, json: json.NewDecoder(pool.sharePool(), nil)}
	dec.protobuf.Versions, dec.json.Versions = true, true // an update's old and new state, or the same state twice
	return dec
}

// read decodes raw. The object does not refer to raw.
func (c *codec) read(dec *bodyDecoders, raw []byte) (o object.Object, err error) {
	switch c.format {
	case formatTree:
		o, err = readTree(raw)
	case formatJSON:
		o, err = c.readJSON(dec.json, raw)
	default:
		o, err = c.readProtobuf(&dec.protobuf, raw)
	}
	if err != nil {
		return nil, err
	}
	if !c.kind.Empty() && o.GetObjectKind().GroupVersionKind() != c.kind {
		o.GetObjectKind().SetGroupVersionKind(c.kind)
	}
	return o, nil
}

// readReusing is like read, but reuses equal values from other, which was decoded from was.
func (c *codec) readReusing(dec *bodyDecoders, raw []byte, other object.Object, was []byte) (object.Object, error) {
	if c.table != nil {
		made, o := c.new()
		if dec.protobuf.DecodeReusing(c.table, made.UnsafePointer(), raw, reflect.ValueOf(other).UnsafePointer(), was) == nil {
			if !c.kind.Empty() {
				o.GetObjectKind().SetGroupVersionKind(c.kind)
			}
			return o, nil
		}
	}
	return c.read(dec, raw)
}

func readTree(raw []byte) (object.Object, error) {
	root, err := pack.Tree(string(raw))
	content, _ := root.(map[string]any)
	return &unstructured.Unstructured{Object: content}, err
}

func (c *codec) new() (reflect.Value, object.Object) {
	made := memory.New(c.goType)
	return made, made.Interface().(object.Object)
}

func (c *codec) readProtobuf(run *protobuf.Decoder, raw []byte) (object.Object, error) {
	made, o := c.new()
	if c.table != nil && run.Decode(c.table, made.UnsafePointer(), raw) == nil {
		return o, nil
	}
	if err := c.messages.Check(raw); err != nil {
		return nil, err
	}
	_, o = c.new()
	if err := o.(generated).Unmarshal(raw); err != nil {
		return nil, fault.WithoutContent(err)
	}
	return o, nil
}

func (c *codec) readJSON(run *json.Decoder, raw []byte) (object.Object, error) {
	s := frame.JSON{Source: frame.FromBytes(raw), MaxBytes: max(len(raw), 1), MaxDepth: maxReferenceDepth}
	i, err := s.Value()
	made, o := c.new()
	u, untyped := o.(*unstructured.Unstructured)
	switch {
	case err != nil || len(i.Tape) == 0:
	case untyped:
		if u.Object, err = run.DecodeUntyped(i); err == nil {
			return o, nil
		}
	case c.jsonType != nil && run.Decode(c.jsonType, made.UnsafePointer(), i) == nil:
		return o, nil
	}
	if err := json.Check(c.guard, raw); err != nil {
		return nil, err
	}
	_, o = c.new()
	var into any = o
	if untyped {
		into = &o.(*unstructured.Unstructured).Object
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, into); err != nil {
		return nil, fault.WithoutContent(err)
	}
	return o, nil
}

// codecs holds a packer's codecs. Usually there is only one.
type codecs struct {
	mu  sync.RWMutex
	all []*codec
}

// of returns the codec for o.
func (c *codecs) of(o object.Object) *codec {
	format, kind := formatOf(o)
	return c.get(elemType(o), kind, format)
}

func (c *codecs) get(goType reflect.Type, kind object.GVK, format format) *codec {
	c.mu.RLock()
	have := c.find(goType, kind, format)
	c.mu.RUnlock()
	if have != nil {
		return have
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if have = c.find(goType, kind, format); have == nil {
		have = newCodec(goType, kind, format)
		c.all = append(c.all, have)
	}
	return have
}

// find requires mu.
func (c *codecs) find(goType reflect.Type, kind object.GVK, format format) *codec {
	for _, have := range c.all {
		if have.goType == goType && have.format == format && have.kind == kind {
			return have
		}
	}
	return nil
}
