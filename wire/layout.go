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
	"github.com/millrace-dev/millrace/wire/internal/pack"
	"github.com/millrace-dev/millrace/wire/internal/protobuf"
	"github.com/millrace-dev/millrace/wire/internal/share"
)

// layout is how the objects of one Go type, and of one kind if the bytes do not say which,
// are written as bytes and read again. It is immutable.
type layout struct {
	goType reflect.Type // what an object points to
	kind   object.GVK   // that the objects name; zero where they name none, or where the bytes do
	code   code
	table  *protobuf.Table // nil where the reference alone reads protobuf
	json   *json.Kind      // nil where the reference alone reads JSON, or there is no Go type

	messages *protobuf.Guard // of what the reference reads
	guard    *guard.Guard    // likewise
}

type code uint8

const (
	codeProtobuf code = iota
	codeTree
	codeJSON
	codeNone // nobody knows how; objects are kept as they are
)

// generated is what the generated types of the API have.
type generated interface {
	Size() int
	MarshalToSizedBuffer([]byte) (int, error)
	Unmarshal([]byte) error
}

// codeOf is how o is written, and the kind that its bytes do not say.
func codeOf(o object.Object) (code, object.GVK) {
	switch o.(type) {
	case *unstructured.Unstructured:
		return codeTree, object.GVK{}
	case generated:
		if !protobuf.ContainsItself(pointed(o)) { // generated code would recurse as damaged bytes say
			return codeProtobuf, o.GetObjectKind().GroupVersionKind()
		}
	}
	if isAPIType(pointed(o)) {
		return codeJSON, object.GVK{}
	}
	return codeNone, object.GVK{}
}

// fits reports whether objects like o may be written that way: as Pack does it, or as a
// server wrote them in JSON.
func fits(c code, o object.Object) bool {
	usual, _ := codeOf(o)
	_, untyped := o.(*unstructured.Unstructured)
	return c != codeNone && (c == usual || c == codeJSON && (untyped || isAPIType(pointed(o))))
}

func newLayout(goType reflect.Type, kind object.GVK, code code) *layout {
	f := &layout{goType: goType, kind: kind, code: code}
	switch {
	case code == codeProtobuf:
		f.messages = protobuf.GuardOf(goType, map[reflect.Type]*protobuf.Guard{})
		if protobuf.HasTable(goType) {
			f.table, _ = protobuf.TableOf(goType, nil) // where it fails, the reference reads
		}
	case code == codeJSON:
		f.guard = guard.Of(goType)
	}
	switch {
	case code == codeJSON && goType != reflect.TypeFor[unstructured.Unstructured]():
		if k := json.KindOf(goType, nil); k.ReadsObjects() {
			f.json = k
		}
	}
	return f
}

// pointed is the type that o points to, or else its own.
func pointed(o object.Object) reflect.Type {
	t := reflect.TypeOf(o)
	if t.Kind() == reflect.Pointer {
		return t.Elem()
	}
	return t
}

// isAPIType reports whether a Go type is one of an API, which is made to be written as JSON.
func isAPIType(t reflect.Type) bool {
	if t.Kind() != reflect.Struct {
		return false
	}
	field, ok := t.FieldByName("TypeMeta")
	return ok && field.Anonymous && field.Type == reflect.TypeFor[metav1.TypeMeta]()
}

