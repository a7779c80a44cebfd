package webhook

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// weigh returns about how many bytes of memory a value of JSON, which must be sound, becomes
// where it is decoded into a pointer of type t. What a type decodes by itself weighs as much as
// its text.
func weigh(raw []byte, t reflect.Type) int64 {
	s := scale{raw}
	return s.value(t)
}

// mapWeight is what a map takes without its entries. The entries come by leastEntries.
const (
	mapWeight    = 48
	leastEntries = 8
)

// untyped is the type of what has no type of its own.
var untyped = reflect.TypeFor[any]()

// scale weighs what is left of a text.
type scale struct{ left []byte }

// value weighs what the next value becomes beside a value of type t, which holds it. Where t
// is nil, it becomes nothing.
func (s *scale) value(t reflect.Type) (n int64) {
	c := s.peek()
	for t != nil && t.Kind() == reflect.Pointer && c != 'n' { // null
		t = t.Elem()
		n += int64(t.Size())
	}
	before := len(s.left)
	switch {
	case t == nil:
	case t.Kind() == reflect.Interface, t == reflect.TypeFor[unstructured.Unstructured]():
		t = untyped
	case shapeOf(t).own:
		s.value(nil)
		return n + int64(before-len(s.left))
	}
	switch c {
	case '{':
		return n + s.object(t)
	case '[':
		return n + s.list(t)
	case '"':
		s.text()
	default:
		for len(s.left) > 0 && !strings.ContainsRune(",]} \t\r\n", rune(s.left[0])) {
			s.left = s.left[1:]
		}
	}
	if t == untyped {
		n += int64(reflect.TypeFor[string]().Size()) // or a number
	}
	if t != nil {
		n += int64(before - len(s.left))
	}
	return n
}

// object weighs an object.
func (s *scale) object(t reflect.Type) (n int64) {
	if t == untyped {
		t = reflect.TypeFor[map[string]any]()
	}
	isMap, of, entries := t != nil && t.Kind() == reflect.Map, new(shape), int64(0)
	if t != nil && !isMap {
		of = shapeOf(t)
		n += of.embedded
	}
	s.skip()
	for s.more('}') {
		key := s.text()
		s.peek()
		s.skip() // the colon
		if !isMap {
			n += s.value(of.field(key))
			continue
		}
		entries++
		n += int64(len(key)) + s.value(t.Elem())
	}
	if isMap {
		n += mapWeight
	}
	if entries > 0 {
		n += int64(t.Key().Size()+t.Elem().Size()) * max(leastEntries, 2*entries)
	}
	return n
}

// list weighs an array. A slice grows to twice its length at most.
func (s *scale) list(t reflect.Type) (n int64) {
	if t == untyped {
		t = reflect.TypeFor[[]any]()
		n += int64(t.Size())
	}
	var elem reflect.Type
	var each int64
	if t != nil && (t.Kind() == reflect.Slice || t.Kind() == reflect.Array) {
		elem = t.Elem()
	}
	if elem != nil && t.Kind() == reflect.Slice {
		each = 2 * int64(elem.Size())
	}
	s.skip()
	for s.more(']') {
		n += each + s.value(elem)
	}
	return n
}

// more goes on to the next element of what ends with end, or beyond the end.
func (s *scale) more(end byte) bool {
	c := s.peek()
	if c == ',' {
		s.skip()
		c = s.peek()
	}
	if c == end {
		s.skip()
	}
	return c != end && c != 0
}

// peek returns what comes next but for white space, and 0 where nothing does.
func (s *scale) peek() byte {
	for len(s.left) > 0 {
		switch c := s.left[0]; c {
		case ' ', '\t', '\r', '\n':
			s.left = s.left[1:]
		default:
			return c
		}
	}
	return 0
}

func (s *scale) skip() { s.left = s.left[min(1, len(s.left)):] }

// text takes a string, with its quotation marks.
func (s *scale) text() []byte {
	all := s.left
	for i := 1; i < len(all); i++ {
		switch all[i] {
		case '\\':
			i++
		case '"':
			s.left = all[i+1:]
			return all[:i+1]
		}
	}
	s.left = nil
	return all
}

// shape is what JSON is for a type.
type shape struct {
	own      bool                    // it decodes itself
	fields   map[string]reflect.Type // of a struct
	embedded int64                   // the size of what it embeds by pointers
}

// field returns the type of a field, nil if there is none of that name.
func (s *shape) field(key []byte) reflect.Type {
	if bytes.IndexByte(key, '\\') < 0 {
		return s.fields[string(bytes.Trim(key, `"`))]
	}
	var name string
	_ = json.Unmarshal(key, &name)
	return s.fields[name]
}

// shapes are those of all types that were asked for, *shape by reflect.Type.
var shapes sync.Map

// shapeOf returns the shape of a type, which is shared.
func shapeOf(t reflect.Type) *shape {
	if known, ok := shapes.Load(t); ok {
		return known.(*shape)
	}
	s := &shape{own: reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()), fields: map[string]reflect.Type{}}
	if t.Kind() == reflect.Struct {
		s.draw(t)
	}
	shared, _ := shapes.LoadOrStore(t, s)
	return shared.(*shape)
}

// draw notes the fields of a struct, as encoding/json finds them. Those that it has itself come
// before those of what it embeds, and of two at one depth the one that has a tag does.
func (s *shape) draw(t reflect.Type) {
	drawn := map[reflect.Type]bool{}
	for level := []reflect.Type{t}; len(level) > 0; {
		var below []reflect.Type
		untagged := map[string]reflect.Type{}
		for _, t := range level {
			if drawn[t] {
				continue
			}
			drawn[t] = true
			for n := range t.NumField() {
				f := t.Field(n)
				name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
				switch of, embeds := embedded(f); {
				case embeds && name == "":
					below = append(below, of)
					if f.Type.Kind() == reflect.Pointer {
						s.embedded += int64(of.Size())
					}
				case !f.IsExported():
				case name == "":
					untagged[f.Name] = f.Type
				default:
					s.note(name, f.Type)
				}
			}
		}
		for name, t := range untagged {
			s.note(name, t)
		}
		level = below
	}
}

// embedded returns the struct that a field embeds, if it does.
func embedded(f reflect.StructField) (t reflect.Type, embeds bool) {
	if t = f.Type; t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t, f.Anonymous && t.Kind() == reflect.Struct
}

// note notes a field, unless one hides it.
func (s *shape) note(name string, t reflect.Type) {
	if _, hidden := s.fields[name]; !hidden {
		s.fields[name] = t
	}
}
