package wire

import (
	"encoding/json"
	"fmt"
	"reflect"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kjson "sigs.k8s.io/json"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/wire/internal/fault"
	"github.com/millrace-dev/millrace/wire/internal/pack"
	"github.com/millrace-dev/millrace/wire/internal/protobuf"
)

// layout is how the objects of one Go type, and of one kind if they say which, are written
// as bytes and read again. It is immutable.
type layout struct {
	goType reflect.Type // what an object points to
	kind   object.GVK   // that the objects name; zero where they name none, or where the bytes do
	code   code
	table  *protobuf.Table // nil where the reference alone reads protobuf
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

// newLayout returns the layout for the Go type of o.
func newLayout(o object.Object) *layout {
	f := &layout{goType: pointed(o), code: codeNone}
	if isAPIType(f.goType) {
		f.code = codeJSON
	}
	switch o.(type) {
	case *unstructured.Unstructured:
		f.code = codeTree
	case generated:
		f.code, f.kind = codeProtobuf, o.GetObjectKind().GroupVersionKind()
		if protobuf.HasTable(f.goType) {
			f.table, _ = protobuf.TableOf(f.goType, nil) // where it fails, the reference reads
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

// append appends the bytes of o.
func (f *layout) append(dst []byte, o object.Object) ([]byte, error) {
	switch f.code {
	case codeNone:
		return dst, nil
	case codeTree:
		return pack.AppendTree(dst, o.(*unstructured.Unstructured).Object)
	case codeJSON:
		raw, err := json.Marshal(o)
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

// read makes an object of raw, of which it keeps nothing.
func (f *layout) read(run *protobuf.Run, raw []byte) (object.Object, error) {
	if f.code == codeTree {
		root, err := pack.Tree(string(raw))
		if err != nil {
			return nil, err
		}
		content, _ := root.(map[string]any)
		return &unstructured.Unstructured{Object: content}, nil
	}
	made := reflect.New(f.goType)
	o := made.Interface().(object.Object)
	switch {
	case f.code == codeJSON:
		if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, o); err != nil {
			return nil, fault.WithoutContent(err)
		}
		return o, nil
	case f.table == nil || run.Decode(f.table, made.UnsafePointer(), raw) != nil:
		made = reflect.New(f.goType)
		o = made.Interface().(object.Object)
		if err := o.(generated).Unmarshal(raw); err != nil {
			return nil, fault.WithoutContent(err)
		}
	}
	if !f.kind.Empty() {
		o.GetObjectKind().SetGroupVersionKind(f.kind)
	}
	return o, nil
}

// layouts are those of a packer: as a rule one.
type layouts struct {
	mu  sync.RWMutex
	all []*layout
}

func (f *layouts) of(o object.Object) *layout {
	f.mu.RLock()
	have := f.find(o)
	f.mu.RUnlock()
	if have != nil {
		return have
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if have = f.find(o); have == nil {
		have = newLayout(o)
		f.all = append(f.all, have)
	}
	return have
}

// find is called under mu.
func (f *layouts) find(o object.Object) *layout {
	for _, have := range f.all {
		if have.goType == pointed(o) && (have.code != codeProtobuf || have.kind == o.GetObjectKind().GroupVersionKind()) {
			return have
		}
	}
	return nil
}