// hasPlainHead reports whether the metadata of an API type is what its methods say that it
// is: that of the ObjectMeta in the field "metadata".
func hasPlainHead(t reflect.Type) bool {
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

// append appends the bytes of o.
func (f *layout) append(dst []byte, o object.Object) ([]byte, error) {
	switch f.code {
	case codeNone:
		return dst, nil
	case codeTree:
		return pack.AppendTree(dst, o.(*unstructured.Unstructured).Object)
	case codeJSON:
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

// opener is what one goroutine opens objects with.
type opener struct {
	protobuf protobuf.Run
	json     *json.Run
}

func newOpener(pool *Pool) *opener {
	with := &opener{protobuf: protobuf.Run{Sharer: share.Sharer{Pool: pool.inner()}}, json: json.NewRun(pool.inner(), nil)}
	with.protobuf.Versions, with.json.Versions = true, true // the old and the new state of an update, or one state again
	return with
}

// read makes an object of raw, of which it keeps nothing.
func (f *layout) read(with *opener, raw []byte) (o object.Object, err error) {
	switch f.code {
	case codeTree:
		o, err = readTree(raw)
	case codeJSON:
		o, err = f.readJSON(with.json, raw)
	default:
		o, err = f.readProtobuf(&with.protobuf, raw)
	}
	if err != nil {
		return nil, err
	}
	if !f.kind.Empty() && o.GetObjectKind().GroupVersionKind() != f.kind {
		o.GetObjectKind().SetGroupVersionKind(f.kind)
	}
	return o, nil
}

// readBeside makes an object of raw as read does, beside another one that was made of was. What
// they have in common is there once.
func (f *layout) readBeside(with *opener, raw []byte, other object.Object, was []byte) (object.Object, error) {
	if f.table != nil {
		made, o := f.new()
		if with.protobuf.DecodeBeside(f.table, made.UnsafePointer(), raw, reflect.ValueOf(other).UnsafePointer(), was) == nil {
			if !f.kind.Empty() {
				o.GetObjectKind().SetGroupVersionKind(f.kind)
			}
			return o, nil
		}
	}
	return f.read(with, raw)
}

func readTree(raw []byte) (object.Object, error) {
	root, err := pack.Tree(string(raw))
	content, _ := root.(map[string]any)
	return &unstructured.Unstructured{Object: content}, err
}

func (f *layout) new() (reflect.Value, object.Object) {
	made := reflect.New(f.goType)
	return made, made.Interface().(object.Object)
}

func (f *layout) readProtobuf(run *protobuf.Run, raw []byte) (object.Object, error) {
	made, o := f.new()
	if f.table != nil && run.Decode(f.table, made.UnsafePointer(), raw) == nil {
		return o, nil
	}
	if err := f.messages.Check(raw); err != nil {
		return nil, err
	}
	_, o = f.new()
	if err := o.(generated).Unmarshal(raw); err != nil {
		return nil, fault.WithoutContent(err)
	}
	return o, nil
}

func (f *layout) readJSON(run *json.Run, raw []byte) (object.Object, error) {
	s := frame.JSON{Source: frame.FromBytes(raw), MaxBytes: max(len(raw), 1), MaxDepth: maxReferenceDepth}
	i, err := s.Value()
	made, o := f.new()
	u, untyped := o.(*unstructured.Unstructured)
	switch {
	case err != nil || len(i.Tape) == 0:
	case untyped:
		if u.Object, err = run.Content(i); err == nil {
			return o, nil
		}
	case f.json != nil && run.Decode(f.json, made.UnsafePointer(), i) == nil:
		return o, nil
	}
	if err := json.Check(f.guard, raw); err != nil {
		return nil, err
	}
	_, o = f.new()
	var into any = o
	if untyped {
		into = &o.(*unstructured.Unstructured).Object
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, into); err != nil {
		return nil, fault.WithoutContent(err)
	}
	return o, nil
}

// layouts are those of a packer: as a rule one.
type layouts struct {
	mu  sync.RWMutex
	all []*layout
}

// of returns the layout that o is written in.
func (f *layouts) of(o object.Object) *layout {
	code, kind := codeOf(o)
	return f.get(pointed(o), kind, code)
}

func (f *layouts) get(goType reflect.Type, kind object.GVK, code code) *layout {
	f.mu.RLock()
	have := f.find(goType, kind, code)
	f.mu.RUnlock()
	if have != nil {
		return have
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if have = f.find(goType, kind, code); have == nil {
		have = newLayout(goType, kind, code)
		f.all = append(f.all, have)
	}
	return have
}

// find is called under mu.
func (f *layouts) find(goType reflect.Type, kind object.GVK, code code) *layout {
	for _, have := range f.all {
		if have.goType == goType && have.code == code && have.kind == kind {
			return have
		}
	}
	return nil
}
