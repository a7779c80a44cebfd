package memory

import (
	"reflect"
	"sync"
)

// Clip removes the spare capacity of every slice in v, which must be addressable, so that two
// readers that append to a shared slice do not write to the same memory. It follows pointers, maps
// and interfaces, and skips unexported fields.
func Clip(v reflect.Value) { new(clipper).clip(v) }

// clipper remembers the values it has followed, because a value may contain a pointer to itself.
type clipper struct{ visited map[visited]struct{} }

type visited struct {
	typ reflect.Type
	at  uintptr
}

// clip reports whether it changed v itself, rather than only memory that v points to.
func (c *clipper) clip(v reflect.Value) (changed bool) {
	if !holdsSlice(v.Type()) {
		return false
	}
	switch v.Kind() {
	case reflect.Slice:
		if changed = v.Cap() > v.Len(); changed {
			v.SetCap(v.Len())
		}
		if !holdsSlice(v.Type().Elem()) {
			return changed
		}
		for i := range v.Len() {
			c.clip(v.Index(i))
		}
	case reflect.Array:
		for i := range v.Len() {
			changed = c.clip(v.Index(i)) || changed
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if isReachable(v.Type().Field(i)) {
				changed = c.clip(v.Field(i)) || changed
			}
		}
	case reflect.Pointer:
		if c.visit(v) {
			c.clip(v.Elem())
		}
	case reflect.Map:
		if c.visit(v) {
			for of := v.MapRange(); of.Next(); {
				if value, changed := c.clipCopy(of.Value()); changed {
					v.SetMapIndex(of.Key(), value)
				}
			}
		}
	case reflect.Interface:
		if v.IsNil() {
			return false
		}
		value, changed := c.clipCopy(v.Elem())
		if changed {
			v.Set(value)
		}
		return changed
	}
	return changed
}

// clipCopy clips a copy of v, which is not addressable.
func (c *clipper) clipCopy(v reflect.Value) (clipped reflect.Value, changed bool) {
	if !holdsSlice(v.Type()) {
		return v, false
	}
	clipped = reflect.New(v.Type()).Elem()
	clipped.Set(v)
	return clipped, c.clip(clipped)
}

// visit reports whether v refers to anything that has not been clipped yet.
func (c *clipper) visit(v reflect.Value) bool {
	at := visited{v.Type(), v.Pointer()}
	if _, again := c.visited[at]; again || v.IsNil() {
		return false
	}
	if c.visited == nil {
		c.visited = make(map[visited]struct{})
	}
	c.visited[at] = struct{}{}
	return true
}

// isReachable reports whether code in another package can access the field, or a field that it
// embeds.
func isReachable(f reflect.StructField) bool {
	t := f.Type
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return f.IsExported() || f.Anonymous && t.Kind() == reflect.Struct
}

// holdsSlice reports whether a slice may be reachable from a value of type t.
func holdsSlice(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Slice, reflect.Interface:
		return true
	case reflect.Array, reflect.Struct, reflect.Pointer, reflect.Map:
	default:
		return false
	}
	if known, ok := slicesIn.Load(t); ok {
		return known.(bool)
	}
	holds := leadsToSlice(t, make(map[reflect.Type]bool))
	slicesIn.Store(t, holds)
	return holds
}

// slicesIn caches the results of holdsSlice, a bool for each reflect.Type.
var slicesIn sync.Map

// leadsToSlice is like holdsSlice, but without the cache. met contains the types on the path to t.
func leadsToSlice(t reflect.Type, met map[reflect.Type]bool) bool {
	if met[t] {
		return false
	}
	met[t] = true
	switch t.Kind() {
	case reflect.Slice, reflect.Interface:
		return true
	case reflect.Array, reflect.Pointer, reflect.Map:
		return leadsToSlice(t.Elem(), met)
	case reflect.Struct:
		for i := range t.NumField() {
			if f := t.Field(i); isReachable(f) && leadsToSlice(f.Type, met) {
				return true
			}
		}
	}
	return false
}
