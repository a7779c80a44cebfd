package wire

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"reflect"
)

// ShapeOf returns a text that changes where the Go type of objects does: its name, or the
// name, type or tag of a field at any depth. What one program has archived may be taken back
// by another one where both have the same shape.
func ShapeOf(goType reflect.Type) string {
	hash := sha256.New()
	shape{hash, make(map[reflect.Type]int)}.write(goType)
	return hex.EncodeToString(hash.Sum(nil)[:12])
}

// shape writes down types, each of them once.
type shape struct {
	to   io.Writer
	seen map[reflect.Type]int
}

func (s shape) write(t reflect.Type) {
	if n, ok := s.seen[t]; ok {
		fmt.Fprintf(s.to, "#%d;", n)
		return
	}
	s.seen[t] = len(s.seen)
	fmt.Fprintf(s.to, "%s %s.%s(", t.Kind(), t.PkgPath(), t.Name())
	switch t.Kind() {
	case reflect.Array:
		fmt.Fprint(s.to, t.Len())
		s.write(t.Elem())
	case reflect.Pointer, reflect.Slice:
		s.write(t.Elem())
	case reflect.Map:
		s.write(t.Key())
		s.write(t.Elem())
	case reflect.Struct:
		for i := range t.NumField() {
			f := t.Field(i)
			fmt.Fprintf(s.to, "%q %q ", f.Name, f.Tag)
			s.write(f.Type)
		}
	}
	fmt.Fprint(s.to, ");")
}
